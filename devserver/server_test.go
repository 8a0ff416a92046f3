//go:build linux

package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
)

var tenant = temporal.NewSearchAttributeKeyKeyword("HeadgateTenant")

func TestAcknowledgedWorkSurvivesKill(t *testing.T) {
	db := filepath.Join(t.TempDir(), "run", "temporal.db") // the folder does not exist either
	s := start(t, "--db-filename", db, "--retention", "48h", "--headless")
	c := s.dial(t)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID:                    "task/acme/inv-42",
		TaskQueue:             "nobody-polls",
		TypedSearchAttributes: temporal.NewSearchAttributes(tenant.ValueSet("acme")),
	}, "Task")
	require.NoError(t, err)
	require.NoError(t, c.SignalWorkflow(t.Context(), run.GetID(), run.GetRunID(), "report", "kept"))
	require.Equal(t, 48*time.Hour, s.retention(t, c))
	require.True(t, isWAL(t, db))
	require.True(t, isWAL(t, visibilityPath(db)))

	s.kill()

	s = start(t, "--db-filename", db, "--retention=72h", "--headless", "--search-attribute", "Later=Int")
	c = s.dial(t)
	events := history(t, c, run)
	require.Equal(t, enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, events[0].GetEventType())
	var signals []string
	for _, e := range events {
		if signal := e.GetWorkflowExecutionSignaledEventAttributes(); signal != nil {
			signals = append(signals, signal.GetSignalName()+" "+string(signal.GetInput().GetPayloads()[0].GetData()))
		}
	}
	require.Equal(t, []string{`report "kept"`}, signals)
	require.Equal(t, 72*time.Hour, s.retention(t, c), "retention is applied to an existing namespace")

	// The row in the visibility file is written after the start was acknowledged; the task that writes it is durable.
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Equal(t, int64(1), count(t, c, "HeadgateTenant = 'acme'"))
	}, 20*time.Second, 50*time.Millisecond)
	for name := range headgateSearchAttributes {
		require.Zero(t, count(t, c, name+" = 'nobody'"))
	}
	require.Zero(t, count(t, c, "Later = 1"), "an attribute added to an existing database can be searched by at once")
}

func TestBackupIsUsableElsewhere(t *testing.T) {
	db := filepath.Join(t.TempDir(), "a%20#b?c", "temporal.db") // a path that a URI would garble
	s := start(t, "--db-filename", db, "--headless")
	_, err := s.dial(t).ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID:                    "task/acme/inv-42",
		TaskQueue:             "nobody-polls",
		TypedSearchAttributes: temporal.NewSearchAttributes(tenant.ValueSet("acme")),
	}, "Task")
	require.NoError(t, err)
	s.kill()
	restored := filepath.Join(t.TempDir(), "restored")
	require.NoError(t, os.CopyFS(restored, os.DirFS(filepath.Dir(db))))

	s = start(t, "--db-filename", filepath.Join(restored, "temporal.db"), "--headless")
	c := s.dial(t)
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Equal(t, int64(1), count(t, c, "HeadgateTenant = 'acme'"))
	}, 20*time.Second, 50*time.Millisecond)
}

func TestStopIsCleanAndFast(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			s := start(t, "--db-filename", filepath.Join(t.TempDir(), "temporal.db"))
			began := time.Now()
			require.NoError(t, s.cmd.Process.Signal(signal))
			require.NoError(t, s.wait(), &s.stderr)
			require.Less(t, time.Since(began), stopTimeout)
			require.Empty(t, s.stderr.String(), "an ordinary start and stop has nothing to say")
		})
	}
}

func TestWebUI(t *testing.T) {
	s := start(t)
	require.Contains(t, s.readyLine, "ui=http://127.0.0.1:"+s.uiPort)
	for _, path := range []string{"/", "/api/v1/namespaces/default"} {
		require.Equal(t, http.StatusOK, s.getUI(t, path), path)
	}
	// A list by tenant, as the console links to it.
	require.Equal(t, http.StatusOK, s.getUI(t, "/api/v1/namespaces/default/workflows?query="+url.QueryEscape("HeadgateTenant='acme'")))

	s = start(t, "--headless")
	require.Contains(t, s.readyLine, "ui=none")
	_, err := net.Dial("tcp", "127.0.0.1:"+s.uiPort)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestSDKTestSuiteStartsIt(t *testing.T) {
	t.Setenv(becomeServer, binary)
	self, err := os.Executable()
	require.NoError(t, err)
	port := freePort(t)
	var stderr buffer
	dev, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath:  self,
		ClientOptions: &client.Options{HostPort: "127.0.0.1:" + port, Namespace: "other", Logger: quiet{}},
		DBFilename:    filepath.Join(t.TempDir(), "temporal.db"),
		LogLevel:      "error",
		LogFormat:     "json",
		SearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyBool("Flag").ValueSet(true),
		),
		Stderr: &stderr,
	})
	require.NoError(t, err, &stderr)
	t.Cleanup(func() { require.NoError(t, dev.Stop()) })
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Zero(t, countIn(t, dev.Client(), "other", "Flag = true AND HeadgateAgent = 'x'"))
	}, 20*time.Second, 50*time.Millisecond)
}

func TestRefusals(t *testing.T) {
	s := start(t, "--headless", "--db-filename", filepath.Join(t.TempDir(), "temporal.db"))
	free := freePort(t)
	folder := t.TempDir()
	text := filepath.Join(folder, "text.db")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("no database\n", 100)), 0o600))

	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"frontend port taken": {[]string{"--port", s.port, "--headless"}, 1, "address already in use"},
		"UI port taken":       {[]string{"--port", free, "--ui-port", s.port}, 1, "--ui-port chooses another port"},
		"database in use":     {[]string{"--port", free, "--headless", "--db-filename", s.db}, 1, "another server is using it"},
		"database is a folder": {
			[]string{"--port", free, "--headless", "--db-filename", folder}, 1, "database file " + folder},
		"folder cannot be made": {
			[]string{"--port", free, "--headless", "--db-filename", filepath.Join(text, "x.db")}, 1, "not a directory"},
		"not a database": {
			[]string{"--port", free, "--headless", "--db-filename", text}, 1, "file is not a database"},
		"unknown flag":          {[]string{"--no-such"}, 2, "unknown flag --no-such"},
		"stray argument":        {[]string{"--headless", "stray"}, 2, `unexpected argument "stray"`},
		"port out of range":     {[]string{"--port", "70000"}, 2, "--port 70000 is not a port"},
		"UI port out of range":  {[]string{"--port", "65000"}, 2, "--ui-port 66000 is not a port"},
		"retention too short":   {[]string{"--retention", "1m"}, 2, "below the server's minimum of 1h"},
		"no value":              {[]string{"--dynamic-config-value", "history.rps"}, 2, "want KEY=VALUE"},
		"unknown type":          {[]string{"--search-attribute", "X=Word"}, 2, `"Word" is no search attribute type`},
		"our attribute retyped": {[]string{"--search-attribute", "HeadgateTenant=Int"}, 2, "always of type Keyword"},
		"log level":             {[]string{"--log-level", "loud"}, 2, "is none of debug, error, info, never, warn"},
	} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, append([]string{"server", "start-dev"}, test.args...)...)
			require.Equal(t, test.code, p.exitCode(), &p.stderr)
			require.Contains(t, p.stderr.String(), test.want)
			require.LessOrEqual(t, strings.Count(p.stderr.String(), "\n"), 3, "an error is a sentence, not a log: %s", &p.stderr)
			require.Empty(t, p.stdout.String())
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string]string{
		"version": "Temporal server 1.", "--version": "Web UI 2.", "--help": "--db-filename file",
		"server --help": "--retention", "server start-dev --help": "--dynamic-config-value",
	} {
		p := launch(t, strings.Fields(args)...)
		require.Zero(t, p.exitCode(), args)
		require.Contains(t, p.stdout.String(), want, args)
	}
}

func history(t *testing.T, c client.Client, run client.WorkflowRun) (events []*historypb.HistoryEvent) {
	t.Helper()
	iterator := c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iterator.HasNext() {
		event, err := iterator.Next()
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}

func count(t require.TestingT, c client.Client, query string) int64 {
	return countIn(t, c, "default", query)
}

func countIn(t require.TestingT, c client.Client, namespace, query string) int64 {
	res, err := c.CountWorkflow(context.Background(), &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: query})
	require.NoError(t, err, query)
	return res.GetCount()
}

// isWAL reads the journal mode where SQLite keeps it: bytes 18 and 19 of the file.
func isWAL(t *testing.T, path string) bool {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "SQLite format 3\x00", string(file[:16]), path)
	return bytes.Equal(file[18:20], []byte{2, 2})
}
