// Command headgate-server is Temporal in one process: server, Web UI and SQLite storage, so that Headgate runs on one
// machine with nothing installed.
//
// It answers to `server start-dev` with the flags that the SDKs' test suites pass to the Temporal CLI, and differs in
// what it promises: everything acknowledged survives SIGKILL and power loss (--db-filename, WAL with full sync), the
// namespace keeps closed workflows for --retention, and Headgate's search attributes exist. When all of that holds and
// the frontend answers, one line that starts with "ready" goes to stdout; logs go to stderr.
//
// It is a module of its own because the server pins API versions that the current SDK does not build with.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	uiversion "github.com/temporalio/ui-server/v2/server/version"
	"go.temporal.io/server/common/headers"
)

const program = "headgate-server"

// gcPercent trades memory for time: a fifth of the CPU of a small call goes into collecting otherwise, and the heap is
// some 100 MB (GOGC overrides).
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0 after a clean stop, 1 for a failure, 2 for a command that makes no sense.
func run(args []string, stdout, stderr io.Writer) int {
	err := dispatch(args, stdout)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		printHelp(stdout)
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(stderr, "%s: %v\nsee %s --help\n", program, err, program)
		return 2
	default:
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return 1
	}
}

func dispatch(args []string, stdout io.Writer) error {
	switch {
	case len(args) == 0:
		return usageErrorf("no command")
	case args[0] == "version" || args[0] == "--version":
		_, err := fmt.Fprintf(stdout, "%s: Temporal server %s, Web UI %s\n", program, headers.ServerVersion, uiversion.UIVersion)
		return err
	case args[0] == "help" || args[0] == "--help" || args[0] == "-h":
		return flag.ErrHelp
	case args[0] == "server" && len(args) > 1 && args[1] == "start-dev":
		o, err := parseFlags(args[2:])
		if err != nil {
			return err
		}
		return startDev(o, stdout)
	case args[0] == "server" && len(args) > 1 && (args[1] == "--help" || args[1] == "-h"):
		return flag.ErrHelp
	default:
		return usageErrorf("unknown command %q", strings.Join(args, " "))
	}
}

// startDev runs until SIGINT or SIGTERM.
func startDev(o options, stdout io.Writer) error {
	ctx, forget := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer forget()

	// 1. Everything that can be refused with a clear message, before the server starts to log.
	if err := checkPortFree(o.ip, o.port, "frontend", "--port"); err != nil {
		return err
	}
	if o.uiPort != 0 {
		if err := checkPortFree(o.ip, o.uiPort, "Web UI", "--ui-port"); err != nil {
			return err
		}
	}
	st, err := openStores(o)
	if err != nil {
		return err
	}
	defer st.close()

	// 2. Server, then what must be true of the namespace, then the UI.
	srv, err := startServer(o, st)
	if err != nil {
		return err
	}
	if err = bootstrap(ctx, o); err == nil && o.uiPort != 0 {
		err = startUI(ctx, o)
	}
	if err != nil {
		if ctx.Err() != nil { // told to stop while starting: that is no failure
			err = nil
		}
		return errors.Join(err, srv.stop())
	}

	// 3. One line for whoever waits, then wait for the signal.
	srv.logs.ready()
	if _, err := fmt.Fprintln(stdout, readyLine(o)); err != nil {
		return errors.Join(err, srv.stop())
	}
	<-ctx.Done()
	forget() // a second signal ends the process at once
	return srv.stop()
}

func readyLine(o options) string {
	ui, db := "none", "memory"
	if o.uiPort != 0 {
		ui = "http://" + dialAddress(o.ip, o.uiPort)
	}
	if o.dbFile != "" {
		db = o.dbFile
	}
	return fmt.Sprintf("ready frontend=%s namespace=%s ui=%s db=%s", dialAddress(o.ip, o.port), o.namespace, ui, db)
}

func printHelp(w io.Writer) {
	fmt.Fprintf(w, `%s: the Temporal server, its Web UI and SQLite in one process.

  %s server start-dev [flags]   run until SIGINT or SIGTERM
  %s version                    print the versions inside
  %s --help                     this text

Flags of server start-dev:
`, program, program, program, program)
	printFlags(w)
}
