package activities

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

func TestAddresses(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
		"100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "fe80::1%eth0", "fd00::1",
		"fec0::1", "ff02::1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::", "2001:db8::1"} {
		require.False(t, Network{}.Allows(netip.MustParseAddr(a)), a)
	}
	for _, a := range []string{"1.1.1.1", "172.32.0.1", "11.0.0.1", "::ffff:1.1.1.1", "2606:4700::1111", "192.167.255.255"} {
		require.True(t, Network{}.Allows(netip.MustParseAddr(a)), a)
	}
	some := Network{Private: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}}
	require.True(t, some.Allows(netip.MustParseAddr("10.1.2.3")))
	require.True(t, some.Allows(netip.MustParseAddr("::ffff:10.1.2.3")), "the same address")
	require.True(t, some.Allows(netip.MustParseAddr("fd12::1")))
	require.False(t, some.Allows(netip.MustParseAddr("10.2.0.1")))
	require.False(t, some.Allows(netip.MustParseAddr("127.0.0.1")), "what is not there is not allowed")
	require.False(t, some.Allows(netip.Addr{}))
}

// A name that leads to a private address is refused when the connection is made,
// after every look-up of the name: the second answer of a name that rebinds is
// checked like the first.
func TestPrivateAddressIsRefused(t *testing.T) {
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	for _, url := range []string{s.URL, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port} {
		_, err := new(HTTP).Prepare(t.Context(), charge(url))
		var refusal *Refusal
		require.ErrorAs(t, err, &refusal, url)
		require.Equal(t, admission.Failed, refusal.Class, "a policy does not change by trying again")
		require.Equal(t, "address_refused", refusal.Reason)
	}
	require.Zero(t, requests.Load())
	require.Equal(t, admission.Succeeded, send(t, local(), charge(s.URL), openGuard(), testTimeout).Class)
	require.EqualValues(t, 1, requests.Load())
}

// A name that gives a public address to who looks first, and a private one to who
// connects then, is checked by the address that is dialled.
func TestRebinding(t *testing.T) {
	server := newRaw(t, func(*net.TCPConn, *http.Request) {})
	_, port, err := net.SplitHostPort(server.Addr().String())
	require.NoError(t, err)
	names := &rebinding{answers: [][4]byte{{1, 1, 1, 1}, {127, 0, 0, 1}}}
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: names.dial}
	t.Cleanup(func() { net.DefaultResolver = before })

	first, err := net.DefaultResolver.LookupNetIP(t.Context(), "ip4", "rebind.example.")
	require.NoError(t, err)
	require.True(t, Network{}.Allows(first[0]), "a look before would have let it through")
	_, err = new(HTTP).Prepare(t.Context(), charge("http://rebind.example.:"+port))
	var refusal *Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "address_refused", refusal.Reason)
	require.Zero(t, server.conns.Load())

	require.Equal(t, admission.Unknown, send(t, local(), charge("http://rebind.example.:"+port), openGuard(), testTimeout).Class)
	require.EqualValues(t, 1, server.conns.Load(), "the name leads there, if that is allowed")
}

// rebinding is a name server: each answer once, and the last one for ever.
type rebinding struct {
	mu      sync.Mutex
	answers [][4]byte
}

func (r *rebinding) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer func() { _ = theirs.Close() }()
		head := make([]byte, 2) // a pipe is a stream, so messages have their length before them
		if _, err := io.ReadFull(theirs, head); err != nil {
			return
		}
		query := make([]byte, int(head[0])<<8|int(head[1]))
		if _, err := io.ReadFull(theirs, query); err != nil {
			return
		}
		reply := r.reply(query)
		_, _ = theirs.Write(append([]byte{byte(len(reply) >> 8), byte(len(reply))}, reply...))
	}()
	return ours, nil
}

func (r *rebinding) reply(query []byte) []byte {
	end := 12 + bytes.IndexByte(query[12:], 0) + 5 // of the one question
	out := slices.Clone(query[:end])
	copy(out[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	if query[end-3] != 1 { // not an A record: there is none
		return out
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ip := r.answers[0]
	if len(r.answers) > 1 {
		r.answers = r.answers[1:]
	}
	out[7] = 1
	return append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ip[0], ip[1], ip[2], ip[3])
}

func TestProbesAreHeldToTheNetwork(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }))
	defer s.Close()
	e := &Effects{Log: nopLog()}
	found, err := e.Probe(t.Context(), probeInput(s.URL))
	require.NoError(t, err)
	require.Equal(t, contract.Inconclusive, found.Finding, "what could not be asked proves nothing")
	require.Contains(t, found.Detail, "address_refused")
}

func TestRedirects(t *testing.T) {
	var seen []string
	var other *httptest.Server
	mux := http.NewServeMux()
	note := func(r *http.Request) {
		seen = append(seen, r.Host+r.URL.String()+" "+r.Header.Get("X-Secret"))
	}
	mux.HandleFunc("/a", func(w http.ResponseWriter, r *http.Request) { note(r); http.Redirect(w, r, "/b", http.StatusFound) })
	mux.HandleFunc("/b", func(w http.ResponseWriter, r *http.Request) {
		note(r)
		http.Redirect(w, r, other.URL+"/c", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/c", func(w http.ResponseWriter, r *http.Request) { note(r); _, _ = w.Write([]byte(`{"id":"p_1"}`)) })
	mux.HandleFunc("/private", func(w http.ResponseWriter, r *http.Request) {
		note(r)
		http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusFound)
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		note(r)
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(302)
	})
	one := httptest.NewServer(mux)
	defer one.Close()
	other = httptest.NewServer(mux)
	defer other.Close()
	read := func(path string, most int) contract.Outcome {
		seen = nil
		return send(t, local(), charge(one.URL+path, func(r *contract.HTTPRequest) {
			r.Method, r.Redirects, r.Headers = "GET", most, []contract.Header{{Name: "X-Secret", Value: "s"}}
		}), openGuard(), testTimeout)
	}
	o := read("/a", 0)
	require.Equal(t, admission.Unknown, o.Class, "off by default")
	require.Len(t, seen, 1)
	o = read("/a", 1)
	require.Equal(t, 307, o.Status)
	require.Len(t, seen, 2)
	o = read("/a", 2)
	require.Equal(t, admission.Succeeded, o.Class)
	require.Equal(t, "p_1", o.Reference)
	require.Equal(t, []string{strings.TrimPrefix(one.URL, "http://") + "/a s", strings.TrimPrefix(one.URL, "http://") + "/b s", strings.TrimPrefix(other.URL, "http://") + "/c "}, seen,
		"the credential stays with its origin")
	for path, detail := range map[string]string{"/private": "address_refused", "/file": "no http or https URL"} {
		o = read(path, 5)
		require.Equal(t, admission.Unknown, o.Class)
		require.Equal(t, "redirect_refused", o.Reason)
		require.Contains(t, o.Detail, detail)
		require.Len(t, seen, 1)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"id":"` + strings.Repeat("x", 100) + `"}`))
	}))
	defer s.Close()
	o := send(t, local(), charge(s.URL, func(r *contract.HTTPRequest) { r.MaxResponse = 100 }), openGuard(), testTimeout)
	require.Equal(t, admission.Succeeded, o.Class, "the rule asks for the status only")
	require.Empty(t, o.Result)
	require.Equal(t, "the answer is longer than 100 bytes and was not kept", o.Detail)
	o = send(t, local(), charge(s.URL, func(r *contract.HTTPRequest) { r.MaxResponse = 109 }), openGuard(), testTimeout)
	require.NotEmpty(t, o.Result)
}

// Only a dialer of its own is not held to a network: that of tests.
func TestOwnDial(t *testing.T) {
	h := &HTTP{Dial: func(ctx context.Context, network, address string) (net.Conn, error) { return nil, net.ErrClosed }}
	_, err := h.Prepare(t.Context(), charge("http://127.0.0.1/"))
	var refusal *Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "connection_failed", refusal.Reason)
}
