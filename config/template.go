package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"headgate/contract"
)

// maxBody bounds a rendered body, in bytes.
const maxBody = 4 * contract.MaxPayload

// Call is what a template may say of a task.
type Call struct {
	Payload                 json.RawMessage // canonical
	Key, Tenant, RequestKey string          // Key: the provider key
}

func (c Call) vars() (map[string]any, error) {
	vars, err := payloadVars(c.Payload)
	if err != nil {
		return nil, fmt.Errorf("the payload cannot be read: %w", err)
	}
	vars["key"], vars["tenant"], vars["request_key"] = c.Key, c.Tenant, c.RequestKey
	return vars, nil
}

// Body renders the body of a request and names its media type: the payload as it
// is, its template, or its form. One payload gives the same bytes each time. What
// the payload lacks is an error, never an empty text.
func Body(r *contract.HTTPRequest, c Call) (body []byte, mediaType string, err error) {
	if r.Body == "" && len(r.Form) == 0 {
		return c.Payload, "application/json", nil
	}
	vars, err := c.vars()
	if err != nil {
		return nil, "", err
	}
	if r.Body == "" {
		body, err = renderForm(r.Form, vars)
		return body, "application/x-www-form-urlencoded", err
	}
	t, err := parseTemplate(r.Body, true)
	if err != nil {
		return nil, "", err
	}
	if body, err = t.render(vars); err != nil {
		return nil, "", err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		return nil, "", fmt.Errorf("the body is not JSON: %w", err)
	}
	return compact.Bytes(), "application/json", nil
}

func renderForm(fields []contract.Field, vars map[string]any) ([]byte, error) {
	var out []byte
	for i, f := range fields {
		t, err := parseTemplate(f.Value, false)
		if err != nil {
			return nil, err
		}
		value, err := t.render(vars)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, '&')
		}
		out = fmt.Appendf(out, "%s=%s", url.QueryEscape(f.Name), url.QueryEscape(string(value)))
	}
	return out, nil
}

// template is text with ${expressions}; $${ is ${ itself. In a JSON template an
// expression inside quotes becomes part of that text, escaped; outside of them it
// becomes a JSON value. No value can end the text or the value that it is in.
type template struct {
	json   bool
	pieces []piece
}

type piece struct {
	literal string
	p       *program // nil: the literal
	quoted  bool     // inside a JSON text
}

func parseTemplate(text string, isJSON bool) (*template, error) {
	t := &template{json: isJSON}
	quoted := false
	literal := strings.Builder{}
	flush := func() {
		t.pieces = append(t.pieces, piece{literal: literal.String()})
		literal.Reset()
	}
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "$${"):
			literal.WriteString("${")
			i += 3
		case strings.HasPrefix(text[i:], "${"):
			end := expressionEnd(text[i+2:])
			if end < 0 {
				return nil, fmt.Errorf("a ${ has no end: write } behind the expression, or $${ for the text itself")
			}
			p, err := bodies.compile(strings.TrimSpace(text[i+2 : i+2+end]))
			if err != nil {
				return nil, err
			}
			flush()
			t.pieces = append(t.pieces, piece{p: p, quoted: quoted})
			i += end + 3
		default:
			if isJSON && quoted && text[i] == '\\' && i+1 < len(text) {
				literal.WriteByte(text[i])
				i++
			} else if isJSON && text[i] == '"' {
				quoted = !quoted
			}
			literal.WriteByte(text[i])
			i++
		}
	}
	flush()
	return t, nil
}

// expressionEnd finds the brace that ends an expression: not one of a map, nor
// one inside a text of CEL.
func expressionEnd(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'', '"':
			for i++; i < len(s) && s[i] != c; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// check tells whether a JSON template gives JSON, whatever its values are.
func (t *template) check() error {
	var out []byte
	for _, p := range t.pieces {
		switch {
		case p.p == nil:
			out = append(out, p.literal...)
		case p.quoted:
			out = append(out, 'x')
		default:
			out = append(out, '0')
		}
	}
	if !json.Valid(out) {
		return errors.New("the template does not give JSON: check its quotes, commas and braces")
	}
	return nil
}

func (t *template) render(vars map[string]any) ([]byte, error) {
	var out []byte
	for _, p := range t.pieces {
		if p.p == nil {
			out = append(out, p.literal...)
			continue
		}
		v, err := p.p.evaluate(vars)
		if err != nil {
			return nil, err
		}
		text, err := t.write(p, v)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", p.p.source, err)
		}
		if out = append(out, text...); len(out) > maxBody {
			return nil, fmt.Errorf("the body has more than %d bytes", maxBody)
		}
	}
	return out, nil
}

func (t *template) write(p piece, v ref.Val) ([]byte, error) {
	if t.json && !p.quoted {
		plain, err := plainValue(v)
		if err != nil {
			return nil, err
		}
		return marshal(plain)
	}
	var s string
	switch v := v.(type) {
	case types.String:
		s = string(v)
	case types.Int:
		s = strconv.FormatInt(int64(v), 10)
	case types.Uint:
		s = strconv.FormatUint(uint64(v), 10)
	case types.Double:
		s = strconv.FormatFloat(float64(v), 'g', -1, 64)
	case types.Bool:
		s = strconv.FormatBool(bool(v))
	default:
		return nil, fmt.Errorf("%s cannot be part of a text", v.Type().TypeName())
	}
	if !t.json {
		return []byte(s), nil
	}
	quoted, err := marshal(s)
	if err != nil {
		return nil, err
	}
	return quoted[1 : len(quoted)-1], nil
}

// plainValue turns a value of CEL into one that encoding/json writes.
func plainValue(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.String, types.Int, types.Uint, types.Bool:
		return v.Value(), nil
	case types.Double:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
	case types.Null:
		return nil, nil
	case traits.Mapper:
		out := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, ok := key.(types.String)
			if !ok {
				return nil, fmt.Errorf("a map has the key %v: want text", key.Value())
			}
			plain, err := plainValue(v.Get(key))
			if err != nil {
				return nil, err
			}
			out[string(name)] = plain
		}
		return out, nil
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			plain, err := plainValue(it.Next())
			if err != nil {
				return nil, err
			}
			out = append(out, plain)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s has no JSON", v.Type().TypeName())
}

// marshal writes JSON without the escapes that are for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
