package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

const ownTypes = `types: "sms, fax"
budget: {resources: {calls: {concurrent: 4}}}
operations:
  text:
    type: sms
    with: {to: "+49 2", from: "+49 1", retries: 0}
    cost: {calls: 1}
    replay: {class: keyed, window: 24h}
    probe: {own: true, settle: 1s}
    provider: {version: "1", key_window: 24h, lookup: {covers: all, consistent: true, lag: 1s}}
`

func TestTypesOfYourOwn(t *testing.T) {
	c, err := Parse("test.yaml", []byte(ownTypes))
	require.NoError(t, err)
	require.Equal(t, []string{"fax", "sms"}, c.Types)
	op, _ := c.Operation("text")
	d := op.Declared
	require.Equal(t, "sms", d.Type)
	require.Nil(t, d.Request)
	require.Equal(t, []contract.Field{{Name: "from", Value: "+49 1"}, {Name: "retries", Value: "0"}, {Name: "to", Value: "+49 2"}}, d.With)
	require.Equal(t, "+49 1", d.Setting("from"))
	require.Empty(t, d.Setting("other"))
	require.Equal(t, "type:sms", d.Probe.URL)
	require.True(t, d.Reads().Covers, "it counts as a look-up")
	_, refused := c.ResolveE(contract.TaskInput{Tenant: "acme", Key: "k", Operation: "text", Payload: []byte(`{"a":1}`)}, noon)
	require.Nil(t, refused)
}

func TestRefuseTypes(t *testing.T) {
	for name, c := range map[string]struct{ old, new, text string }{
		"a type that is not declared": {`"sms, fax"`, `"fax"`, `"sms" is not known`},
		"a role of ours":              {`"sms, fax"`, `"sms, http"`, "http is a role of Headgate's own"},
		"twice":                       {`"sms, fax"`, `"sms, sms"`, "sms is there twice"},
		"no name":                     {`"sms, fax"`, `"sms, a/b"`, "a/b"},
		"request of such a type":      {"with:", "request: {method: GET, url: \"http://a/\"}\n    with:", `there is no field "request"`},
		"mapping as a setting":        {"retries: 0", "retries: {a: 1}", "want text"},
		"looks up twice":              {"own: true,", "own: true, lookup: {url: \"http://a/{key}\", happened: \"status == 200\"},", "remove lookup or own"},
		"own look-up of http":         {"type: sms", "type: http\n    request: {method: POST, url: \"http://a/\", idempotency_header: K}", `there is no field "own"`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, ownTypes, c.old)
			_, err := Parse("test.yaml", []byte(strings.Replace(ownTypes, c.old, c.new, 1)))
			require.ErrorContains(t, err, c.text)
		})
	}
}
