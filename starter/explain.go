package main

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"headgate/client"
	"headgate/contract"
)

func newExplainCommand() *cobra.Command {
	var d door
	c := &cobra.Command{
		Use:   "explain TENANT KEY",
		Short: "Tell everything that happened to a task, and where it stands",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			tenant, key, err := taskArgs(args)
			if err != nil {
				return err
			}
			var x contract.Explanation
			if err := d.get(c.Context(), client.TaskPath(tenant, key)+"/explain", url.Values{}, &x); err != nil {
				return err
			}
			if d.json {
				return printJSON(c.OutOrStdout(), x)
			}
			return printExplanation(c.OutOrStdout(), x)
		},
	}
	d.flags(c)
	return c
}

func printExplanation(w io.Writer, x contract.Explanation) error {
	rows := make([][]string, 0, len(x.Events))
	for _, e := range x.Events {
		detail := e.Detail
		if e.Actor != "" {
			detail = strings.TrimSpace(detail + " [" + e.Actor + "]")
		}
		rows = append(rows, []string{e.At.UTC().Format("01-02 15:04:05.000"), positive(e.Attempt), e.Name, detail})
	}
	fmt.Fprintf(w, "%s\n\n", cell(x.Task.Task))
	if err := table(w, []string{"TIME (UTC)", "ATTEMPT", "EVENT", "WHAT [BY WHOM]"}, rows); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n", cell(x.Sentence))
	for _, f := range x.Findings {
		fmt.Fprintf(w, "FOUND by %s at %s: %s: %s\n", cell(f.Actor), f.At.UTC().Format("01-02 15:04:05"), cell(f.Kind), cell(f.Detail))
	}
	if x.FindingsUnread {
		fmt.Fprintln(w, "No worker says whether something was found wrong about it from outside.")
	}
	return nil
}
