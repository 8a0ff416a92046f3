package workers

import (
	"context"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"headgate/contract"
)

var searchAttributes = []string{contract.TenantAttribute, contract.OperationAttribute, contract.PriorityAttribute,
	contract.PhaseAttribute, contract.AgentAttribute}

// ensureAttributes adds the search attributes that the namespace lacks: without
// them no task can be started. A server that does not let us (Temporal Cloud has
// its own tool for it) is told about in the log, with what to do.
func ensureAttributes(ctx context.Context, c client.Client, namespace string, log *zap.Logger) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		log.Warn("search attributes not read", zap.String("namespace", namespace), zap.Error(err))
		return
	}
	missing := missingAttributes(have.GetCustomAttributes())
	if len(missing) == 0 {
		return
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	if err == nil {
		log.Info("search attributes added", zap.String("namespace", namespace), zap.Int("count", len(missing)))
		return
	}
	log.Error("search attributes are missing and could not be added: add them, type Keyword, with the tool of your server",
		zap.String("namespace", namespace), zap.String("attributes", strings.Join(searchAttributes, ", ")), zap.Error(err))
}

func missingAttributes(have map[string]enums.IndexedValueType) map[string]enums.IndexedValueType {
	missing := map[string]enums.IndexedValueType{}
	for _, name := range searchAttributes {
		if _, ok := have[name]; !ok {
			missing[name] = enums.INDEXED_VALUE_TYPE_KEYWORD
		}
	}
	return missing
}
