package main

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"headgate/contract"
)

func newListCommand() *cobra.Command {
	var d door
	var tenant, phase, operation, priority string
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "List tasks, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{}
			for name, value := range map[string]string{"tenant": tenant, "phase": phase, "operation": operation, "priority": priority} {
				if value != "" {
					query.Set(name, value)
				}
			}
			page, err := d.list(c, "/v1/tasks", query, limit)
			if err != nil {
				return err
			}
			if d.json {
				return printJSON(c.OutOrStdout(), page)
			}
			if err := printTasks(c.OutOrStdout(), page.Tasks, time.Now()); err != nil {
				return err
			}
			return more(c.ErrOrStderr(), page)
		},
	}
	d.flags(c)
	c.Flags().StringVar(&tenant, "tenant", "", "of this tenant only")
	c.Flags().StringVar(&phase, "phase", "", fmt.Sprintf("in this phase only, one of %v", contract.Phases()))
	c.Flags().StringVar(&operation, "operation", "", "of this operation only")
	c.Flags().StringVar(&priority, "priority", "", "of this priority only")
	limitFlag(c, &limit)
	return c
}

func limitFlag(c *cobra.Command, limit *int) { c.Flags().IntVar(limit, "limit", 50, "at most so many") }

// list reads pages until there are enough tasks. A page may be short, or empty,
// although more follow.
func (d *door) list(c *cobra.Command, path string, query url.Values, limit int) (contract.TaskPage, error) {
	if limit < 1 {
		return contract.TaskPage{}, withStatus(exitUsage, "--limit %d: want at least 1", limit)
	}
	all := contract.TaskPage{Tasks: []contract.TaskView{}}
	for {
		query.Set("limit", strconv.Itoa(min(100, limit-len(all.Tasks))))
		var page contract.TaskPage
		if err := d.get(c.Context(), path, query, &page); err != nil {
			return all, err
		}
		all.Tasks, all.Cursor = append(all.Tasks, page.Tasks...), page.Cursor
		if page.Cursor == "" || len(all.Tasks) >= limit {
			return all, nil
		}
		query.Set("cursor", page.Cursor)
	}
}

// more says that a list is not complete.
func more(w io.Writer, page contract.TaskPage) error {
	if page.Cursor == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, "There may be more: raise --limit, or narrow the list.")
	return err
}
