package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"gopkg.in/yaml.v3"
)

// options is what one `server start-dev` was asked for, validated.
type options struct {
	ip        net.IP // the frontend and the Web UI listen here; internal services never leave the loopback
	port      int
	uiPort    int // 0 with --headless
	namespace string
	retention time.Duration
	dbFile    string            // empty: in memory, everything is gone at exit
	pragmas   map[string]string // SQLite pragmas over the defaults

	dynamicConfig    map[string]any // server settings over the defaults
	searchAttributes map[string]enums.IndexedValueType

	logLevel, logFormat string
}

// minRetention is the server's own lower bound for a namespace.
const minRetention = time.Hour

// usageError is an error in how the command was called, as opposed to one met while running.
type usageError struct{ error }

func usageErrorf(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// dashes turns the flag package's way of naming flags into the one used here.
var dashes = strings.NewReplacer("flag provided but not defined: -", "unknown flag --", "for flag -", "for --", "argument: -", "argument: --")

// parseFlags reads the arguments after `server start-dev`. It returns flag.ErrHelp when help was asked for.
func parseFlags(args []string) (options, error) {
	o := options{
		pragmas:          map[string]string{},
		dynamicConfig:    map[string]any{},
		searchAttributes: maps.Clone(headgateSearchAttributes),
	}
	var ip string
	var headless bool
	fs := newFlagSet(&o, &ip, &headless)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, usageErrorf("%s", dashes.Replace(err.Error()))
	}
	if fs.NArg() > 0 {
		return o, usageErrorf("unexpected argument %q", fs.Arg(0))
	}

	addr, err := net.ResolveIPAddr("ip", ip)
	if err != nil || addr.IP == nil {
		return o, usageErrorf("--ip %q is not an address", ip)
	}
	o.ip = addr.IP
	if err := checkPortNumber("--port", o.port); err != nil {
		return o, err
	}
	switch {
	case headless:
		o.uiPort = 0
	case o.uiPort == 0:
		o.uiPort = o.port + 1000
	}
	if !headless {
		if err := checkPortNumber("--ui-port", o.uiPort); err != nil {
			return o, err
		}
		if o.uiPort == o.port {
			return o, usageErrorf("--ui-port and --port are both %d", o.port)
		}
	}
	if o.namespace == "" {
		return o, usageErrorf("--namespace is empty")
	}
	if o.retention < minRetention {
		return o, usageErrorf("--retention %s is below the server's minimum of %s", o.retention, minRetention)
	}
	if _, ok := logLevels[o.logLevel]; !ok {
		return o, usageErrorf("--log-level %q is none of %s", o.logLevel, names(logLevels))
	}
	if _, ok := logFormats[o.logFormat]; !ok {
		return o, usageErrorf("--log-format %q is none of %s", o.logFormat, names(logFormats))
	}
	return o, nil
}

func newFlagSet(o *options, ip *string, headless *bool) *flag.FlagSet {
	fs := flag.NewFlagSet("server start-dev", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // main prints errors and help, once
	fs.StringVar(ip, "ip", "127.0.0.1", "`address` that the frontend and the Web UI listen on")
	fs.IntVar(&o.port, "port", 7233, "frontend `port`")
	fs.IntVar(&o.uiPort, "ui-port", 0, "Web UI `port` (default: the frontend port + 1000)")
	fs.BoolVar(headless, "headless", false, "leave the Web UI out")
	fs.StringVar(&o.namespace, "namespace", "default", "`name` of the namespace, created when missing")
	fs.DurationVar(&o.retention, "retention", 720*time.Hour, "how long closed workflows are kept, applied at every start")
	fs.StringVar(&o.dbFile, "db-filename", "", "SQLite `file`, created when missing (default: in memory)")
	fs.Func("sqlite-pragma", "SQLite `name=value` over the defaults (repeatable)", func(s string) error {
		name, value, err := cutPair(s)
		o.pragmas[name] = value
		return err
	})
	fs.Func("dynamic-config-value", "server setting as `key=value`, the value in JSON or YAML (repeatable)", func(s string) error {
		key, text, err := cutPair(s)
		if err != nil {
			return err
		}
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return fmt.Errorf("value of %s: %w", key, err)
		}
		o.dynamicConfig[key] = value
		return nil
	})
	fs.Func("search-attribute", "extra search attribute as `name=type` (repeatable)", func(s string) error {
		name, text, err := cutPair(s)
		if err != nil {
			return err
		}
		kind, err := enums.IndexedValueTypeFromString(text)
		if err != nil || kind == enums.INDEXED_VALUE_TYPE_UNSPECIFIED {
			return fmt.Errorf("%q is no search attribute type: want Keyword, KeywordList, Text, Int, Double, Bool or Datetime", text)
		}
		if ours, ok := headgateSearchAttributes[name]; ok && ours != kind {
			return fmt.Errorf("%s is always of type %s", name, ours)
		}
		o.searchAttributes[name] = kind
		return nil
	})
	fs.StringVar(&o.logLevel, "log-level", "warn", "`level`, one of "+names(logLevels))
	fs.StringVar(&o.logFormat, "log-format", "text", "`format`, one of "+names(logFormats))
	return fs
}

// printFlags lists the flags the way they are meant to be typed, with two dashes.
func printFlags(w io.Writer) {
	newFlagSet(&options{}, new(string), new(bool)).VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		def := ""
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
			def = " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  --%-32s %s%s\n", strings.TrimSpace(f.Name+" "+value), usage, def)
	})
}

func cutPair(s string) (key, value string, err error) {
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" {
		return "", "", errors.New("want KEY=VALUE")
	}
	return key, value, nil
}

func checkPortNumber(name string, port int) error {
	if port < 1 || port > 65535 {
		return usageErrorf("%s %d is not a port (1 to 65535)", name, port)
	}
	return nil
}

func names[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
