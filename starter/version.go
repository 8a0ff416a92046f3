package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "headgate %s %s %s/%s\n", buildID(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// buildID names this build in histories and on the version line: the module's
// version, or the commit that it was built from.
func buildID() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unversioned"
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return cmp.Or(commit+dirty, "unversioned")
}
