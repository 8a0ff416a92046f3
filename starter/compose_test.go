package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"headgate/workers"
)

// service is one of docker-compose.yml, as far as it can be wrong about us.
type service struct {
	Image       string
	Build       struct{ Context, Dockerfile, Target string }
	Init        bool
	Restart     string
	Command     []string
	Entrypoint  []string
	Environment map[string]any
	Volumes     []string
	Ports       []string
	Healthcheck struct{ Test []string }
	StopGrace   string                    `yaml:"stop_grace_period"`
	DependsOn   map[string]map[string]any `yaml:"depends_on"`
	ReadOnly    bool                      `yaml:"read_only"`
	CapDrop     []string                  `yaml:"cap_drop"`
}

func (s service) ours() bool { return s.Build.Target != "" }

const repository = ".."

func readCompose(t *testing.T) (services map[string]service, volumes map[string]any, text string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, "docker-compose.yml"))
	require.NoError(t, err)
	var file struct {
		Services map[string]service
		Volumes  map[string]any
	}
	require.NoError(t, yaml.Unmarshal(raw, &file))
	require.NotEmpty(t, file.Services)
	return file.Services, file.Volumes, string(raw)
}

func text(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, path))
	require.NoError(t, err)
	return string(raw)
}

var variable = regexp.MustCompile(`\$\{([A-Z_]+)\}`)

// settings are the values of .env.
func settings(t *testing.T) map[string]string {
	values := map[string]string{}
	for _, line := range strings.Split(text(t, ".env"), "\n") {
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			values[name] = value
		}
	}
	return values
}

// Every service says which image it is, comes back, and tells how it is.
func TestComposeServices(t *testing.T) {
	services, _, _ := readCompose(t)
	values := settings(t)
	floating := regexp.MustCompile(`:(latest|main|stable)?$|^[^:]*$`)
	for name, s := range services {
		assert.NotRegexp(t, floating, variable.ReplaceAllStringFunc(s.Image, func(v string) string { return values[strings.Trim(v, "${}")] }), name)
		ends := s.Restart == "on-failure"
		assert.True(t, ends || s.Restart == "unless-stopped", "%s: restart %q", name, s.Restart)
		assert.Equal(t, ends, len(s.Healthcheck.Test) == 0, "%s: what stays has a health check", name)
		for other, how := range s.DependsOn {
			wanted, ok := services[other]
			require.True(t, ok, "%s depends on %s", name, other)
			want := "service_healthy"
			if wanted.Restart == "on-failure" {
				want = "service_completed_successfully"
			}
			assert.Equal(t, want, how["condition"], "%s on %s", name, other)
		}
		if s.ours() {
			assert.True(t, s.Init && slices.Equal(s.CapDrop, []string{"ALL"}), name)
			assert.Equal(t, name != "browser", s.ReadOnly, "%s: the driver of browsers changes a file of its own", name)
		}
	}
	for _, role := range append(workers.Roles(), "gateway", "postgres", "temporal", "temporal-ui", "prometheus", "grafana") {
		assert.Contains(t, services, role)
	}
	for _, role := range workers.Roles() {
		require.Contains(t, services[role].Command, role, "it runs its role")
		assert.Equal(t, "40s", services[role].StopGrace, "longer than a worker drains: %s", drainTime)
	}
}

// What the containers run is what the command has: names, flags and values.
func TestComposeCommands(t *testing.T) {
	services, _, _ := readCompose(t)
	seen := 0
	for name, s := range services {
		if !s.ours() {
			continue
		}
		seen++
		root := newRoot()
		c, rest, err := root.Find(s.Command)
		require.NoError(t, err, name)
		require.NotEqual(t, root, c, name)
		require.NoError(t, c.ParseFlags(rest), name)
		require.Empty(t, c.Flags().Args(), name)
		port := "9464"
		if name == "gateway" {
			port = "7280"
			assert.Equal(t, "0.0.0.0:"+port, c.Flag("listen").Value.String())
			assert.Contains(t, s.Ports[0], ":"+port)
		} else {
			assert.Equal(t, "0.0.0.0:"+port, c.Flag("metrics").Value.String(), name)
		}
		assert.Contains(t, strings.Join(s.Healthcheck.Test, " "), "127.0.0.1:"+port, name)
		for _, flag := range []string{"config", "api-keys", "artefacts"} { // each path is under a mounted one
			f := c.Flag(flag)
			if f == nil || !f.Changed {
				continue
			}
			assert.True(t, slices.ContainsFunc(s.Volumes, func(v string) bool {
				_, inside, _ := strings.Cut(strings.TrimSuffix(v, ":ro"), ":")
				return f.Value.String() == inside || strings.HasPrefix(f.Value.String(), inside+"/")
			}), "%s: --%s %s", name, flag, f.Value)
		}
	}
	assert.Equal(t, 1+len(workers.Roles()), seen)
}

// Variables, paths and volumes exist, and none is left over.
func TestComposeNames(t *testing.T) {
	services, volumes, file := readCompose(t)
	values := settings(t)
	used := map[string]bool{"COMPOSE_PROJECT_NAME": true}
	for _, found := range variable.FindAllStringSubmatch(file, -1) {
		used[found[1]] = true
		assert.Contains(t, values, found[1], "in .env")
	}
	for name := range values {
		assert.True(t, used[name], "%s of .env is used", name)
	}
	mounted := map[string]bool{}
	for name, s := range services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if from = variable.ReplaceAllStringFunc(from, func(v string) string { return values[strings.Trim(v, "${}")] }); !strings.HasPrefix(from, ".") {
				assert.Contains(t, volumes, from, name)
				mounted[from] = true
				continue
			}
			_, err := os.Stat(filepath.Join(repository, from))
			assert.NoError(t, err, name)
		}
	}
	assert.Len(t, volumes, len(mounted))

	// What is set for our processes is read by the program, or is the SDK's own.
	sdk := []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE"}
	source := programText(t)
	for name, s := range services {
		for variable := range s.Environment {
			if s.ours() {
				assert.True(t, slices.Contains(sdk, variable) || strings.Contains(source, `"`+variable+`"`), "%s: %s", name, variable)
			}
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^ENV ([A-Z_]+)=`).FindAllStringSubmatch(text(t, "deploy/Dockerfile"), -1) {
		assert.Contains(t, source, `"`+found[1]+`"`)
	}
}

// programText is the text of all packages but tests.
func programText(t *testing.T) string {
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			raw, err := os.ReadFile(path)
			all.Write(raw)
			return err
		}
		return err
	}))
	return all.String()
}

// The images are built from what is there, with the versions of the rest.
func TestDockerfile(t *testing.T) {
	file := text(t, "deploy/Dockerfile")
	services, _, _ := readCompose(t)
	stages := regexp.MustCompile(`(?m)^FROM \S+:(\S+) AS (\w+)$`).FindAllStringSubmatch(file, -1)
	require.Len(t, stages, 3)
	assert.NotContains(t, file, ":latest")
	for _, s := range services {
		if s.ours() {
			assert.Equal(t, []string{".", "deploy/Dockerfile"}, []string{s.Build.Context, s.Build.Dockerfile})
			assert.True(t, slices.ContainsFunc(stages, func(stage []string) bool { return stage[2] == s.Build.Target }), s.Build.Target)
		}
	}
	assert.Equal(t, 2, strings.Count(file, "\nUSER 10001\n"), "neither image runs as root")
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(text(t, "go.mod"))[1]
	assert.Contains(t, file, "FROM golang:"+version+"-")
	driver := regexp.MustCompile(`(?m)^PLAYWRIGHT_VERSION := (\S+)$`).FindStringSubmatch(text(t, "Makefile"))[1]
	assert.Contains(t, file, "ARG PLAYWRIGHT_VERSION="+driver+"\n")

	// Every package of the program reaches the build, and nothing else does.
	kept := map[string]bool{}
	for _, line := range strings.Split(text(t, ".dockerignore"), "\n") {
		if name, ok := strings.CutPrefix(line, "!"); ok {
			kept[name] = true
			_, err := os.Stat(filepath.Join(repository, name))
			assert.NoError(t, err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	require.NoError(t, err)
	for _, path := range strings.Fields(string(out)) {
		if name, ours := strings.CutPrefix(path, "headgate/"); ours {
			folder, _, _ := strings.Cut(name, "/")
			assert.True(t, kept[folder], "%s is in .dockerignore", folder)
		}
	}
}

// Prometheus asks processes that are there, at the ports where they answer, and
// reads the rules that are there.
func TestComposePrometheus(t *testing.T) {
	var scrape struct {
		RuleFiles []string `yaml:"rule_files"`
		Jobs      []struct {
			Name          string `yaml:"job_name"`
			Authorization struct {
				File string `yaml:"credentials_file"`
			}
			DNS []struct {
				Names []string
				Port  int
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(text(t, "deploy/compose/prometheus.yml")), &scrape))
	services, _, _ := readCompose(t)
	asked := map[string]int{}
	for _, job := range scrape.Jobs {
		for _, d := range job.DNS {
			for _, name := range d.Names {
				asked[name] = d.Port
			}
		}
		if job.Authorization.File != "" {
			assert.Contains(t, text(t, "docs/operations.md"), filepath.Base(job.Authorization.File), "who makes it")
			assert.Contains(t, text(t, ".gitignore"), "/deploy/compose/keys/*.key")
		}
	}
	want := map[string]int{"gateway": 7280}
	for _, role := range workers.Roles() {
		want[role] = 9464
	}
	assert.Equal(t, want, asked)
	for _, path := range scrape.RuleFiles {
		inside, ok := strings.CutPrefix(path, "/etc/prometheus/rules/")
		require.True(t, ok, path)
		_, err := os.Stat(filepath.Join(repository, "deploy/prometheus", inside))
		assert.NoError(t, err)
	}
	assert.Contains(t, services["prometheus"].Volumes, "./deploy/prometheus:/etc/prometheus/rules:ro")
	for _, script := range []string{"deploy/temporal/schema.sh", "deploy/temporal/namespace.sh"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-n", filepath.Join(repository, script)).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	}
}

// The threat model names what tries each answer to a threat: it is there.
func TestSecurityNamesTests(t *testing.T) {
	var tests strings.Builder
	files := map[string]bool{}
	require.NoError(t, filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, "_test.go") {
			files[d.Name()] = true
			raw, err := os.ReadFile(path)
			tests.Write(raw)
			return err
		}
		return err
	}))
	named := regexp.MustCompile("`(Test\\w+|\\w+_test\\.go)`").FindAllStringSubmatch(text(t, "SECURITY.md"), -1)
	require.Greater(t, len(named), 15)
	for _, name := range named {
		assert.True(t, files[name[1]] || strings.Contains(tests.String(), "func "+name[1]+"("), name[1])
	}
}
