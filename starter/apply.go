package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"headgate/contract"
	"headgate/starter/gateway"
)

// applied is what an apply did, or would do.
type applied struct {
	Before  string   `json:"before"` // digests
	After   string   `json:"after"`
	Changes []change `json:"changes"`
	Applied bool     `json:"applied"`

	file  string
	stale bool // the gateway reads another file
}

func newApplyCommand() *cobra.Command {
	var d door
	var file string
	var dry bool
	order := contract.ConfigureRequest{}
	c := &cobra.Command{
		Use:   "apply",
		Short: "Put the limits of a configuration in force, without a restart",
		Long: `Apply gives the running budget the limits of a configuration: resources, queue,
tenants, and what admission does for each operation. A running budget keeps its
limits until then, whatever file a process starts with.

What runs goes on: above a limit that has shrunk, nothing more is started until
use is below it. What waits and can never fit any more ends FAILED, without an
effect. Everything else about operations (requests, timeouts, retries, probes) is
read by gateways and workers when they start.`,
		Example: `  headgate apply --dry-run
  headgate apply -f headgate.yaml --actor mara`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			checked, err := loadConfig(file)
			if err != nil {
				return err
			}
			var running gateway.BudgetView
			if err := d.get(c.Context(), "/v1/budget", url.Values{}, &running); err != nil {
				return err
			}
			a := applied{Before: running.Digest, After: checked.PolicyDigest(), Changes: changes(running.Policy, checked.Budget),
				file: file, stale: running.File != checked.PolicyDigest()}
			if a.Before != a.After && !dry {
				order.Policy = checked.Budget
				var done contract.ConfigureReply
				if err := d.call(c.Context(), http.MethodPut, "/v1/budget", nil, order, &done); err != nil {
					return err
				}
				a.Before, a.After, a.Applied = done.Before, done.After, true
			}
			if d.json {
				return printJSON(c.OutOrStdout(), a)
			}
			return a.print(c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	d.flags(c)
	configFlag(c, &file)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would change")
	actorFlag(c, &order.Actor)
	return c
}

func (a applied) print(stdout, stderr io.Writer) error {
	if a.Before == a.After && !a.Applied {
		_, err := fmt.Fprintf(stdout, "The budget runs the policy of %s already (%s).\n", a.file, shortDigest(a.After))
		return err
	}
	rows := make([][]string, 0, len(a.Changes))
	for _, c := range a.Changes {
		rows = append(rows, []string{c.Limit, c.Before, c.After})
	}
	if err := table(stdout, []string{"LIMIT", "BEFORE", "AFTER"}, rows); err != nil {
		return err
	}
	if !a.Applied {
		_, err := fmt.Fprintf(stdout, "\nNothing has changed: the budget runs %s, %s has %s.\n", shortDigest(a.Before), a.file, shortDigest(a.After))
		return err
	}
	if a.stale {
		fmt.Fprintln(stderr, "The gateway was started with another policy in its file; give it this file at its next start.")
	}
	_, err := fmt.Fprintf(stdout, "\nThe policy of %s is in force: %s, before %s.\n", a.file, shortDigest(a.After), shortDigest(a.Before))
	return err
}
