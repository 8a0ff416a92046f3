package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/contract"
)

func TestRequestKey(t *testing.T) {
	long := strings.Repeat("k", contract.MaxKey)
	for name, c := range map[string]struct {
		values []string
		key    string // empty: refused
		reason string
	}{
		"quoted":                  {[]string{`"inv-42"`}, "inv-42", ""},
		"bare":                    {[]string{`inv-42`}, "inv-42", ""},
		"bare uuid":               {[]string{`8e03978e-40d5-43dd-bc93-6894a57f9324`}, "8e03978e-40d5-43dd-bc93-6894a57f9324", ""},
		"bare, spaces around":     {[]string{"  inv-42\t"}, "inv-42", ""},
		"bare number":             {[]string{`42`}, "42", ""},
		"bare with slashes":       {[]string{`a/b/cancel`}, "a/b/cancel", ""},
		"quoted with blanks":      {[]string{`"a b, c"`}, "a b, c", ""},
		"quoted with escapes":     {[]string{`"a\"b\\c"`}, `a"b\c`, ""},
		"quoted, parameters":      {[]string{`"inv-42";v=1`}, "inv-42", ""},
		"quoted, longest":         {[]string{`"` + long + `"`}, long, ""},
		"missing":                 {nil, "", "idempotency_key_missing"},
		"empty":                   {[]string{``}, "", "idempotency_key_invalid"},
		"blank":                   {[]string{`  `}, "", "idempotency_key_invalid"},
		"empty in quotes":         {[]string{`""`}, "", "idempotency_key_invalid"},
		"too long":                {[]string{long + "k"}, "", "idempotency_key_invalid"},
		"too long in quotes":      {[]string{`"` + long + `k"`}, "", "idempotency_key_invalid"},
		"twice":                   {[]string{`a`, `a`}, "", "idempotency_key_invalid"},
		"joined by a proxy":       {[]string{`a, b`}, "", "idempotency_key_invalid"},
		"quoted list":             {[]string{`"a", "b"`}, "", "idempotency_key_invalid"},
		"bare with a blank":       {[]string{`a b`}, "", "idempotency_key_invalid"},
		"bare with a quote":       {[]string{`a"b`}, "", "idempotency_key_invalid"},
		"open quote":              {[]string{`"inv-42`}, "", "idempotency_key_invalid"},
		"text after the quote":    {[]string{`"inv-42"x`}, "", "idempotency_key_invalid"},
		"not ASCII":               {[]string{"schl\u00fcssel"}, "", "idempotency_key_invalid"},
		"not ASCII in quotes":     {[]string{"\"schl\u00fcssel\""}, "", "idempotency_key_invalid"},
		"control character":       {[]string{"a\x01b"}, "", "idempotency_key_invalid"},
		"bad escape in the quote": {[]string{`"a\nb"`}, "", "idempotency_key_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := requestKey(http.Header{"Idempotency-Key": c.values})
			assert.Equal(t, c.key, key)
			if c.reason == "" {
				require.NoError(t, err)
				return
			}
			var p *problemError
			require.ErrorAs(t, err, &p)
			assert.Equal(t, c.reason, p.Reason)
			assert.Equal(t, 400, p.Status)
		})
	}
}

// Every bad submission is refused before anything is asked or stored, and says
// so.
func TestSubmitBadInput(t *testing.T) {
	field := func(name, value string) string {
		return strings.Replace(body, `{"tenant"`, `{"`+name+`": `+value+`, "tenant"`, 1)
	}
	replace := func(old, with string) string {
		require.Contains(t, body, old)
		return strings.Replace(body, old, with, 1)
	}
	for name, c := range map[string]struct {
		body   string
		status int
		reason string
	}{
		"empty body":             {"", 400, "invalid_request"},
		"blank body":             {" \n", 400, "invalid_request"},
		"not JSON":               {"tenant=acme", 400, "invalid_request"},
		"array":                  {"[" + body + "]", 400, "invalid_request"},
		"string":                 {`"acme"`, 400, "invalid_request"},
		"null":                   {`null`, 400, "invalid_request"},
		"cut off":                {body[:len(body)-1], 400, "invalid_request"},
		"cut off in the payload": {body[:len(body)-3], 400, "invalid_request"},
		"a second object":        {body + body, 400, "invalid_request"},
		"trailing text":          {body + " x", 400, "invalid_request"},
		"trailing bracket":       {body + "]", 400, "invalid_request"},
		"trailing comma":         {replace("}}", "},}"), 400, "invalid_request"},
		"comment":                {"// hello\n" + body, 400, "invalid_request"},
		"unknown field":          {field("tenants", `"acme"`), 400, "invalid_request"},
		"field of a view":        {field("phase", `"succeeded"`), 400, "invalid_request"},
		"key in the body":        {field("key", `"inv-42"`), 400, "invalid_request"},
		"tenant twice":           {field("tenant", `"globex"`), 400, "invalid_request"},
		"payload twice":          {field("payload", `{}`), 400, "invalid_request"},
		"tenant in capitals":     {field("Tenant", `"globex"`), 400, "invalid_request"},
		"tenant by an escape":    {field(`t\u0065nant`, `"globex"`), 400, "invalid_request"},
		"no tenant":              {`{"operation": "charge_card", "payload": {}}`, 400, "invalid_name"},
		"null tenant":            {replace(`"acme"`, `null`), 400, "invalid_name"},
		"number as tenant":       {replace(`"acme"`, `7`), 400, "invalid_request"},
		"tenant with a slash":    {replace(`"acme"`, `"ac/me"`), 400, "invalid_name"},
		"tenant with a dot":      {replace(`"acme"`, `".."`), 400, "invalid_name"},
		"tenant too long":        {replace(`"acme"`, `"`+strings.Repeat("a", 65)+`"`), 400, "invalid_name"},
		"tenant not ASCII":       {replace(`"acme"`, `"\u00e4cme"`), 400, "invalid_name"},
		"lone surrogate":         {replace(`"acme"`, `"\ud800"`), 400, "invalid_name"},
		"agent with a blank":     {replace(`"billing-1"`, `"billing 1"`), 400, "invalid_name"},
		"no operation":           {`{"tenant": "acme", "payload": {}}`, 400, "invalid_name"},
		"operation with a quote": {replace(`"charge_card"`, `"charge'card"`), 400, "invalid_name"},
		"unknown operation":      {replace(`"charge_card"`, `"charge_cards"`), 400, "unknown_operation"},
		"unknown priority":       {replace(`"high"`, `"urgent"`), 400, "invalid_request"},
		"number as priority":     {replace(`"high"`, `2`), 400, "invalid_request"},
		"deadline without zone":  {field("deadline", `"2026-12-01T10:00:00"`), 400, "invalid_request"},
		"deadline as a number":   {field("deadline", `1796119200`), 400, "invalid_request"},
		"deadline of words":      {field("deadline", `"soon"`), 400, "invalid_request"},
		"not_before as words":    {field("not_before", `"tomorrow"`), 400, "invalid_request"},
		"bad UTF-8":              {replace(`"acme"`, "\"ac\xffme\""), 400, "invalid_request"},
		"bad UTF-8 in payload":   {replace("1200", "\"\xc0\xaf\""), 400, "invalid_request"},
		"NUL in a string":        {replace(`"acme"`, "\"ac\x00me\""), 400, "invalid_request"},
		"huge payload":           {replace("1200", `"`+strings.Repeat("x", contract.MaxPayload)+`"`), 413, "payload_too_large"},
		"huge body":              {replace("1200", strings.Repeat(" ", maxSubmit)+"1"), 413, "payload_too_large"},
		"deep nesting":           {replace("1200", strings.Repeat("[", 20000)), 400, "invalid_request"},
		"deeper than 64":         {replace("1200", strings.Repeat("[", 65)+strings.Repeat("]", 65)), 400, "invalid_payload"},
		"beyond 2^53":            {replace("1200", "9007199254740993"), 400, "invalid_payload"},
		"overflow":               {replace("1200", "1e400"), 400, "invalid_payload"},
		"name twice in payload":  {replace(`{"amount"`, `{"amount": 1, "amount"`), 400, "invalid_payload"},
		"surrogate in payload":   {replace("1200", `"\ud800"`), 400, "invalid_payload"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{}
			r := submitTo(t, newGateway(f), "inv-42", c.body)
			p := decodeBody[contract.Problem](t, r)
			assert.Equal(t, c.status, r.StatusCode, "%+v", p)
			assert.Equal(t, c.reason, p.Reason, "%+v", p)
			assert.Equal(t, "REJECTED", p.DeliveryState)
			assert.Equal(t, "do_not_retry", p.NextAction)
			assert.NotContains(t, p.Detail, "Go ", "types of Go are none of a client's business")
			assert.Less(t, len(p.Detail), 400)
			assert.Empty(t, f.updates)
			assert.Empty(t, f.started)
		})
	}
}

func TestSubmitOptionalFields(t *testing.T) {
	for name, body := range map[string]string{
		"nulls":      `{"tenant": "acme", "operation": "charge_card", "agent": "", "deadline": null, "not_before": null, "priority": null, "payload": {}}`,
		"no payload": `{"tenant": "acme", "operation": "charge_card"}`,
		"any order":  `{"payload": null, "operation": "charge_card", "tenant": "acme"}`,
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, 202, submitTo(t, newGateway(&fake{}), "inv-42", body).StatusCode)
		})
	}
}

func TestSubmitContentType(t *testing.T) {
	for kind, status := range map[string]int{
		"application/json":                  202,
		"application/json; charset=utf-8":   202,
		"":                                  415,
		"text/plain":                        415,
		"application/x-www-form-urlencoded": 415,
		"application/problem+json":          415,
	} {
		t.Run(kind, func(t *testing.T) {
			g := newGateway(&fake{})
			r := do(t, g, "POST", "/v1/tasks", "", "Idempotency-Key", "inv-42")
			assert.Equal(t, 400, r.StatusCode, "no body")
			r = doRaw(t, g, kind, body)
			assert.Equal(t, status, r.StatusCode)
		})
	}
}
