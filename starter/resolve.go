package main

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"headgate/client"
	"headgate/contract"
)

func newResolveCommand() *cobra.Command {
	var d door
	var word contract.Resolution
	c := &cobra.Command{
		Use:   "resolve TENANT KEY happened|did_not_happen|failed",
		Short: "Say what happened to a task whose outcome is unknown",
		Long: `Resolve is a person's word on an unknown outcome. Ask the provider first.

  happened        the effect happened: the task ends SUCCEEDED
  did_not_happen  it did not: the task may be tried again
  failed          it did not, and shall not be tried again: the task ends FAILED

--version is the one that "headgate unknown" or "headgate status" shows; if
something was found out since, the decision is refused. --id names the decision:
the same again changes nothing and answers as the first time.`,
		Example: `  headgate resolve acme inv-42 happened --version 3 --evidence "charge ch_123 in the portal"`,
		Args:    cobra.RangeArgs(2, 3),
		RunE: func(c *cobra.Command, args []string) error {
			last := len(args) - 1
			tenant, key, err := taskArgs(args[:last])
			if err != nil {
				return err
			}
			word.Outcome = args[last]
			switch word.Outcome {
			case contract.Happened, contract.DidNotHappen, contract.FailedFinding:
			default:
				return withStatus(exitUsage, "outcome %q: want happened, did_not_happen or failed", word.Outcome)
			}
			if word.ID == "" {
				word.ID = rand.Text() // made here, so that a repetition by the transport is none
			}
			var done contract.ResolveReply
			if err := d.post(c.Context(), client.TaskPath(tenant, key)+"/resolve", word, &done); err != nil {
				return err
			}
			if d.json {
				return printJSON(c.OutOrStdout(), done)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", contract.TaskID(tenant, key), done.Verdict)
			return err
		},
	}
	d.flags(c)
	c.Flags().StringVar(&word.Evidence, "evidence", "", "how you know (required)")
	c.Flags().IntVar(&word.Version, "version", 0, "the version that you have seen (required)")
	c.Flags().StringVar(&word.ID, "id", "", "name of this decision, to repeat it safely")
	actorFlag(c, &word.Actor)
	_ = c.MarkFlagRequired("evidence") // the flags are there
	_ = c.MarkFlagRequired("version")
	return c
}

// actorFlag adds who gives an order.
func actorFlag(c *cobra.Command, actor *string) {
	c.Flags().StringVar(actor, "actor", cmp.Or(os.Getenv("HEADGATE_ACTOR"), os.Getenv("USER")), "who you are (or HEADGATE_ACTOR)")
}
