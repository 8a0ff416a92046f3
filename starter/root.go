package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Run runs one command line and gives its exit status (see exit.go). Commands
// write what was asked for to stdout, and errors and progress to stderr.
func Run(args []string, stdout, stderr io.Writer) int {
	return run(args, os.Stdin, stdout, stderr)
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return exitStatus(root.ExecuteContext(context.Background()), stderr)
}

// newRoot is the tree of all commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "headgate",
		Short: "Durable side effects for AI agents: admitted, counted, and never in doubt in silence",
		Long: `Headgate runs the side effects of AI agents as Temporal workflows. It decides
whether a task may start now and what becomes of it if not, and it finds out
whether an effect happened when nobody saw the answer.

Start with "headgate dev", which runs everything on this machine.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddGroup(
		&cobra.Group{ID: "processes", Title: "Processes:"},
		&cobra.Group{ID: "tasks", Title: "Tasks:"},
		&cobra.Group{ID: "operators", Title: "For operators:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("processes", newDevCommand(), newGatewayCommand(), newWorkerCommand())
	add("tasks", newSubmitCommand(), newStatusCommand(), newListCommand(), newExplainCommand(), newWhyCommand(), newCancelCommand(), newMCPCommand())
	add("operators", newQueueCommand(), newWatchCommand(), newUnknownCommand(), newResolveCommand(), newApprovalsCommand(), newApproveCommand(), newDeclineCommand(),
		newPauseCommand(), newResumeCommand(),
		newFreezeCommand(), newUnfreezeCommand(), newAuditCommand(), newFindingsCommand(),
		newApplyCommand(), newConfigCommand(), newKeysCommand(), newConformCommand(), newDrillCommand(), newChaosCommand(), newBenchCommand())
	root.AddCommand(newVersionCommand(), newProviderCommand(), newExitCodesTopic())
	wrap(root)
	return root
}

// wrap tells the errors of commands from those of their use: what a command
// returns is its own, everything else is cobra's complaint about the arguments.
func wrap(c *cobra.Command) {
	if fits := c.Args; fits != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if fits(c, args) != nil {
				return fmt.Errorf("the arguments do not fit: want %s", strings.TrimSuffix(c.UseLine(), " [flags]"))
			}
			return nil
		}
	}
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := run(c, args); err != nil {
				return &commandError{err}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrap(sub)
	}
}
