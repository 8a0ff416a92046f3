package playwright

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Pool gives each owner of plans a browser of its own, so that no process runs
// pages of two. Options.Browsers is how many there are at most, as long as one of
// them is idle: then the one that was idle for longest makes room. With zero
// browsers, all owners share one. Make it with NewPool.
type Pool struct {
	o Options

	leaving sync.WaitGroup // drivers that make room

	mu     sync.Mutex
	closed bool
	owned  []*owned // the one used last is the last
}

// owned is the driver of one owner.
type owned struct {
	*Driver
	owner   string
	opening int // calls of Open under way
}

// NewPool makes a pool. It starts nothing.
func NewPool(o Options) *Pool { return &Pool{o: o} }

// Start starts the shared browser before the first page asks for it, and waits
// for it. Browsers of owners are started by their first page.
func (p *Pool) Start(ctx context.Context) error {
	if p.o.Browsers > 0 {
		return nil
	}
	d, err := p.take("")
	if err != nil {
		return err
	}
	defer p.done(d)
	return d.Start(ctx)
}

// Open opens a page for a plan in its owner's browser. It ends soon after ctx.
func (p *Pool) Open(ctx context.Context, plan Plan) (*Session, error) {
	owner := plan.Owner
	if p.o.Browsers == 0 {
		owner = ""
	}
	d, err := p.take(owner)
	if err != nil {
		return nil, err
	}
	defer p.done(d)
	return d.Open(ctx, plan)
}

// take finds or makes an owner's driver, which stays until done.
func (p *Pool) take(owner string) (*owned, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	var d *owned
	if i := slices.IndexFunc(p.owned, func(d *owned) bool { return d.owner == owner }); i >= 0 {
		d = p.owned[i]
		p.owned = slices.Delete(p.owned, i, i+1)
	} else {
		p.makeRoom()
		d = &owned{Driver: New(p.o), owner: owner}
	}
	d.opening++
	p.owned = append(p.owned, d)
	return d, nil
}

func (p *Pool) makeRoom() {
	if p.o.Browsers == 0 || len(p.owned) < p.o.Browsers {
		return
	}
	if i := slices.IndexFunc(p.owned, func(d *owned) bool { return d.opening == 0 && d.idle() }); i >= 0 {
		d := p.owned[i]
		p.owned = slices.Delete(p.owned, i, i+1)
		p.leaving.Go(func() { _ = d.Close() })
	}
}

func (p *Pool) done(d *owned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.opening--
}

// Close ends every browser and every session.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	all := p.owned
	p.owned = nil
	p.mu.Unlock()
	var errs []error
	for _, d := range all {
		errs = append(errs, d.Close())
	}
	p.leaving.Wait()
	return errors.Join(errs...)
}

// idle tells that no session is open and no browser is being started.
func (d *Driver) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.starting != nil {
		return false
	}
	return d.current == nil || d.current.idle()
}

func (e *engine) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions) == 0
}
