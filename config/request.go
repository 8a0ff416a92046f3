package config

import (
	"fmt"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"headgate/contract"
)

var (
	methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

	// placeholders of a look-up's URL.
	placeholders = []string{"key", "tenant", "request_key"}

	// The transport sets these.
	ownHeaders = []string{"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

	// These hold credentials, and declarations are stored in histories.
	secretHeaders = []string{"Api-Key", "Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key", "X-Auth-Token"}

	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$") // a token of RFC 9110
	envName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	placeholder = regexp.MustCompile(`\{([^{}]*)\}`)
)

func readRequest(s *section) *contract.HTTPRequest {
	out := &contract.HTTPRequest{}
	if _, ok := s.need("method", "POST"); ok {
		out.Method = s.oneOf("method", "", methods...)
	}
	if f, ok := s.need("url", "\"https://...\""); ok {
		out.URL = s.url(f, nil)
	}
	if f, ok := s.field("idempotency_header"); ok {
		if out.IdempotencyHeader = s.textOf(f); out.IdempotencyHeader != "" {
			s.headerName(f.value.place, f.name, out.IdempotencyHeader)
		}
	}
	out.Headers = s.headers(out.IdempotencyHeader)
	out.Success = s.rule("success")
	out.Harmless = s.rule("harmless")
	out.Reference = s.reference("reference")
	s.readBody(out)
	out.Redirects = int(s.whole("redirects", 0, 0, maxRedirects))
	out.MaxResponse = int(s.whole("max_response", 0, 1, maxResponse))
	if w := s.child("webhook"); w != nil {
		out.Webhook = w.secret()
		w.done()
	}
	s.done()
	return out
}

func (s *section) rule(name string) string      { return s.expression(name, rules) }
func (s *section) reference(name string) string { return s.expression(name, texts) }

// expression is a field with an expression; empty: it is not there, or no text.
func (s *section) expression(name string, l *language) string {
	f, ok := s.field(name)
	if !ok {
		return ""
	}
	return s.expressionOf(f, l)
}

func (s *section) expressionOf(f field, l *language) string {
	t := s.textOf(f)
	if t == "" {
		return ""
	}
	if _, err := l.compile(t); err != nil {
		s.errorAt(f, "%v", err)
	}
	return t
}

// url is a field with an absolute URL; with places, one that names the effect.
func (s *section) url(f field, places []string) string {
	t := s.textOf(f)
	if t == "" {
		return ""
	}
	if err := checkURL(t, places); err != nil {
		s.errorAt(f, "%v", err)
	}
	return t
}

func checkURL(t string, places []string) error {
	named := false
	for _, m := range placeholder.FindAllStringSubmatch(t, -1) {
		switch {
		case places == nil:
			return fmt.Errorf("{%s} would be sent as it stands: this URL has no placeholders; remove it", m[1])
		case !slices.Contains(places, m[1]):
			return fmt.Errorf("{%s} is no placeholder: write {%s}", m[1], strings.Join(places, "}, {"))
		}
		named = named || m[1] != "tenant"
	}
	plain := placeholder.ReplaceAllString(t, "x")
	if strings.ContainsAny(plain, "{}") {
		return fmt.Errorf("%q has a brace without its partner: write {key}, or %%7B for a brace", t)
	}
	if strings.ContainsFunc(plain, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("%q holds a space or a control character: write %%20 for a space", t)
	}
	u, err := url.Parse(plain)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q is not an absolute URL: write http://host/path or https://host/path", t)
	case u.User != nil:
		return fmt.Errorf("a credential in a URL ends up in histories: send it as a header with {env: NAME}")
	case strings.Contains(plain, "#"):
		return fmt.Errorf("%q has a fragment, which is never sent: remove it, or write %%23", t)
	}
	scheme, rest, _ := strings.Cut(t, "://")
	host, _, _ := strings.Cut(strings.ReplaceAll(rest, "?", "/"), "/")
	switch {
	case strings.Contains(scheme+host, "{"):
		return fmt.Errorf("a placeholder in the host could send the request anywhere: use it in the path or the query")
	case places != nil && !named:
		return fmt.Errorf("%q asks for no effect in particular: write {key} or {request_key} where the provider expects it", t)
	}
	return nil
}

// headers are fixed headers, sorted by name: text, or {env: NAME}.
func (s *section) headers(idempotency string) []contract.Header {
	h := s.child("headers")
	if h == nil || h.n == nil {
		return nil
	}
	var out []contract.Header
	for _, f := range h.n.fields {
		h.headerName(f.place, "", f.name)
		name := textproto.CanonicalMIMEHeaderKey(f.name)
		if name == textproto.CanonicalMIMEHeaderKey(idempotency) {
			h.add(f.place, h.path, "%s is the idempotency_header, whose value is the task's own: remove one", f.name)
		}
		if slices.ContainsFunc(out, func(o contract.Header) bool { return o.Name == name }) {
			h.add(f.place, h.path, "%s is there twice: header names know no case; remove one", f.name)
			continue
		}
		out = append(out, h.header(f, name))
	}
	slices.SortFunc(out, func(a, b contract.Header) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (s *section) header(f field, name string) contract.Header {
	out := contract.Header{Name: name}
	if f.value.kind != mapping {
		out.Value = s.textOf(f)
		if out.Value != "" && slices.Contains(secretHeaders, name) {
			s.errorAt(f, "a credential in the file ends up in histories: write {env: NAME}, and set NAME for the workers")
		}
		if strings.ContainsFunc(out.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			s.errorAt(f, "the value holds a line break or a control character: remove it")
		}
		return out
	}
	v := s.childOf(f)
	if secret := v.secret(); secret != nil {
		out.Env, out.File = secret.Env, secret.File
	}
	if p, ok := v.field("prefix"); ok {
		if p.value.kind != text {
			v.wrong(p.value, join(v.path, "prefix"), text, "prefix: \"Bearer \"")
		} else if out.Prefix = p.value.text; strings.ContainsFunc(out.Prefix, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			v.errorAt(p, "the prefix holds a control character: remove it")
		}
	}
	v.done()
	return out
}

// headerName checks a header's name, written at a place as a field's name or
// as the value of one.
func (s *section) headerName(at place, name, header string) {
	path := s.path
	if name != "" {
		path = join(path, name)
	}
	switch {
	case !headerName.MatchString(header):
		s.add(at, path, "%q is not a header name: write letters, digits and -", header)
	case slices.Contains(ownHeaders, textproto.CanonicalMIMEHeaderKey(header)):
		s.add(at, path, "%s belongs to the transport: remove it", header)
	}
}
