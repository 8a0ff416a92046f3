package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"headgate/admission"
	"headgate/contract"
)

const (
	// maxBatch is the most requests in one admit update.
	maxBatch = 256
	// maxWaiting bounds the requests that wait for an update to come back.
	maxWaiting = 16 * maxBatch
	// admitTimeout bounds one admit update, retries of the client included. It is
	// longer than the five seconds after which the server hands an update out once
	// more whose worker task was lost.
	admitTimeout = 8 * time.Second
)

var errGatewayBusy = errors.New("too many requests wait for the budget")

// admitter is a group commit for one budget: a request is sent at once when
// nothing is in flight; what comes meanwhile is collected and sent together when
// the answer is back. There is no timer, and never more than one update in
// flight. The zero value with send set is ready.
type admitter struct {
	// send asks the budget: one verdict a request, in order. The update ID is
	// new for every batch.
	send func(ctx context.Context, updateID string, requests []admission.Request) ([]admission.Verdict, error)

	mu      sync.Mutex
	waiting []*admitting
	busy    bool // an update is in flight, or about to be
}

type admitting struct {
	request admission.Request
	sent    bool
	answer  chan admitted // buffered: nobody may be there any more
}

type admitted struct {
	verdict admission.Verdict
	err     error
}

// admit asks for one request. A caller whose context ends before its request is
// sent is dropped; after that it gets the verdict whatever its context says, so
// that no ticket is lost.
func (a *admitter) admit(ctx context.Context, request admission.Request) (admission.Verdict, error) {
	e := &admitting{request: request, answer: make(chan admitted, 1)}
	a.mu.Lock()
	if len(a.waiting) >= maxWaiting {
		a.mu.Unlock()
		return admission.Verdict{}, errGatewayBusy
	}
	a.waiting = append(a.waiting, e)
	if !a.busy {
		a.busy = true
		go a.run()
	}
	a.mu.Unlock()

	select {
	case got := <-e.answer:
		return got.verdict, got.err
	case <-ctx.Done():
	}
	if a.drop(e) {
		return admission.Verdict{}, ctx.Err()
	}
	got := <-e.answer
	return got.verdict, got.err
}

// drop takes a request out that has not been sent.
func (a *admitter) drop(e *admitting) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.sent {
		return false
	}
	for i, w := range a.waiting {
		if w == e {
			a.waiting = append(a.waiting[:i], a.waiting[i+1:]...)
			break
		}
	}
	return true
}

// run sends batches until nothing waits.
func (a *admitter) run() {
	for {
		batch := a.take()
		if batch == nil {
			return
		}
		requests := make([]admission.Request, len(batch))
		for i, e := range batch {
			requests[i] = e.request
		}
		ctx, cancel := context.WithTimeout(context.Background(), admitTimeout)
		verdicts, err := a.send(ctx, rand.Text(), requests)
		cancel()
		if err == nil && len(verdicts) != len(batch) {
			err = fmt.Errorf("the budget gave %d verdicts for %d requests", len(verdicts), len(batch))
		}
		for i, e := range batch {
			if err != nil {
				e.answer <- admitted{err: err}
			} else {
				e.answer <- admitted{verdict: verdicts[i]}
			}
		}
	}
}

func (a *admitter) take() []*admitting {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.waiting), maxBatch)
	if n == 0 {
		a.busy, a.waiting = false, nil
		return nil
	}
	batch := append([]*admitting(nil), a.waiting[:n]...)
	a.waiting = append(a.waiting[:0], a.waiting[n:]...)
	for _, e := range batch {
		e.sent = true
	}
	return batch
}

// updateLost is the type of failure that Temporal gives an update whose run
// ended (here: continued as new) after it was accepted.
const updateLost = "AcceptedUpdateCompletedWorkflow"

const updateTries = 3

// sendBatch is one admit update. The budget answers a request that it has seen
// before as it did then.
func (g *Gateway) sendBatch(ctx context.Context, updateID string, requests []admission.Request) ([]admission.Verdict, error) {
	var got contract.AdmitReply
	err := g.updateBudget(ctx, contract.AdmitUpdate, updateID, contract.AdmitRequest{Requests: requests}, &got)
	var failure *temporal.ApplicationError
	if errors.As(err, &failure) && failure.Type() == contract.RefusedError { // all of them
		if err := failure.Details(&got); err != nil {
			return nil, fmt.Errorf("reading the refusals: %w", err)
		}
		return got.Verdicts, nil
	}
	return got.Verdicts, err
}

// updateBudget sends an update to the budget. What a continue-as-new cut off is
// sent again: the budget takes each of its updates twice without harm.
func (g *Gateway) updateBudget(ctx context.Context, name, updateID string, request, answer any) error {
	for try := 1; ; try++ {
		err := g.update(ctx, contract.BudgetID(g.budget), name, updateID, request, answer)
		var failure *temporal.ApplicationError
		var between *serviceerror.WorkflowNotReady
		cutOff := errors.As(err, &failure) && failure.Type() == updateLost || errors.As(err, &between)
		if !cutOff || try == updateTries || ctx.Err() != nil {
			return err
		}
	}
}

// update sends an update and waits for its end.
func (g *Gateway) update(ctx context.Context, workflow, name, updateID string, request, answer any) error {
	handle, err := g.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflow, UpdateID: updateID, UpdateName: name,
		Args: []any{request}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, answer)
}
