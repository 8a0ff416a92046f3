package main

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"headgate/admission"
	"headgate/client"
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
			var why gateway.WhyView
			if err := d.get(c.Context(), client.TaskPath(tenant, key)+"/why", url.Values{}, &why); err != nil {
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

func printWhy(w io.Writer, why gateway.WhyView) error {
	if why.Stand == admission.StandAbsent {
		text := "The budget holds nothing for it: it has ended, or its outcome is being looked up (headgate status)."
		if why.Reason != "" { // it has not heard of it yet
			text = strings.TrimSuffix(fmt.Sprintf("The budget has refused it: %s: %s", why.Reason, cell(why.Detail)), ": -") + "."
		}
		_, err := fmt.Fprintln(w, text)
		return err
	}
	estimate, lease := "", ""
	if why.Estimate > 0 {
		estimate = "about " + short(why.Estimate.D())
	}
	if why.Lease != nil {
		lease = why.Lease.ID + ", granted " + stamp(&why.Lease.Granted)
	}
	waits := strings.TrimSpace(string(why.Reason) + " " + why.Resource)
	if text := meanings[why.Reason]; text != "" {
		waits += " (" + text + ")"
	}
	return pairs(w,
		"stands", why.Stand,
		"attempt", positive(why.Attempt),
		"waits on", waits,
		"detail", why.Detail,
		"since", stamp(why.Since),
		"until", stamp(why.Until),
		"tried first", why.First,
		"position", positive(why.Position),
		"starts in", estimate,
		"lease", lease)
}

// meanings explain what a task waits on.
var meanings = map[admission.Reason]string{
	admission.Capacity:       "nothing of it is free",
	admission.TurnWait:       "others are served before it",
	admission.Approval:       "a person decides first: headgate approvals",
	admission.NotYet:         "its earliest start has not come",
	admission.TenantPaused:   "its tenant is paused",
	admission.TenantInFlight: "its tenant has as many running as it may",
	admission.AgentInFlight:  "its agent has as many running as it may",
	admission.ProviderHold:   "the provider asked for a pause",
	admission.BreakerOpen:    "the provider failed too often",
	admission.BreakerProbe:   "one task is tried first",
}
