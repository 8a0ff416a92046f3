package activities

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"headgate/contract"
)

func probeInput(url string) contract.ProbeInput {
	return contract.ProbeInput{Tenant: "acme", Key: "inv-42", Attempt: 2, ProviderKey: contract.ProviderKey("acme", "inv-42"),
		Probe: contract.Probe{URL: url, Happened: "status == 200 && body.state == 'captured'", DidNotHappen: "status == 404",
			Reference: "body.id", Timeout: contract.Duration(5 * time.Second)}}
}

func look(t *testing.T, in contract.ProbeInput) contract.Evidence {
	t.Helper()
	at := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	e := &Effects{Network: loopback, Worker: "http@here:1", Log: zap.NewNop(), Now: func() time.Time { return at }}
	found, err := e.Probe(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.EvidenceLookup, found.Kind)
	require.Equal(t, at, found.At)
	require.Equal(t, "http@here:1", found.Actor)
	return found
}

func TestProbe(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		body    string
		change  func(p *contract.Probe)
		finding string
		detail  string
	}{
		{"happened", 200, `{"state":"captured","id":"ch_1"}`, nil, contract.Happened, ""},
		{"not found", 404, `{"error":"none"}`, nil, contract.DidNotHappen, ""},
		{"not found, no body", 404, "", nil, contract.DidNotHappen, ""},
		{"not found, says a page", 404, "<html>", nil, contract.Inconclusive, "not JSON"},
		{"another state", 200, `{"state":"pending"}`, nil, contract.Inconclusive, "neither rule"},
		{"a list", 200, `[]`, nil, contract.Inconclusive, "neither rule"},
		{"an empty answer", 200, "", nil, contract.Inconclusive, "neither rule"},
		{"both rules", 404, "{}", func(p *contract.Probe) { p.Happened = "status == 404" }, contract.Inconclusive, "contradict"},
		{"absence is never concluded", 404, "{}", func(p *contract.Probe) { p.DidNotHappen = "" }, contract.Inconclusive, "neither rule"},
		{"bad rule", 404, "{}", func(p *contract.Probe) { p.Happened = "status ==" }, contract.Inconclusive, "expression"},
		{"bad URL", 404, "{}", func(p *contract.Probe) { p.URL = "http://[::1" }, contract.Inconclusive, "URL"},
		{"missing credential", 404, "{}", func(p *contract.Probe) {
			p.Headers = []contract.Header{{Name: "Authorization", Env: "NO_SUCH_TOKEN"}}
		}, contract.Inconclusive, "NO_SUCH_TOKEN"},
		{"redirect", 302, "", anyStatus, contract.Inconclusive, "status 302"},
		{"revoked", 401, "{}", anyStatus, contract.Inconclusive, "status 401"},
		{"forbidden", 403, "{}", anyStatus, contract.Inconclusive, "status 403"},
		{"time-out", 408, "{}", anyStatus, contract.Inconclusive, "status 408"},
		{"rate limited", 429, "{}", anyStatus, contract.Inconclusive, "status 429"},
		{"broken", 500, "{}", anyStatus, contract.Inconclusive, "status 500"},
		{"away", 503, "{}", anyStatus, contract.Inconclusive, "status 503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := probeInput(provide(t, c.status, c.body, "Location", "http://elsewhere.invalid/"))
			if c.change != nil {
				c.change(&in.Probe)
			}
			found := look(t, in)
			require.Equal(t, c.finding, found.Finding, found.Detail)
			require.Contains(t, found.Detail, c.detail)
			if c.finding == contract.Happened {
				require.Equal(t, "ch_1", found.Reference)
				require.JSONEq(t, c.body, string(found.Result))
			} else {
				require.Empty(t, found.Reference)
				require.Empty(t, found.Result)
			}
		})
	}
}

// anyStatus is a declaration that takes every answer for absence.
func anyStatus(p *contract.Probe) { p.Happened, p.DidNotHappen = "", "status >= 200" }

func TestProbeWithoutAnswer(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	s := newRaw(t, func(c *net.TCPConn, _ *http.Request) { _, _ = io.Copy(io.Discard, c) })
	broken := newRaw(t, func(c *net.TCPConn, _ *http.Request) {
		_, _ = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\n{}")
	})
	for name, url := range map[string]string{
		"refused": "http://" + closed.Addr().String(), "hangs": s.url(), "breaks off": broken.url(),
	} {
		t.Run(name, func(t *testing.T) {
			in := probeInput(url + "/?key={key}")
			in.Probe.Timeout = contract.Duration(100 * time.Millisecond)
			anyStatus(&in.Probe)
			found := look(t, in)
			require.Equal(t, contract.Inconclusive, found.Finding)
			require.NotEmpty(t, found.Detail)
			require.NotContains(t, found.Detail, in.ProviderKey)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		found, err := (&Effects{Network: loopback, Log: zap.NewNop()}).Probe(ctx, probeInput(s.url()))
		require.NoError(t, err)
		require.Equal(t, contract.Inconclusive, found.Finding)
	})
}

func TestLookup(t *testing.T) {
	var got *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	defer s.Close()
	t.Setenv("PSP_TOKEN", "Bearer s3cret")
	in := probeInput(s.URL + "/of/{request_key}?key={key}&tenant={tenant}&request={request_key}")
	in.Key = "a/b &=+?#%é.."
	in.Probe.Headers = []contract.Header{{Name: "Authorization", Env: "PSP_TOKEN"}}
	look(t, in)
	require.Equal(t, http.MethodGet, got.Method)
	require.Equal(t, "/of/a%2Fb%20%26%3D%2B%3F%23%25%C3%A9..", got.URL.EscapedPath())
	require.Equal(t, map[string][]string{"key": {in.ProviderKey}, "tenant": {"acme"}, "request": {in.Key}}, map[string][]string(got.URL.Query()))
	require.Equal(t, "Bearer s3cret", got.Header.Get("Authorization"))

	in.Key = ".."
	require.Equal(t, contract.Inconclusive, look(t, in).Finding, "it would ask about something else")
}

func TestCancelProbe(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		body    string
		finding string
	}{
		{"called off", 200, `{"state":"cancelled"}`, contract.DidNotHappen},
		{"too late", 409, `{"state":"captured","id":"ch_1"}`, contract.Happened},
		{"not found says neither", 404, `{}`, contract.Inconclusive},
		{"pending", 202, `{"state":"pending"}`, contract.Inconclusive},
		{"forbidden", 403, `{"state":"cancelled"}`, contract.Inconclusive},
		{"broken", 500, `{"state":"cancelled"}`, contract.Inconclusive},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got *http.Request
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer s.Close()
			in := probeInput("http://127.0.0.1:1/not-this-one")
			in.Kind = contract.ProbeCancel
			in.Probe.Cancel = &contract.Cancel{Method: "DELETE", URL: s.URL + "/charges/{key}", Reference: "body.id",
				Happened: "status == 409", DidNotHappen: "body.state == 'cancelled'"}
			found, err := (&Effects{Network: loopback, Log: zap.NewNop()}).Probe(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, contract.EvidenceCancel, found.Kind)
			require.Equal(t, c.finding, found.Finding, found.Detail)
			require.Equal(t, "DELETE", got.Method)
			require.Equal(t, "/charges/"+in.ProviderKey, got.URL.Path)
		})
	}
	for kind, change := range map[string]func(p *contract.Probe){
		contract.ProbeCancel: func(*contract.Probe) {}, contract.ProbeLookup: func(p *contract.Probe) { p.URL = "" }, "other": func(*contract.Probe) {},
	} {
		in := probeInput("http://127.0.0.1:1/")
		in.Kind = kind
		change(&in.Probe)
		found, err := (&Effects{Network: loopback, Log: zap.NewNop()}).Probe(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, contract.Inconclusive, found.Finding)
		require.Contains(t, found.Detail, "declares no probe")
	}
}
