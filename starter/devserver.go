package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	"headgate/contract"
)

const (
	serverStart = 90 * time.Second // to answer for the first time
	serverStop  = 15 * time.Second // from SIGTERM to SIGKILL; it gives itself ten
	// keepFor is how long ended tasks are kept, and so how long a key is remembered.
	keepFor = 720 * time.Hour
)

// server is the Temporal server as our child. It leads a process group of its
// own, so that Ctrl-C reaches us alone and we stop it last; it gets SIGTERM when
// we die in whatever way.
type server struct {
	embedded bool
	cmd      *exec.Cmd
	done     chan struct{}
	err      error // set when done is closed
}

// startServer starts the embedded server, or the Temporal CLI's, and waits until
// it answers.
func (d *dev) startServer(ctx context.Context, stderr io.Writer) (*server, error) {
	if err := free("--temporal-port", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.temporalPort))); err != nil {
		return nil, err
	}
	if err := free("--ui-port", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.uiPort))); err != nil {
		return nil, err
	}
	program, embedded, err := serverProgram()
	if err != nil {
		return nil, err
	}
	file, err := d.database()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, d.serverArgs(file, embedded)...) //nolint:noctx // it is stopped by signal, in order
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	s := &server{embedded: embedded, cmd: cmd, done: make(chan struct{})}
	ready := make(chan struct{})
	if err := s.start(output, ready); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	wait, cancel := context.WithTimeout(ctx, serverStart)
	defer cancel()
	select {
	case <-ready:
		return s, nil
	case <-s.done:
		return nil, withStatus(exitInternal, "%s ended before it answered (%s); its last words are above", filepath.Base(program), s.ended())
	case <-wait.Done():
		s.stop(zap.NewNop())
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, withStatus(exitUnreachable, "%s did not answer within %s", filepath.Base(program), serverStart)
	}
}

// serverProgram finds the server: embedded is false for the Temporal CLI.
func serverProgram() (path string, embedded bool, err error) {
	if named := os.Getenv("HEADGATE_SERVER_BIN"); named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", false, withStatus(exitUsage, "HEADGATE_SERVER_BIN: %w", err)
		}
		return named, true, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "headgate-server")
		if _, err := os.Stat(beside); err == nil {
			return beside, true, nil
		}
	}
	if cli, err := exec.LookPath("temporal"); err == nil {
		return cli, false, nil
	}
	return "", false, withStatus(exitUsage, `no Temporal server was found: build the embedded one ("make build" puts headgate-server beside headgate),
install the Temporal CLI, or name a running server with TEMPORAL_ADDRESS`)
}

func (d *dev) serverArgs(file string, embedded bool) []string {
	args := []string{"server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(d.temporalPort),
		"--ui-port", strconv.Itoa(d.uiPort), "--db-filename", file, "--namespace", cmp.Or(d.namespace, "default")}
	if embedded {
		return append(args, "--retention", keepFor.String())
	}
	// What the embedded server does by itself.
	args = append(args, "--log-level", "warn", "--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=FULL")
	for _, a := range []string{contract.TenantAttribute, contract.OperationAttribute, contract.PriorityAttribute, contract.PhaseAttribute, contract.AgentAttribute} {
		args = append(args, "--search-attribute", a+"=Keyword")
	}
	for _, v := range []string{"history.transferProcessorMaxPollRPS=2000", "history.timerProcessorMaxPollRPS=2000",
		"history.maxInFlightUpdates=100", "matching.numTaskqueueReadPartitions=1", "matching.numTaskqueueWritePartitions=1"} {
		args = append(args, "--dynamic-config-value", v)
	}
	return args
}

// keep sets for how long ended tasks are kept; the embedded server has done it.
func (s *server) keep(ctx context.Context, temporal client.Client, namespace string) error {
	if s.embedded {
		return nil
	}
	_, err := temporal.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
		Namespace: cmp.Or(namespace, client.DefaultNamespace),
		Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(keepFor)},
	})
	if err != nil {
		return fmt.Errorf("setting the retention of ended tasks: %w", err)
	}
	return nil
}

// start runs the child from a thread that lives as long as the child does: the
// signal at our death is bound to the thread. ready is closed at the first line
// of output: both programs write it once they answer.
func (s *server) start(output io.Reader, ready chan<- struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := s.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		lines := bufio.NewScanner(output)
		if lines.Scan() {
			close(ready)
		}
		_, _ = io.Copy(io.Discard, output) // until the child ends
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	return <-started
}

var errServerEnded = errors.New("the Temporal server ended")

// bind gives a context that ends with the server.
func (s *server) bind(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		select {
		case <-s.done:
			cancel(withStatus(exitUnreachable, "%w by itself (%s); start again: no accepted task is lost", errServerEnded, s.ended()))
		case <-ctx.Done():
			cancel(nil)
		}
	}()
	return ctx
}

// ended says how a child ended that is done.
func (s *server) ended() string {
	if s.err == nil {
		return "exit status 0"
	}
	return strings.TrimSpace(s.err.Error())
}

// stop ends the server: gently, then by force.
func (s *server) stop(log *zap.Logger) {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	force := time.NewTimer(serverStop)
	defer force.Stop()
	select {
	case <-s.done:
	case <-force.C:
		log.Warn("the Temporal server is slow to stop and is killed; its data is safe")
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}
