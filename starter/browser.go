package main

import (
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"headgate/activities/playwright"
)

// browserFlags say how the role browser runs its browser.
type browserFlags struct {
	program, artefacts, temp string
	keep                     time.Duration
	recycle, browsers        int
}

func (b *browserFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&b.program, "chromium", "", "Chromium or Chrome of role browser (default: HEADGATE_CHROMIUM, or the one on the PATH)")
	f.StringVar(&b.artefacts, "artefacts", filepath.Join(".headgate", "artefacts"), "folder for screenshots and traces of failures of role browser; empty: none are kept")
	f.DurationVar(&b.keep, "keep-artefacts", playwright.DefaultKeep, "how long artefacts are kept")
	f.StringVar(&b.temp, "browser-temp", "", "folder for the temporary files of browsers (default: one in the system's own)")
	f.IntVar(&b.browsers, "tenant-browsers", 0, "give each tenant a browser of its own, so many at one time while one is idle; 0: all tenants share one, a context a task")
	f.IntVar(&b.recycle, "recycle", playwright.DefaultRecycle, "tasks that a browser serves before a new one takes its place")
}

// options checks the flags. Results name the folder of artefacts, so it is made
// absolute.
func (b *browserFlags) options() (playwright.Options, error) {
	if b.recycle < 1 || b.keep <= 0 {
		return playwright.Options{}, withStatus(exitUsage, "--recycle and --keep-artefacts: want more than 0")
	}
	if b.browsers < 0 {
		return playwright.Options{}, withStatus(exitUsage, "--tenant-browsers: want 0 or more")
	}
	folder := b.artefacts
	if folder != "" {
		var err error
		if folder, err = filepath.Abs(folder); err != nil {
			return playwright.Options{}, withStatus(exitUsage, "--artefacts: %w", err)
		}
	}
	return playwright.Options{Program: b.program, Artefacts: folder, Keep: b.keep, Temp: b.temp, Recycle: b.recycle, Browsers: b.browsers}, nil
}
