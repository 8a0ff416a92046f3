package activities

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	enums "go.temporal.io/api/enums/v1"
	workflow "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
	"headgate/contract/codec"
)

const (
	sweepPage = 200              // tasks of one listing
	sweepBeat = 15 * time.Second // a quarter of the heartbeat timeout
	sweepLag  = 3 * time.Second  // how far the index of tasks may be behind
	maxPages  = 10_000           // of a provider's listing; more is a cursor that goes round
	ourKeys   = "hg-"            // see contract.ProviderKey
)

// Sweep is an audit's reading. It lists the provider's effects, then the tasks, so
// that an effect which is listed has its task in the second list: a task is stored
// before its effect leaves. Tasks that have ended are looked up once more, one at a
// time. What cannot be asked is unclear, never clean.
func (e *Effects) Sweep(ctx context.Context, in contract.AuditInput) (contract.AuditReport, error) {
	defer beating(ctx)()
	s := &sweep{Effects: e, op: in.Operation, pause: func(d time.Duration) bool { return pause(ctx, d) }}
	s.report = contract.AuditReport{Operation: in.Operation.Name, Began: e.now(), Listing: contract.ListingNone, Findings: []contract.Finding{}}
	if err := s.run(ctx); err != nil {
		return contract.AuditReport{}, err
	}
	return s.report, nil
}

// beating tells the server that the activity goes on, until stop is called. It does
// so by itself: a settle delay, or one answer, may take longer than a heartbeat timeout.
func beating(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() {
		for ok := true; ok; ok = pause(ctx, sweepBeat) {
			activity.RecordHeartbeat(ctx)
		}
	})
	return func() {
		cancel()
		beats.Wait()
	}
}

type sweep struct {
	*Effects
	op     contract.Operation
	pause  func(time.Duration) bool
	report contract.AuditReport
	listed []string       // keys of ours, in the provider's order
	times  map[string]int // how often each is listed
}

func (s *sweep) run(ctx context.Context) error {
	// 1. What the provider has, once its listing has caught up with what it made.
	if p := s.op.Probe; p != nil && p.List != nil {
		if !s.pause(p.Settle.D()) {
			return ctx.Err()
		}
		s.report.Listing = contract.ListingComplete
		if err := s.list(ctx, *p.List); err != nil {
			// A listing that broke off says nothing about orphans, nor does its part.
			s.report.Listing, s.report.Detail = contract.ListingFailed, brief(err.Error())
			s.listed, s.times = nil, nil
		}
		s.report.Listed = len(s.listed)
	}
	// 2. What we know of, and whether the provider says the same.
	left := map[string]bool{}
	for _, key := range s.listed {
		left[key] = true
	}
	if err := s.tasks(ctx, func(task stored) error {
		delete(left, task.providerKey)
		return s.compare(ctx, task)
	}); err != nil {
		return err
	}
	// 3. What is left has no task, unless the index of tasks is behind.
	if len(left) > 0 {
		if !s.pause(sweepLag) {
			return ctx.Err()
		}
		if err := s.tasks(ctx, func(task stored) error { delete(left, task.providerKey); return nil }); err != nil {
			return err
		}
	}
	for _, key := range s.listed {
		if left[key] {
			s.find(contract.Finding{Kind: contract.FindingOrphaned, Effect: key, Count: s.times[key],
				Detail: "the provider lists an effect with a key of ours that no stored task has"})
		}
	}
	return nil
}

func (s *sweep) find(f contract.Finding) {
	f.Actor, f.At = "audit by "+s.Worker, s.now()
	if len(s.report.Findings) == contract.MaxAuditFindings {
		s.report.Dropped++
		return
	}
	s.report.Findings = append(s.report.Findings, f)
}

// list reads every page of the provider's effects.
func (s *sweep) list(ctx context.Context, l contract.List) error {
	keys, err := config.CompileTexts(l.Keys)
	if err != nil {
		return err
	}
	var next *config.Text
	if l.Next != "" {
		if next, err = config.CompileText(l.Next); err != nil {
			return err
		}
	}
	s.times = map[string]int{}
	cursor, seen := "", map[string]bool{}
	for range maxPages {
		a, err := s.page(ctx, l, cursor)
		if err != nil {
			return err
		}
		page, err := keys.Texts(a.status, a.body)
		if err != nil {
			return err
		}
		for _, key := range page {
			if !strings.HasPrefix(key, ourKeys) {
				continue
			}
			if s.times[key]++; s.times[key] == 1 {
				s.listed = append(s.listed, key)
			}
		}
		if next == nil {
			return nil
		}
		if cursor, err = next.Text(a.status, a.body); err != nil {
			return err
		}
		switch {
		case cursor == "":
			return nil
		case seen[cursor]:
			return fmt.Errorf("the listing gives the cursor %.64q twice", cursor)
		}
		seen[cursor] = true
	}
	return errors.New("the listing has more pages than are read")
}

func (s *sweep) page(ctx context.Context, l contract.List, cursor string) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, max(s.op.Probe.Timeout.D(), time.Second))
	defer cancel()
	a, err := s.fetch(ctx, http.MethodGet, strings.ReplaceAll(l.URL, "{cursor}", escape(cursor)), l.Headers, s.op.Probe.TLS)
	switch {
	case err != nil:
		return a, err
	case a.status != http.StatusOK:
		return a, fmt.Errorf("the listing answers %d", a.status)
	case a.broken || a.foreign || a.body == nil:
		return a, fmt.Errorf("the listing cannot be read: %s", a.detail)
	}
	return a, nil
}

// stored is one stored task.
type stored struct {
	tenant, key string
	providerKey string
	end         contract.Settled
	began       time.Time // before the effect could leave
	closed      time.Time // after it; meaningless while the task is open
	ours        bool      // of the operation that is audited
}

// tasks lists all stored tasks, of whatever operation: they may share a provider.
func (s *sweep) tasks(ctx context.Context, each func(stored) error) error {
	var token []byte
	for {
		got, err := s.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			PageSize: sweepPage, NextPageToken: token, Query: "WorkflowType = '" + contract.TaskWorkflow + "'"})
		if err != nil {
			return fmt.Errorf("list the tasks: %w", err)
		}
		for _, info := range got.GetExecutions() {
			tenant, key, ok := contract.ParseTaskID(info.GetExecution().GetWorkflowId())
			if !ok {
				continue
			}
			task := stored{tenant: tenant, key: key, providerKey: contract.ProviderKey(tenant, key), end: endOf(info),
				began: info.GetStartTime().AsTime(), closed: info.GetCloseTime().AsTime(),
				ours: attributeOf(info, contract.OperationAttribute) == s.op.Name}
			if err := each(task); err != nil {
				return err
			}
		}
		if token = got.GetNextPageToken(); len(token) == 0 {
			return nil
		}
	}
}

// endOf reads the end of a task off the index.
func endOf(info *workflow.WorkflowExecutionInfo) contract.Settled {
	out := contract.Settled{State: auditAnswer(info).State}
	switch phase := contract.Phase(attributeOf(info, contract.PhaseAttribute)); info.GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		out.Phase = contract.PhaseSucceeded
	case enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
		out.Phase = contract.PhaseCancelled
	case enums.WORKFLOW_EXECUTION_STATUS_FAILED:
		out.Phase = contract.PhaseFailed
		if slices.Contains([]contract.Phase{contract.PhaseExpired, contract.PhaseRejected}, phase) {
			out.Phase = phase
		}
	}
	return out
}

func attributeOf(info *workflow.WorkflowExecutionInfo, name string) string {
	var text string
	if p := info.GetSearchAttributes().GetIndexedFields()[name]; p == nil || codec.Converter().FromPayload(p, &text) != nil {
		return ""
	}
	return text
}

// compare holds what the provider says of a task against its end.
func (s *sweep) compare(ctx context.Context, task stored) error {
	if !task.ours {
		return nil
	}
	s.report.Tasks++
	if task.end.State != contract.AuditClosed {
		s.report.Open++
		return nil
	}
	if task.end.Phase == "" || !s.op.Probe.Looks() {
		s.report.Unclear++
		return nil
	}
	var reads []time.Time // when each began
	look := func() contract.Evidence {
		reads = append(reads, s.now())
		return s.probe(ctx, contract.ProbeInput{Tenant: task.tenant, Key: task.key, ProviderKey: task.providerKey, Probe: *s.op.Probe})
	}
	seen := look()
	if seen.Finding == contract.DidNotHappen && task.end.Phase == contract.PhaseSucceeded {
		// Absence is earned: two reads must agree.
		if !s.pause(max(s.op.Probe.Base.D(), 100*time.Millisecond)) {
			return ctx.Err()
		}
		seen = look()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	seen.Kind, seen.Count = contract.EvidenceLookup, max(seen.Count, s.times[task.providerKey])
	if seen.Finding == contract.Inconclusive {
		s.report.Unclear++
		return nil
	}
	kind := contract.Conflict(task.end, s.op.Replay.Class, 0, seen)
	switch {
	case kind == "":
		s.report.Agreed++
		return nil
	case kind == contract.FindingLost && !s.absent(task, reads):
		s.report.Unclear++
		return nil
	}
	s.find(contract.Finding{Kind: kind, Task: contract.TaskID(task.tenant, task.key), Effect: task.providerKey, Count: seen.Count,
		Detail: fmt.Sprintf("the task is %s, and the provider's look-up says %s", task.end.Phase, seen.Finding)})
	return nil
}

// absent tells whether reads that found nothing prove that the effect of a task
// that has succeeded is not there: they do not where the provider has forgotten it,
// or does not show it yet or each time.
func (s *sweep) absent(task stored, reads []time.Time) bool {
	r := s.op.Reads()
	r.Covers = true // whatever look-ups cover, an effect that has succeeded is in it
	return admission.Absent(r, task.began, task.closed, reads) == admission.NoDoubt
}
