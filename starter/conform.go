package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headgate/activities"
	"headgate/config"
	"headgate/starter/conform"
)

func newConformCommand() *cobra.Command {
	var file, payload, other, failing string
	var asJSON bool
	o := conform.Options{}
	c := &cobra.Command{
		Use:   "conform OPERATION --payload JSON",
		Short: "Try an operation's declaration against its provider",
		Long: `Conform sends requests to the provider of an operation, and compares what it does
with what the configuration declares of it: keys, errors under a key, look-ups and
their lag, cancels. Each line is match, mismatch or unverifiable. The exit status
is 0 without a mismatch, else 4.

It makes real effects, under keys of the tenant "conform": use the provider's
sandbox. Credentials come from this command's environment, as a worker's do.`,
		Example: `  headgate conform charge_card --payload '{"amount": 1}' --other '{"amount": 2}'
  headgate conform charge_card --payload @good.json --failing @bad.json --patience 2m --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			checked, err := loadConfig(file)
			if err != nil {
				return err
			}
			op, ok := checked.Operation(args[0])
			if !ok {
				return withStatus(exitUsage, "there is no operation %q in %s", args[0], file)
			}
			if op.Declared.Type != activities.HTTPType {
				return withStatus(exitUsage, "operation %s is of type %s: only http operations can be tried", args[0], op.Declared.Type)
			}
			o.Operation, o.Network = op.Declared, activities.Network{Private: checked.Network.Private}
			if o.Run == "" {
				o.Run = strings.ToLower(rand.Text()[:8])
			}
			for _, flag := range []struct {
				text string
				into *json.RawMessage
			}{{payload, &o.Payload}, {other, &o.Other}, {failing, &o.Failing}} {
				if *flag.into, err = readCanonical(flag.text, c.InOrStdin()); err != nil {
					return err
				}
			}
			ctx, stop := untilSignal(c.Context())
			defer stop()
			report, err := conform.Run(ctx, o)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), report)
			} else {
				err = printConform(c.OutOrStdout(), report)
			}
			if err == nil && report.Mismatches > 0 {
				return withStatus(exitRefused, "the provider does not do what is declared of it: %d of %d checks", report.Mismatches, len(report.Lines))
			}
			return err
		},
	}
	configFlag(c, &file)
	f := c.Flags()
	f.StringVar(&payload, "payload", "", "of an effect that the provider makes: JSON, @FILE, or - for standard input (required)")
	f.StringVar(&other, "other", "", "another good payload, for the check of one key with two bodies")
	f.StringVar(&failing, "failing", "", "a payload that the provider answers with an error")
	f.StringVar(&o.Run, "run", "", "name of the trial, from which its keys come (default: a new one)")
	f.DurationVar(&o.Patience, "patience", 30*time.Second, "longest wait for one thing")
	f.BoolVar(&asJSON, "json", false, "write the report as JSON")
	_ = c.MarkFlagRequired("payload") // the flag is there
	return c
}

// readCanonical is readPayload in the form in which payloads are sent.
func readCanonical(text string, stdin io.Reader) (json.RawMessage, error) {
	raw, err := readPayload(text, stdin)
	if err != nil || raw == nil {
		return nil, err
	}
	canonical, err := config.Canonical(bytes.TrimSpace(raw))
	if err != nil {
		return nil, withStatus(exitUsage, "%w", err)
	}
	return canonical, nil
}

func printConform(w io.Writer, r conform.Report) error {
	version := ""
	if r.Version != "" {
		version = ", provider " + r.Version
	}
	if _, err := fmt.Fprintf(w, "%s, declaration %s%s; run %s made %d effects\n\n", r.Operation, shortDigest(r.Digest), version, r.Run, r.Effects); err != nil {
		return err
	}
	rows := make([][]string, len(r.Lines))
	for i, l := range r.Lines {
		rows[i] = []string{l.Check, string(l.Verdict), l.Declared, l.Seen}
	}
	return table(w, []string{"CHECK", "VERDICT", "DECLARED", "SEEN"}, rows)
}
