package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

func TestBodyTemplates(t *testing.T) {
	const payload = `{"amount":1200,"big":9007199254740993,"list":[1,"a",null],"name":"O\"Hara </x>\n","none":null,"open":true,"rate":0.5}`
	for _, c := range []struct {
		name, body, want string
		wrong            string // part of the error
	}{
		{name: "none: the payload", want: payload},
		{name: "values", body: `{"a": ${payload.amount}, "b": ${payload.open}, "c": ${payload.rate}, "n": ${payload.none}}`, want: `{"a":1200,"b":true,"c":0.5,"n":null}`},
		{name: "a number that a float cannot hold", body: `[${payload.big}]`, want: `[9007199254740993]`},
		{name: "a text cannot end its quotes", body: `{"note": "to ${payload.name}!"}`, want: `{"note":"to O\"Hara </x>\n!"}`},
		{name: "a text as a value brings its quotes", body: `{"note": ${payload.name}}`, want: `{"note":"O\"Hara </x>\n"}`},
		{name: "a list, and a map", body: `{"l": ${payload.list}, "m": ${{'b': 1, 'a': [payload.name]}}}`, want: `{"l":[1,"a",null],"m":{"a":["O\"Hara </x>\n"],"b":1}}`},
		{name: "a number in a text", body: `["no ${payload.amount}", "${payload.open}"]`, want: `["no 1200","true"]`},
		{name: "names of the task", body: `["${key}", "${tenant}", "${request_key}"]`, want: `["hg-k","acme","inv/42"]`},
		{name: "expressions", body: `[${payload.amount * 2}, "${payload.amount > 1000 ? 'big } one' : 'small'}"]`, want: `[2400,"big } one"]`},
		{name: "a choice for what may be missing", body: `[${has(payload.other) ? payload.other : 'none'}]`, want: `["none"]`},
		{name: "the sign itself", body: `["$${x}", "\"${payload.amount}\""]`, want: `["${x}","\"1200\""]`},
		{name: "missing", body: `[${payload.other}]`, wrong: "no such key: other"},
		{name: "missing in a text", body: `["${payload.other}"]`, wrong: "no such key: other"},
		{name: "null in a text", body: `["${payload.none}"]`, wrong: "null_type cannot be part of a text"},
		{name: "a list in a text", body: `["${payload.list}"]`, wrong: "list cannot be part of a text"},
		{name: "a map with other keys", body: `[${{1: 2}}]`, wrong: "want text"},
		{name: "not a number", body: `[${0.0 / 0.0}]`, wrong: "double has no JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := Call{Payload: []byte(payload), Key: "hg-k", Tenant: "acme", RequestKey: "inv/42"}
			for range 3 { // the same each time
				body, mediaType, err := Body(&contract.HTTPRequest{Method: "POST", Body: c.body}, call)
				if c.wrong != "" {
					require.ErrorContains(t, err, c.wrong)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, c.want, string(body))
				require.Equal(t, "application/json", mediaType)
			}
		})
	}
}

func TestForms(t *testing.T) {
	r := &contract.HTTPRequest{Form: []contract.Field{{Name: "b[]", Value: "${payload.a}"}, {Name: "a", Value: "x&y=${payload.b} $${c}"}}}
	body, mediaType, err := Body(r, Call{Payload: []byte(`{"a":"1&2=3","b":false}`)})
	require.NoError(t, err)
	require.Equal(t, "application/x-www-form-urlencoded", mediaType)
	require.Equal(t, "b%5B%5D=1%262%3D3&a=x%26y%3Dfalse+%24%7Bc%7D", string(body))
	_, _, err = Body(r, Call{Payload: []byte(`{"a":"1"}`)})
	require.ErrorContains(t, err, "no such key: b")
}

// The door tells what a worker would find out.
func TestPayloadThatATemplateCannotUse(t *testing.T) {
	c, err := Parse("test.yaml", []byte(strings.Replace(base, "method: POST,", `method: POST, body: '{"value": ${payload.amount}}',`, 1)))
	require.NoError(t, err)
	in := contract.TaskInput{Tenant: "acme", Key: "k", Operation: "charge", Payload: []byte(`{"amount":1}`)}
	_, refused := c.ResolveE(in, noon)
	require.Nil(t, refused)
	in.Payload = []byte(`{"amuont":1}`)
	_, refused = c.ResolveE(in, noon)
	require.Equal(t, InvalidPayload, refused.Code)
	require.Contains(t, refused.Detail, "no such key: amount")
}

func TestHTTPSettings(t *testing.T) {
	c, err := Parse("test.yaml", []byte(edited("tenants:", "network: {private: \"127.0.0.0/8, fd00::/8\"}\ntenants:",
		"method: POST,", `method: POST, max_response: 1000, webhook: {file: /run/hook}, headers: {Authorization: {file: /run/token, prefix: "Bearer "}},`,
		"    type: http\n", "    type: http\n    tls: {ca_file: /etc/ca.pem, cert_file: /etc/c.pem, key_file: /etc/k.pem, min_version: \"1.3\"}\n")))
	require.NoError(t, err)
	require.Len(t, c.Network.Private, 2)
	op, _ := c.Operation("charge")
	r := op.Declared.Request
	require.Equal(t, []contract.Header{{Name: "Authorization", File: "/run/token", Prefix: "Bearer "}}, r.Headers)
	require.Equal(t, &contract.Secret{File: "/run/hook"}, r.Webhook)
	require.Equal(t, 1000, r.MaxResponse)
	require.Equal(t, &contract.TLS{CAFile: "/etc/ca.pem", CertFile: "/etc/c.pem", KeyFile: "/etc/k.pem", MinVersion: "1.3"}, r.TLS)
	require.Equal(t, r.TLS, op.Declared.Probe.TLS, "look-ups go the same way")
}

func TestRefuseNetworks(t *testing.T) {
	for _, c := range []refusal{
		{name: "not a range", old: "tenants:", new: "network: {private: §127.0.0.1}\ntenants:", texts: []string{"is no address range"}},
		{name: "bits", old: "tenants:", new: "network: {private: §10.1.2.3/8}\ntenants:", texts: []string{"write 10.0.0.0/8"}},
		{name: "twice", old: "tenants:", new: "network: {private: §\"10.0.0.0/8 10.0.0.0/8\", §public: x}\ntenants:", texts: []string{"there twice", `no field "public"`}},
	} {
		t.Run(c.name, c.run)
	}
}
