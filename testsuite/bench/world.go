package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"headgate/admission"
	"headgate/config"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
)

// declaration is the configuration, with an address that does not exist in place
// of the provider's.
//
//go:embed bench.yaml
var declaration string

const placeholder = "http://provider.invalid"

// slots are the effects that the one http worker runs at a time: more than any
// part needs, as capacity is the budget's business.
const slots = "128"

// world is a whole Headgate with a Temporal server of its own, and a client of
// that server for the bare side.
type world struct {
	dir      string
	address  string // of the Temporal server
	policy   admission.Policy
	http     *http.Client
	door     *drill.Door
	provider *provider.Client
	temporal client.Client

	processes []*process   // in the order of starting
	sentBack  atomic.Int64 // submissions that were answered 503 and sent again
}

// newWorld starts a world and waits until a task has gone all the way through it.
func newWorld(ctx context.Context, parent, name string, b drill.Binaries) (*world, error) {
	dir, err := os.MkdirTemp(parent, name+"-")
	if err != nil {
		return nil, err
	}
	// Like a client that sends many requests: connections are kept.
	w := &world{dir: dir, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * maxCallers}}}
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("the world is not up after 3 minutes"))
	defer cancel()
	if err := w.start(ctx, b); err != nil {
		err = errors.Join(err, w.lost(), fmt.Errorf("%s", w.logs(20)))
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) start(ctx context.Context, b drill.Binaries) error {
	ports, err := drill.FreePorts(3)
	if err != nil {
		return err
	}
	w.address = "127.0.0.1:" + ports[0]
	third, door := "127.0.0.1:"+ports[1], "127.0.0.1:"+ports[2]
	w.provider = &provider.Client{URL: "http://" + third, HTTP: w.http}
	w.door = &drill.Door{URL: "http://" + door, HTTP: w.http}

	text := strings.ReplaceAll(declaration, placeholder, w.provider.URL)
	file := filepath.Join(w.dir, "headgate.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	checked, err := config.Parse(file, []byte(text))
	if err != nil {
		return err
	}
	w.policy = checked.Budget

	// 1. What does not need Temporal, and Temporal itself.
	err = errors.Join(
		w.launch("server", b.Server, "server", "start-dev", "--ip", "127.0.0.1", "--port", ports[0],
			"--db-filename", filepath.Join(w.dir, "temporal.db"), "--headless"),
		w.launch("provider", b.Headgate, "provider", "--listen", third))
	if err != nil {
		return err
	}
	if w.temporal, err = client.NewLazyClient(client.Options{HostPort: w.address, Logger: log.NewStructuredLogger(quiet)}); err != nil {
		return err
	}
	if err := w.until(ctx, "the server answers", often, func(ctx context.Context) error {
		_, err := w.temporal.CheckHealth(ctx, nil)
		return err
	}); err != nil {
		return err
	}
	// 2. Headgate, as a user would start it.
	common := []string{"--config", file, "--temporal-address", w.address}
	err = errors.Join(
		w.launch("control", b.Headgate, append([]string{"worker", "--role", "control"}, common...)...),
		w.launch("worker", b.Headgate, append([]string{"worker", "--role", "http", "--slots", slots}, common...)...),
		w.launch("gateway", b.Headgate, append([]string{"gateway", "--listen", door}, common...)...))
	if err != nil {
		return err
	}
	if err := w.until(ctx, "the gateway is ready", often, func(ctx context.Context) error { return w.get(ctx, "/readyz", nil) }); err != nil {
		return err
	}
	// 3. All of it.
	return run(ctx, headgate{w}, order{tenant: "first", key: "first", lane: plenty})
}

func (w *world) launch(name, program string, args ...string) error {
	p, err := launch(w.dir, name, program, args...)
	if err == nil {
		w.processes = append(w.processes, p)
	}
	return err
}

// end ends the processes of that name.
func (w *world) end(name string) {
	w.processes = slices.DeleteFunc(w.processes, func(p *process) bool {
		if p.name == name {
			p.kill()
		}
		return p.name == name
	})
}

// often is how often a world that starts is asked whether it is there.
const often = 50 * time.Millisecond

// until asks again and again until there is no error.
func (w *world) until(ctx context.Context, what string, pause time.Duration, ask func(ctx context.Context) error) error {
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := ask(once)
		cancel()
		if err == nil {
			return nil
		}
		if lost := w.lost(); lost != nil {
			return lost
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w: %w", what, context.Cause(ctx), err)
		}
	}
}

// lost is an error if a process has ended.
func (w *world) lost() error {
	var errs []error
	for _, p := range w.processes {
		errs = append(errs, p.lost())
	}
	return errors.Join(errs...)
}

func (w *world) logs(lines int) string {
	var b strings.Builder
	for _, p := range w.processes {
		fmt.Fprintf(&b, "--- %s\n%s\n", p.name, p.tail(lines))
	}
	return b.String()
}

// close ends every process. The data stays.
func (w *world) close() {
	if w.temporal != nil {
		w.temporal.Close()
	}
	for i := len(w.processes) - 1; i >= 0; i-- {
		w.processes[i].kill()
	}
	w.http.CloseIdleConnections()
}

// used is the processor time of each process so far, and of the callers, which
// are this process.
func (w *world) used() (map[string]time.Duration, error) {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return nil, fmt.Errorf("processor time of the callers: %w", err)
	}
	all := map[string]time.Duration{"callers": time.Duration(self.Utime.Nano() + self.Stime.Nano())}
	for _, p := range w.processes {
		t, err := p.used()
		if err != nil {
			return nil, fmt.Errorf("processor time of %s: %w", p.name, err)
		}
		all[p.name] += t
	}
	return all, nil
}

// clean makes the provider forget what it has seen, and answer at once again.
func (w *world) clean(ctx context.Context) error {
	_, err := w.provider.ClearFaults(ctx)
	return errors.Join(err, w.provider.Reset(ctx))
}

// counted is an error unless the provider has made so many effects since it
// forgot.
func (w *world) counted(ctx context.Context, tasks int) error {
	counts, err := w.provider.Effects(ctx, "*")
	if err == nil && counts.Effects != tasks {
		err = fmt.Errorf("the provider has had %d effects for %d tasks", counts.Effects, tasks)
	}
	return err
}
