package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
)

// headgateSearchAttributes are what Headgate's workflows set and its console searches by.
var headgateSearchAttributes = map[string]enums.IndexedValueType{
	"HeadgateTenant":    enums.INDEXED_VALUE_TYPE_KEYWORD,
	"HeadgateOperation": enums.INDEXED_VALUE_TYPE_KEYWORD,
	"HeadgatePriority":  enums.INDEXED_VALUE_TYPE_KEYWORD,
	"HeadgatePhase":     enums.INDEXED_VALUE_TYPE_KEYWORD,
	"HeadgateAgent":     enums.INDEXED_VALUE_TYPE_KEYWORD,
}

const (
	bootTimeout = 60 * time.Second
	retryEvery  = 50 * time.Millisecond
)

// bootstrap waits for the frontend and makes true at each start what creation did only for a new database: the
// retention, and search attributes that an older version of the database does not have. When it returns, both hold for
// the next request.
func bootstrap(ctx context.Context, o options) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	conn, err := grpc.NewClient(dialAddress(o.ip, o.port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to the frontend: %w", err)
	}
	defer func() { _ = conn.Close() }()
	frontend, operator := workflowservice.NewWorkflowServiceClient(conn), operatorservice.NewOperatorServiceClient(conn)

	if err := eventually(ctx, func() error { return setRetention(ctx, frontend, o) }); err != nil {
		return fmt.Errorf("retention of namespace %s: %w", o.namespace, err)
	}
	if err := eventually(ctx, func() error { return addSearchAttributes(ctx, operator, o) }); err != nil {
		return fmt.Errorf("search attributes of namespace %s: %w", o.namespace, err)
	}
	// The frontend answers from a cache of namespaces: only a query that is understood shows that it is up to date.
	for name := range o.searchAttributes {
		query := &workflowservice.CountWorkflowExecutionsRequest{Namespace: o.namespace, Query: name + " IS NULL"}
		if err := eventually(ctx, func() error {
			_, err := frontend.CountWorkflowExecutions(ctx, query)
			return err
		}); err != nil {
			return fmt.Errorf("search attribute %s of namespace %s: %w", name, o.namespace, err)
		}
	}
	return nil
}

func setRetention(ctx context.Context, frontend workflowservice.WorkflowServiceClient, o options) error {
	now, err := frontend.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: o.namespace})
	if err != nil || now.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration() == o.retention {
		return err
	}
	_, err = frontend.UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
		Namespace: o.namespace,
		Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(o.retention)},
	})
	return err
}

func addSearchAttributes(ctx context.Context, operator operatorservice.OperatorServiceClient, o options) error {
	have, err := operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: o.namespace})
	if err != nil {
		return err
	}
	missing := map[string]enums.IndexedValueType{}
	for name, kind := range o.searchAttributes {
		switch existing, ok := have.GetCustomAttributes()[name]; {
		case !ok:
			missing[name] = kind
		case existing != kind:
			return permanent{fmt.Errorf("%s exists with type %s, not %s", name, existing, kind)}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace:        o.namespace,
		SearchAttributes: missing,
	})
	return err
}

// permanent marks an error that waiting does not mend.
type permanent struct{ error }

// eventually calls f until it succeeds. A service that is still starting refuses in several ways, so every error but a
// permanent one is tried again until the deadline; the last one is returned.
func eventually(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || errors.As(err, new(permanent)) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(retryEvery):
		}
	}
}
