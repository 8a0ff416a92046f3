package main

import (
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"headgate/contract"
)

func newUnknownCommand() *cobra.Command {
	var d door
	var of inbox
	c := &cobra.Command{
		Use:   "unknown",
		Short: "List tasks whose outcome only a person can tell",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return of.show(c, &d, "/v1/unknown", "No outcome is unknown.", printUnknown)
		},
	}
	d.flags(c)
	of.flags(c)
	return c
}

// inbox is which of the tasks that wait for a person are listed.
type inbox struct {
	tenant string
	limit  int
}

func (of *inbox) flags(c *cobra.Command) {
	c.Flags().StringVar(&of.tenant, "tenant", "", "of this tenant only")
	limitFlag(c, &of.limit)
}

// show lists them; none is what it says if there are none.
func (of *inbox) show(c *cobra.Command, d *door, path, none string, table func(*cobra.Command, []contract.TaskView, time.Time) error) error {
	query := url.Values{}
	if of.tenant != "" {
		query.Set("tenant", of.tenant)
	}
	page, err := d.list(c, path, query, of.limit)
	if err != nil {
		return err
	}
	if d.json {
		return printJSON(c.OutOrStdout(), page)
	}
	if len(page.Tasks) == 0 && page.Cursor == "" {
		_, err := fmt.Fprintln(c.OutOrStdout(), none)
		return err
	}
	if err := table(c, page.Tasks, time.Now()); err != nil {
		return err
	}
	return more(c.ErrOrStderr(), page)
}

func printUnknown(c *cobra.Command, tasks []contract.TaskView, now time.Time) error {
	rows := make([][]string, 0, len(tasks))
	for _, v := range tasks {
		row := []string{v.Tenant, v.Key, v.Operation, fmt.Sprint(v.Attempts), v.ErrorClass, age(v.Accepted, now), "", "", costText(v.Held), v.NextStep}
		if s := v.Reconciliation; s != nil {
			since := age(&s.Since, now)
			if s.Overdue {
				since += " (overdue)"
			}
			row[5], row[6], row[7] = since, fmt.Sprint(s.Probes), fmt.Sprint(s.Version)
		}
		rows = append(rows, row)
	}
	if err := table(c.OutOrStdout(), []string{"TENANT", "KEY", "OPERATION", "ATTEMPT", "REASON", "SINCE", "LOOK-UPS", "VERSION", "HELD", "NEXT SAFE STEP"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprint(c.ErrOrStderr(), `
Ask the provider what happened, then say so:
  headgate resolve TENANT KEY happened|did_not_happen|failed --version VERSION --evidence "how you know"
A task without a version was ended from outside; nothing waits for its outcome any more.
`)
	return err
}
