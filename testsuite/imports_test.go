package testsuite

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "headgate"

// driver is the one package that may import Playwright's.
const driver = "activities/playwright"

// rule is what the production files of a package, and of those below it that
// have no rule of their own, may import. Names end at a path element:
// "go.temporal.io/api" covers everything below it.
type rule struct {
	pkg    string
	ours   []string // packages of this module; "..." is all
	others []string // packages of other modules; "..." is all
	never  []string // wins over the two above, and over the standard library
}

// The rings: decide, durable, edge. A package that is not here may not exist.
var rules = []rule{
	{
		pkg: "admission",
		// A function of its arguments: no clock, no chance, no surroundings. The
		// package time is there for its types; the linter keeps its clock out.
		never: []string{"os", "log", "net", "sync", "math/rand", "crypto/rand", "syscall", "unsafe", "runtime", "context", "io/fs", "path/filepath"},
	},
	{
		pkg:   "contract",
		ours:  []string{"admission"},
		never: []string{"os", "log", "net", "sync"},
	},
	{
		pkg:    "contract/codec",
		others: []string{"go.temporal.io/sdk/converter", "go.temporal.io/api", "google.golang.org/protobuf"},
		never:  []string{"os", "log", "net", "sync"},
	},
	{
		pkg:    "config",
		ours:   []string{"admission", "contract"},
		others: []string{"github.com/goccy/go-yaml", "cel.dev/cel-go", "github.com/gowebpki/jcs", "google.golang.org/protobuf"},
	},
	{
		pkg:    "workflows",
		ours:   []string{"admission", "contract"},
		others: []string{"go.temporal.io/sdk/workflow", "go.temporal.io/sdk/temporal", "go.temporal.io/api"},
		never:  []string{"os", "log", "net", "sync", "math/rand", "crypto/rand"},
	},
	{
		pkg:  "activities",
		ours: []string{"admission", "contract", "config"},
		others: []string{"go.temporal.io/sdk/activity", "go.temporal.io/sdk/client", "go.temporal.io/sdk/temporal", "go.temporal.io/sdk/worker",
			"go.temporal.io/sdk/converter", "go.temporal.io/api", "go.uber.org/zap", "google.golang.org/grpc", "github.com/gowebpki/jcs", "go.opentelemetry.io/otel/propagation",
			"github.com/standard-webhooks/standard-webhooks", "github.com/openai/openai-go", "github.com/anthropics/anthropic-sdk-go"},
	},
	{
		pkg:    "activities/conformance",
		ours:   []string{"admission", "contract", "config", "activities"},
		others: []string{"go.temporal.io/sdk/activity", "go.temporal.io/sdk/client", "go.temporal.io/sdk/temporal", "go.temporal.io/sdk/worker", "go.temporal.io/api", "go.uber.org/zap", "github.com/stretchr/testify"},
	},
	{
		pkg:    driver,
		ours:   []string{"contract"},
		others: []string{"github.com/mxschmitt/playwright-go", "go.uber.org/zap"},
	},
	{
		pkg:    driver + "/pagetest",
		ours:   []string{driver},
		others: []string{"github.com/mxschmitt/playwright-go", "github.com/stretchr/testify"},
	},
	{
		pkg:    "workers",
		ours:   []string{"admission", "contract", "config", "activities", "workflows"},
		others: []string{"..."},
	},
	{
		pkg:  "client",
		ours: []string{"contract"},
	},
	{
		pkg:    "starter/gateway",
		ours:   []string{"admission", "contract", "config", "client"},
		others: []string{"..."},
		never:  []string{"go.temporal.io/sdk/workflow", "go.temporal.io/sdk/activity", "go.temporal.io/sdk/worker"},
	},
	{
		pkg:    "starter/tools",
		ours:   []string{"admission", "contract", "client"},
		others: []string{"github.com/modelcontextprotocol/go-sdk"},
	},
	{
		pkg:    "starter/console",
		ours:   []string{"admission", "contract", "config", "client"},
		others: []string{"..."},
		never:  []string{"go.temporal.io/sdk/workflow", "go.temporal.io/sdk/activity", "go.temporal.io/sdk/worker"},
	},
	{
		pkg:    "starter",
		ours:   []string{"..."}, // testsuite: see TestOnlyTheDrillImportsTheTestsuite
		others: []string{"..."},
	},
	{
		pkg:    "testsuite",
		ours:   []string{"..."},
		others: []string{"..."},
	},
}

// listed is one package as the go command sees it.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	GoFiles         []string
	Imports         []string // of the production files
}

func TestImportsFollowTheRings(t *testing.T) {
	packages := list(t)
	standard := map[string]bool{}
	for _, p := range packages {
		standard[p.ImportPath] = p.Standard
	}
	seen := 0
	for _, p := range packages {
		name, ours := own(p.ImportPath)
		if !ours {
			continue
		}
		r, ok := ruleFor(name)
		if !ok {
			t.Errorf("package %s has no rule: say in this test what it may import", name)
			continue
		}
		if len(p.GoFiles) > 0 {
			seen++
		}
		for _, path := range p.Imports {
			if why := r.refuses(name, path, standard[path]); why != "" {
				t.Errorf("%s imports %s: %s", name, path, why)
			}
		}
	}
	require.Greater(t, seen, 5, "packages of this module were listed")
}

// What tests with is imported by none, but for the commands that start it.
func TestOnlyTheDrillImportsTheTestsuite(t *testing.T) {
	may := []string{"bench.go", "chaos.go", "dev.go", "drill.go", "provider.go"}
	for _, p := range list(t) {
		name, ours := own(p.ImportPath)
		if !ours || covers("testsuite", name) {
			continue
		}
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, spec := range parsed.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				imported, ours := own(path)
				if !ours || !covers("testsuite", imported) || name == "starter" && slices.Contains(may, file) {
					continue
				}
				t.Errorf("%s/%s imports %s: only %v of starter may", name, file, path, may)
			}
		}
	}
}

// The rules themselves refuse what they are there for.
func TestImportRulesRefuse(t *testing.T) {
	for _, forbidden := range []struct {
		pkg, path string
		standard  bool
	}{
		{"admission", "os", true},
		{"admission", "math/rand/v2", true},
		{"admission", "net/http", true},
		{"admission", "go.temporal.io/sdk/temporal", false},
		{"admission", "headgate/contract", false},
		{"contract", "go.temporal.io/api/common/v1", false},
		{"config", "go.temporal.io/sdk/client", false},
		{"workflows", "headgate/activities", false},
		{"workflows", "go.temporal.io/sdk/client", false},
		{"activities", "headgate/workflows", false},
		{"activities", "github.com/mxschmitt/playwright-go", false},
		{"starter/gateway", "headgate/workflows", false},
		{"starter/gateway", "headgate/starter/console", false},
		{"starter/console", "headgate/starter/gateway", false},
		{"starter/console", "headgate/workflows", false},
		{"workers", "headgate/starter/gateway", false},
		{"testsuite/drill", "github.com/mxschmitt/playwright-go", false},
	} {
		r, ok := ruleFor(forbidden.pkg)
		require.True(t, ok)
		require.NotEmpty(t, r.refuses(forbidden.pkg, forbidden.path, forbidden.standard), "%s may not import %s", forbidden.pkg, forbidden.path)
	}
	r, _ := ruleFor("admission")
	require.Empty(t, r.refuses("admission", "time", true))
}

// ruleFor finds the nearest rule.
func ruleFor(name string) (best rule, ok bool) {
	for _, r := range rules {
		if covers(r.pkg, name) && len(r.pkg) > len(best.pkg) {
			best, ok = r, true
		}
	}
	return best, ok
}

// refuses says why a package may not import a path; empty: it may.
func (r rule) refuses(name, path string, standard bool) string {
	imported, ours := own(path)
	switch {
	case slices.ContainsFunc(r.never, func(p string) bool { return covers(p, path) }):
		return "never"
	case strings.Contains(path, "/playwright-go") && !covers(driver, name):
		return "only " + driver + " may"
	case ours && !allows(r.ours, imported):
		return fmt.Sprintf("of this module it may import %v", r.ours)
	case !ours && !standard && !allows(r.others, path):
		return fmt.Sprintf("of other modules it may import %v", r.others)
	}
	return ""
}

func allows(list []string, path string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return p == "..." || covers(p, path) })
}

// covers tells whether path is p or below it.
func covers(p, path string) bool { return path == p || strings.HasPrefix(path, p+"/") }

// own strips the module's name from one of its packages.
func own(path string) (string, bool) { return strings.CutPrefix(path, module+"/") }

// list asks the go command for all packages of the module and what they import.
func list(t *testing.T) []listed {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Dir,Standard,GoFiles,Imports", "./...")
	cmd.Dir = ".." // the root of the module
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var packages []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else {
			require.NoError(t, err)
		}
		packages = append(packages, p)
	}
}
