package main

import "github.com/spf13/cobra"

func newResumeCommand() *cobra.Command {
	var d door
	var order pauseOrder
	c := &cobra.Command{
		Use:   "resume TENANT",
		Short: "Let a paused tenant's work go on",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return d.order(c, args[0], "resume", order) },
	}
	d.flags(c)
	c.Flags().StringVar(&order.Reason, "reason", "", "why, for everybody to see")
	actorFlag(c, &order.Actor)
	return c
}
