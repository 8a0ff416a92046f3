package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"headgate/config"
)

func newKeysCommand() *cobra.Command {
	c := &cobra.Command{Use: "keys", Short: "Make API keys for the gateway"}
	c.AddCommand(newKeysNewCommand())
	return c
}

func newKeysNewCommand() *cobra.Command {
	var tenant string
	var roles []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "new NAME --tenant TENANT --role ROLE",
		Short: "Make a key, and its entry for the file of keys",
		Long: `New makes an API key of 256 random bits and shows it once. The entry, which holds
only its hash, goes into the file that the gateway reads (--api-keys); a running
gateway notices within a second. To exchange a key, add the new entry under the same
name, and remove the old one when nobody uses it.

Roles: view reads tasks, submit asks for them, operate gives orders (cancel, resolve,
approve, pause; with tenant "*" also freeze, audit and the limits). A key that may
submit does not approve or resolve. NAME is the actor of its orders.`,
		Example: `  headgate keys new billing-agent --tenant acme --role submit
  headgate keys new mara --tenant '*' --role operate`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := config.CheckKeyName(args[0]); err != nil {
				return withStatus(exitUsage, "%w", err)
			}
			if err := config.CheckRights(tenant, roles); err != nil {
				return withStatus(exitUsage, "%w", err)
			}
			text, entry := config.NewKey(args[0], tenant, roles)
			if asJSON {
				return printJSON(c.OutOrStdout(), map[string]string{"key": text, "entry": entry.Line()})
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "The key of %s (%s, tenant %s). It is shown once and stored nowhere:\n\n%s\n\nIts entry, a line for the file of keys:\n\n%s\n",
				entry.Name, strings.Join(entry.Roles, " and "), entry.Tenant, text, entry.Line())
			return err
		},
	}
	c.Flags().StringVar(&tenant, "tenant", "", "the only tenant that it reaches, or * (required)")
	c.Flags().StringSliceVar(&roles, "role", nil, "view, submit or operate; may be given more than once (required)")
	c.Flags().BoolVar(&asJSON, "json", false, "print key and entry as JSON")
	_ = c.MarkFlagRequired("tenant") // the flags are there
	_ = c.MarkFlagRequired("role")
	return c
}
