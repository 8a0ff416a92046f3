package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

func TestRequestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, method, address string
		want                     bool
	}{
		{"http://a.example/**", "GET", "http://a.example/", true},
		{"http://a.example/**", "HEAD", "http://a.example/x/y?z=1#f", true},
		{"http://a.example/**", "POST", "http://a.example/x", false},
		{"http://a.example/**", "GET", "https://a.example/x", false},
		{"http://a.example/**", "GET", "http://a.example@evil.example/x", false},
		{"http://a.example/**", "GET", "http://a.example.evil.example/x", false},
		{"http://a.example/**", "GET", "http://a.example:81/x", false},
		{"http://A.example:80/**", "GET", "http://a.example/x", true},
		{"https://a.example:443/", "GET", "https://a.example/", true},
		{"POST http://a.example/orders", "POST", "http://a.example/orders", true},
		{"POST http://a.example/orders", "POST", "http://a.example/orders?x", false},
		{"POST http://a.example/orders", "GET", "http://a.example/orders", false},
		{"POST http://a.example/orders", "post", "http://a.example/orders", false},
		{"http://a.example/*/edit", "GET", "http://a.example/7/edit", true},
		{"http://a.example/*/edit", "GET", "http://a.example/7/8/edit", false},
		{"http://a.example/*/edit", "GET", "http://a.example/7?/edit", false},
		{"http://a.example/*", "GET", "http://a.example/x?y", false},
		{"http://a.example/**/edit*", "GET", "http://a.example/7/8/edit.js", true},
		{"http://a.example/**/edit*", "GET", "http://a.example/7/edit/8/editor", true},
		{"http://a.example/**/edit*", "GET", "http://a.example/7/edit/8", false},
		{"http://a.example/*a*b", "GET", "http://a.example/xaayab", true},
	} {
		p, err := contract.ParseRequestPattern(c.pattern)
		require.NoError(t, err, c.pattern)
		require.Equal(t, c.want, p.Match(c.method, c.address), "%s on %s %s", c.pattern, c.method, c.address)
	}
	require.False(t, contract.RequestPattern("").Match("GET", ""), "the zero value means nothing")
	for _, bad := range []string{"", "/x", "a.example/x", "ftp://a.example/", "http://a.example", "http://*.example/", "http://*/", "BREW http://a.example/",
		"http://me@a.example/", "http://a.example/#x", "http://a.example/{x}", "http://a.example/a b"} {
		_, err := contract.ParseRequestPattern(bad)
		require.Error(t, err, bad)
	}
}

func TestRequestPatternHost(t *testing.T) {
	for text, want := range map[string]string{
		"http://a.example/**":           "a.example:80",
		"POST https://a.example/x?y=*":  "a.example:443",
		"https://a.example:8443/":       "a.example:8443",
		"POST http://[::1]:70/x":        "[::1]:70",
		"http://[2001:db8::1]/bookings": "[2001:db8::1]:80",
	} {
		p, err := contract.ParseRequestPattern(text)
		require.NoError(t, err)
		require.Equal(t, want, p.Host())
	}
	require.Empty(t, contract.RequestPattern("").Host())
}
