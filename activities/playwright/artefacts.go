package playwright

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/mxschmitt/playwright-go"
	"go.uber.org/zap"
)

// keepFor bounds the keeping of artefacts: the attempt's answer waits for it.
const keepFor = 800 * time.Millisecond

// trace records what the page did, in case that it is to be kept.
func (s *Session) trace(c playwright.BrowserContext) error {
	if s.folder() == "" {
		return nil
	}
	return c.Tracing().Start(playwright.TracingStartOptions{Snapshots: playwright.Bool(true)})
}

// folder is where artefacts go; empty: nowhere.
func (s *Session) folder() string {
	if s.options.Artefacts == "" || s.plan.Artefacts == "" {
		return ""
	}
	return filepath.Join(s.options.Artefacts, filepath.Base(s.plan.Artefacts))
}

// Keep saves a screenshot and the trace, as far as the page can still give them,
// and tells the folder; empty: nothing was kept. They show what the page showed,
// so they are for the worker's own user only.
func (s *Session) Keep() string {
	folder := s.folder() // calls that are left alone still use it
	s.mu.Lock()
	page, c := s.page, s.context
	s.mu.Unlock()
	if folder == "" || page == nil || s.engine == nil {
		return ""
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		s.options.Log.Warn("artefacts not kept", zap.Error(err))
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepFor)
	defer cancel()
	_ = within(ctx, func() error {
		_, err := page.Screenshot(playwright.PageScreenshotOptions{Path: playwright.String(filepath.Join(folder, "page.png")),
			Timeout: playwright.Float(float64(keepFor.Milliseconds()))})
		return err
	})
	_ = within(ctx, func() error { return c.Tracing().Stop(filepath.Join(folder, "trace.zip")) })
	if entries, err := os.ReadDir(folder); err != nil || len(entries) == 0 {
		_ = os.Remove(folder)
		return ""
	}
	return folder
}
