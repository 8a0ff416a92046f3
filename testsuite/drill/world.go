package drill

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"headgate/contract"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// declaration is the configuration of the world, with an address that does not
// exist in place of the provider's.
//
//go:embed drill.yaml
var declaration string

const placeholder = "http://provider.invalid"

// slots is how many effects one worker runs at once. Two, so that a worker whose
// one slot is stuck has one poll left, no more, to swallow another task.
const slots = 2

// World is a whole Headgate on this machine: Temporal server, provider, gateways,
// control workers and workers for effects, each a real process.
type World struct {
	Dir      string // data and logs
	Program  string // headgate
	Door     *Door  // of the first gateway
	Doors    []*Door
	Provider provider.Witness
	// CaseLimit bounds one case; zero: three minutes.
	CaseLimit time.Duration

	Server   *Process
	Third    *Process   // the provider
	Gateway  *Process   // the first
	Control  *Process   // the first
	Gateways []*Process // as the doors
	Controls []*Process
	Workers  []*Process
	all      []*Process // in the order of starting
	upstream string
}

// Layout is what a world is made of.
type Layout struct {
	// Declaration is the configuration, in which http://provider.invalid stands
	// for the provider.
	Declaration string
	Gateways    int // at least 1, as of the next two
	Controls    int
	Workers     int
	Slots       int // of each worker
}

// NewWorld starts the drill's own world with its data in a new folder below
// parent ("" is the system's own), and waits until it serves.
func NewWorld(ctx context.Context, parent string, b Binaries) (*World, error) {
	return NewWorldOf(ctx, parent, b, Layout{Declaration: declaration, Gateways: 1, Controls: 1, Workers: 2, Slots: slots})
}

// NewWorldOf is NewWorld for another layout.
func NewWorldOf(ctx context.Context, parent string, b Binaries, l Layout) (*World, error) {
	dir, err := os.MkdirTemp(parent, "headgate-drill-")
	if err != nil {
		return nil, err
	}
	w := &World{Dir: dir, Program: b.Headgate}
	if err := w.plan(b, l); err != nil {
		w.Close()
		return nil, err
	}
	if err := w.start(ctx); err != nil {
		err = fmt.Errorf("%w\n%s", err, w.Logs(30))
		w.Close()
		return nil, err
	}
	return w, nil
}

// plan lays out every process: ports, proxies and command lines.
func (w *World) plan(b Binaries, l Layout) error {
	ports, err := FreePorts(2 + l.Gateways)
	if err != nil {
		return err
	}
	w.upstream = "127.0.0.1:" + ports[0]
	third := "127.0.0.1:" + ports[1]
	witness := &provider.Client{URL: "http://" + third, HTTP: &http.Client{Transport: &http.Transport{}}}
	w.Provider = witness

	file := filepath.Join(w.Dir, "headgate.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(l.Declaration, placeholder, witness.URL)), 0o600); err != nil {
		return err
	}

	w.Server = NewServer(w.Dir, b.Server, ports[0])
	w.all = append(w.all, w.Server)

	w.Third = w.process("provider", b.Headgate, "provider", "--listen", third)
	w.Third.ready = asking("the provider answers", func(ctx context.Context) error {
		_, err := w.Provider.Faults(ctx)
		return err
	})

	for i := range l.Controls {
		control, err := w.client(numbered("control", i, l.Controls), b.Headgate, file, "worker", "--role", controlRole)
		if err != nil {
			return err
		}
		control.ready = polling(control, proxy.WorkflowPoll(proxy.Before, contract.ControlQueue))
		w.Controls = append(w.Controls, control)
	}
	for i := range l.Gateways {
		if err := w.gateway(numbered("gateway", i, l.Gateways), b.Headgate, file, "127.0.0.1:"+ports[2+i]); err != nil {
			return err
		}
	}
	for i := range l.Workers {
		worker, err := w.client(fmt.Sprintf("worker-%d", i+1), b.Headgate, file, "worker", "--role", "http", "--slots", strconv.Itoa(l.Slots))
		if err != nil {
			return err
		}
		worker.ready = polling(worker, proxy.ActivityPoll(proxy.Before, contract.EffectsQueue("http")))
		w.Workers = append(w.Workers, worker)
	}
	w.Door, w.Gateway, w.Control = w.Doors[0], w.Gateways[0], w.Controls[0]
	return nil
}

// gateway lays out one gateway and its door.
func (w *World) gateway(name, program, file, listen string) error {
	p, err := w.client(name, program, file, "gateway", "--listen", listen)
	if err != nil {
		return err
	}
	// A new connection for each request: net/http repeats requests with a key on a
	// connection that broke, and the drill must see every broken one.
	door := &Door{URL: "http://" + listen, HTTP: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}}
	p.ready = asking("the "+name+" shows the queue", func(ctx context.Context) error {
		_, err := door.Queue(ctx)
		return err
	})
	w.Gateways, w.Doors = append(w.Gateways, p), append(w.Doors, door)
	return nil
}

// numbered is the name of one of several processes, or of the only one.
func numbered(name string, i, of int) string {
	if of == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i+1)
}

// controlRole is the worker that runs the workflows.
const controlRole = "control"

// AddWorker starts one more worker of a role, which cases can kill, and which is
// healed like the others.
func (w *World) AddWorker(ctx context.Context, name, role string, args ...string) (*Process, error) {
	worker, err := w.client(name, w.Workers[0].program, filepath.Join(w.Dir, "headgate.yaml"), append([]string{"worker", "--role", role}, args...)...)
	if err != nil {
		return nil, err
	}
	worker.ready = polling(worker, proxy.ActivityPoll(proxy.Before, contract.EffectsQueue(role)))
	if role == controlRole {
		worker.ready = polling(worker, proxy.WorkflowPoll(proxy.Before, contract.ControlQueue))
	}
	w.Workers = append(w.Workers, worker)
	return worker, worker.Start(ctx)
}

// NewServer is an embedded Temporal server with its data and log in dir. It is
// not started yet.
func NewServer(dir, program, port string) *Process {
	p := &Process{Name: "server", program: program, log: filepath.Join(dir, "server.log"), args: []string{"server", "start-dev",
		"--ip", "127.0.0.1", "--port", port, "--namespace", "default", "--db-filename", filepath.Join(dir, "temporal.db"), "--headless"}}
	p.ready = saying(p, "ready ")
	return p
}

func (w *World) process(name, program string, args ...string) *Process {
	p := &Process{Name: name, program: program, args: args, log: filepath.Join(w.Dir, name+".log")}
	w.all = append(w.all, p)
	return p
}

// client is a process that reaches Temporal through a proxy of its own.
func (w *World) client(name, program, file string, args ...string) (*Process, error) {
	through, err := proxy.New(w.upstream)
	if err != nil {
		return nil, err
	}
	p := w.process(name, program, append(args, "--config", file, "--temporal-address", through.Address())...)
	p.Proxy = through
	return p, nil
}

func (w *World) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := together(ctx, w.Server.Start, w.Third.Start); err != nil {
		return err
	}
	var steps []func(context.Context) error
	for _, p := range slices.Concat(w.Controls, w.Gateways, w.Workers) {
		steps = append(steps, p.Start)
	}
	return together(ctx, steps...)
}

// Heal brings everything back to life and forgets all faults, so that the next
// case starts from a healthy world.
func (w *World) Heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, p := range w.all {
		if err := p.heal(ctx); err != nil {
			return err
		}
	}
	if _, err := w.Provider.ClearFaults(ctx); err != nil {
		return err
	}
	_, err := w.Provider.Release(ctx, "*")
	return err
}

// Lost is an error if a process ended without having been killed by a case.
func (w *World) Lost() error {
	var errs []error
	for _, p := range w.all {
		errs = append(errs, p.Lost())
	}
	return errors.Join(errs...)
}

// Logs is the end of every process's log.
func (w *World) Logs(lines int) string {
	var b strings.Builder
	for _, p := range w.all {
		fmt.Fprintf(&b, "--- %s (%s)\n%s\n", p.Name, p.log, p.Tail(lines))
	}
	return b.String()
}

// Close ends every process. The data stays until Remove.
func (w *World) Close() {
	for i := len(w.all) - 1; i >= 0; i-- {
		w.all[i].Kill()
		if w.all[i].Proxy != nil {
			w.all[i].Proxy.Close()
		}
	}
}

// Remove deletes data and logs of a closed world.
func (w *World) Remove() error { return os.RemoveAll(w.Dir) }

// together runs all steps at once and joins their errors.
func together(ctx context.Context, steps ...func(context.Context) error) error {
	errs := make([]error, len(steps))
	var all sync.WaitGroup
	for i, step := range steps {
		all.Go(func() { errs[i] = step(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// FreePorts finds ports that nobody listens on now.
func FreePorts(n int) ([]string, error) {
	ports := make([]string, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all at the end, so that they differ
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
	}
	return ports, nil
}
