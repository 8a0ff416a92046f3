package proxy

import (
	"context"
	"fmt"
	"path"
	"reflect"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// When says at which side of the server a call is held.
type When int

// Before holds a call that the server has not seen; After holds the answer to a
// call that the server has carried out.
const (
	Before When = iota
	After
)

func (w When) String() string {
	if w == After {
		return "after"
	}
	return "before"
}

// Rule names the calls that a point may catch.
type Rule struct {
	Method string // last part of the gRPC method, such as StartWorkflowExecution
	When   When
	Match  func(request []byte) bool // nil: every call of the method
}

// On is the rule for the calls whose request is an R that match accepts; nil
// accepts all. The method is R's name without "Request", as everywhere in the API.
func On[R proto.Message](when When, match func(R) bool) Rule {
	kind := reflect.TypeFor[R]().Elem()
	rule := Rule{Method: strings.TrimSuffix(kind.Name(), "Request"), When: when}
	if match != nil {
		rule.Match = func(request []byte) bool {
			message := reflect.New(kind).Interface().(R)
			return proto.Unmarshal(request, message) == nil && match(message)
		}
	}
	return rule
}

// Point catches the first call that its rule names, and holds it until Release or
// Drop, or until its caller gives up or dies. Later calls pass.
type Point struct {
	proxy   *Proxy
	rule    Rule
	reached chan struct{} // closed: a call is, or was, held
	decided chan struct{} // closed: the call may go on, or is dropped
	once    struct{ reach, decide sync.Once }
	dropped bool // set before decided is closed
}

// Place arms a point.
func (p *Proxy) Place(rule Rule) *Point {
	point := &Point{proxy: p, rule: rule, reached: make(chan struct{}), decided: make(chan struct{})}
	p.arm(point)
	return point
}

// Reached waits until a call is held here.
func (pt *Point) Reached(ctx context.Context) error {
	select {
	case <-pt.reached:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no call was held %s %s: %w", pt.rule.When, pt.rule.Method, context.Cause(ctx))
	}
}

// Release lets the held call, or the one that would have been held, go on.
func (pt *Point) Release() { pt.decide(false) }

// Drop answers the held call Unavailable. Held Before, the server never sees it;
// held After, only the answer is lost.
func (pt *Point) Drop() { pt.decide(true) }

func (pt *Point) decide(drop bool) {
	pt.proxy.disarm(pt)
	pt.once.decide.Do(func() {
		pt.dropped = drop
		close(pt.decided)
	})
}

func (pt *Point) hold(ctx context.Context) error {
	pt.once.reach.Do(func() { close(pt.reached) })
	select {
	case <-pt.decided:
		if pt.dropped {
			return status.Errorf(codes.Unavailable, "dropped %s %s", pt.rule.When, pt.rule.Method)
		}
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (p *Proxy) arm(pt *Point) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-pt.decided: // released while its call was under way
	default:
		p.points = append(p.points, pt)
	}
}

func (p *Proxy) disarm(pt *Point) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, armed := range p.points {
		if armed == pt {
			p.points = append(p.points[:i], p.points[i+1:]...)
			return
		}
	}
}

// take finds the point that catches a call, and disarms it: one point, one call.
func (p *Proxy) take(method string, request []byte) *Point {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, pt := range p.points {
		if pt.rule.Method == path.Base(method) && (pt.rule.Match == nil || pt.rule.Match(request)) {
			p.points = append(p.points[:i], p.points[i+1:]...)
			return pt
		}
	}
	return nil
}
