package config

import (
	"net/netip"
	"slices"
	"strings"

	"headgate/contract"
)

// Network says where workers may connect to.
type Network struct {
	// Private are the private, local and otherwise special addresses that effects
	// and probes may reach all the same. Empty: none of them.
	Private []netip.Prefix `json:"private,omitempty"`
}

func readNetwork(s *section) Network {
	var out Network
	if s == nil {
		return out
	}
	defer s.done()
	f, ok := s.field("private")
	if !ok {
		return out
	}
	for _, word := range s.words(f) {
		p, err := netip.ParsePrefix(word)
		switch {
		case err != nil:
			s.errorAt(f, "%q is no address range: write one as 10.1.0.0/16 or 127.0.0.1/32, several with commas", word)
		case p != p.Masked():
			s.errorAt(f, "%s has bits behind its length: write %s", word, p.Masked())
		case slices.Contains(out.Private, p):
			s.errorAt(f, "%s is there twice", word)
		default:
			out.Private = append(out.Private, p)
		}
	}
	return out
}

// secret reads where a secret is: {env: NAME} or {file: PATH}.
func (s *section) secret() *contract.Secret {
	env, hasEnv := s.field("env")
	file, hasFile := s.field("file")
	out := &contract.Secret{}
	switch {
	case hasEnv && hasFile:
		s.errorAt(file, "a secret comes from one place: remove env or file")
	case hasEnv:
		out.Env = s.envOf(env)
	case hasFile:
		out.File = s.pathOf(file)
	default:
		s.need("env", "NAME")
		return nil
	}
	return out
}

// envOf is a field with the name of an environment variable.
func (s *section) envOf(f field) string {
	t := s.textOf(f)
	if t != "" && !envName.MatchString(t) {
		s.errorAt(f, "%q is not the name of an environment variable: write letters, digits and _", t)
	}
	return t
}

// pathOf is a field with the path of a file on the workers.
func (s *section) pathOf(f field) string {
	t := s.textOf(f)
	if t != "" && !strings.HasPrefix(t, "/") {
		s.errorAt(f, "%q is not an absolute path: each worker looks for it on its own machine", t)
	}
	return t
}

// readTLS sets how the provider is reached, for the effect and its probes alike.
func readTLS(s *section, d *contract.Operation) {
	if s == nil {
		return
	}
	defer s.done()
	path := func(name string) string {
		f, ok := s.field(name)
		if !ok {
			return ""
		}
		return s.pathOf(f)
	}
	out := &contract.TLS{CAFile: path("ca_file"), CertFile: path("cert_file"), KeyFile: path("key_file"),
		MinVersion: s.oneOf("min_version", contract.TLS12, contract.TLS12, contract.TLS13)}
	if (out.CertFile == "") != (out.KeyFile == "") {
		s.add(s.place, s.path, "a client certificate is cert_file and key_file: write both")
	}
	if d.Request != nil {
		d.Request.TLS = out
	}
	if d.Model != nil {
		d.Model.TLS = out
	}
	if d.Probe != nil {
		d.Probe.TLS = out
	}
}

// readBody reads what is sent in place of the payload.
func (s *section) readBody(out *contract.HTTPRequest) {
	body, hasBody := s.field("body")
	form, hasForm := s.field("form")
	switch at := body; {
	case hasBody && hasForm:
		s.errorAt(form, "a request has one body: remove body or form")
	case hasForm:
		at = form
		fallthrough
	case hasBody:
		if out.Method == "GET" || out.Method == "HEAD" {
			s.errorAt(at, "%s sends no body: remove it, or use another method", out.Method)
		}
	}
	if hasBody {
		if out.Body = s.textOf(body); out.Body != "" {
			t, err := parseTemplate(out.Body, true)
			if err == nil {
				err = t.check()
			}
			if err != nil {
				s.errorAt(body, "%v", err)
			}
		}
	}
	if !hasForm {
		return
	}
	fields := s.childOf(form)
	if fields.n == nil {
		return
	}
	for _, f := range fields.n.fields {
		fields.known = append(fields.known, f.name)
		value := f.value.text
		if f.value.kind == mapping || f.value.kind == nothing {
			fields.wrong(f.value, join(fields.path, f.name), text, f.name+": \"${payload.amount}\"")
		} else if _, err := parseTemplate(value, false); err != nil {
			fields.errorAt(f, "%v", err)
		}
		out.Form = append(out.Form, contract.Field{Name: f.name, Value: value})
	}
	if len(out.Form) == 0 {
		s.errorAt(form, "it is empty: fill it in or remove it")
	}
}

// checkRedirects: what a redirect repeats somewhere else must be a mere read.
func (s *section) checkRedirects(request field, d contract.Operation) {
	if d.Request.Redirects == 0 {
		return
	}
	if m := d.Request.Method; m != "GET" && m != "HEAD" || d.Replay.Class != contract.ReplaySafe {
		s.add(request.place, join(s.path, request.name), "redirects of an effect could make it twice, or elsewhere: remove request.redirects, or declare a GET with `replay: {class: safe}`")
	}
}
