package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Binaries are the two programs of the world.
type Binaries struct {
	Headgate string
	Server   string // embedded Temporal server
}

// Build takes the programs that the environment names (HEADGATE_BIN and
// HEADGATE_SERVER_BIN), and builds those that it does not name into folder, from
// the module that the working directory is in.
func Build(ctx context.Context, folder string) (b Binaries, err error) {
	if b.Headgate, err = build(ctx, "HEADGATE_BIN", filepath.Join(folder, "headgate"), ".", "./starter"); err != nil {
		return b, err
	}
	b.Server, err = BuildServer(ctx, folder)
	return b, err
}

// BuildServer is Build for the server alone.
func BuildServer(ctx context.Context, folder string) (string, error) {
	return build(ctx, "HEADGATE_SERVER_BIN", filepath.Join(folder, "headgate-server"), "devserver", ".")
}

// build builds a package of the module in a folder below the root.
func build(ctx context.Context, variable, program, module, pkg string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		return path, nil
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", program, err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", program, pkg)
	cmd.Dir = filepath.Join(root, module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return program, nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", errors.New("the working directory is in no module")
	}
	return filepath.Dir(file), nil
}
