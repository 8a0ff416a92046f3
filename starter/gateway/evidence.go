package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
	"go.uber.org/zap"

	"headgate/config"
	"headgate/contract"
)

// Bounds of the search for the task of a provider key: more open tasks than a
// queue can hold.
const (
	keyPage  = 1000
	keyPages = 20
)

// evidence is POST /v1/evidence?operation=NAME: a provider's own word about an
// effect, signed as Standard Webhooks has it (standardwebhooks.com). The
// operation's declaration says where the body names the task and which bodies
// mean that it happened.
//
// 202 is answered once the task's history holds the evidence, 200 when there is
// nothing to hold: the body says nothing about an effect, or what the task has
// ended with already. Everything else is worth sending again, or for a person.
func (g *Gateway) evidence(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("operation")
	op, ok := g.operations.Operation(name)
	if !ok || op.Declared.Probe == nil || op.Declared.Probe.Callback == nil {
		return refuse("callback_not_declared", "the operation %.64q takes no callbacks: name one that declares probe.callback as ?operation=", name)
	}
	declared := op.Declared.Probe.Callback
	body, err := readBody(w, r, maxOrder)
	if err != nil {
		return err
	}
	id, err := g.signed(r.Header, body, declared.Secret)
	if err != nil {
		return err
	}
	said, err := readCallback(body, declared)
	if err != nil {
		return err
	}
	said.evidence.ID = id
	if said.evidence.Finding == contract.Inconclusive {
		return reply(w, http.StatusOK, contract.EvidenceReply{ID: id, Finding: contract.Inconclusive})
	}
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	if said.providerKey != "" {
		if said.tenant, said.key, err = g.byProviderKey(ctx, name, said.providerKey); err != nil {
			return err
		}
	}
	return g.testify(ctx, w, name, said)
}

// testify hands evidence to its task.
func (g *Gateway) testify(ctx context.Context, w http.ResponseWriter, operation string, said callback) error {
	s, view, err := g.mustFind(ctx, said.tenant, said.key)
	if err != nil {
		return err
	}
	if view.Operation != operation { // one provider's secret says nothing about another's effects
		return noTask(said.tenant, said.key)
	}
	answer := contract.EvidenceReply{ID: said.evidence.ID, Task: view.Task, Finding: said.evidence.Finding, Phase: view.Phase}
	log := g.log.With(zap.String("tenant", said.tenant), zap.String("key", said.key), zap.String("operation", operation),
		zap.String("finding", said.evidence.Finding), zap.String("callback", said.evidence.ID))
	if !s.open() {
		if (said.evidence.Finding == contract.Happened) != (view.Phase == contract.PhaseSucceeded) {
			if err := g.contradicted(ctx, operation, view.Task, said.evidence); err != nil {
				return upstream("temporal_unavailable", err)
			}
			log.Error("callback contradicts a task that has ended", zap.String("phase", string(view.Phase)))
			return refuse("evidence_contradicts", "the task has ended as %s, and the callback says %s: a person must look at the provider", view.Phase, said.evidence.Finding)
		}
		return reply(w, http.StatusOK, answer)
	}
	// To the task, not to its reconciliation: that may end any time, and the task
	// passes on what it is told.
	workflowID, _ := s.run()
	switch err := g.client.SignalWorkflow(ctx, workflowID, "", contract.EvidenceSignal, contract.LateEvidence{Callback: &said.evidence}); {
	case notFound(err):
		return refuse("already_ended", "the task has ended just now; send the callback again to compare").because(err).soon()
	case err != nil:
		return upstream("temporal_unavailable", err)
	}
	log.Info("callback stored")
	answer.Stored = true
	return reply(w, http.StatusAccepted, answer)
}

// callback is what a body says, by the operation's declaration.
type callback struct {
	tenant, key string
	providerKey string // instead of the two
	evidence    contract.Evidence
}

// readCallback applies the declared expressions. A body that both rules accept,
// or none, says nothing, and need not name a task.
func readCallback(body []byte, declared *contract.Callback) (callback, error) {
	out := callback{evidence: contract.Evidence{Kind: contract.EvidenceCallback, Finding: contract.Inconclusive}}
	var seen any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if !json.Valid(body) || d.Decode(&seen) != nil {
		return out, refuse("invalid_request", "the body is not JSON")
	}
	yes, no := accepts(declared.Happened, seen), accepts(declared.DidNotHappen, seen)
	switch {
	case yes == no:
		return out, nil
	case yes:
		out.evidence.Finding, out.evidence.Result = contract.Happened, json.RawMessage(body)
	default:
		out.evidence.Finding = contract.DidNotHappen
	}
	out.evidence.Reference, _ = textOf(declared.Reference, seen)
	var named bool
	if declared.Key != "" {
		out.providerKey, named = textOf(declared.Key, seen)
		named = named && strings.HasPrefix(out.providerKey, "hg-")
	} else {
		out.tenant, _ = textOf(declared.Tenant, seen)
		out.key, _ = textOf(declared.RequestKey, seen)
		named = contract.CheckName("tenant", out.tenant) == nil && contract.CheckKey(out.key) == nil
	}
	if !named {
		return out, refuse("evidence_unmapped", "the callback says %s, but not of which task: the declared expressions find no name in it", out.evidence.Finding)
	}
	return out, nil
}

// accepts applies a rule; one that is not declared or cannot be applied accepts
// nothing.
func accepts(rule string, body any) bool {
	if rule == "" {
		return false
	}
	r, err := config.CompileRule(rule)
	if err != nil {
		return false
	}
	ok, err := r.Match(http.StatusOK, body)
	return ok && err == nil
}

func textOf(expression string, body any) (string, bool) {
	if expression == "" {
		return "", false
	}
	t, err := config.CompileText(expression)
	if err != nil {
		return "", false
	}
	text, err := t.Text(http.StatusOK, body)
	return text, err == nil && text != ""
}

// errTooMany ends a search that would read on and on.
var errTooMany = errors.New("more open tasks of the operation than are searched")

// byProviderKey finds the open task that sends a key. A key does not tell its
// task, so that the operation's open tasks are read; a body that names tenant
// and request key is cheaper.
func (g *Gateway) byProviderKey(ctx context.Context, operation, key string) (tenant, requestKey string, err error) {
	query := "WorkflowType = '" + contract.TaskWorkflow + "' AND ExecutionStatus = 'Running' AND " +
		contract.OperationAttribute + " = '" + operation + "'" // declared, so its name holds no quote
	var next []byte
	for range keyPages {
		page, err := g.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: keyPage, NextPageToken: next, Query: query})
		if err != nil {
			return "", "", upstream("temporal_unavailable", err)
		}
		for _, found := range page.GetExecutions() {
			tenant, requestKey, ok := contract.ParseTaskID(found.GetExecution().GetWorkflowId())
			if ok && contract.ProviderKey(tenant, requestKey) == key {
				return tenant, requestKey, nil
			}
		}
		if next = page.GetNextPageToken(); len(next) == 0 {
			return "", "", refuse("task_not_found", "no open task of the operation %s sends the key %.64q; one that was started just now is found a moment later", operation, key)
		}
	}
	return "", "", upstream("temporal_unavailable", errTooMany)
}
