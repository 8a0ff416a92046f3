package activities

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// provide answers every request with one status, body and set of headers.
func provide(t *testing.T, status int, body string, header ...string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestAnswers(t *testing.T) {
	captured := func(r *contract.HTTPRequest) { r.Success = "status == 200 && body.state == 'captured'" }
	harmless := func(r *contract.HTTPRequest) { r.Harmless = "status == 503" }
	plain := func(*contract.HTTPRequest) {}
	for _, c := range []struct {
		name   string
		status int
		body   string
		change func(*contract.HTTPRequest)
		class  admission.Class
		reason string
		result string
		detail string
	}{
		{"created", 201, `{"id":"ch_1"}`, plain, admission.Succeeded, "", `{"id":"ch_1"}`, ""},
		{"no content", 204, "", plain, admission.Succeeded, "", "", ""},
		{"not JSON", 200, "done", plain, admission.Succeeded, "", "", "the answer is not JSON and was not kept"},
		{"not UTF-8", 200, "{\"a\":\"\xff\"}", plain, admission.Succeeded, "", "", "the answer is not JSON and was not kept"},
		{"too long", 200, `"` + strings.Repeat("x", maxAnswer) + `"`, plain, admission.Succeeded, "", "", "the answer is longer than 262144 bytes and was not kept"},
		{"rule accepts", 200, `{"state":"captured"}`, captured, admission.Succeeded, "", `{"state":"captured"}`, ""},
		{"rule does not accept", 200, `{"state":"pending"}`, captured, admission.Unknown, "unexpected_answer", `{"state":"pending"}`, ""},
		{"rule has nothing to read", 200, "done", captured, admission.Unknown, "unexpected_answer", "", "the answer is not JSON and was not kept"},
		{"redirect", 302, "", plain, admission.Unknown, "unexpected_answer", "", ""},
		{"bad request", 400, `{"error":"amount"}`, plain, admission.Failed, "rejected_by_provider", `{"error":"amount"}`, ""},
		{"revoked", 401, "", plain, admission.Failed, "not_authorised", "", ""},
		{"conflict", 409, "", plain, admission.Unknown, "provider_busy", "", ""},
		{"rate limited", 429, "", plain, admission.Refused, "rate_limited", "", ""},
		{"broken", 500, "", plain, admission.Unknown, "provider_error", "", ""},
		{"overloaded", 503, "", plain, admission.Unknown, "provider_error", "", ""},
		{"overloaded, declared harmless", 503, "", harmless, admission.Refused, "declared_harmless", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := provide(t, c.status, c.body, "Location", "http://elsewhere.invalid/", "Retry-After", "7")
			o := send(t, local(), charge(url, c.change), openGuard(), 5*time.Second)
			require.Equal(t, c.class, o.Class, o.Detail)
			require.Equal(t, c.reason, o.Reason)
			require.Equal(t, c.status, o.Status)
			require.Equal(t, c.result, string(o.Result))
			require.Equal(t, c.detail, o.Detail)
			if c.class == admission.Succeeded {
				require.Zero(t, o.RetryAfter)
			} else {
				require.Equal(t, contract.Duration(7*time.Second), o.RetryAfter)
			}
		})
	}
}

func TestLongReferenceIsExact(t *testing.T) {
	url := provide(t, 200, `{"id":1234567890123456789}`)
	o := send(t, local(), charge(url), openGuard(), 5*time.Second)
	require.Equal(t, "1234567890123456789", o.Reference)
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		field, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"7", "", 7 * time.Second},
		{" 7 ", "", 7 * time.Second},
		{"0", "", 0},
		{"1.5", "", 1500 * time.Millisecond},
		{"-3", "", 0},
		{"-inf", "", 0},
		{"NaN", "", 0},
		{"1e12", "", 10 * time.Minute},
		{"1e999", "", 10 * time.Minute},
		{"99999999999999999999999", "", 10 * time.Minute},
		{"soon", "", 0},
		{"7 seconds", "", 0},
		{at(90 * time.Second), "", 90 * time.Second},
		{at(-time.Hour), "", 0},
		{at(240 * time.Hour), "", 10 * time.Minute},
		{at(time.Hour), at(time.Hour - 30*time.Second), 30 * time.Second}, // its clock is an hour ahead
	} {
		t.Run(c.field, func(t *testing.T) {
			h := http.Header{"Retry-After": {c.field}}
			if c.date != "" {
				h.Set("Date", c.date)
			}
			require.Equal(t, c.want, retryAfter(h, now))
		})
	}
}

func TestRequest(t *testing.T) {
	var got *http.Request
	var body string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
		_, _ = io.WriteString(w, "{}")
	}))
	defer s.Close()
	t.Setenv("PSP_TOKEN", "Bearer s3cret")
	headers := func(r *contract.HTTPRequest) {
		r.Headers = []contract.Header{{Name: "Authorization", Env: "PSP_TOKEN"}, {Name: "X-Source", Value: "agents"}, {Name: "Host", Value: "psp.example"}}
	}
	t.Run("post", func(t *testing.T) {
		in := charge(s.URL+"/charges?mode=live", headers)
		require.Equal(t, admission.Succeeded, send(t, local(), in, openGuard(), 5*time.Second).Class)
		require.Equal(t, `{"amount":1200}`, body)
		require.Equal(t, "/charges?mode=live", got.RequestURI)
		require.Equal(t, "psp.example", got.Host)
		require.Equal(t, http.Header{
			"Accept": {"application/json"}, "Authorization": {"Bearer s3cret"}, "Connection": {"close"}, "Content-Length": {"15"},
			"Content-Type": {"application/json"}, "Idempotency-Key": {in.ProviderKey}, "User-Agent": {"headgate"}, "X-Source": {"agents"},
		}, got.Header)
	})
	for name, change := range map[string]func(in *contract.EffectInput){
		"get":        func(in *contract.EffectInput) { in.Operation.Request.Method = http.MethodGet },
		"no payload": func(in *contract.EffectInput) { in.Payload = json.RawMessage("null") },
	} {
		t.Run(name, func(t *testing.T) {
			in := charge(s.URL, func(r *contract.HTTPRequest) { r.IdempotencyHeader = "" })
			change(&in)
			require.Equal(t, admission.Succeeded, send(t, local(), in, openGuard(), 5*time.Second).Class)
			require.Empty(t, body)
			require.Empty(t, got.Header.Get("Content-Type"))
			require.Empty(t, got.Header.Get("Idempotency-Key"))
		})
	}
}

func TestRequestThatCannotBeMade(t *testing.T) {
	t.Setenv("BAD_TOKEN", "a\r\nX-Evil: 1")
	for _, c := range []struct {
		name   string
		change func(in *contract.EffectInput)
		final  bool
		text   string
	}{
		{"no request", func(in *contract.EffectInput) { in.Operation.Request = nil }, true, "no request"},
		{"bad rule", func(in *contract.EffectInput) { in.Operation.Request.Success = "status ==" }, true, "invalid_operation"},
		{"bad URL", func(in *contract.EffectInput) { in.Operation.Request.URL = "psp/charges" }, true, "absolute"},
		{"bad method", func(in *contract.EffectInput) { in.Operation.Request.Method = "P OST" }, true, "method"},
		{"missing credential", func(in *contract.EffectInput) {
			in.Operation.Request.Headers = []contract.Header{{Name: "Authorization", Env: "NO_SUCH_TOKEN"}}
		}, false, "NO_SUCH_TOKEN"},
		{"header injection", func(in *contract.EffectInput) {
			in.Operation.Request.Headers = []contract.Header{{Name: "Authorization", Env: "BAD_TOKEN"}}
		}, false, "control character"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := charge("http://provider.invalid/")
			c.change(&in)
			_, err := local().Prepare(t.Context(), in)
			require.ErrorContains(t, err, c.text)
			require.NotContains(t, err.Error(), "Evil")
			var refusal *Refusal
			if c.final {
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, admission.Failed, refusal.Class)
			} else {
				require.NotErrorAs(t, err, &refusal)
			}
		})
	}
}
