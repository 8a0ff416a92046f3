package testsuite

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"headgate/activities"
	"headgate/admission"
	"headgate/config"
	"headgate/contract"
	"headgate/starter/conform"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
	"headgate/workers"
)

const sampleTenant = "acme"

// TestSamples runs each sample configuration against a provider that misbehaves,
// in one world after the other's configuration.
func TestSamples(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s := &samples{newWorld(ctx, t)}
	t.Run("charge-card", func(t *testing.T) { s.chargeCard(ctx, t) })
	t.Run("messages", func(t *testing.T) { s.messages(ctx, t) })
	t.Run("deploy", func(t *testing.T) { s.deploy(ctx, t) })
	t.Run("summarise", func(t *testing.T) { s.summarise(ctx, t) })
	t.Run("book-slot", func(t *testing.T) { s.bookSlot(ctx, t) })
	t.Run("your own", func(t *testing.T) { s.yourOwn(ctx, t) })
}

type samples struct{ *drill.World }

// use puts a configuration in force in every process.
func (s *samples) use(ctx context.Context, t *testing.T, text string) *config.Config {
	t.Helper()
	require.NoError(t, os.WriteFile(configuration(s.World), []byte(strings.ReplaceAll(text, "http://127.0.0.1:7291", third(s.World))), 0o600))
	restart(ctx, t, append([]*drill.Process{s.Control, s.Gateway}, s.Workers...)...)
	loaded := configure(ctx, t, s.World)
	_, err := s.Provider.ClearFaults(ctx)
	require.NoError(t, err)
	return loaded
}

func (s *samples) sample(ctx context.Context, t *testing.T, name string) *config.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "samples", name))
	require.NoError(t, err)
	return s.use(ctx, t, string(text))
}

func (s *samples) submit(ctx context.Context, t *testing.T, key, operation, payload string) {
	t.Helper()
	answer, err := s.Door.Submit(ctx, key, contract.SubmitRequest{Tenant: sampleTenant, Operation: operation, Payload: json.RawMessage(payload)})
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, answer.Status, answer.Problem.Detail)
}

// fault goes to the effect of a task, on an endpoint.
func (s *samples) fault(ctx context.Context, t *testing.T, key string, f provider.Fault) {
	t.Helper()
	f.Key = contract.ProviderKey(sampleTenant, key)
	_, err := s.Provider.Inject(ctx, f)
	require.NoError(t, err)
}

func (s *samples) until(ctx context.Context, t *testing.T, key string, phase contract.Phase) contract.TaskView {
	t.Helper()
	var view contract.TaskView
	eventually(ctx, t, key+" is "+string(phase), func() bool {
		answer, err := s.Door.Task(ctx, sampleTenant, key)
		view = answer.Task
		return err == nil && view.Phase == phase
	})
	return view
}

// seen is what the provider counted of a task, all faults delivered.
func (s *samples) seen(ctx context.Context, t *testing.T, key string, requests, effects int) {
	t.Helper()
	counts, err := s.Provider.Effects(ctx, contract.ProviderKey(sampleTenant, key))
	require.NoError(t, err)
	require.Equal(t, []int{requests, effects}, []int{counts.Requests, counts.Effects}, "requests and effects of %s", key)
	all, err := s.Provider.Faults(ctx)
	require.NoError(t, err)
	for _, f := range all {
		require.False(t, f.Undelivered(), "%s was not delivered", f.Kind)
	}
}

// Keyed: a request whose answer was lost is sent again, and is one charge.
func (s *samples) chargeCard(ctx context.Context, t *testing.T) {
	s.sample(ctx, t, "charge-card.yaml")
	const payload = `{"amount": 1200, "currency": "EUR", "invoice": "no \"7\""}`
	s.submit(ctx, t, "plain", "charge_card", payload)
	view := s.until(ctx, t, "plain", contract.PhaseSucceeded)
	require.Contains(t, string(view.Result), `"amount":1200`)
	s.seen(ctx, t, "plain", 1, 1)

	s.fault(ctx, t, "lost", provider.Fault{Kind: provider.After})
	s.submit(ctx, t, "lost", "charge_card", payload)
	s.until(ctx, t, "lost", contract.PhaseSucceeded)
	s.seen(ctx, t, "lost", 2, 1)

	answer, err := s.Door.Submit(ctx, "bad", contract.SubmitRequest{Tenant: sampleTenant, Operation: "charge_card", Payload: json.RawMessage(`{"amount": 1}`)})
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, answer.Status)
	require.Contains(t, answer.Problem.Detail, "no such key: currency", "the door tells what the body would lack")
}

// A web form: what was seen to succeed is verified, and what was not seen is found,
// on the site's own pages. Each is one request.
func (s *samples) bookSlot(ctx context.Context, t *testing.T) {
	needBrowser(t)
	s.sample(ctx, t, "book-slot.yaml")
	temp, err := os.MkdirTemp("/tmp", "hg-") // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(temp)) })
	worker, err := s.AddWorker(ctx, "browser", "browser", "--browser-temp", temp, "--artefacts", t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() {
		worker.Kill()
		s.Workers = slices.DeleteFunc(s.Workers, func(p *drill.Process) bool { return p == worker })
	})
	const payload = `{"slot": "mon-9", "name": "Ann O'Hara"}`
	s.submit(ctx, t, "slot-seen", "book_slot", payload)
	s.fault(ctx, t, "slot-lost", provider.Fault{Kind: provider.After})
	s.submit(ctx, t, "slot-lost", "book_slot", payload)
	for _, key := range []string{"slot-seen", "slot-lost"} {
		view := s.until(ctx, t, key, contract.PhaseSucceeded)
		s.seen(ctx, t, key, 1, 1)
		require.True(t, slices.ContainsFunc(view.Evidence, func(e contract.Evidence) bool {
			return e.Kind == contract.EvidenceLookup && e.Finding == contract.Happened
		}), "%s was looked up: %+v", key, view.Evidence)
	}
}

// A rate: five at once, then one in two seconds. What is lost is a person's.
func (s *samples) messages(ctx context.Context, t *testing.T) {
	s.sample(ctx, t, "messages.yaml")
	var keys []string
	for i := range 7 {
		keys = append(keys, fmt.Sprintf("message-%d", i))
		s.submit(ctx, t, keys[i], "send_message", fmt.Sprintf(`{"to": "mara", "text": "no %d \" }"}`, i))
	}
	var at []time.Time
	for _, key := range keys {
		s.until(ctx, t, key, contract.PhaseSucceeded)
		counts, err := s.Provider.Effects(ctx, contract.ProviderKey(sampleTenant, key))
		require.NoError(t, err)
		require.Equal(t, 1, counts.Effects)
		at = append(at, counts.First)
	}
	slices.SortFunc(at, time.Time.Compare)
	// The sixth and the seventh wait for a refill each; a second is for grants that came late.
	require.Greater(t, at[6].Sub(at[0]), 3*time.Second)

	s.fault(ctx, t, "message-lost", provider.Fault{Kind: provider.After})
	s.submit(ctx, t, "message-lost", "send_message", `{"to": "mara", "text": "hello"}`)
	view := s.until(ctx, t, "message-lost", contract.PhaseUnknown)
	s.seen(ctx, t, "message-lost", 1, 1)
	decided, err := s.Door.Resolve(ctx, sampleTenant, "message-lost", contract.Resolution{Outcome: "happened", Evidence: "she has it", Version: view.Reconciliation.Version, Actor: "ops", ID: "seen-by-mara"})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, decided.Status, decided.Problem.Detail)
	s.until(ctx, t, "message-lost", contract.PhaseSucceeded)
	s.seen(ctx, t, "message-lost", 1, 1)
}

// A look-up decides, both ways; and the declaration is what the provider does.
func (s *samples) deploy(ctx context.Context, t *testing.T) {
	loaded := s.sample(ctx, t, "deploy.yaml")
	const payload = `{"ref": "v1.2", "environment": "staging"}`
	s.fault(ctx, t, "happened", provider.Fault{Kind: provider.After})
	s.submit(ctx, t, "happened", "deploy", payload)
	s.until(ctx, t, "happened", contract.PhaseSucceeded)
	s.seen(ctx, t, "happened", 1, 1)

	s.fault(ctx, t, "did-not", provider.Fault{Kind: provider.Before})
	s.submit(ctx, t, "did-not", "deploy", payload)
	s.until(ctx, t, "did-not", contract.PhaseSucceeded)
	s.seen(ctx, t, "did-not", 2, 1)

	op, _ := loaded.Operation("deploy")
	report, err := conform.Run(ctx, conform.Options{Operation: op.Declared, Payload: json.RawMessage(payload), Run: "sample", Patience: 5 * time.Second,
		Network: sampleNetwork(loaded)})
	require.NoError(t, err)
	require.Zero(t, report.Mismatches, "%+v", report.Lines)
}

// Tokens: a model's worker takes the model's work, and nobody else does; 429 holds
// and is tried again; the settled cost is the real one.
func (s *samples) summarise(ctx context.Context, t *testing.T) {
	loaded := s.sample(ctx, t, "summarise.yaml")
	s.submit(ctx, t, "early", "summarise", `{"prompt": "a long document", "max_tokens": 100}`)
	s.until(ctx, t, "early", contract.PhaseLeased) // scheduled, with http and control workers looking for work
	s.seen(ctx, t, "early", 0, 0)

	s.runModel(ctx, t, loaded)
	s.until(ctx, t, "early", contract.PhaseSucceeded)
	story, err := s.Door.Explain(ctx, sampleTenant, "early")
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(story), "model@", "the worker of the role took it")
	require.NotContains(t, fmt.Sprint(story), "http@")

	s.fault(ctx, t, "limited", provider.Fault{Kind: provider.Status, On: provider.OnModel, Status: 429, RetryAfter: "1"})
	s.fault(ctx, t, "cut", provider.Fault{Kind: provider.Cut, On: provider.OnModel})
	s.fault(ctx, t, "capped", provider.Fault{Kind: provider.SpendCap, On: provider.OnModel})
	s.submit(ctx, t, "limited", "summarise", `{"prompt": "a long document", "max_tokens": 100}`)
	view := s.until(ctx, t, "limited", contract.PhaseSucceeded)
	var answer contract.ModelAnswer
	require.NoError(t, json.Unmarshal(view.Result, &answer))
	require.Equal(t, contract.ModelUsage{Input: 5, Output: 50}, answer.Usage)
	s.submit(ctx, t, "cut", "summarise", `{"prompt": "a long document", "max_tokens": 100}`)
	s.until(ctx, t, "cut", contract.PhaseSucceeded) // replay-safe: it is asked again, at the price of another answer
	s.submit(ctx, t, "capped", "summarise", `{"prompt": "a long document", "max_tokens": 100}`)
	failed := s.until(ctx, t, "capped", contract.PhaseFailed)
	require.Equal(t, "spend_cap", failed.ErrorClass)
	s.seen(ctx, t, "limited", 2, 1)
	s.seen(ctx, t, "cut", 2, 2)
	s.seen(ctx, t, "capped", 1, 0)
}

const ownOperations = `
types: pigeon
budget: {resources: {pigeons: {concurrent: 2}}}
operations:
  send_pigeon:
    type: pigeon
    with: {loft: north}
    cost: {pigeons: 1}
    timeout: 5s
    heartbeat: 2s
    retry: {max_attempts: 3, base: 100ms, max: 1s, max_age: 5m}
    replay: {class: never}
    probe: {own: true, settle: 100ms, base: 100ms, max: 1s}
    provider: {version: "1", lookup: {covers: all, consistent: true, lag: 100ms}}
`

// pigeons is a type of one's own. Of the first pigeon of each key nobody sees
// whether it arrives; "arrives" says whether it does.
type pigeons struct {
	mu      sync.Mutex
	flown   map[string]int
	arrived map[string]string
}

type pigeon struct {
	loft     *pigeons
	from     string
	key      string
	arrives  bool
	returned bool
}

func (p *pigeons) Prepare(_ context.Context, in contract.EffectInput) (activities.Prepared, error) {
	var payload struct{ Arrives, Returns bool }
	if err := json.Unmarshal(in.Payload, &payload); err != nil {
		return nil, err
	}
	return &pigeon{loft: p, from: in.Operation.Setting("loft"), key: in.ProviderKey, arrives: payload.Arrives, returned: payload.Returns}, nil
}

func (p *pigeon) Effect(_ context.Context, guard *activities.Guard) contract.Outcome {
	if err := guard.MaySend(); err != nil {
		return contract.Outcome{Class: admission.NotDispatched, Reason: err.Error()}
	}
	p.loft.mu.Lock()
	defer p.loft.mu.Unlock()
	p.loft.flown[p.key]++
	again := p.loft.flown[p.key] > 1
	if p.arrives || again {
		p.loft.arrived[p.key] = p.from
	}
	if p.returned || again {
		return contract.Outcome{Class: admission.Succeeded, Reference: p.from}
	}
	return contract.Outcome{Class: admission.Unknown, Reason: "not_seen"}
}

func (p *pigeons) Probe(_ context.Context, in contract.ProbeInput) contract.Evidence {
	p.mu.Lock()
	defer p.mu.Unlock()
	if from, ok := p.arrived[in.ProviderKey]; ok {
		return contract.Evidence{Finding: contract.Happened, Reference: from}
	}
	return contract.Evidence{Finding: contract.DidNotHappen}
}

// A type of one's own, registered in one line, goes the whole way: its look-up
// decides what nobody saw.
func (s *samples) yourOwn(ctx context.Context, t *testing.T) {
	loaded := s.use(ctx, t, ownOperations)
	loft := &pigeons{flown: map[string]int{}, arrived: map[string]string{}}
	s.run(ctx, t, workers.Options{Config: loaded, Roles: []string{"pigeon"}, Types: map[string]activities.Type{"pigeon": loft}})
	for key, payload := range map[string]string{"returns": `{"arrives": true, "returns": true}`, "arrives": `{"arrives": true}`, "strays": `{}`} {
		s.submit(ctx, t, key, "send_pigeon", payload)
	}
	for key, flown := range map[string]int{"returns": 1, "arrives": 1, "strays": 2} {
		view := s.until(ctx, t, key, contract.PhaseSucceeded)
		require.Equal(t, "north", view.Reference, key)
		loft.mu.Lock()
		require.Equal(t, flown, loft.flown[contract.ProviderKey(sampleTenant, key)], key)
		loft.mu.Unlock()
	}
}

// runModel runs a worker of role model in this process until the test ends.
func (s *samples) runModel(ctx context.Context, t *testing.T, loaded *config.Config) {
	t.Helper()
	s.run(ctx, t, workers.Options{Config: loaded, Roles: []string{"model"}})
}

func (s *samples) run(ctx context.Context, t *testing.T, o workers.Options) {
	t.Helper()
	o.Client, o.Log, o.StopTimeout = plain(t, s.World), zap.NewNop(), 5*time.Second
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- workers.Run(ctx, o) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
}

func sampleNetwork(c *config.Config) activities.Network {
	return activities.Network{Private: c.Network.Private}
}
