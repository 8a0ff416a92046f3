package testsuite

import (
	"errors"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"headgate/contract"
	"headgate/workflows"
)

// stored is how many histories there are of each type of workflow.
var stored = map[string]int{"task": 32, "budget": 6, "reconcile": 12, "findings": 1, "audit": 1, "intent": 1}

// TestReplay plays every stored history through the workflows of today.
func TestReplay(t *testing.T) {
	found := map[string]int{}
	for _, name := range storedHistories(t) {
		found[path.Dir(name)]++
		t.Run(name, func(t *testing.T) {
			require.NoError(t, replay(t, name, nil))
		})
	}
	require.Equal(t, stored, found, "a history is missing, or was added: say so here")
}

// TestChangedWorkflowsDoNotReplay changes a workflow in one place. Each history
// that comes to this place must fail, and each other one pass.
func TestChangedWorkflowsDoNotReplay(t *testing.T) {
	for _, c := range []struct {
		name, folder string
		least        int // histories that come to the place
		change       change
	}{
		{"a task runs another activity", "task", 17, change{renames: contract.EffectActivity}},
		{"a task keeps its lease", "task", 12, change{skips: contract.ReportActivity}},
		{"a budget sets one more timer", "budget", 5, change{doublesTimers: true}},
		{"a reconciliation does not look", "reconcile", 3, change{skips: contract.ProbeActivity}},
	} {
		t.Run(c.name, func(t *testing.T) {
			met := 0
			for _, name := range storedHistories(t) {
				if path.Dir(name) != c.folder {
					continue
				}
				changed := c.change
				err := replay(t, name, &changed)
				if !changed.met {
					require.NoError(t, err, "%s does not come to the change", name)
					continue
				}
				met++
				require.ErrorContains(t, err, "[TMPRL1100]", "%s comes to the change, and replays all the same", name)
			}
			require.GreaterOrEqual(t, met, c.least)
		})
	}
}

// replay plays one history, through changed workflows if there is a change.
func replay(t *testing.T, name string, c *change) error {
	t.Helper()
	h := loadHistory(t, name)
	started := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	options := worker.WorkflowReplayerOptions{DisableRegistrationAliasing: true}
	if c != nil {
		options.Interceptors = []interceptor.WorkerInterceptor{c}
	}
	replayer, err := worker.NewWorkflowReplayerWithOptions(options)
	require.NoError(t, err)
	workflows.Register(replayer)
	// A task looks at its own ID.
	return replayer.ReplayWorkflowHistoryWithOptions(quiet(), h, worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{
		ID: started.GetWorkflowId(), RunID: started.GetOriginalExecutionRunId()}})
}

// change stands between a workflow and what it asks for, as if its code had been
// changed in one place.
type change struct {
	interceptor.WorkerInterceptorBase
	renames       string // an activity that is called otherwise
	skips         string // an activity that is not called at all
	doublesTimers bool
	met           bool // the workflow has come to the place
}

func (c *change) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &changedIn{interceptor.WorkflowInboundInterceptorBase{Next: next}, c}
}

type changedIn struct {
	interceptor.WorkflowInboundInterceptorBase
	change *change
}

func (in *changedIn) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return in.Next.Init(&changedOut{interceptor.WorkflowOutboundInterceptorBase{Next: next}, in.change})
}

type changedOut struct {
	interceptor.WorkflowOutboundInterceptorBase
	change *change
}

func (out *changedOut) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	switch name {
	case out.change.skips:
		return out.skip(ctx)
	case out.change.renames:
		out.change.met = true
		name = "another"
	}
	return out.Next.ExecuteActivity(ctx, name, args...)
}

func (out *changedOut) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if name == out.change.skips {
		return out.skip(ctx)
	}
	return out.Next.ExecuteLocalActivity(ctx, name, args...)
}

func (out *changedOut) NewTimer(ctx workflow.Context, d time.Duration) workflow.Future {
	if out.change.doublesTimers {
		out.change.met = true
		out.Next.NewTimer(ctx, d)
	}
	return out.Next.NewTimer(ctx, d)
}

// skip answers at once, without a word to the server.
func (out *changedOut) skip(ctx workflow.Context) workflow.Future {
	out.change.met = true
	f, settle := workflow.NewFuture(ctx)
	settle.Set(nil, errors.New("not called"))
	return f
}
