package testsuite

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"headgate/contract"
	"headgate/starter/gateway"
)

const rulesFolder = "../deploy/prometheus"

// ruleFile is a file of rules, as far as the tests read it.
type ruleFile struct {
	Groups []struct {
		Rules []alertRule `yaml:"rules"`
	} `yaml:"groups"`
}

type alertRule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Annotations map[string]string `yaml:"annotations"`
}

func rulesOf(t *testing.T, name string) (all []alertRule) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rulesFolder, name))
	require.NoError(t, err)
	var file ruleFile
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// sdkMetrics are those of the Temporal SDK that rules and the dashboard name. That
// a worker shows them is in TestStuckAlert.
var sdkMetrics = []string{"temporal_worker_task_slots_available", "temporal_activity_schedule_to_start_latency_seconds"}

var metricName = regexp.MustCompile(`\b(?:headgate|temporal)[_:][a-z0-9_:]+`)

// knownMetrics are the names that expressions may hold.
func knownMetrics(t *testing.T) map[string]bool {
	known := map[string]bool{}
	for _, name := range slices.Concat(gateway.Metrics(), contract.WorkerMetrics(), sdkMetrics) {
		known[name] = true
		if strings.HasSuffix(name, "_seconds") {
			known[name+"_bucket"], known[name+"_count"], known[name+"_sum"] = true, true, true
		}
	}
	for _, r := range rulesOf(t, "headgate.rules.yml") {
		known[r.Record] = true
	}
	return known
}

func TestRulesAndDashboardNameRealMetrics(t *testing.T) {
	known := knownMetrics(t)
	check := func(where, expr string) {
		names := metricName.FindAllString(expr, -1)
		require.NotEmpty(t, names, "%s: %s", where, expr)
		for _, name := range names {
			require.True(t, known[name], "%s: there is no metric %s", where, name)
		}
	}
	for _, r := range slices.Concat(rulesOf(t, "headgate.rules.yml"), rulesOf(t, "headgate.alerts.yml")) {
		check(r.Record+r.Alert, r.Expr)
	}

	text, err := os.ReadFile("../deploy/grafana/headgate.json")
	require.NoError(t, err)
	var board struct {
		UID    string `json:"uid"`
		Panels []struct {
			ID      int                      `json:"id"`
			Type    string                   `json:"type"`
			Title   string                   `json:"title"`
			GridPos struct{ X, Y, W, H int } `json:"gridPos"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal(text, &board))
	require.Equal(t, "headgate", board.UID)
	ids, shown := map[int]bool{}, ""
	for _, p := range board.Panels {
		require.False(t, ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		require.True(t, p.Type == "row" || len(p.Targets) > 0, "%s shows nothing", p.Title)
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
			shown += target.Expr + "\n"
		}
	}
	// Every signal of Headgate is on the dashboard, in a rule, or told to be detail.
	for _, r := range slices.Concat(rulesOf(t, "headgate.rules.yml"), rulesOf(t, "headgate.alerts.yml")) {
		shown += r.Expr + "\n"
	}
	detail := []string{"headgate_look_age_seconds", "headgate_leases_grace", "headgate_queue_standby", "headgate_resource_waiting_for_people"}
	for _, name := range slices.Concat(gateway.Metrics(), contract.WorkerMetrics()) {
		require.True(t, slices.Contains(detail, name) || strings.Contains(shown, name), "%s is nowhere to be seen", name)
	}
}

func TestEveryMetricIsExplained(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	for _, name := range slices.Concat(gateway.Metrics(), contract.WorkerMetrics()) {
		require.Contains(t, string(text), "`"+strings.TrimPrefix(name, "headgate_")+"`")
	}
}

var heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
var link = regexp.MustCompile(`\]\(#([a-z0-9-]+)\)`)

// Each alert leads to a section of its own, and the sections lead on to others.
func TestEveryAlertHasARunbook(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	anchors := map[string]string{}
	for _, m := range heading.FindAllStringSubmatchIndex(string(text), -1) {
		name := strings.ReplaceAll(strings.ToLower(string(text[m[2]:m[3]])), " ", "-")
		section, _, _ := strings.Cut(string(text[m[1]:]), "\n#")
		anchors[regexp.MustCompile(`[^a-z0-9-]`).ReplaceAllString(name, "")] = strings.TrimSpace(section)
	}
	alerts := rulesOf(t, "headgate.alerts.yml")
	require.Equal(t, "HeadgateStuck", alerts[0].Alert, "the first one")
	for _, a := range alerts {
		where, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "#")
		require.Equal(t, "docs/operations.md", where, a.Alert)
		require.Equal(t, strings.ToLower(a.Alert), anchor)
		require.Greater(t, len(anchors[anchor]), 60, "%s has no runbook", a.Alert)
		require.NotEmpty(t, a.Annotations["summary"], a.Alert)
		require.NotEmpty(t, a.Annotations["description"], a.Alert)
	}
	for _, m := range link.FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, anchors, m[1], "docs/operations.md leads to a section that is not there")
	}
}

// promtool is of the Debian package prometheus; without it the rules are tested by
// the other tests of this file and by TestStuckAlert.
func TestRulesByPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		promtool, err = filepath.Abs("../bin/promtool")
		require.NoError(t, err)
		_, err = os.Stat(promtool)
	}
	if err != nil {
		t.Skip("there is no promtool: `make promtool` fetches it")
	}
	for _, args := range [][]string{{"check", "rules", "headgate.rules.yml", "headgate.alerts.yml"}, {"test", "rules", "headgate_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = rulesFolder
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "promtool %v: %s", args, out)
	}
}
