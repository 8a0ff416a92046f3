package activities

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	common "go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	workflow "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	"headgate/activities/conformance/server"
	"headgate/contract"
	"headgate/contract/codec"
)

// shelf is a provider that lists its effects, three on a page.
type shelf struct {
	*httptest.Server
	keys  []string
	fails func(r *http.Request) bool
}

func newShelf(t *testing.T) *shelf {
	s := &shelf{fails: func(*http.Request) bool { return false }}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch {
		case s.fails(r):
			w.WriteHeader(http.StatusServiceUnavailable)
		case query.Has("key"):
			n := 0
			for _, key := range s.keys {
				if key == query.Get("key") {
					n++
				}
			}
			if n == 0 {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{}`)
				return
			}
			fmt.Fprintf(w, `{"state":"captured","id":"ch_1","count":%d}`, n)
		default:
			from, _ := strconv.Atoi(query.Get("after"))
			to := min(from+3, len(s.keys))
			fmt.Fprint(w, `{"data":[`)
			for i, key := range s.keys[from:to] {
				if i > 0 {
					fmt.Fprint(w, ",")
				}
				fmt.Fprintf(w, `{"key":%q}`, key)
			}
			fmt.Fprint(w, `]`)
			if to < len(s.keys) {
				fmt.Fprintf(w, `,"next":%q`, strconv.Itoa(to))
			}
			fmt.Fprint(w, `}`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shelf) operation() contract.Operation {
	p := probeInput(s.URL + "/?key={key}").Probe
	p.Count = "body.count"
	p.List = &contract.List{URL: s.URL + "/?after={cursor}", Keys: "body.data.map(e, e.key)", Next: "has(body.next) ? body.next : ''"}
	return contract.Operation{Name: "charge", Type: "http", Probe: &p, Replay: contract.Replay{Class: contract.ReplayNever}}
}

// stock is a stored task as the index shows it.
func stock(t *testing.T, key, operation string, status enums.WorkflowExecutionStatus) *workflow.WorkflowExecutionInfo {
	p, err := codec.Converter().ToPayload(operation)
	require.NoError(t, err)
	return &workflow.WorkflowExecutionInfo{Status: status, Execution: &common.WorkflowExecution{WorkflowId: contract.TaskID("acme", key)},
		SearchAttributes: &common.SearchAttributes{IndexedFields: map[string]*common.Payload{contract.OperationAttribute: p}}}
}

func sweepOver(t *testing.T, op contract.Operation, tasks *server.Server) contract.AuditReport {
	t.Helper()
	s := &sweep{Effects: &Effects{Network: loopback, Client: tasks, Worker: "http@here:1", Log: zap.NewNop()}, op: op, pause: func(time.Duration) bool { return true }}
	s.report = contract.AuditReport{Operation: op.Name, Listing: contract.ListingNone, Findings: []contract.Finding{}}
	require.NoError(t, s.run(t.Context()))
	return s.report
}

func kinds(r contract.AuditReport) []string {
	var out []string
	for _, f := range r.Findings {
		name := f.Task
		if name == "" {
			name = f.Effect
		}
		out = append(out, f.Kind+" "+name)
	}
	slices.Sort(out)
	return out
}

// Whatever agrees is counted, whatever does not is found, and k effects out of
// band are exactly k orphans, over many pages and among keys of others.
func TestSweep(t *testing.T) {
	const (
		completed = enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
		failed    = enums.WORKFLOW_EXECUTION_STATUS_FAILED
		running   = enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	)
	key := func(k string) string { return contract.ProviderKey("acme", k) }
	p := newShelf(t)
	p.keys = []string{key("good"), "someone-elses", key("twice"), key("open"), key("twice"), key("back"), "hg-planted-1", key("other"), "hg-planted-2", "", "hg-planted-3"}
	tasks := &server.Server{Tasks: []*workflow.WorkflowExecutionInfo{
		stock(t, "good", "charge", completed), stock(t, "twice", "charge", completed), stock(t, "gone", "charge", completed),
		stock(t, "back", "charge", failed), stock(t, "fine", "charge", failed), stock(t, "open", "charge", running),
		stock(t, "other", "refund", completed), stock(t, "ended", "charge", enums.WORKFLOW_EXECUTION_STATUS_TERMINATED),
	}}
	got := sweepOver(t, p.operation(), tasks)
	require.Equal(t, []string{"contradicted task/acme/back", "duplicate task/acme/twice", "lost task/acme/gone",
		"orphaned hg-planted-1", "orphaned hg-planted-2", "orphaned hg-planted-3"}, kinds(got))
	require.Equal(t, 2, got.Findings[slices.IndexFunc(got.Findings, func(f contract.Finding) bool { return f.Kind == contract.FindingDuplicate })].Count)
	require.Equal(t, contract.ListingComplete, got.Listing)
	require.Equal(t, []int{7, 1, 2, 1, 8}, []int{got.Tasks, got.Open, got.Agreed, got.Unclear, got.Listed})
	require.Equal(t, contract.AuditFound, got.Verdict())
}

// An effect whose task the index does not show yet is no orphan: it is looked for
// again before anything is said.
func TestSweepRacesDispatch(t *testing.T) {
	p := newShelf(t)
	p.keys = []string{contract.ProviderKey("acme", "new")}
	tasks := &server.Server{}
	s := &sweep{Effects: &Effects{Network: loopback, Client: tasks, Log: zap.NewNop()}, op: p.operation()}
	s.pause = func(d time.Duration) bool {
		if d == sweepLag { // meanwhile the index catches up
			tasks.Tasks = append(tasks.Tasks, stock(t, "new", "charge", enums.WORKFLOW_EXECUTION_STATUS_RUNNING))
		}
		return true
	}
	require.NoError(t, s.run(t.Context()))
	require.Empty(t, s.report.Findings)
	require.Equal(t, 2, tasks.Listings)
}

// A listing that fails on whatever page says nothing, and is never clean.
func TestSweepWithoutAListing(t *testing.T) {
	for name, change := range map[string]func(p *shelf, op *contract.Operation){
		"first page": func(p *shelf, _ *contract.Operation) {
			p.fails = func(r *http.Request) bool { return r.URL.Query().Has("after") }
		},
		"last page": func(p *shelf, _ *contract.Operation) {
			p.fails = func(r *http.Request) bool { return r.URL.Query().Get("after") == "3" }
		},
		"keys that are none":   func(_ *shelf, op *contract.Operation) { op.Probe.List.Keys = "body.items" },
		"a cursor that is not": func(_ *shelf, op *contract.Operation) { op.Probe.List.Next = "body.next" },
		"a cursor for ever":    func(_ *shelf, op *contract.Operation) { op.Probe.List.Next = "'3'" },
	} {
		t.Run(name, func(t *testing.T) {
			p := newShelf(t)
			p.keys = []string{"hg-planted-1", "hg-2", "hg-3", "hg-4"}
			op := p.operation()
			change(p, &op)
			got := sweepOver(t, op, &server.Server{})
			require.Equal(t, contract.ListingFailed, got.Listing)
			require.NotEmpty(t, got.Detail)
			require.Empty(t, got.Findings)
			require.Zero(t, got.Listed)
			require.Equal(t, contract.AuditUnknown, got.Verdict())
		})
	}
}

// A look-up that fails is unclear; one read is not enough for a lost effect.
func TestSweepEarnsAbsence(t *testing.T) {
	p := newShelf(t)
	op := p.operation()
	op.Probe.List = nil
	tasks := &server.Server{Tasks: []*workflow.WorkflowExecutionInfo{stock(t, "k", "charge", enums.WORKFLOW_EXECUTION_STATUS_COMPLETED)}}
	p.fails = func(*http.Request) bool { return true }
	got := sweepOver(t, op, tasks)
	require.Equal(t, 1, got.Unclear)
	require.Equal(t, contract.AuditUnknown, got.Verdict())

	reads := 0
	p.fails = func(*http.Request) bool {
		if reads++; reads == 2 { // the effect shows at the second read
			p.keys = []string{contract.ProviderKey("acme", "k")}
		}
		return false
	}
	got = sweepOver(t, op, tasks)
	require.Equal(t, 1, got.Agreed)
	require.Equal(t, contract.AuditClean, got.Verdict())
}

// Two reads that find nothing are a lost effect only where the provider's
// declaration says so: not what it has forgotten, or does not show yet or each time.
func TestSweepCallsNothingLostThatMayBeThere(t *testing.T) {
	now := time.Now()
	lag := contract.Duration(time.Minute)
	for name, c := range map[string]struct {
		lookup *contract.Lookups
		closed time.Time
		lost   bool
	}{
		"covers all":       {&contract.Lookups{Covers: contract.CoversAll, Consistent: true, Lag: &lag}, now.Add(-time.Hour), true},
		"covers succeeded": {&contract.Lookups{Covers: contract.CoversSucceeded, Consistent: true, Lag: &lag, Keeps: 3 * contract.Duration(time.Hour)}, now.Add(-time.Hour), true},
		"no look-ups":      {nil, now.Add(-time.Hour), false},
		"inconsistent":     {&contract.Lookups{Covers: contract.CoversAll, Lag: &lag}, now.Add(-time.Hour), false},
		"lag unknown":      {&contract.Lookups{Covers: contract.CoversAll, Consistent: true}, now.Add(-time.Hour), false},
		"inside the lag":   {&contract.Lookups{Covers: contract.CoversAll, Consistent: true, Lag: &lag}, now.Add(-time.Second), false},
		"forgotten":        {&contract.Lookups{Covers: contract.CoversAll, Consistent: true, Lag: &lag, Keeps: contract.Duration(time.Hour)}, now.Add(-time.Hour), false},
	} {
		t.Run(name, func(t *testing.T) {
			op := newShelf(t).operation()
			op.Probe.List, op.Provider = nil, &contract.Provider{Version: "1", Lookup: c.lookup}
			task := stock(t, "k", "charge", enums.WORKFLOW_EXECUTION_STATUS_COMPLETED)
			task.StartTime, task.CloseTime = timestamppb.New(c.closed.Add(-time.Minute)), timestamppb.New(c.closed)
			got := sweepOver(t, op, &server.Server{Tasks: []*workflow.WorkflowExecutionInfo{task}})
			if c.lost {
				require.Equal(t, []string{"lost task/acme/k"}, kinds(got))
				return
			}
			require.Empty(t, got.Findings)
			require.Equal(t, 1, got.Unclear)
		})
	}
}

// A settle delay is often longer than the heartbeat timeout of an audit.
func TestSweepBeatsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Effects{Client: &server.Server{}, Log: zap.NewNop(), Network: loopback}
		op := contract.Operation{Name: "charge", Type: "http", Probe: &contract.Probe{Settle: 5 * contract.Duration(time.Minute), List: &contract.List{Keys: "?"}}}
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		last, longest := time.Now(), time.Duration(0)
		env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) {
			last, longest = time.Now(), max(longest, time.Since(last))
		})
		env.RegisterActivity(e.Sweep)
		env.SetTestTimeout(time.Hour)
		start := time.Now()
		_, err := env.ExecuteActivity(e.Sweep, contract.AuditInput{Operation: op})
		require.NoError(t, err)
		require.Equal(t, 5*time.Minute, time.Since(start))
		require.LessOrEqual(t, max(longest, time.Since(last)), time.Minute)
	})
}
