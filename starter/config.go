package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"headgate/config"
)

const defaultConfig = "headgate.yaml"

func newConfigCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Look at a configuration"}
	c.AddCommand(newConfigCheckCommand())
	return c
}

func newConfigCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration without starting anything",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file := defaultConfig
			if len(args) > 0 {
				file = args[0]
			}
			checked, err := loadConfig(file)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s is valid: %d operations, %d resources, %d named tenants; policy %s\n",
				file, len(checked.Operations), len(checked.Budget.Resources), len(checked.Budget.Tenants), shortDigest(checked.PolicyDigest()))
			return err
		},
	}
}

func configFlag(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "config", "f", defaultConfig, "configuration `FILE`")
}

// loadConfig reads a configuration; its errors have file, line and column.
func loadConfig(file string) (*config.Config, error) {
	checked, err := config.Load(file)
	if err != nil {
		return nil, withStatus(exitUsage, "%w", err)
	}
	return checked, nil
}
