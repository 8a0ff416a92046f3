package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Bounds of one expression. The cost is what decides, the same on each machine:
// one unit a step, and more for long text (see work). The clock is the second
// line, and is looked at inside loops.
const (
	maxExpression = 4096 // characters
	maxEvalCost   = 300_000
	maxEvalTime   = time.Second
	checkEvery    = 16 // iterations of a loop
)

// language is one kind of expression: its variables and the type of its result.
type language struct {
	env    func() *cel.Env
	result []*cel.Type // dyn is always allowed, and checked when it is evaluated; none: any
	want   string

	mu       sync.Mutex
	programs map[string]*program
}

type program struct {
	cel.Program
	source   string
	constant bool // it reads no variable
}

// maxPrograms bounds a cache of compiled expressions. The texts come from
// declarations, so they are few; if not, the cache starts anew.
const maxPrograms = 1024

var (
	approvals = &language{env: sync.OnceValue(costEnv), result: []*cel.Type{cel.BoolType}, want: "true or false"}

	costs = &language{env: sync.OnceValue(costEnv), result: []*cel.Type{cel.IntType}, want: "a whole number"}
	rules = &language{env: sync.OnceValue(answerEnv), result: []*cel.Type{cel.BoolType}, want: "true or false"}
	lists = &language{env: sync.OnceValue(answerEnv), result: []*cel.Type{cel.ListType(cel.StringType), cel.ListType(cel.DynType)}, want: "a list of texts"}
	texts = &language{env: sync.OnceValue(answerEnv), result: []*cel.Type{cel.StringType, cel.IntType}, want: "text"}

	bodies = &language{env: sync.OnceValue(bodyEnv)}
)

// costEnv knows `payload`, and estimate_tokens: a rough number of model tokens, a
// quarter of the bytes in UTF-8, rounded up; of a list, that of all texts in it and
// four more for each element. Real counts depend on the model; they settle the
// cost when the effect has ended.
func costEnv() *cel.Env {
	return newEnv(
		cel.Variable("payload", cel.DynType),
		cel.Function("estimate_tokens",
			cel.Overload("estimate_tokens_string", []*cel.Type{cel.StringType}, cel.IntType, cel.UnaryBinding(estimateTokens)),
			cel.Overload("estimate_tokens_list", []*cel.Type{cel.ListType(cel.DynType)}, cel.IntType, cel.UnaryBinding(estimateTokens))),
	)
}

func estimateTokens(v ref.Val) ref.Val {
	switch v := v.(type) {
	case types.String:
		return types.Int((len(v) + 3) / 4)
	case traits.Lister:
		total := types.Int(0)
		for it := v.Iterator(); it.HasNext() == types.True; {
			total += 4 + types.Int((textIn(it.Next())+3)/4)
		}
		return total
	}
	return types.MaybeNoSuchOverloadErr(v)
}

// textIn is the bytes of all texts in a value.
func textIn(v ref.Val) int {
	total := 0
	switch v := v.(type) {
	case types.String:
		return len(v)
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			total += textIn(v.Get(it.Next()))
		}
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; {
			total += textIn(it.Next())
		}
	}
	return total
}

// bodyEnv knows what a template may say: `payload`, and the task's names.
func bodyEnv() *cel.Env {
	return newEnv(cel.Variable("payload", cel.DynType), cel.Variable("key", cel.StringType),
		cel.Variable("tenant", cel.StringType), cel.Variable("request_key", cel.StringType))
}

// answerEnv knows `status` and `body`.
func answerEnv() *cel.Env {
	return newEnv(cel.Variable("status", cel.IntType), cel.Variable("body", cel.DynType))
}

func newEnv(options ...cel.EnvOption) *cel.Env {
	env, err := cel.NewEnv(append(options,
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(64),
		cel.ExpressionNodeLimit(4*maxExpression),
		cel.ASTValidators(cel.ValidateRegexLiterals()),
		cel.RegexProgramSizeLimit(1000),
	)...)
	if err != nil {
		panic(fmt.Sprintf("config: CEL: %v", err)) // the options are constants
	}
	return env
}

// compile gives the program of an expression. It is safe for concurrent use.
func (l *language) compile(source string) (*program, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := l.programs[source]; ok {
		return p, nil
	}
	p, err := l.build(source)
	if err != nil {
		return nil, err
	}
	if l.programs == nil || len(l.programs) >= maxPrograms {
		l.programs = map[string]*program{}
	}
	l.programs[source] = p
	return p, nil
}

func (l *language) build(source string) (*program, error) {
	env := l.env()
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		var all []string
		for _, e := range issues.Errors() {
			where := fmt.Sprintf("at character %d", e.Location.Column()+1)
			if e.Location.Line() > 1 {
				where = fmt.Sprintf("in line %d, %s", e.Location.Line(), where)
			}
			all = append(all, strings.TrimSpace(e.Message)+" "+where)
		}
		return nil, fmt.Errorf("the expression is not valid: %s", strings.Join(all, "; "))
	}
	allowed := len(l.result) == 0 || ast.OutputType().IsExactType(cel.DynType)
	for _, t := range l.result {
		allowed = allowed || ast.OutputType().IsExactType(t)
	}
	if !allowed {
		return nil, fmt.Errorf("the expression gives %s: it must give %s", ast.OutputType(), l.want)
	}
	p, err := env.Program(ast, cel.CostTracking(work{}), cel.CostLimit(maxEvalCost), cel.InterruptCheckFrequency(checkEvery))
	if err != nil {
		return nil, fmt.Errorf("the expression is not valid: %w", err)
	}
	constant := true
	for _, r := range ast.NativeRep().ReferenceMap() {
		if r.Name == "payload" || r.Name == "status" || r.Name == "body" {
			constant = false
		}
	}
	return &program{Program: p, source: source, constant: constant}, nil
}

// ErrTooExpensive is wrapped when an expression needs more work than is allowed.
var ErrTooExpensive = errors.New("the expression needs too much work")

func (p *program) evaluate(vars map[string]any) (ref.Val, error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxEvalTime)
	defer cancel()
	v, details, err := p.ContextEval(ctx, vars)
	switch {
	case err == nil:
		return v, nil
	case ctx.Err() != nil, details != nil && details.ActualCost() != nil && *details.ActualCost() > maxEvalCost:
		return nil, fmt.Errorf("%q: %w", p.source, ErrTooExpensive)
	}
	// CEL quotes whole values in some errors.
	return nil, fmt.Errorf("%q: %.200s", p.source, err.Error())
}

// work counts what a call costs. CEL's own table goes by the static types of the
// arguments, and payloads and bodies have none: by it, two long texts are
// joined, or searched, at the price of one step.
type work struct{}

func (work) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	total := 1 + size(result, false)
	for _, arg := range args {
		total += size(arg, function == operators.Equals || function == operators.NotEquals || function == operators.In)
	}
	if function == overloads.Matches && len(args) == 2 {
		total = (1 + size(args[0], false)) * (1 + size(args[1], false))
	}
	return &total
}

// size is a tenth of the bytes of text, and if elements count, their number.
func size(v ref.Val, elements bool) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / 10
	case types.Bytes:
		return uint64(len(v)) / 10
	case traits.Sizer:
		if n, ok := v.Size().(types.Int); ok && elements {
			return uint64(n)
		}
	}
	return 0
}

// numbers prepares decoded JSON for CEL, which tells whole numbers from others:
// 3 and 3.0 are both the integer 3, up to 2^53; past that, numbers of a decoder
// that keeps their text are integers too.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return nil
		}
		return numbers(f)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= maxExact {
			return int64(v)
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = numbers(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = numbers(v[k])
		}
		return out
	}
	return v
}
