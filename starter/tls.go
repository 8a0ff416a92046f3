package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// tlsFiles are the files of one side of a TLS connection. The zero value is none.
type tlsFiles struct {
	cert, key string // PEM; of this side
	ca        string // PEM; what the other side must be signed by
	name      string // that the server must have, if not the one of its address
}

func (f tlsFiles) none() bool { return f == tlsFiles{} }

// authorities reads a file of CA certificates.
func authorities(flag, file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, withStatus(exitUsage, "%s: %w", flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, withStatus(exitUsage, "%s: %s holds no certificate in PEM", flag, file)
	}
	return pool, nil
}

// identity is a certificate and its key, read again when the files change.
type identity struct {
	certFile, keyFile string
	mu                sync.Mutex
	looked            time.Time
	text              []byte // of both files
	pair              *tls.Certificate
}

// identityLook is the least time between two looks at the files.
const identityLook = time.Second

// openIdentity reads a pair; prefix is that of the flags, for errors.
func openIdentity(prefix, certFile, keyFile string) (*identity, error) {
	if certFile == "" || keyFile == "" {
		return nil, withStatus(exitUsage, "%[1]s-cert and %[1]s-key go together", prefix)
	}
	i := &identity{certFile: certFile, keyFile: keyFile}
	if err := i.read(); err != nil {
		return nil, withStatus(exitUsage, "%s-cert: %w", prefix, err)
	}
	return i, nil
}

func (i *identity) read() error {
	i.looked = time.Now()
	cert, err := os.ReadFile(i.certFile)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(i.keyFile)
	if err != nil {
		return err
	}
	text := bytes.Join([][]byte{cert, key}, []byte{0})
	if bytes.Equal(text, i.text) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", i.certFile, i.keyFile, err)
	}
	i.text, i.pair = text, &pair
	return nil
}

// now is the pair as the files have it. One that cannot be read, as in the middle
// of an exchange, leaves the last good one.
func (i *identity) now() *tls.Certificate {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.looked) >= identityLook {
		_ = i.read() // the next connection looks again
	}
	return i.pair
}

// serverTLS is how a server is reached; nil: without TLS. With a CA it wants a
// certificate of every client.
func serverTLS(f tlsFiles) (*tls.Config, error) {
	if f.none() {
		return nil, nil
	}
	own, err := openIdentity("--tls", f.cert, f.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own.now(), nil }}
	if f.ca != "" {
		if c.ClientCAs, err = authorities("--tls-client-ca", f.ca); err != nil {
			return nil, err
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// clientTLS is how a server is reached that wants TLS; prefix is that of the flags.
func clientTLS(prefix string, f tlsFiles) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.name}
	var err error
	if f.ca != "" {
		if c.RootCAs, err = authorities(prefix+"-ca", f.ca); err != nil {
			return nil, err
		}
	}
	if f.cert != "" || f.key != "" {
		own, err := openIdentity(prefix, f.cert, f.key)
		if err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own.now(), nil }
	}
	return c, nil
}

// clientFlags adds the flags of a client's side under a prefix such as "temporal-tls".
func (f *tlsFiles) clientFlags(c *cobra.Command, prefix, of string) {
	c.Flags().StringVar(&f.ca, prefix+"-ca", "", "`FILE` of the CA that "+of+" is signed by, in PEM (default: the system's)")
	c.Flags().StringVar(&f.cert, prefix+"-cert", "", "`FILE` of the certificate to show to "+of)
	c.Flags().StringVar(&f.key, prefix+"-key", "", "`FILE` of its key")
	c.Flags().StringVar(&f.name, prefix+"-server-name", "", "the name in the certificate of "+of+", if it is not the one of its address")
}

// secured wraps a listener; a nil config leaves it as it is.
func secured(l net.Listener, c *tls.Config) net.Listener {
	if c == nil {
		return l
	}
	return tls.NewListener(l, c)
}
