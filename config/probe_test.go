package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

const baseLookup = `      lookup: {url: "http://psp.example/?key={key}", happened: "status == 200"}`

func declared(t *testing.T, probe string) contract.Operation {
	t.Helper()
	c, err := Parse("test.yaml", []byte(strings.Replace(base, baseLookup, probe, 1)))
	require.NoError(t, err)
	op, ok := c.Operation("charge")
	require.True(t, ok)
	return op.Declared
}

func TestProbeKinds(t *testing.T) {
	d := declared(t, `      cancel:
        method: DELETE
        url: "http://psp.example/{key}"
        happened: "status == 409"
        did_not_happen: "status == 200"
        headers: {Authorization: {env: TOKEN}}
      callback:
        secret: {env: PSP_SECRET}
        tenant: "body.tenant"
        request_key: "body.id"
        happened: "body.type == 'captured'"
        within: 1m
      verify: true
      cost: {tokens: 5, calls: 1}`)
	require.Empty(t, d.Probe.URL)
	require.Equal(t, &contract.Cancel{Method: "DELETE", URL: "http://psp.example/{key}", Happened: "status == 409", DidNotHappen: "status == 200",
		Headers: []contract.Header{{Name: "Authorization", Env: "TOKEN"}}, Then: contract.ThenFail}, d.Probe.Cancel)
	require.Equal(t, &contract.Callback{Secret: "PSP_SECRET", Tenant: "body.tenant", RequestKey: "body.id",
		Happened: "body.type == 'captured'", Within: seconds(60)}, d.Probe.Callback)
	require.True(t, d.Verifies())
	require.Equal(t, []admission.Cost{{Resource: "calls", Amount: 1}, {Resource: "tokens", Amount: 5}}, d.Probe.Cost)
	require.Equal(t, admission.Reads{}, d.Reads(), "nothing is looked up, so nothing is absent")

	d = declared(t, `      cancel: {method: POST, url: "http://psp.example/{key}", did_not_happen: "status == 200", then: retry}`)
	require.Equal(t, contract.ThenRetry, d.Probe.Cancel.Then)

	d = declared(t, `      cancel: {method: POST, url: "http://psp.example/{key}", did_not_happen: "status == 200"}
      callback: {secret: {env: S}, key: "body.key", happened: "true"}`)
	require.Equal(t, contract.ThenFail, d.Probe.Cancel.Then, "a cancelled key is spent")
	require.Equal(t, seconds(300), d.Probe.Callback.Within)
}

// Without a word about the provider, a probe is believed as it always was. With
// one, absence is concluded from what it says only.
func TestReads(t *testing.T) {
	believed := admission.Reads{Covers: true, Consistent: true, LagKnown: true, Lag: seconds(2)}
	d := declared(t, baseLookup)
	require.Equal(t, believed, d.Reads())
	require.Nil(t, d.Provider)
	before := d.Digest

	for text, want := range map[string]admission.Reads{
		`{version: a, key_window: 1h}`:                                                                       {},
		`{version: a, key_window: 1h, lookup: {}}`:                                                           {},
		`{version: a, key_window: 1h, lookup: {covers: all, lag: 5s}}`:                                       {Covers: true, LagKnown: true, Lag: seconds(5)},
		`{version: a, key_window: 1h, lookup: {covers: all, consistent: true, lag: unknown}}`:                {Covers: true, Consistent: true},
		`{version: a, key_window: 1h, lookup: {covers: succeeded, consistent: true, lag: 5s}}`:               {Consistent: true, LagKnown: true, Lag: seconds(5)},
		`{version: a, key_window: 1h, lookup: {covers: all, consistent: true, lag: 0s}}`:                     believed, // the settle delay is longer
		`{version: a, key_window: 1h, lookup: {covers: all, consistent: true, lag: 1m, keeps: 24h}}`:         {Covers: true, Consistent: true, LagKnown: true, Lag: seconds(60), Keeps: seconds(86400)},
		`{version: a, key_window: 1h, errors_cached: true, lookup: {consistent: true, lag: 5s, keeps: 24h}}`: {Consistent: true, LagKnown: true, Lag: seconds(5), Keeps: seconds(86400)},
	} {
		d := declared(t, baseLookup+"\n    provider: "+text)
		require.Equal(t, want, d.Reads(), text)
		require.NotEqual(t, before, d.Digest, "a declaration is pinned")
	}
	a, b := declared(t, baseLookup+"\n    provider: {version: a, key_window: 1h}"), declared(t, baseLookup+"\n    provider: {version: b, key_window: 1h}")
	require.NotEqual(t, a.Digest, b.Digest, "and so is its version")
}

func TestRefuseProbes(t *testing.T) {
	const cancel = `      cancel: {method: POST, url: "http://a/{key}", did_not_happen: "status == 200"}`
	for _, c := range []refusal{
		{name: "cancel has nothing", new: "      §§§cancel: {}", texts: []string{"method is missing", "url is missing", "did_not_happen is missing"}},
		{name: "cancel reads", new: `      cancel: {method: §GET, url: "http://a/{key}", did_not_happen: "true"}`, texts: []string{"write POST, PUT, PATCH, DELETE"}},
		{name: "cancel of everything", new: `      cancel: {method: POST, url: §"http://a/", did_not_happen: "true"}`, texts: []string{"no effect in particular"}},
		{name: "cancel then", new: `      cancel: {method: POST, url: "http://a/{key}", did_not_happen: "true", then: §again}`, texts: []string{"write fail, retry"}},
		{name: "both rules are one", new: `      cancel: {method: POST, url: "http://a/{key}", did_not_happen: §"true", happened: "true"}`, texts: []string{"the same rule"}},
		{name: "callback has nothing", new: "      §§§callback: {}", texts: []string{"secret is missing", "where the body names the task", "happened is missing"}},
		{name: "callback with a secret", new: `      callback: {secret: §whsec_x, key: "body.key", happened: "true"}`, texts: []string{"want a mapping"}},
		{name: "callback names the task twice", new: `      §callback: {secret: {env: S}, key: "body.key", tenant: "body.a", request_key: "body.b", happened: "true"}`, texts: []string{"names the task"}},
		{name: "callback without a tenant", new: `      §callback: {secret: {env: S}, request_key: "body.b", happened: "true"}`, texts: []string{"names the task"}},
		{name: "callback names the task by a number", new: `      callback: {secret: {env: S}, key: §"1.5", happened: "true"}`, texts: []string{"it must give text"}},
		{name: "callbacks of a key that is used twice", new: `      cancel: §{method: POST, url: "http://a/{key}", did_not_happen: "true", then: retry}` + "\n" +
			`      callback: {secret: {env: S}, key: "body.key", happened: "true"}`, texts: []string{"does not tell a cancelled effect"}},
		{name: "nothing verifies", new: cancel + "\n      verify: §true", texts: []string{"nothing can verify"}},
		{name: "verify is text", new: cancel + "\n      verify: §yes", texts: []string{"want true or false"}},
		{name: "cost", new: cancel + "\n      cost: {§cals: 1, calls: §5, tokens: §\"1\"}", texts: []string{`did you mean "calls"?`, "can never fit", "want a whole number"}},
		{name: "provider without a version", new: cancel + "\n    §provider: {key_window: 1h}", texts: []string{"version is missing"}},
		{name: "window longer than the provider's", new: cancel + "\n    §provider: {version: a, key_window: 30m}", texts: []string{"replay.window is 1h, and the provider remembers a key for 30m"}},
		{name: "errors without keys", new: cancel + "\n    §provider: {version: a, errors_cached: §true}", texts: []string{"replay.window is 1h", "stored under a key"}},
		{name: "look-ups of none", new: cancel + "\n    provider: {version: a, key_window: 1h, lookup: §{}}", texts: []string{"has no look-up"}},
		{name: "look-ups", new: baseLookup + "\n    provider: {version: a, key_window: 1h, lookup: {covers: §most, lag: §forever, §laag: 1s}}", texts: []string{"write all, succeeded", "not a duration", `did you mean "lag"?`}},
	} {
		c.old = baseLookup
		t.Run(c.name, c.run)
	}
	keyless := strings.NewReplacer(", idempotency_header: Idempotency-Key}", "}", "replay: {class: keyed, window: 1h}", "replay: {class: never}",
		baseLookup, `      cancel: §{method: POST, url: "http://a/{key}", did_not_happen: "true", then: retry}`).Replace(base)
	t.Run("retry without a key", refusal{new: keyless, texts: []string{"by its key only"}}.run)
}
