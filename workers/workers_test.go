package workers

import (
	"context"
	"errors"
	"math"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

func testOptions(t *testing.T) Options {
	c, err := client.NewLazyClient(client.Options{Logger: Logger(zap.NewNop())})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return Options{Client: c, Config: &config.Config{}, Log: zap.NewNop(), Roles: []string{"http"}}
}

// names takes what a role registers.
type names struct {
	worker.Registry
	workflows, activities []string
}

func (n *names) RegisterWorkflowWithOptions(_ any, o workflow.RegisterOptions) {
	n.workflows = append(n.workflows, o.Name)
}

func (n *names) RegisterActivityWithOptions(_ any, o activity.RegisterOptions) {
	n.activities = append(n.activities, o.Name)
}

func TestRoleTable(t *testing.T) {
	o, err := testOptions(t).normalize()
	require.NoError(t, err)
	require.Equal(t, []string{"control", "http", "browser", "model"}, Roles())
	for _, c := range []struct {
		role, queue           string
		workflows, activities []string
		budget, effects       bool
	}{
		{"control", "headgate-control", []string{"Task", "Budget", "Intent", "Reconcile", "Findings", "Audit"},
			[]string{"resolve-operation", "report", "request", "settle", "deliver", "audit", "stop-attempts", "note-findings", "settled"}, true, false},
		{"http", "headgate-effects-http", nil, []string{"effect", "probe", "sweep"}, false, true},
		{"model", "headgate-effects-model", nil, []string{"effect", "probe", "sweep"}, false, true},
		{"browser", "headgate-effects-browser", nil, []string{"effect", "probe", "sweep"}, false, true},
	} {
		t.Run(c.role, func(t *testing.T) {
			chosen, err := choose([]string{c.role, c.role}, nil)
			require.NoError(t, err)
			require.Len(t, chosen, 1, "named twice, run once")
			r := chosen[0]
			var n names
			r.register(&n, o, "me")
			require.Equal(t, c.queue, r.queue)
			require.Equal(t, c.workflows, n.workflows)
			require.Equal(t, c.activities, n.activities)
			require.Equal(t, c.budget, r.budget)
			require.Equal(t, c.effects, r.options(o).DisableWorkflowWorker)
			_, identity := r.worker(o, nil) // the SDK takes the options and the functions
			host, _ := os.Hostname()
			require.Equal(t, c.role+"@"+host+":"+strconv.Itoa(os.Getpid()), identity)
		})
	}
}

func TestUnknownRole(t *testing.T) {
	o := testOptions(t)
	o.Roles = []string{"control", "htpp"}
	require.EqualError(t, Run(t.Context(), o), `workers: there is no role "htpp": want control or http or browser or model`)
	o.Roles = nil
	require.EqualError(t, Run(t.Context(), o), `workers: no role is given: want control or http or browser or model`)
}

func TestOptions(t *testing.T) {
	o, err := testOptions(t).normalize()
	require.NoError(t, err)
	e := effectOptions(o)
	require.Equal(t, DefaultSlots, e.MaxConcurrentActivityExecutionSize)
	require.Equal(t, DefaultStopTimeout, e.WorkerStopTimeout)
	require.Zero(t, e.TaskQueueActivitiesPerSecond)
	require.Equal(t, DefaultPages, browser().options(o).MaxConcurrentActivityExecutionSize)

	o = testOptions(t)
	o.Slots, o.RatePerSecond, o.StopTimeout, o.Identity = 3, 0.5, time.Second, "pod-7"
	o, err = o.normalize()
	require.NoError(t, err)
	e = effectOptions(o)
	require.Equal(t, 3, e.MaxConcurrentActivityExecutionSize)
	require.Equal(t, 3, browser().options(o).MaxConcurrentActivityExecutionSize)
	require.InDelta(t, 0.5, e.TaskQueueActivitiesPerSecond, 0)
	require.Equal(t, time.Second, e.WorkerStopTimeout)
	require.Equal(t, worker.BlockWorkflow, controlOptions(o).WorkflowPanicPolicy)
	_, identity := roles[1].worker(o, nil)
	require.Equal(t, "http@pod-7", identity)

	for name, change := range map[string]func(o *Options){
		"no client":          func(o *Options) { o.Client = nil },
		"negative slots":     func(o *Options) { o.Slots = -1 },
		"negative rate":      func(o *Options) { o.RatePerSecond = -1 },
		"rate not a number":  func(o *Options) { o.RatePerSecond = math.NaN() },
		"endless rate":       func(o *Options) { o.RatePerSecond = math.Inf(1) },
		"negative stop time": func(o *Options) { o.StopTimeout = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t)
			change(&o)
			require.ErrorContains(t, Run(t.Context(), o), "workers: ")
		})
	}
}

func TestNoServer(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
	t.Setenv("TEMPORAL_NAMESPACE", "agents")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Connect(ctx, "", "", nil, zap.NewNop())
	require.ErrorContains(t, err, "connect to Temporal at 127.0.0.1:1, namespace agents (TEMPORAL_ADDRESS")
}

func TestConnectOptions(t *testing.T) {
	t.Setenv("TEMPORAL_CONFIG_FILE", t.TempDir()+"/none.toml")
	t.Setenv("TEMPORAL_ADDRESS", "")
	t.Setenv("TEMPORAL_NAMESPACE", "agents")
	o, err := connectOptions("", "", zap.NewNop())
	require.NoError(t, err)
	require.Equal(t, client.DefaultHostPort, o.HostPort)
	require.Equal(t, "agents", o.Namespace)
	require.Contains(t, o.Identity, "headgate@")
	o, err = connectOptions("there:7233", "mine", zap.NewNop())
	require.NoError(t, err)
	require.Equal(t, "there:7233", o.HostPort)
	require.Equal(t, "mine", o.Namespace)
}

// The SDK logs the result of an activity that ends too late.
func TestLogsHoldNoResult(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	l := Logger(zap.New(core))
	l.Info("Activity complete after timeout.", "ActivityID", "5", "Result", "secret")
	l.Debug("more")
	require.Equal(t, 2, logs.Len())
	require.Equal(t, map[string]any{"ActivityID": "5"}, logs.All()[0].ContextMap())
	require.Equal(t, "temporal", logs.All()[0].LoggerName)
}

func TestStartBudget(t *testing.T) {
	in := contract.BudgetInput{Name: "default", Policy: admission.Policy{Default: admission.TenantPolicy{Weight: 1}}}
	expected := mock.MatchedBy(func(o client.StartWorkflowOptions) bool {
		return o.ID == "budget/default" && o.TaskQueue == "headgate-control" &&
			o.WorkflowIDConflictPolicy == enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING && !o.WorkflowExecutionErrorWhenAlreadyStarted
	})
	t.Run("tried again until it runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, run := &mocks.Client{}, &mocks.WorkflowRun{}
			run.On("GetRunID").Return("r")
			c.On("ExecuteWorkflow", mock.Anything, expected, contract.BudgetWorkflow, in).Return(nil, errors.New("away")).Times(10)
			c.On("ExecuteWorkflow", mock.Anything, expected, contract.BudgetWorkflow, in).Return(run, nil).Once()
			startBudget(t.Context(), c, in, zap.NewNop())
			c.AssertNumberOfCalls(t, "ExecuteWorkflow", 11)
		})
	})
	t.Run("until the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &mocks.Client{}
			c.On("ExecuteWorkflow", mock.Anything, expected, contract.BudgetWorkflow, in).Return(nil, errors.New("away"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var done sync.WaitGroup
			done.Go(func() { startBudget(ctx, c, in, zap.NewNop()) })
			done.Wait()
			require.Error(t, ctx.Err())
		})
	})
}
