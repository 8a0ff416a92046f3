package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"headgate/testsuite/proxy"
)

// Process is one program of the world. It leads a process group of its own, and
// dies with the drill. It can be started again after it ended.
type Process struct {
	Name  string
	Proxy *proxy.Proxy // its way to Temporal; nil: it needs none

	program string
	args    []string
	log     string // file that all its runs append to
	ready   readiness

	mu       sync.Mutex
	run      *run // nil: never started
	stopped  bool // by SIGSTOP
	expected bool // the end of the run was our doing
}

// run is one life of a process.
type run struct {
	pid  int
	done chan struct{}
	err  error // set when done is closed
}

// Start starts the process and waits until it serves.
func (p *Process) Start(ctx context.Context) error {
	serves := p.ready()
	r, err := p.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.mu.Lock()
	p.run, p.stopped, p.expected = r, false, false
	p.mu.Unlock()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.done:
			cancel(fmt.Errorf("it ended: %w", r.ended()))
		case <-ctx.Done():
		}
	}()
	if err := serves(ctx); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// launch starts the program from a thread that lives as long as the program
// does: the parent-death signal is sent when the starting thread ends.
func (p *Process) launch() (*run, error) {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.program, p.args...)
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r := &run{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = log.Close() }()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		r.pid = cmd.Process.Pid
		started <- nil
		r.err = cmd.Wait()
		close(r.done)
	}()
	return r, <-started
}

// environment is ours without what would point the programs elsewhere.
func environment() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "TEMPORAL_") && !strings.HasPrefix(pair, "HEADGATE_") {
			env = append(env, pair)
		}
	}
	return env
}

// Kill ends the process group at once, as a lost machine would, and waits for
// the end.
func (p *Process) Kill() {
	p.mu.Lock()
	r := p.run
	p.expected = true
	p.mu.Unlock()
	if r == nil {
		return
	}
	_ = syscall.Kill(-r.pid, syscall.SIGKILL)
	<-r.done
}

// Pause stops the process where it is. It returns when every thread stands: on a
// busy machine that is some time after the signal.
func (p *Process) Pause(ctx context.Context) error {
	pid, err := p.signal(syscall.SIGSTOP, true)
	if err != nil {
		return err
	}
	return until(ctx, p.Name+" stands still", func(context.Context) (bool, error) { return standsStill(pid) })
}

// Continue lets a paused process go on.
func (p *Process) Continue() error {
	_, err := p.signal(syscall.SIGCONT, false)
	return err
}

func (p *Process) signal(sig syscall.Signal, stopped bool) (pid int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0, fmt.Errorf("%s was never started", p.Name)
	}
	if err := syscall.Kill(-p.run.pid, sig); err != nil {
		return 0, fmt.Errorf("signal %s: %w", p.Name, err)
	}
	p.stopped = stopped
	return p.run.pid, nil
}

// standsStill tells whether every thread of a process is stopped.
func standsStill(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err == nil && len(threads) == 0 {
		err = fmt.Errorf("process %d is gone", pid)
	}
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread has ended
		}
		// "pid (name) state ...", where the name may hold anything.
		if after := stat[bytes.LastIndexByte(stat, ')')+1:]; len(after) < 2 || after[1] != 'T' {
			return false, nil
		}
	}
	return true, nil
}

// running tells whether the process lives, paused or not.
func (p *Process) running() bool {
	p.mu.Lock()
	r := p.run
	p.mu.Unlock()
	if r == nil {
		return false
	}
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// Lost is an error if the process ended without having been killed.
func (p *Process) Lost() error {
	p.mu.Lock()
	r, expected := p.run, p.expected
	p.mu.Unlock()
	if r == nil || expected || p.running() {
		return nil
	}
	return fmt.Errorf("%s ended by itself: %w", p.Name, r.ended())
}

// heal brings the process back to life, if it is not alive and well.
func (p *Process) heal(ctx context.Context) error {
	p.mu.Lock()
	stopped := p.stopped
	p.mu.Unlock()
	if !p.running() {
		return p.Start(ctx)
	}
	if stopped {
		return p.Continue()
	}
	return nil
}

// Replace makes another program of the process, from its next start on.
func (p *Process) Replace(program string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.program = program
}

// PID is the number of the present run, or of the last; 0: there was none.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.pid
}

// Tail is the end of the log.
func (p *Process) Tail(lines int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

func (r *run) ended() error {
	if r.err == nil {
		return errors.New("exit status 0")
	}
	return r.err
}

// until asks again and again until the answer is yes, the answer is an error, or
// ctx ends. what names the condition in the error.
func until(ctx context.Context, what string, ask func(ctx context.Context) (bool, error)) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := ask(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(context.Cause(ctx), err))
		}
		if err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		if yes {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
