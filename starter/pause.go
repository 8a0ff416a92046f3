package main

import (
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"headgate/contract"
)

// pauseOrder is the body of a pause; absent fields keep the gateway's defaults.
type pauseOrder struct {
	Dispatch  *bool      `json:"dispatch,omitempty"`
	Admission bool       `json:"admission,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Actor     string     `json:"actor,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
}

func newPauseCommand() *cobra.Command {
	var d door
	var order pauseOrder
	var dispatch bool
	var until string
	c := &cobra.Command{
		Use:   "pause TENANT",
		Short: "Hold a tenant's work back",
		Long: `Pause holds a tenant's work back: what runs goes on to its end, what waits gets no
lease. New work is still accepted and waits, unless --admission closes that too.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if order.Until, err = readTime("--until", until, time.Now()); err != nil {
				return err
			}
			order.Dispatch = &dispatch
			return d.order(c, args[0], "pause", order)
		},
	}
	d.flags(c)
	c.Flags().BoolVar(&dispatch, "dispatch", true, "give out no new lease")
	c.Flags().BoolVar(&order.Admission, "admission", false, "accept no new task")
	c.Flags().StringVar(&order.Reason, "reason", "", "why, for everybody to see")
	c.Flags().StringVar(&until, "until", "", "a time, or a duration from now (default: until resumed)")
	actorFlag(c, &order.Actor)
	return c
}

func (d *door) order(c *cobra.Command, tenant, verb string, order any) error {
	if err := contract.CheckName("tenant", tenant); err != nil {
		return withStatus(exitUsage, "%w", err)
	}
	var done contract.PauseRequest
	if err := d.post(c.Context(), "/v1/tenants/"+url.PathEscape(tenant)+"/"+verb, order, &done); err != nil {
		return err
	}
	if d.json {
		return printJSON(c.OutOrStdout(), done)
	}
	text := "is resumed"
	switch {
	case done.Dispatch && done.Admission:
		text = "is paused and closed: no new lease, no new task"
	case done.Dispatch:
		text = "is paused: no new lease; new tasks wait"
	case done.Admission:
		text = "is closed: no new task; what is accepted goes on"
	}
	if done.Until != nil {
		text += ", until " + stamp(done.Until)
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s\n", done.Tenant, text)
	return err
}
