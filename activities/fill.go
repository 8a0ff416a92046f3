package activities

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"headgate/contract"
)

// blanks are what the placeholders of a step stand for.
type blanks struct {
	key, tenant, requestKey string
	payload                 any // decoded; nil: there is none
}

func blanksOf(in contract.EffectInput) blanks {
	return blanks{in.ProviderKey, in.Tenant, in.Key, decode(bytes.TrimSpace(in.Payload))}
}

var blank = regexp.MustCompile(`\{([^{}]*)\}`)

// fillSteps puts values into steps. Addresses get them escaped, so that a value
// cannot become another path, and selectors get none: a payload is never code.
func fillSteps(steps []contract.Step, at blanks) ([]contract.Step, error) {
	out := make([]contract.Step, len(steps))
	for i, s := range steps {
		var err error
		if s.Value, err = at.fill(s.Value, nil); err == nil && s.Do == contract.StepGoto {
			s.Target, err = at.fill(s.Target, escape)
		}
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", s.Name, err)
		}
		out[i] = s
	}
	return out, nil
}

func (p blanks) fill(text string, escape func(string) string) (string, error) {
	var failed error
	out := blank.ReplaceAllStringFunc(text, func(m string) string {
		value, err := p.value(m[1 : len(m)-1])
		if err == nil && escape != nil {
			if value == "." || value == ".." {
				err = fmt.Errorf("%s is %q, which cannot be part of an address", m, value)
			}
			value = escape(value)
		}
		if failed == nil {
			failed = err
		}
		return value
	})
	return out, failed
}

func (p blanks) value(name string) (string, error) {
	switch name {
	case "key":
		return p.key, nil
	case "tenant":
		return p.tenant, nil
	case "request_key":
		return p.requestKey, nil
	}
	value := p.payload
	path, ok := strings.CutPrefix(name, "payload.")
	if !ok {
		return "", fmt.Errorf("{%s} is no placeholder", name)
	}
	for part := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		if value, ok = object[part]; !ok {
			return "", fmt.Errorf("the payload has no %s", path)
		}
	}
	switch v := value.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("%s of the payload is no text, number, true or false", path)
}
