package conform

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"headgate/activities"
	"headgate/admission"
	"headgate/config"
	"headgate/contract"
	"headgate/testsuite/provider"
)

// local is where the tests' providers are.
var local = activities.Network{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// trying makes a trial of a declaration against a provider that behaves.
func trying(t *testing.T, b provider.Behaviour, declared string, faults ...provider.Fault) (Report, map[string]Verdict) {
	t.Helper()
	s := provider.New(provider.Options{Behaviour: b})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	url, err := s.Listen("127.0.0.1:0")
	require.NoError(t, err)
	for _, f := range faults {
		_, err := s.Inject(t.Context(), f)
		require.NoError(t, err)
	}
	c, err := config.Parse("test.yaml", []byte(`
budget: {resources: {calls: {concurrent: 1}}}
operations:
  charge:
    type: http
    request: {method: POST, url: "`+url+`/charges", idempotency_header: Idempotency-Key, reference: "body.id"}
    cost: {calls: 1}
    timeout: 1s
    replay: {class: keyed, window: 3s}
    probe:
      lookup: {url: "`+url+`/charges?key={key}", happened: "status == 200", did_not_happen: "status == 404", reference: "body.id"}
      cancel: {method: POST, url: "`+url+`/charges/cancel?key={key}", happened: "status == 409", did_not_happen: "body.state == 'cancelled'"}
      settle: 0s
      timeout: 5s
`+declared))
	require.NoError(t, err)
	op, _ := c.Operation("charge")
	r, err := Run(t.Context(), Options{Network: local, Operation: op.Declared, Payload: json.RawMessage(`{"amount":1}`), Other: json.RawMessage(`{"amount":2}`), Run: "run", Patience: 4 * time.Second})
	require.NoError(t, err)
	verdicts, seen := map[string]Verdict{}, 0
	for _, l := range r.Lines {
		verdicts[l.Check] = l.Verdict
		if l.Verdict == Mismatch {
			seen++
		}
	}
	require.Equal(t, seen, r.Mismatches)
	return r, verdicts
}

// honest is what the provider does.
const honest = `    provider: {version: "1", key_window: 3s, errors_cached: false, lookup: {covers: all, consistent: true, lag: 300ms}}`

// failing makes the trial's errors: the key of the check of stored errors.
func failing() provider.Fault {
	return provider.Fault{Key: contract.ProviderKey(Tenant, "run-e"), Kind: provider.Status, Status: 500}
}

func TestHonestProviderConforms(t *testing.T) {
	t.Parallel()
	r, got := trying(t, provider.Behaviour{LookupLag: provider.Duration(100 * time.Millisecond)}, honest, failing())
	require.Equal(t, map[string]Verdict{
		"absent_before": Match, "effect": Match, "lookup_finds": Match, "lag": Match, "consistent": Match, "duplicate_key": Match,
		"other_body": Match, "key_window": Match, "errors_cached": Match, "cancel": Match, "covers": Unverifiable,
	}, got, "%+v", r.Lines)
	require.Equal(t, 3, r.Effects)
	require.Equal(t, "1", r.Version)
}

// Each row is one lie, and the lines that it must show in; no other line may
// change.
func TestLiesAreFlagged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behaviour provider.Behaviour
		declared  string
		lines     map[string]Verdict
	}{
		"keys are ignored": {provider.Behaviour{Keys: provider.KeysIgnored}, honest,
			map[string]Verdict{"duplicate_key": Mismatch, "other_body": Mismatch, "key_window": Mismatch}},
		"keys are forgotten": {provider.Behaviour{KeyWindow: provider.Duration(time.Second)}, honest,
			map[string]Verdict{"key_window": Mismatch}},
		"look-ups lag": {provider.Behaviour{LookupLag: provider.Duration(time.Second)}, honest,
			map[string]Verdict{"lag": Mismatch}},
		"look-ups never find it": {provider.Behaviour{LookupLag: provider.Duration(time.Hour)}, honest,
			map[string]Verdict{"lookup_finds": Mismatch, "lag": "", "consistent": ""}},
		"errors are stored": {provider.Behaviour{CacheErrors: true}, honest,
			map[string]Verdict{"errors_cached": Mismatch}},
		"errors are not stored": {provider.Behaviour{},
			`    provider: {version: "1", key_window: 3s, errors_cached: true, lookup: {covers: all, consistent: true, lag: 300ms}}`,
			map[string]Verdict{"errors_cached": Mismatch}},
		"nothing is declared": {provider.Behaviour{}, `    provider: {version: "1", key_window: 3s}`,
			map[string]Verdict{"lag": Unverifiable, "consistent": Unverifiable, "covers": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]Verdict{
				"absent_before": Match, "effect": Match, "lookup_finds": Match, "lag": Match, "consistent": Match, "duplicate_key": Match,
				"other_body": Match, "key_window": Match, "errors_cached": Match, "cancel": Match, "covers": Unverifiable,
			}
			for check, v := range c.lines {
				if want[check] = v; v == "" {
					delete(want, check)
				}
			}
			r, got := trying(t, c.behaviour, c.declared, failing())
			require.True(t, maps.Equal(want, got), "want %v, got %+v", want, r.Lines)
		})
	}
}

// A provider that cannot be reached, or answers nothing, is no liar.
func TestNoAnswerIsUnverifiable(t *testing.T) {
	t.Parallel()
	r, got := trying(t, provider.Behaviour{}, honest,
		provider.Fault{Key: "*", Kind: provider.Status, Status: 503, Times: -1},
		provider.Fault{Key: "*", On: provider.OnLookup, Kind: provider.Before, Times: -1})
	require.Zero(t, r.Mismatches, "%+v", r.Lines)
	require.Equal(t, Unverifiable, got["effect"])
	require.Equal(t, Unverifiable, got["absent_before"])
	require.NotContains(t, got, "lag", "what rests on the effect is not tried")
	require.Zero(t, r.Effects)
}

// Look-ups that fail say nothing, also not that the effect is there.
func TestFailedRereadsAreUnverifiable(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(s.Close)
	one := &trial{Options: Options{Run: "run", Network: local, Operation: contract.Operation{Probe: &contract.Probe{
		URL: s.URL, Happened: "status == 200", DidNotHappen: "status == 404", Timeout: contract.Duration(time.Second)}}}}
	one.probes = &activities.Effects{Network: one.Network, Log: zap.NewNop()}
	one.consistent(t.Context(), admission.Reads{Consistent: true})
	require.Equal(t, []Line{{Check: "consistent", Verdict: Unverifiable, Declared: "each look-up after the lag finds it", Seen: "0 of 5 look-ups found it"}}, one.report.Lines)
}
