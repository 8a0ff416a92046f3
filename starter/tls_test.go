package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"headgate/workers"

	"headgate/starter/gateway"
)

// authority signs certificates of a test.
type authority struct {
	t      *testing.T
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{t: t, folder: t.TempDir()}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	text, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.write("ca.pem", "CERTIFICATE", text)
	return a
}

func (a *authority) write(name, kind string, text []byte) string {
	path := filepath.Join(a.folder, name)
	require.NoError(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}), 0o600))
	return path
}

// sign writes a certificate for 127.0.0.1 and its key, each time another one.
func (a *authority) sign(name string) (cert, key string) {
	a.serial++
	pair, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	text, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(100 + a.serial), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, &pair.PublicKey, a.key)
	require.NoError(a.t, err)
	secret, err := x509.MarshalECPrivateKey(pair)
	require.NoError(a.t, err)
	return a.write(name+".pem", "CERTIFICATE", text), a.write(name+".key", "EC PRIVATE KEY", secret)
}

func (a *authority) ca() string { return filepath.Join(a.folder, "ca.pem") }

// The command reaches a gateway that wants certificates of its clients, with the
// right one only.
func TestGatewayWithTLS(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	cert, key := ours.sign("server")
	secure, err := serverTLS(tlsFiles{cert: cert, key: key, ca: ours.ca()})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	g := gateway.New(gateway.Options{})
	go func() { done <- gateway.Serve(ctx, secured(listener, secure), g.Handler(), zap.NewNop()) }()
	defer func() { stop(); require.NoError(t, <-done) }()

	address := listener.Addr().String()
	clientCert, clientKey := ours.sign("client")
	strange, strangeKey := others.sign("stranger")
	ask := func(url string, f tlsFiles) error {
		d := &door{gateway: url, tls: f}
		var health struct{ Status string }
		err := d.get(t.Context(), "/healthz", nil, &health)
		if err == nil {
			assert.Equal(t, "ok", health.Status)
		}
		return err
	}
	require.NoError(t, ask("https://"+address, tlsFiles{ca: ours.ca(), cert: clientCert, key: clientKey}))
	assert.ErrorContains(t, ask("https://"+address, tlsFiles{ca: ours.ca()}), "certificate required")
	assert.Error(t, ask("https://"+address, tlsFiles{ca: ours.ca(), cert: strange, key: strangeKey}))
	assert.ErrorContains(t, ask("https://"+address, tlsFiles{ca: others.ca(), cert: clientCert, key: clientKey}), "unknown authority")
	assert.ErrorContains(t, ask("https://"+address, tlsFiles{cert: clientCert, key: clientKey}), "unknown authority")
	assert.ErrorContains(t, ask("https://"+address, tlsFiles{ca: ours.ca(), cert: clientCert, key: clientKey, name: "gateway.example"}), "gateway.example")
	assert.Error(t, ask("http://"+address, tlsFiles{}))

	for name, version := range map[string]uint16{"1.1": tls.VersionTLS11, "1.2": tls.VersionTLS12} {
		c, err := clientTLS("--gateway-tls", tlsFiles{ca: ours.ca(), cert: clientCert, key: clientKey})
		require.NoError(t, err)
		c.MinVersion, c.MaxVersion = tls.VersionTLS10, version
		answer, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: c}}).Get("https://" + address + "/healthz")
		if version < tls.VersionTLS12 {
			assert.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		_ = answer.Body.Close()
		assert.NotEmpty(t, answer.Header.Get("Strict-Transport-Security"))
	}
}

// A certificate is exchanged without a restart, and half an exchange does no harm.
func TestIdentityIsReadAnew(t *testing.T) {
	a := newAuthority(t, "ours")
	cert, key := a.sign("server")
	i, err := openIdentity("--tls", cert, key)
	require.NoError(t, err)
	first := i.now().Leaf.SerialNumber
	look := func() *big.Int {
		i.looked = time.Time{}
		return i.now().Leaf.SerialNumber
	}
	old, err := os.ReadFile(key)
	require.NoError(t, err)
	a.sign("server")
	fresh, err := os.ReadFile(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(key, old, 0o600))
	assert.Equal(t, first, look(), "the key is not that of the certificate")
	require.NoError(t, os.WriteFile(key, fresh, 0o600))
	assert.NotEqual(t, first, look())
	require.NoError(t, os.Remove(cert))
	assert.NotEqual(t, first, look())
}

func TestTLSFilesRefused(t *testing.T) {
	a := newAuthority(t, "ours")
	cert, key := a.sign("server")
	absent, other := filepath.Join(a.folder, "absent"), key
	for want, f := range map[string]tlsFiles{
		"--tls-cert and --tls-key go together":         {cert: cert},
		"--tls-cert: open " + absent:                   {cert: absent, key: key},
		"--tls-cert: " + cert + " and " + cert:         {cert: cert, key: cert},
		"--tls-client-ca: open " + absent:              {cert: cert, key: key, ca: absent},
		"--tls-client-ca: " + other + " holds no cert": {cert: cert, key: key, ca: other},
	} {
		_, err := serverTLS(f)
		assert.ErrorContains(t, err, want)
	}
	_, err := serverTLS(tlsFiles{ca: a.ca()})
	assert.ErrorContains(t, err, "go together", "without a certificate there is no TLS to ask for another's")
	for _, args := range [][]string{{"gateway", "-f", "../headgate.yaml", "--tls-cert", absent, "--tls-key", absent},
		{"gateway", "-f", "../headgate.yaml", "--api-keys", absent}, {"gateway", "-f", "../headgate.yaml", "--client-rate", "-1"},
		{"status", "acme", "k", "--gateway-tls-ca", absent}, {"worker", "--role", "http", "-f", "../headgate.yaml", "--temporal-tls-ca", absent}} {
		assert.Equal(t, exitUsage, command("", args...).status, args)
	}
}

// Temporal is asked over TLS, with our certificate.
func TestTemporalTLS(t *testing.T) {
	a := newAuthority(t, "ours")
	cert, key := a.sign("temporal")
	secure, err := serverTLS(tlsFiles{cert: cert, key: key, ca: a.ca()})
	require.NoError(t, err)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener := secured(plain, secure)
	defer func() { _ = listener.Close() }()
	seen := make(chan string, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		if c.(*tls.Conn).HandshakeContext(t.Context()) == nil {
			seen <- c.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
		}
	}()
	mine, mineKey := a.sign("worker-7")
	p := process{address: plain.Addr().String(), tls: tlsFiles{ca: a.ca(), cert: mine, key: mineKey}}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	connected := make(chan error, 1)
	go func() {
		_, err := p.connect(ctx, &watch{metrics: workers.NewMetrics(zap.NewNop())}, zap.NewNop())
		connected <- err
	}()
	select {
	case name := <-seen:
		assert.Equal(t, "worker-7", name)
	case <-ctx.Done():
		t.Error("no connection came with a certificate")
	}
	_ = listener.Close()
	cancel()
	assert.Error(t, <-connected, "what answers is no Temporal")
}
