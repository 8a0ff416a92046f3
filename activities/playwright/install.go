package playwright

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mxschmitt/playwright-go"
)

// Version is the release of playwright-core that the module speaks to.
const Version = "1.64.1"

// errNotInstalled says what to do, once for all causes.
var errNotInstalled = errors.New("the browser driver is not installed: `make browser` installs it")

// DriverFolder is where playwright-core is: PLAYWRIGHT_DRIVER_PATH, else where
// the module looks by itself.
func DriverFolder() (string, error) {
	if dir := os.Getenv("PLAYWRIGHT_DRIVER_PATH"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w (or set PLAYWRIGHT_DRIVER_PATH): %w", errNotInstalled, err)
	}
	return filepath.Join(home, ".cache", "ms-playwright-go", Version), nil
}

// driver lays out, inside an engine's folder, the folder that the module wants:
// the installed package, and a node that has the engine's folder as TMPDIR.
func driver(temp string) (*playwright.RunOptions, error) {
	installed, err := DriverFolder()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(installed, "package", "cli.js")); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotInstalled, err)
	}
	node := filepath.Join(installed, "node")
	if _, err := os.Stat(node); err != nil {
		if node, err = exec.LookPath("node"); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotInstalled, err)
		}
	}
	own := filepath.Join(temp, "driver")
	script := fmt.Sprintf("#!/bin/sh\nTMPDIR='%s' exec '%s' \"$@\"\n", temp, node)
	if err := errors.Join(os.Mkdir(own, 0o700), os.Symlink(filepath.Join(installed, "package"), filepath.Join(own, "package")),
		os.WriteFile(filepath.Join(own, "node"), []byte(script), 0o700)); err != nil {
		return nil, fmt.Errorf("lay out the browser driver: %w", err)
	}
	return &playwright.RunOptions{DriverDirectory: own, SkipInstallBrowsers: true, Stdout: io.Discard, Stderr: io.Discard}, nil
}

// ready lets the module mend the installed package, once: an error of a page
// without a location would end the driver.
func ready(o *playwright.RunOptions) error {
	text, err := os.ReadFile(filepath.Join(o.DriverDirectory, "package", "lib", "coreBundle.js"))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotInstalled, err)
	}
	if !bytes.Contains(text, []byte("pageError.location.")) {
		return nil
	}
	d, err := playwright.NewDriver(o)
	if err != nil {
		return err
	}
	return d.DownloadDriver() // it is there: nothing is downloaded
}

// program finds a Chromium or Chrome; empty: Playwright's own.
func Program(given string) string {
	if given == "" {
		given = os.Getenv("HEADGATE_CHROMIUM")
	}
	if given != "" {
		return given
	}
	for _, name := range []string{"chromium", "google-chrome", "google-chrome-stable", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
