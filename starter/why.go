package main

import (
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"headgate/admission"
	"headgate/starter/gateway"
)

func newWhyCommand() *cobra.Command {
	var d door
	c := &cobra.Command{
		Use:   "why TENANT KEY",
		Short: "Tell what a task waits on",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			tenant, key, err := taskArgs(args)
			if err != nil {
				return err
			}
			var why admission.Why
			if err := d.get(c.Context(), gateway.TaskPath(tenant, key)+"/why", url.Values{}, &why); err != nil {
				return err
			}
			if d.json {
				return printJSON(c.OutOrStdout(), why)
			}
			return printWhy(c.OutOrStdout(), why)
		},
	}
	d.flags(c)
	return c
}

func printWhy(w io.Writer, why admission.Why) error {
	if why.Stand == admission.StandAbsent {
		_, err := fmt.Fprintln(w, "The budget holds nothing for it: it has ended, or its outcome is being looked up (headgate status).")
		return err
	}
	estimate, lease := "", ""
	if why.Estimate > 0 {
		estimate = "about " + short(why.Estimate.D())
	}
	if why.Lease != nil {
		lease = why.Lease.ID + ", granted " + stamp(&why.Lease.Granted)
	}
	return pairs(w,
		"stands", why.Stand,
		"attempt", positive(why.Attempt),
		"waits on", string(why.Reason),
		"resource", why.Resource,
		"detail", why.Detail,
		"since", stamp(why.Since),
		"position", positive(why.Position),
		"starts in", estimate,
		"lease", lease)
}
