package activities

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"headgate/admission"
	"headgate/contract"
)

// Network says which addresses effects and probes may reach. The zero value is
// every public one. The address is checked when the connection is made, after
// the name was resolved: a name that gives another address the second time, as
// in DNS rebinding, is checked by that one.
type Network struct {
	// Private are the special addresses that may be reached all the same: those
	// of private and local networks, of cloud metadata, multicast and the like.
	Private []netip.Prefix
}

// special are the ranges that are not the public internet's, after IANA's
// registries of special-purpose addresses. What carries an IPv4 address inside
// (6to4, Teredo, translation) is refused as a whole.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"), netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("3fff::/20"), netip.MustParsePrefix("5f00::/16"),
	netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("ff00::/8"),
}

// Allows tells whether an address may be reached. An IPv4 address that is
// written as an IPv6 one counts as itself.
func (n Network) Allows(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	return a.IsValid() && (!slices.ContainsFunc(special, in) || slices.ContainsFunc(n.Private, in))
}

// control runs between the resolution of a name and the connection.
func (n Network) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !n.Allows(to.Addr()) {
		return errAddress
	}
	return nil
}

func (n Network) dialer() *net.Dialer { return &net.Dialer{Control: n.control} }

// Dial connects to an address, unless it may not be reached.
func (n Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return n.dialer().DialContext(ctx, network, address)
}

// unreached is the outcome of an attempt whose provider could not be reached: a
// policy refused it for good, or a retry may help.
func unreached(err error) error {
	if errors.Is(err, errAddress) {
		return &Refusal{Class: admission.Failed, Reason: errAddress.Error(),
			Detail: "the provider's address is private or special, and network.private does not allow it"}
	}
	class, reason := admission.Classify(admission.Answer{})
	return &Refusal{Class: class, Reason: reason, Detail: brief(err.Error())}
}

// lookups is a client of probes. Look-ups only read, and cancels may be sent
// twice, so they share connections and may be repeated by the transport.
// Redirects are not followed: what another address says is not the provider's word.
func (n Network) lookups(secure *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            n.dialer().DialContext,
			TLSClientConfig:        secure,
			MaxIdleConnsPerHost:    4,
			IdleConnTimeout:        30 * time.Second,
			TLSHandshakeTimeout:    connectFor,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tlsFor reads what an operation says about TLS; base is what holds without it.
// A file that is missing may be there on another worker, so no failure is final.
func tlsFor(base *tls.Config, spec *contract.TLS) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if base != nil {
		c = base.Clone()
	}
	if spec == nil {
		return c, nil
	}
	if spec.MinVersion == contract.TLS13 {
		c.MinVersion = tls.VersionTLS13
	}
	if spec.CAFile != "" {
		text, err := os.ReadFile(spec.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no certificate in PEM", spec.CAFile)
		}
	}
	if spec.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(spec.CertFile, spec.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
