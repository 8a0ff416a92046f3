// Package mutants proves that the drill can fail: it builds Headgate with one
// promise broken, or with another worker in its place, and plays the cases that
// must notice. The changes are kept here as text and built by an overlay, so
// that production code holds no switches.
package mutants

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// controls are files that are added to the package activities.
//
//go:embed controls
var controls embed.FS

// Mutant is Headgate with one thing changed.
type Mutant struct {
	Name   string
	Breaks string // what it does, in a sentence
	Edits  []Edit
	Adds   []string // files of controls, added to activities
	Cases  []string // of the drill, that must notice it
	Passes bool     // it must pass all the same: a control
	// Shows is in the report of the cases, so that they fail for the right reason.
	Shows string
}

// Edit replaces a text that is there exactly once in a file of the module.
type Edit struct{ File, From, To string }

// apply gives the file's text with the edit made.
func (e Edit) apply(text string) (string, error) {
	if n := strings.Count(text, e.From); n != 1 {
		return "", fmt.Errorf("%s has %d of %q, want one: bring the mutant up to date", e.File, n, e.From)
	}
	return strings.Replace(text, e.From, e.To, 1), nil
}

// Overlay writes the changed files below dir and gives the overlay file for the
// go command. root is the module's folder.
func (m Mutant) Overlay(root, dir string) (string, error) {
	changed := map[string]string{} // by path in the module
	for _, e := range m.Edits {
		text, ok := changed[e.File]
		if !ok {
			read, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return "", fmt.Errorf("mutant %s: %w", m.Name, err)
			}
			text = string(read)
		}
		text, err := e.apply(text)
		if err != nil {
			return "", fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		changed[e.File] = text
	}
	for _, name := range m.Adds {
		text, err := controls.ReadFile("controls/" + name + ".go.txt")
		if err != nil {
			return "", fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		changed["activities/control_"+name+".go"] = string(text)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range changed {
		path := filepath.Join(dir, m.Name+"_"+strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, file)] = path
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, m.Name+".json")
	return path, os.WriteFile(path, text, 0o600)
}

// Build builds the mutant's `headgate` into dir.
func (m Mutant) Build(ctx context.Context, root, dir string) (string, error) {
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "headgate-"+m.Name)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", program, "./starter")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutant %s: %w\n%s", m.Name, err, out)
	}
	return program, nil
}
