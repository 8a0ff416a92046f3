package activities

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"headgate/activities/conformance/server"
	"headgate/admission"
	"headgate/contract"
)

var loopbackIPs = []net.IP{net.IPv4(127, 0, 0, 1)}

func nopLog() *zap.Logger { return zap.NewNop() }

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A secret reaches the provider, and nothing else: not the outcome, not a beat,
// not the log, whatever goes wrong.
func TestSecretsOfHeaders(t *testing.T) {
	const hidden = "tok-4711"
	var got http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer s.Close()
	t.Setenv("HEADGATE_TEST_TOKEN", hidden)
	file := write(t, "token", hidden+"\n")
	with := func(h contract.Header) contract.EffectInput {
		return charge(s.URL, func(r *contract.HTTPRequest) { h.Name = "Authorization"; r.Headers = []contract.Header{h} })
	}
	o := send(t, local(), with(contract.Header{Env: "HEADGATE_TEST_TOKEN"}), openGuard(), testTimeout)
	require.Equal(t, admission.Succeeded, o.Class)
	require.Equal(t, hidden, got.Get("Authorization"))
	send(t, local(), with(contract.Header{File: file, Prefix: "Bearer "}), openGuard(), testTimeout)
	require.Equal(t, "Bearer "+hidden, got.Get("Authorization"), "without the line's end")

	require.NoError(t, os.WriteFile(file, []byte(hidden+"2"), 0o600))
	send(t, local(), with(contract.Header{File: file}), openGuard(), testTimeout)
	require.Equal(t, hidden+"2", got.Get("Authorization"), "read for each attempt")

	core, logs := observer.New(zapcore.DebugLevel)
	for name, path := range map[string]string{"not there": "/nowhere/token", "empty": write(t, "empty", " \n"),
		"too long": write(t, "long", strings.Repeat(hidden, 4000)), "two lines": write(t, "lines", hidden+"\nsecond")} {
		e := &Effects{Client: &server.Server{}, Types: map[string]Type{HTTPType: local()}, Log: zap.New(core)}
		o, err := e.attempt(with(contract.Header{File: path}), []byte("token"), testHeartbeat, time.Now().Add(time.Hour)).run(t.Context(), nil)
		require.NoError(t, err, name)
		require.Equal(t, admission.NotDispatched, o.Class, "another worker may have it")
		require.NotContains(t, fmt.Sprint(o), hidden, name)
	}
	require.NotZero(t, logs.Len())
	for _, line := range logs.All() {
		require.NotContains(t, fmt.Sprint(line.Message, line.ContextMap()), hidden)
	}
}

func TestWebhooks(t *testing.T) {
	const secret, next = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	var bodies []string
	var headers []http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies, headers = append(bodies, string(body)), append(headers, r.Header)
	}))
	defer s.Close()
	t.Setenv("HEADGATE_TEST_HOOK", secret+" "+next)
	in := charge(s.URL, func(r *contract.HTTPRequest) {
		r.Webhook, r.Body = &contract.Secret{Env: "HEADGATE_TEST_HOOK"}, `{"type": "paid", "amount": ${payload.amount}}`
	})
	for range 2 {
		require.Equal(t, admission.Succeeded, send(t, local(), in, openGuard(), testTimeout).Class)
	}
	for i := range bodies {
		require.Equal(t, `{"type":"paid","amount":1200}`, bodies[i])
		require.Equal(t, in.ProviderKey, headers[i].Get("webhook-id"), "the same in each attempt")
		for _, one := range []string{secret, next} {
			hook, err := webhooks.NewWebhook(one)
			require.NoError(t, err)
			require.NoError(t, hook.Verify([]byte(bodies[i]), headers[i]), "each secret that is valid now")
		}
		hook, err := webhooks.NewWebhook("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
		require.NoError(t, err)
		require.Error(t, hook.Verify([]byte(bodies[i]), headers[i]))
	}

	t.Setenv("HEADGATE_TEST_HOOK", "whsec_!notbase64")
	_, err := local().Prepare(t.Context(), in)
	require.ErrorContains(t, err, "webhook: ")
	require.NotContains(t, err.Error(), "notbase64")
}

// A provider that wants a certificate, and one of an authority of its own.
func TestTLSSettings(t *testing.T) {
	ca, key, caPEM := authority(t)
	certPEM, keyPEM := issued(t, ca, key)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	require.NoError(t, err)
	start := func(c *tls.Config) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(r.TLS.PeerCertificates) > 0 {
				_, _ = io.WriteString(w, `{"id":"with a certificate"}`)
			}
		}))
		c.Certificates = []tls.Certificate{pair}
		s.TLS, s.Config.ErrorLog = c, quietTLS(nil).Config.ErrorLog
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	mutual := start(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MaxVersion: tls.VersionTLS12})
	caFile, certFile, keyFile := write(t, "ca.pem", caPEM), write(t, "c.pem", certPEM), write(t, "k.pem", keyPEM)
	try := func(settings *contract.TLS) (contract.Outcome, error) {
		prepared, err := local().Prepare(t.Context(), charge(mutual.URL, func(r *contract.HTTPRequest) { r.TLS = settings }))
		if err != nil {
			return contract.Outcome{}, err
		}
		defer func() { require.NoError(t, prepared.(io.Closer).Close()) }()
		return prepared.Effect(t.Context(), openGuard()), nil
	}
	o, err := try(&contract.TLS{CAFile: caFile, CertFile: certFile, KeyFile: keyFile})
	require.NoError(t, err)
	require.Equal(t, "with a certificate", o.Reference)
	for name, settings := range map[string]*contract.TLS{
		"authority unknown":  {CertFile: certFile, KeyFile: keyFile},
		"version too old":    {CAFile: caFile, CertFile: certFile, KeyFile: keyFile, MinVersion: contract.TLS13},
		"no certificate":     {CAFile: caFile},
		"file not there":     {CAFile: "/nowhere/ca.pem"},
		"not PEM":            {CAFile: write(t, "text", "hello")},
		"key of another one": {CAFile: caFile, CertFile: certFile, KeyFile: caFile},
	} {
		o, err := try(settings)
		if err == nil {
			require.NotEqual(t, admission.Succeeded, o.Class, name)
		}
	}
	// Look-ups go by the same settings.
	in := probeInput(mutual.URL)
	in.Probe.TLS = &contract.TLS{CAFile: caFile, CertFile: certFile, KeyFile: keyFile}
	found, err := (&Effects{Network: loopback, Log: nopLog()}).Probe(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, 200, found.Status, found.Detail)
	in.Probe.TLS = nil
	found, err = (&Effects{Network: loopback, Log: nopLog()}).Probe(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.Inconclusive, found.Finding)
}

func authority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	ca, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return ca, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// issued is a certificate for this machine, as server and as client.
func issued(t *testing.T, ca *x509.Certificate, by *ecdsa.PrivateKey) (cert, key string) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: loopbackIPs, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, own.Public(), by)
	require.NoError(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(own)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}
