package main

import (
	"github.com/spf13/cobra"

	"headgate/client"
	"headgate/contract"
)

func newCancelCommand() *cobra.Command {
	var d door
	var order struct {
		Actor  string `json:"actor,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
	c := &cobra.Command{
		Use:   "cancel TENANT KEY",
		Short: "Ask for a task to be cancelled before it is dispatched",
		Long: `Cancel asks for a task to be cancelled. A task whose effect has been dispatched
cannot be cancelled: its outcome decides.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			tenant, key, err := taskArgs(args)
			if err != nil {
				return err
			}
			var view contract.TaskView
			if err := d.post(c.Context(), client.TaskPath(tenant, key)+"/cancel", order, &view); err != nil {
				return err
			}
			return d.showTask(c, view, 0)
		},
	}
	d.flags(c)
	c.Flags().StringVar(&order.Reason, "reason", "", "why, for everybody to see")
	actorFlag(c, &order.Actor)
	return c
}
