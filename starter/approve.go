package main

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headgate/client"
	"headgate/contract"
)

func newApprovalsCommand() *cobra.Command {
	var d door
	var of inbox
	c := &cobra.Command{
		Use:   "approvals [TENANT KEY]",
		Short: "List tasks that wait for an approval, or show one with its payload",
		Args:  cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return d.showApproval(c, args)
			}
			return of.show(c, &d, "/v1/approvals", "Nothing waits for an approval.", printApprovals)
		},
	}
	d.flags(c)
	of.flags(c)
	return c
}

func (d *door) showApproval(c *cobra.Command, args []string) error {
	asks, err := d.approvalOf(c, args)
	if err != nil {
		return err
	}
	if d.json {
		return printJSON(c.OutOrStdout(), asks)
	}
	a := asks.Task.Approval
	return pairs(c.OutOrStdout(), "task", asks.Task.Task, "operation", asks.Task.Operation, "agent", asks.Task.Agent, "rule", asks.Rule,
		"payload", string(asks.Payload), "payload hash", a.Hash, "declaration", a.Digest, "since", stamp(&a.Since), "expires", stamp(&a.Expires),
		"version", fmt.Sprint(a.Version))
}

func (d *door) approvalOf(c *cobra.Command, args []string) (contract.ApprovalView, error) {
	var asks contract.ApprovalView
	tenant, key, err := taskArgs(args)
	if err != nil {
		return asks, err
	}
	if err := d.get(c.Context(), client.TaskPath(tenant, key)+"/approval", url.Values{}, &asks); err != nil {
		return asks, err
	}
	if asks.Task.Approval == nil {
		return asks, fmt.Errorf("%s does not answer like a Headgate gateway", d.gateway)
	}
	return asks, nil
}

func printApprovals(c *cobra.Command, tasks []contract.TaskView, now time.Time) error {
	rows := make([][]string, 0, len(tasks))
	for _, v := range tasks {
		a := v.Approval
		rows = append(rows, []string{v.Tenant, v.Key, v.Operation, v.Agent, age(&a.Since, now), short(a.Expires.Sub(now)), shortHash(a.Hash), fmt.Sprint(a.Version)})
	}
	return table(c.OutOrStdout(), []string{"TENANT", "KEY", "OPERATION", "AGENT", "SINCE", "EXPIRES IN", "PAYLOAD HASH", "VERSION"}, rows)
}

// hashPrefix is how much of a payload hash a person must repeat.
const hashPrefix = len("sha256:") + 12

func shortHash(hash string) string { return hash[:min(len(hash), hashPrefix)] }

func newApproveCommand() *cobra.Command {
	return newApprovalCommand("approve", "Let a task that waits for an approval go on", "approve",
		`Approve lets a task go on that waits for a person. Look at its payload first
(headgate approvals TENANT KEY). The approval is of this payload and this
declaration of the operation, by somebody who has not asked for the task, and is
used once.`)
}

func newDeclineCommand() *cobra.Command {
	return newApprovalCommand("decline", "End a task that waits for an approval", "decline",
		`Decline ends a task that waits for an approval: FAILED, without an effect.`)
}

func newApprovalCommand(name, short, path, long string) *cobra.Command {
	var d door
	var word contract.ApprovalDecision
	c := &cobra.Command{
		Use: name + " TENANT KEY", Short: short, Long: long,
		Example: "  headgate " + name + ` acme inv-42 --version 1 --payload-hash sha256:0123456789ab --evidence "the invoice is right"`,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(word.Hash) < hashPrefix {
				return withStatus(exitUsage, "--payload-hash %q: want at least %d characters of the hash that you have seen", word.Hash, hashPrefix)
			}
			asks, err := d.approvalOf(c, args)
			if err != nil {
				return err
			}
			a := asks.Task.Approval
			if !strings.HasPrefix(a.Hash, word.Hash) {
				return withStatus(exitRefused, "the task's payload has the hash %s, not %s: nothing was sent", shortHash(a.Hash), word.Hash)
			}
			word.Hash, word.Digest = a.Hash, a.Digest
			if word.ID == "" {
				word.ID = rand.Text()
			}
			var done contract.ApprovalReply
			if err := d.post(c.Context(), client.TaskPath(asks.Task.Tenant, asks.Task.Key)+"/"+path, approvalBody(word), &done); err != nil {
				return err
			}
			if d.json {
				return printJSON(c.OutOrStdout(), done)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", asks.Task.Task, done.Outcome)
			return err
		},
	}
	d.flags(c)
	c.Flags().StringVar(&word.Evidence, "evidence", "", "why (required)")
	c.Flags().IntVar(&word.Version, "version", 0, "the version that you have seen (required)")
	c.Flags().StringVar(&word.Hash, "payload-hash", "", "hash of the payload that you have seen, or its beginning (required)")
	c.Flags().StringVar(&word.ID, "id", "", "name of this decision, to repeat it safely")
	actorFlag(c, &word.Actor)
	for _, flag := range []string{"evidence", "version", "payload-hash"} {
		_ = c.MarkFlagRequired(flag) // the flags are there
	}
	return c
}

// approvalBody is a decision without its outcome, which the path says.
func approvalBody(word contract.ApprovalDecision) map[string]any {
	return map[string]any{"id": word.ID, "actor": word.Actor, "evidence": word.Evidence, "version": word.Version,
		"payload_hash": word.Hash, "operation_digest": word.Digest}
}
