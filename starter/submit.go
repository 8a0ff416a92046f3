package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headgate/admission"
	"headgate/client"
	"headgate/contract"
)

func newSubmitCommand() *cobra.Command {
	var d door
	var s contract.SubmitRequest
	var key, payload, priority, deadline, notBefore string
	var wait time.Duration
	var b bulk
	c := &cobra.Command{
		Use:   "submit OPERATION --tenant TENANT | --file FILE",
		Short: "Ask for a side effect, or for many",
		Long: `Submit asks for one side effect. The key makes it safe to repeat: the same key is
the same task, so a command that broke off can be run again with the same key.
Without --key a new one is made up and printed.

With --file it asks for many: each line is an object like the body of POST /v1/tasks
(tenant, operation, payload, ...) and has a "key". It waits as long as the gateway
asks (Retry-After), and sends the same line with the same key again. What is done is
kept in FILE.progress: after a break, the same command goes on from there.`,
		Example: `  headgate submit charge_card --tenant acme --key inv-42 --payload '{"amount": 1200}' --wait
  headgate submit charge_card --tenant acme --payload @charge.json --deadline 10m
  echo '{"amount": 1200}' | headgate submit charge_card --tenant acme --payload -
  headgate submit --file tasks.jsonl --tenant acme`,
		Args: func(c *cobra.Command, args []string) error {
			if b.file != "" {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if b.file != "" {
				ctx, stop := untilSignal(c.Context())
				defer stop()
				b.tenant = s.Tenant
				return b.run(ctx, &d, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
			}
			if s.Tenant == "" {
				return withStatus(exitUsage, "--tenant is needed")
			}
			s.Operation = args[0]
			if key == "" {
				key = rand.Text()
			}
			if err := contract.CheckKey(key); err != nil {
				return withStatus(exitUsage, "--key: %w", err)
			}
			if err := s.Priority.UnmarshalText([]byte(priority)); err != nil {
				return withStatus(exitUsage, "--%w", err)
			}
			var err error
			if s.Payload, err = readPayload(payload, c.InOrStdin()); err != nil {
				return err
			}
			now := time.Now()
			if s.Deadline, err = readTime("--deadline", deadline, now); err != nil {
				return err
			}
			if s.NotBefore, err = readTime("--not-before", notBefore, now); err != nil {
				return err
			}
			var view contract.TaskView
			header := http.Header{"Idempotency-Key": {client.QuoteKey(key)}}
			if err := d.call(c.Context(), http.MethodPost, "/v1/tasks", header, s, &view); err != nil {
				var refused *client.Refusal
				if errors.As(err, &refused) && d.json {
					return errors.Join(err, printJSON(c.OutOrStdout(), refused.Problem))
				}
				return err
			}
			return d.showTask(c, view, wait)
		},
	}
	f := c.Flags()
	d.flags(c)
	f.StringVar(&s.Tenant, "tenant", "", "who the work is for; with --file, of lines that name nobody")
	f.StringVar(&s.Agent, "agent", "", "which of the tenant's agents asks")
	f.StringVar(&key, "key", "", "request key: one key is one task (default: a new one)")
	f.StringVar(&payload, "payload", "", "JSON, @FILE, or - for standard input")
	f.StringVar(&priority, "priority", admission.Normal.String(), "low, normal, high or critical")
	f.StringVar(&deadline, "deadline", "", "latest start: a time, or a duration from now such as 10m")
	f.StringVar(&notBefore, "not-before", "", "earliest start: a time, or a duration from now")
	f.StringVar(&s.Intent, "intent", "", "business key: an earlier task of the tenant that has it is met, also with another key")
	f.StringVar(&s.SameIntent, "same-intent", "", "what happens then: refuse, return or allow (default: what the operation declares)")
	waitFlag(c, &wait)
	b.flags(c)
	return c
}

// waitFlag adds --wait, alone or with a duration.
func waitFlag(c *cobra.Command, wait *time.Duration) {
	c.Flags().DurationVar(wait, "wait", 0, "wait for the end, alone or at most so long (--wait=30s)")
	c.Flags().Lookup("wait").NoOptDefVal = "24h"
}

// showTask prints a task, after waiting for its end if that was asked for.
func (d *door) showTask(c *cobra.Command, view contract.TaskView, wait time.Duration) error {
	var err error
	if wait > 0 {
		if view, err = d.await(c.Context(), view.Tenant, view.Key, wait); err != nil {
			return err
		}
	}
	if d.json {
		err = printJSON(c.OutOrStdout(), view)
	} else {
		err = printTask(c.OutOrStdout(), view)
	}
	if err == nil && wait > 0 {
		if status := phaseStatus(view.Phase); status != exitDone {
			return &statusError{status: status}
		}
	}
	return err
}

// await waits until a task is in an end phase or the time is up.
func (d *door) await(ctx context.Context, tenant, key string, wait time.Duration) (contract.TaskView, error) {
	c, err := d.client()
	if err != nil {
		return contract.TaskView{}, err
	}
	c.Retry.Tries = 1 // a person sees what went wrong, and when
	view, err := c.Wait(ctx, tenant, key, wait)
	return view, d.worded(err)
}

// readPayload reads the value of --payload; it must be JSON, which the gateway
// will say as well, but later.
func readPayload(text string, stdin io.Reader) (json.RawMessage, error) {
	raw := []byte(text)
	var err error
	switch {
	case text == "":
		return nil, nil
	case text == "-":
		raw, err = io.ReadAll(io.LimitReader(stdin, 8*contract.MaxPayload))
	case strings.HasPrefix(text, "@"):
		raw, err = os.ReadFile(text[1:])
	}
	if err != nil {
		return nil, withStatus(exitUsage, "--payload: %w", err)
	}
	if raw = bytes.TrimSpace(raw); !json.Valid(raw) {
		return nil, withStatus(exitUsage, "--payload is not JSON: put it in quotes, or write @FILE or - to read it")
	}
	return raw, nil
}

// readTime reads a time, or a duration from now.
func readTime(flag, text string, now time.Time) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		at := now.Add(d)
		return &at, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, withStatus(exitUsage, "%s %q: want a duration such as 10m, or a time such as 2026-12-01T10:00:00Z", flag, text)
	}
	return &at, nil
}
