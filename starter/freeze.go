package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"headgate/contract"
)

// freezeOrder is the body of a freeze.
type freezeOrder struct {
	Reason string `json:"reason,omitempty"`
	Actor  string `json:"actor,omitempty"`
}

func newFreezeCommand() *cobra.Command {
	c := freezeCommand("freeze", "Let nothing of an operation be dispatched any more")
	c.Long = `Freeze stops an operation for all tenants: no attempt of it gets a lease, and
attempts that have one but are not dispatched yet go back to the queue. What was
dispatched before ends by its outcome. New tasks are accepted and wait.`
	_ = c.MarkFlagRequired("reason") // the flag is there
	return c
}

func newUnfreezeCommand() *cobra.Command {
	return freezeCommand("unfreeze", "Let a frozen operation go on")
}

func freezeCommand(verb, short string) *cobra.Command {
	var d door
	var order freezeOrder
	c := &cobra.Command{
		Use:   verb + " OPERATION",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := operationPath(args[0], verb)
			if err != nil {
				return err
			}
			var done contract.FreezeReply
			if err := d.call(c.Context(), http.MethodPut, path, nil, order, &done); err != nil {
				return err
			}
			if d.json {
				return printJSON(c.OutOrStdout(), done)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), freezeText(done))
			return err
		},
	}
	d.flags(c)
	c.Flags().StringVar(&order.Reason, "reason", "", "why, for everybody to see")
	actorFlag(c, &order.Actor)
	return c
}

func freezeText(done contract.FreezeReply) string {
	switch {
	case done.Freeze == nil:
		return done.Operation + " goes on"
	case done.Stopping > 0:
		return fmt.Sprintf("%s is frozen: no new lease; %d attempts may still dispatch, since they could not be asked to stop yet (see headgate queue)", done.Operation, done.Stopping)
	}
	return done.Operation + " is frozen: nothing of it is dispatched any more; what was dispatched before ends by its outcome"
}
