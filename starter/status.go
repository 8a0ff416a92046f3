package main

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"headgate/client"
	"headgate/contract"
)

func newStatusCommand() *cobra.Command {
	var d door
	var wait time.Duration
	c := &cobra.Command{
		Use:   "status TENANT KEY",
		Short: "Tell how a task stands",
		Long:  "Status tells how a task stands. It needs no worker: it reads what Temporal has stored.",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			tenant, key, err := taskArgs(args)
			if err != nil {
				return err
			}
			view := contract.TaskView{Tenant: tenant, Key: key}
			if wait == 0 {
				if err := d.get(c.Context(), client.TaskPath(tenant, key), url.Values{}, &view); err != nil {
					return err
				}
			}
			return d.showTask(c, view, wait)
		},
	}
	d.flags(c)
	waitFlag(c, &wait)
	return c
}
