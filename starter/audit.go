package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"headgate/contract"
)

// auditLook is the pause between two looks at an audit that is under way.
const auditLook = 300 * time.Millisecond

func newAuditCommand() *cobra.Command {
	var d door
	var actor string
	c := &cobra.Command{
		Use:   "audit OPERATION",
		Short: "Hold what the provider has against what the tasks say",
		Long: `Audit looks up every task of an operation that has ended, and, where the provider
can list its effects (probe.list), finds those that no task explains. It changes no
task; what it finds is kept (headgate findings), and freezes the operation if that
is configured (on_finding: freeze).

The exit status is 0 if everything was asked and agrees, 10 if something was found,
and 8 if nothing was found but not everything could be asked.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := operationPath(args[0], "audit")
			if err != nil {
				return err
			}
			view, err := d.audit(c.Context(), path, actor)
			if err != nil {
				return err
			}
			if d.json {
				err = printJSON(c.OutOrStdout(), view)
			} else {
				err = printAudit(c.OutOrStdout(), view)
			}
			if err != nil {
				return err
			}
			return auditStatus(view)
		},
	}
	d.flags(c)
	actorFlag(c, &actor)
	return c
}

func newFindingsCommand() *cobra.Command {
	var d door
	c := &cobra.Command{
		Use:   "findings OPERATION",
		Short: "Show what was found wrong about an operation's effects",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := operationPath(args[0], "findings")
			if err != nil {
				return err
			}
			var view contract.FindingsView
			if err := d.get(c.Context(), path, nil, &view); err != nil {
				return err
			}
			if d.json {
				return printJSON(c.OutOrStdout(), view)
			}
			if len(view.Findings) == 0 {
				_, err := fmt.Fprintf(c.OutOrStdout(), "nothing was found about %s\n", view.Operation)
				return err
			}
			return printFindings(c.OutOrStdout(), view.Findings)
		},
	}
	d.flags(c)
	return c
}

func operationPath(operation, what string) (string, error) {
	if err := contract.CheckName("operation", operation); err != nil {
		return "", withStatus(exitUsage, "%w", err)
	}
	return "/v1/operations/" + url.PathEscape(operation) + "/" + what, nil
}

// audit starts one and waits for its end.
func (d *door) audit(ctx context.Context, path, actor string) (contract.AuditView, error) {
	var view contract.AuditView
	if err := d.post(ctx, path, map[string]string{"actor": actor}, &view); err != nil {
		return view, err
	}
	run := url.Values{"run": {view.Run}}
	tick := time.NewTicker(auditLook)
	defer tick.Stop()
	for view.State == contract.AuditRunning {
		select {
		case <-ctx.Done():
			return view, ctx.Err()
		case <-tick.C:
		}
		if err := d.get(ctx, path, run, &view); err != nil {
			return view, err
		}
	}
	return view, nil
}

func printAudit(w io.Writer, v contract.AuditView) error {
	r := v.Report
	if r == nil {
		_, err := fmt.Fprintf(w, "the audit of %s did not come to its end: %s\n", v.Operation, v.Detail)
		return err
	}
	fmt.Fprintf(w, "%s: %d tasks, %d open, %d as the provider says, %d unclear.\n", r.Operation, r.Tasks, r.Open, r.Agreed, r.Unclear)
	switch r.Listing {
	case contract.ListingComplete:
		fmt.Fprintf(w, "The provider lists %d effects with keys of ours.\n", r.Listed)
	case contract.ListingFailed:
		fmt.Fprintf(w, "The provider's listing failed (%s): nothing is known about orphans.\n", r.Detail)
	default:
		fmt.Fprintln(w, "The provider is not asked for a list (probe.list): orphans are not looked for.")
	}
	if len(r.Findings) > 0 {
		fmt.Fprintln(w)
		if err := printFindings(w, r.Findings); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", map[string]string{contract.AuditClean: "clean", contract.AuditFound: "something is wrong: a person must look at the provider",
		contract.AuditUnknown: "unknown: not everything could be asked"}[v.Verdict])
	return err
}

func printFindings(w io.Writer, list []contract.Finding) error {
	rows := make([][]string, len(list))
	for i, f := range list {
		count := ""
		if f.Count > 0 {
			count = fmt.Sprint(f.Count)
		}
		rows[i] = []string{f.Kind, f.Task, f.Effect, count, stamp(&f.At), f.Actor, f.Detail}
	}
	return table(w, []string{"FINDING", "TASK", "EFFECT", "COUNT", "FOUND", "BY", "DETAIL"}, rows)
}

// auditStatus is the exit status of an audit. What is not known is never clean.
func auditStatus(v contract.AuditView) error {
	switch v.Verdict {
	case contract.AuditClean:
		return nil
	case contract.AuditFound:
		return &statusError{status: exitFound}
	}
	return &statusError{status: exitUnknown}
}
