package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one program of a world. It leads a process group of its own and dies
// with the bench. The drill's processes are not used here: those reach Temporal
// through a proxy, which would be measured too.
type process struct {
	name string
	pid  int
	log  string
	done chan struct{}
	err  error // set when done is closed
}

// launch starts a program from a thread that lives as long as the program does:
// the parent-death signal is sent when the starting thread ends.
func launch(dir, name, program string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...) //nolint:noctx // it is stopped by close, in order
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = log.Close() }()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", name, err)
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, <-started
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

// lost is an error if the process has ended.
func (p *process) lost() error {
	select {
	case <-p.done:
		if p.err == nil {
			return fmt.Errorf("%s ended by itself", p.name)
		}
		return fmt.Errorf("%s ended by itself: %w", p.name, p.err)
	default:
		return nil
	}
}

// kill ends the process and waits for its end.
func (p *process) kill() {
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // it may have ended
	<-p.done
}

// tail is the end of the log.
func (p *process) tail(lines int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// tick is the unit of processor times in /proc.
const tick = 10 * time.Millisecond

// used is the processor time of the process so far.
func (p *process) used() (time.Duration, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything; the 14th and 15th fields are
	// the times in user and kernel mode.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, errors.New("/proc: too few fields")
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	kernel, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+kernel) * tick, errors.Join(err1, err2)
}
