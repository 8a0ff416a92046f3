//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// binary is the program under test: HEADGATE_SERVER_BIN, or built here.
var binary string

// becomeServer names the environment variable that turns this test program into the server it names, bound to the life
// of its parent. It stands in where somebody else starts the process and cannot be told to bind it.
const becomeServer = "HEADGATE_TEST_BECOME_SERVER"

const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if path := os.Getenv(becomeServer); path != "" {
		runtime.LockOSThread() // the signal is a property of the thread, and exec must keep that one
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		panic(syscall.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ()))
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if binary = os.Getenv("HEADGATE_SERVER_BIN"); binary != "" {
		return m.Run()
	}
	folder, err := os.MkdirTemp("", "headgate-server-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	binary = filepath.Join(folder, program)
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, ".").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("building the server: %v\n%s", err, out))
	}
	return m.Run()
}

// process is one run of the program. It ends with the test, or with the test program, whichever is first.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr buffer
	ready          chan string // the ready line
	done           chan struct{}
	err            error // of Wait; set when done is closed
}

func launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), ready: make(chan string, 1), done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			_, _ = fmt.Fprintln(&p.stdout, lines.Text())
			if strings.HasPrefix(lines.Text(), "ready ") {
				p.ready <- lines.Text()
			}
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// wait returns what the process ended with.
func (p *process) wait() error {
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
		return fmt.Errorf("still running after %s", patience)
	}
}

func (p *process) exitCode() int {
	_ = p.wait()
	return p.cmd.ProcessState.ExitCode()
}

// devServer is a process that answers.
type devServer struct {
	*process
	address, port, uiPort, db, readyLine string
}

func start(t *testing.T, args ...string) *devServer {
	t.Helper()
	s := &devServer{port: freePort(t), uiPort: freePort(t)}
	s.address = "127.0.0.1:" + s.port
	for i, arg := range args {
		if arg == "--db-filename" {
			s.db = args[i+1]
		}
	}
	s.process = launch(t, append([]string{"server", "start-dev", "--port", s.port, "--ui-port", s.uiPort}, args...)...)
	select {
	case s.readyLine = <-s.ready:
	case <-s.done:
		t.Fatalf("the server ended before it was ready: %v\n%s", s.err, &s.stderr)
	case <-time.After(patience):
		t.Fatalf("the server was not ready within %s\n%s", patience, &s.stderr)
	}
	return s
}

// dial connects once, without a retry: the ready line promises that the server answers.
func (s *devServer) dial(t *testing.T) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: s.address, Logger: quiet{}})
	require.NoError(t, err, &s.stderr)
	t.Cleanup(c.Close)
	return c
}

func (s *devServer) retention(t *testing.T, c client.Client) time.Duration {
	t.Helper()
	res, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "default"})
	require.NoError(t, err)
	return res.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
}

func (s *devServer) getUI(t *testing.T, path string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+s.uiPort+path, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode
}

func freePort(t *testing.T) string {
	t.Helper()
	port, err := reservePort()
	require.NoError(t, err)
	return strconv.Itoa(port)
}

// buffer may be read while the process writes.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// quiet is a logger that drops everything.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
