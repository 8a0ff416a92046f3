package testsuite

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is one line of a scrape.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
var labelPair = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)(=~|!=|=)"((?:[^"\\]|\\.)*)"`)

// scraped reads the text format.
func scraped(t *testing.T, text string) (all []sample) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		require.NotNil(t, m, line)
		s := sample{name: m[1], labels: map[string]string{}}
		for _, p := range labelPair.FindAllStringSubmatch(m[2], -1) {
			s.labels[p[1]] = p[3]
		}
		var err error
		s.value, err = strconv.ParseFloat(m[3], 64)
		require.NoError(t, err, line)
		all = append(all, s)
	}
	return all
}

// evaluate evaluates an expression over one scrape. It knows what the alerts about
// the state of the budget are made of: selectors, max and sum, with by or without,
// comparison with a number, and, on, or, and brackets. Anything else is an error,
// also rates: they need more than one scrape, and are promtool's to test.
func evaluate(expr string, all []sample) (result []sample, err error) {
	defer func() {
		if p := recover(); p != nil {
			said, ok := p.(syntaxError)
			if !ok {
				panic(p)
			}
			err = fmt.Errorf("%s, before %q", string(said), expr)
		}
	}()
	e := &evaluator{rest: tokens.FindAllString(expr, -1), all: all}
	if got, want := strings.Join(e.rest, ""), strings.Join(strings.Fields(expr), ""); strings.Join(strings.Fields(got), "") != want {
		return nil, fmt.Errorf("%q has characters that are not known here", expr)
	}
	result = e.or()
	if len(e.rest) > 0 {
		return nil, fmt.Errorf("%q is not known here", e.rest)
	}
	return result, nil
}

type syntaxError string

var tokens = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9.]+|=~|!=|==|>=|<=|[=<>(){},]`)

type evaluator struct {
	rest []string
	all  []sample
}

func (e *evaluator) next() string {
	if len(e.rest) == 0 {
		panic(syntaxError("the end comes too early"))
	}
	token := e.rest[0]
	e.rest = e.rest[1:]
	return token
}

// take takes a token if it is the next one.
func (e *evaluator) take(token string) bool {
	if len(e.rest) == 0 || e.rest[0] != token {
		return false
	}
	e.rest = e.rest[1:]
	return true
}

func (e *evaluator) must(token string) {
	if got := e.next(); got != token {
		panic(syntaxError(fmt.Sprintf("%q where %q is wanted", got, token)))
	}
}

// names reads a list in brackets.
func (e *evaluator) names() (names []string) {
	e.must("(")
	for !e.take(")") {
		names = append(names, e.next())
		e.take(",")
	}
	return names
}

func (e *evaluator) or() []sample {
	left := e.and()
	for e.take("or") {
		for _, s := range e.and() {
			if !slices.ContainsFunc(left, func(l sample) bool { return key(l.labels, nil) == key(s.labels, nil) }) {
				left = append(left, s)
			}
		}
	}
	return left
}

func (e *evaluator) and() []sample {
	left := e.compare()
	for e.take("and") {
		e.must("on")
		on := e.names()
		right := e.compare()
		left = slices.DeleteFunc(left, func(l sample) bool {
			return !slices.ContainsFunc(right, func(r sample) bool { return key(l.labels, on) == key(r.labels, on) })
		})
	}
	return left
}

var comparisons = map[string]func(a, b float64) bool{
	">": func(a, b float64) bool { return a > b }, "<": func(a, b float64) bool { return a < b }, "==": func(a, b float64) bool { return a == b },
}

func (e *evaluator) compare() []sample {
	left := e.primary()
	if len(e.rest) == 0 || comparisons[e.rest[0]] == nil {
		return left
	}
	holds := comparisons[e.next()]
	bound, err := strconv.ParseFloat(e.next(), 64)
	if err != nil {
		panic(syntaxError("a comparison is with a number only"))
	}
	return slices.DeleteFunc(left, func(s sample) bool { return !holds(s.value, bound) })
}

func (e *evaluator) primary() []sample {
	if e.take("(") {
		inner := e.or()
		e.must(")")
		return inner
	}
	name := e.next()
	if name != "max" && name != "sum" {
		return e.selector(name)
	}
	by := []string{}
	if e.take("by") {
		by = e.names()
	}
	e.must("(")
	inner := e.or()
	e.must(")")
	var out []sample
	for _, s := range inner {
		i := slices.IndexFunc(out, func(o sample) bool { return key(o.labels, by) == key(s.labels, by) })
		switch {
		case i < 0:
			group := map[string]string{}
			for _, name := range by {
				group[name] = s.labels[name]
			}
			out = append(out, sample{labels: group, value: s.value})
		case name == "sum":
			out[i].value += s.value
		default:
			out[i].value = max(out[i].value, s.value)
		}
	}
	return out
}

func (e *evaluator) selector(name string) (found []sample) {
	var match []func(sample) bool
	if e.take("{") {
		for !e.take("}") {
			label, how := e.next(), e.next()
			value, err := strconv.Unquote(e.next())
			if err != nil {
				panic(syntaxError("a matcher is with a text"))
			}
			fits := regexp.MustCompile("^(?:" + value + ")$")
			match = append(match, func(s sample) bool {
				switch how {
				case "=":
					return s.labels[label] == value
				case "!=":
					return s.labels[label] != value
				case "=~":
					return fits.MatchString(s.labels[label])
				}
				panic(syntaxError(how + " is not known here"))
			})
			e.take(",")
		}
	}
	for _, s := range e.all {
		if s.name == name && !slices.ContainsFunc(match, func(fits func(sample) bool) bool { return !fits(s) }) {
			found = append(found, s)
		}
	}
	return found
}

// key is the identity of labels: of those that are named, or, with nil, of all.
func key(labels map[string]string, of []string) string {
	var parts []string
	for name, value := range labels {
		if of == nil || slices.Contains(of, name) {
			if value != "" {
				parts = append(parts, name+"="+strconv.Quote(value))
			}
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func TestEvaluate(t *testing.T) {
	all := scraped(t, "# HELP a b\na{x=\"1\",y=\"p\"} 5\na{x=\"2\",y=\"q\"} 7\nb{x=\"2\"} 1\nc 0\n")
	for expr, want := range map[string]int{
		`a > 6`: 1, `a > 9`: 0, `a{x="1"}`: 1, `a{x=~"1|2"}`: 2, `a{x!="1"} == 7`: 1, `max(a) > 6`: 1, `sum(a) > 11`: 1, `max by (x) (a)`: 2,
		`a > 4 and on (x) b > 0`: 1, `a and on () c > 0`: 0, `(a > 9) or max(b) > 0`: 1, `a or b`: 3, `max(a{x="3"}) > 0`: 0,
	} {
		got, err := evaluate(expr, all)
		require.NoError(t, err, expr)
		require.Len(t, got, want, expr)
	}
	for _, expr := range []string{`rate(a[5m])`, `a + b`, `a >`, `a unless b`, `a > b`, `histogram_quantile(0.9, a)`} {
		_, err := evaluate(expr, all)
		require.Error(t, err, expr)
	}
}
