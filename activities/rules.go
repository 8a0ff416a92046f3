package activities

import (
	"strconv"

	"headgate/config"
)

// rules are what an operation declares about answers: one rule that says yes
// (it worked, it happened), one that says no (harmless, it did not happen), and
// where the provider's own name of the effect is.
type rules struct {
	accept, deny *config.Rule
	name         *config.Text
}

// defaultSuccess is the rule of an operation that declares none.
const defaultSuccess = "status >= 200 && status < 300"

// compile reads the expressions; an empty one accepts nothing.
func compile(accept, deny, name string) (*rules, error) {
	var r rules
	var err error
	if accept != "" {
		if r.accept, err = config.CompileRule(accept); err != nil {
			return nil, err
		}
	}
	if deny != "" {
		if r.deny, err = config.CompileRule(deny); err != nil {
			return nil, err
		}
	}
	if name != "" {
		if r.name, err = config.CompileText(name); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

func (r *rules) yes(a reading) bool { return matches(r.accept, a) }
func (r *rules) no(a reading) bool  { return matches(r.deny, a) }

// matches takes a rule that cannot be applied to the answer for one that does
// not accept it.
func matches(rule *config.Rule, a reading) bool {
	if rule == nil {
		return false
	}
	ok, err := rule.Match(a.status, a.body)
	return ok && err == nil
}

// count is the number of effects that an answer shows; zero: it does not say.
func count(expression string, a reading) int {
	if expression == "" {
		return 0
	}
	t, err := config.CompileText(expression)
	if err != nil {
		return 0
	}
	text, err := t.Text(a.status, a.body)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// reference is empty if the answer does not hold it.
func (r *rules) reference(a reading) string {
	if r.name == nil {
		return ""
	}
	s, err := r.name.Text(a.status, a.body)
	if err != nil {
		return ""
	}
	return s
}
