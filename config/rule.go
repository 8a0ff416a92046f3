package config

import (
	"fmt"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/traits"
)

// MaxReference is the longest text that a reference expression may give, in bytes.
const MaxReference = 1024

// Rule is a compiled yes-or-no expression over an answer: `status` is the HTTP
// status, `body` the decoded JSON body, or null if there is none. It is safe for
// concurrent use.
type Rule struct{ p *program }

// CompileRule compiles a rule, or finds it compiled.
func CompileRule(expr string) (*Rule, error) {
	p, err := rules.compile(expr)
	if err != nil {
		return nil, err
	}
	return &Rule{p}, nil
}

// Match applies the rule. body is what encoding/json decodes into an any, with
// or without UseNumber; it is not changed.
//
// A field that the body does not have is an error, unless the other side of &&
// or || decides alone, or has() asks for it. So are a result that is not a bool
// and too much work (ErrTooExpensive). A caller takes every error for "does not
// match": a rule that cannot be applied to an answer accepts nothing.
func (r *Rule) Match(status int, body any) (bool, error) {
	v, err := r.p.evaluate(map[string]any{"status": int64(status), "body": numbers(body)})
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("%q gives %s: want true or false", r.p.source, v.Type().TypeName())
	}
	return bool(b), nil
}

// Texts is a compiled expression over an answer that gives a list of texts. It is
// safe for concurrent use.
type Texts struct{ p *program }

// CompileTexts compiles an expression that gives a list of texts, or finds it
// compiled.
func CompileTexts(expr string) (*Texts, error) {
	p, err := lists.compile(expr)
	if err != nil {
		return nil, err
	}
	return &Texts{p}, nil
}

// Texts evaluates the expression. Errors are those of Match, and an element that
// is not text.
func (t *Texts) Texts(status int, body any) ([]string, error) {
	v, err := t.p.evaluate(map[string]any{"status": int64(status), "body": numbers(body)})
	if err != nil {
		return nil, err
	}
	list, ok := v.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("%q gives %s: want a list of texts", t.p.source, v.Type().TypeName())
	}
	var out []string
	for it := list.Iterator(); it.HasNext() == types.True; {
		s, ok := it.Next().(types.String)
		if !ok {
			return nil, fmt.Errorf("%q gives a list that holds something else than text", t.p.source)
		}
		out = append(out, string(s))
	}
	return out, nil
}

// Text is a compiled expression over an answer that gives text, such as the
// provider's own name of an effect. It is safe for concurrent use.
type Text struct{ p *program }

// CompileText compiles a text expression, or finds it compiled.
func CompileText(expr string) (*Text, error) {
	p, err := texts.compile(expr)
	if err != nil {
		return nil, err
	}
	return &Text{p}, nil
}

// Text evaluates the expression. Whole numbers are written in decimal. Errors
// are those of Match, and a text longer than MaxReference.
func (t *Text) Text(status int, body any) (string, error) {
	v, err := t.p.evaluate(map[string]any{"status": int64(status), "body": numbers(body)})
	if err != nil {
		return "", err
	}
	var s string
	switch v := v.(type) {
	case types.String:
		s = string(v)
	case types.Int:
		s = fmt.Sprint(int64(v))
	default:
		return "", fmt.Errorf("%q gives %s: want text", t.p.source, v.Type().TypeName())
	}
	if len(s) > MaxReference {
		return "", fmt.Errorf("%q gives %d bytes: at most %d are kept", t.p.source, len(s), MaxReference)
	}
	return s, nil
}
