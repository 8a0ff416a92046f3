package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// A taken port is refused before anything starts, with the flag that changes it.
func TestTakenPorts(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", "")
	t.Setenv("HEADGATE_SERVER_BIN", "/bin/false")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	port := taken.Addr().(*net.TCPAddr).Port
	address := taken.Addr().String()
	for flag, value := range map[string]string{"--listen": address, "--sample-listen": address,
		"--temporal-port": fmt.Sprint(port), "--ui-port": fmt.Sprint(port)} {
		args := []string{"dev", "--config", "../headgate.yaml", "--data", t.TempDir(), "--listen", "127.0.0.1:0",
			"--sample-listen", "127.0.0.1:0", "--temporal-port", "0", "--ui-port", "0", flag, value}
		got := command("", args...)
		assert.Equal(t, exitInternal, got.status, flag)
		assert.Contains(t, got.errors, flag+": cannot listen on 127.0.0.1:"+fmt.Sprint(port))
		assert.Contains(t, got.errors, "Choose another port with "+flag)
	}
	got := command("", "gateway", "--config", "../headgate.yaml", "--listen", address)
	assert.Contains(t, got.errors, "--listen: cannot listen")
}

// script is a server program of our own making.
func script(t *testing.T, text string) *dev {
	path := filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	t.Setenv("HEADGATE_SERVER_BIN", path)
	return &dev{data: t.TempDir()}
}

func TestServerStartsAndStops(t *testing.T) {
	d := script(t, `echo "$@" >&2; trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
	var stderr strings.Builder
	s, err := d.startServer(t.Context(), &stderr)
	require.NoError(t, err)
	s.stop(zap.NewNop())
	assert.Equal(t, "exit status 0", s.ended())
	assert.Contains(t, stderr.String(), "server start-dev --ip 127.0.0.1")
	assert.Contains(t, stderr.String(), "--retention 720h0m0s")
	assert.Contains(t, stderr.String(), filepath.Join(d.data, "temporal.db"))
	s.stop(zap.NewNop()) // twice is once
}

func TestServerThatEndsAtOnce(t *testing.T) {
	d := script(t, "exit 3")
	_, err := d.startServer(t.Context(), &strings.Builder{})
	assert.ErrorContains(t, err, "exit status 3")
}

func TestServerThatIsWaitedForInVain(t *testing.T) {
	d := script(t, "exec sleep 60")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := d.startServer(ctx, &strings.Builder{})
	assert.ErrorIs(t, err, context.Canceled)
}

// The end of the server ends everything, with a word about it; a signal does not
// count as a failure.
func TestServerThatEndsLater(t *testing.T) {
	d := script(t, `echo ready; exec sleep 60`)
	s, err := d.startServer(t.Context(), &strings.Builder{})
	require.NoError(t, err)
	ctx := s.bind(t.Context())
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGKILL))
	<-ctx.Done()
	err = ended(ctx, nil)
	require.ErrorIs(t, err, errServerEnded)
	assert.ErrorContains(t, err, "no accepted task is lost")

	told, stop := context.WithCancel(t.Context())
	stop()
	assert.NoError(t, ended(told, errors.New("a part was cut off")))
	assert.Error(t, ended(t.Context(), errors.New("a part failed")))
}

func TestServerProgram(t *testing.T) {
	t.Setenv("HEADGATE_SERVER_BIN", "/does/not/exist")
	_, _, err := serverProgram()
	assert.ErrorContains(t, err, "HEADGATE_SERVER_BIN")

	folder := t.TempDir()
	t.Setenv("HEADGATE_SERVER_BIN", "")
	t.Setenv("PATH", folder)
	_, _, err = serverProgram()
	assert.ErrorContains(t, err, "make build")

	cli := filepath.Join(folder, "temporal")
	require.NoError(t, os.WriteFile(cli, []byte("#!/bin/sh\n"), 0o700))
	path, embedded, err := serverProgram()
	require.NoError(t, err)
	assert.Equal(t, cli, path)
	assert.False(t, embedded)
	args := strings.Join((&dev{temporalPort: 1, uiPort: 2}).serverArgs("f", false), " ")
	assert.Contains(t, args, "journal_mode=WAL")
	assert.Contains(t, args, "HeadgateTenant=Keyword")
	assert.NotContains(t, args, "--retention")
}

func TestPartsEndTogether(t *testing.T) {
	p := newParts(t.Context())
	broken := errors.New("broken")
	p.start("first", func(ctx context.Context) error { <-ctx.Done(); return nil })
	p.start("second", func(context.Context) error { return broken })
	err := p.wait()
	assert.ErrorIs(t, err, broken)
	assert.ErrorContains(t, err, "second: broken")
}

func TestSampleFitsTheSampleConfiguration(t *testing.T) {
	checked, err := loadConfig("../headgate.yaml")
	require.NoError(t, err)
	tenants := map[string]bool{}
	for _, task := range sampleTasks() {
		_, ok := checked.Operation(task.operation)
		assert.True(t, ok, task.operation)
		tenants[task.tenant] = true
	}
	assert.Len(t, tenants, 2)
	g := newCannedGateway(t, map[string][]canned{submitRoute: {{202, task("accepted")}, problem(429, "queue_full", "retry_later", 1), {202, task("accepted")}}})
	keys := sendSample(t.Context(), &door{gateway: g.URL}, checked, time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC), zap.NewNop())
	assert.Len(t, keys, len(sampleTasks())-1)
	assert.Equal(t, "sample-20261201-100000-1", keys[0])
}

func TestConfigCheckAndVersion(t *testing.T) {
	got := command("", "config", "check", "../headgate.yaml")
	assert.Equal(t, exitDone, got.status)
	assert.Contains(t, got.out, "../headgate.yaml is valid: ")
	got = command("", "version")
	assert.Equal(t, exitDone, got.status)
	assert.Regexp(t, `^headgate \S+ go1\.\S+ \S+/\S+\n$`, got.out)
}
