package contract_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

var rewrite = flag.Bool("rewrite", false, "add what is new to the golden files")

// messages are all structs of package contract, and those of admission that
// travel in them or are answered as they are. TestEveryStructHasAGolden finds
// one that is missing.
var messages = []any{
	contract.AdmitReply{}, contract.AdmitRequest{}, contract.Approval{}, contract.ApprovalDecision{}, contract.ApprovalReply{},
	contract.ApprovalStand{}, contract.ApprovalView{}, contract.AttemptRequest{}, contract.AuditAnswer{}, contract.AuditReply{},
	contract.AuditRequest{}, contract.Beat{}, contract.Browser{}, contract.BudgetInput{}, contract.Callback{}, contract.Cancel{}, contract.ConfigureReply{},
	contract.ConfigureRequest{}, contract.Count{}, contract.Decision{}, contract.DeliverReply{},
	contract.AuditInput{}, contract.AuditReport{}, contract.AuditView{}, contract.ClosedEvidence{}, contract.Deliveries{},
	contract.Delivery{}, contract.EffectInput{}, contract.Event{}, contract.Evidence{}, contract.Explanation{},
	contract.FindingNote{}, contract.FindingsInput{}, contract.FindingsView{}, contract.Finding{}, contract.FreezeOrder{},
	contract.FreezeReply{}, contract.FreezeRequest{}, contract.HTTPRequest{}, contract.Header{}, contract.LateEvidence{},
	contract.LeasesRequest{}, contract.List{}, contract.Operation{}, contract.Outcome{}, contract.PauseRequest{},
	contract.SettledRequest{}, contract.Settled{}, contract.Stops{}, contract.Stop{},
	contract.EvidenceReply{}, contract.Lookups{}, contract.Field{}, contract.Model{}, contract.ModelAnswer{}, contract.ModelUsage{}, contract.Secret{}, contract.TLS{},
	contract.Caller{}, contract.Claim{}, contract.Intent{}, contract.IntentInput{}, contract.PhaseCount{}, contract.PhaseCounts{},
	contract.Probe{}, contract.ProbeInput{}, contract.Problem{}, contract.Provider{}, contract.ReconcileInput{}, contract.ReconcileResult{}, contract.Replay{},
	contract.ReportBatch{}, contract.ReportInput{}, contract.RequestBatch{}, contract.RequestInput{}, contract.Resolution{},
	contract.ResolveReply{}, contract.Resolved{}, contract.Retry{}, contract.Stand{}, contract.Step{}, contract.SubmitRequest{}, contract.TaskInput{},
	contract.TaskPage{}, contract.TaskResult{}, contract.TaskView{}, contract.Ticket{}, contract.Visit{}, contract.Waiting{}, contract.WhyRequest{},

	admission.Cost{}, admission.Lease{}, admission.Policy{}, admission.Report{}, admission.Request{}, admission.Snapshot{},
	admission.Verdict{}, admission.View{}, admission.Why{},
}

// TestGoldens holds every message against its golden file, which has all fields.
// A golden is what a history may hold, so it is only ever added to: -rewrite adds
// a new field, and refuses to change one that is there.
func TestGoldens(t *testing.T) {
	for _, m := range messages {
		name := fmt.Sprintf("%T", m)
		t.Run(name, func(t *testing.T) {
			golden(t, name, encode(t, example(reflect.TypeOf(m))), func(old []byte) []byte {
				return encode(t, decode(t, old, reflect.TypeOf(m)))
			})
		})
	}
}

// TestConstants holds the words that histories and clients read against theirs.
func TestConstants(t *testing.T) {
	words := map[string]string{}
	maps.Copy(words, stringConstants(t, "contract", "."))
	maps.Copy(words, stringConstants(t, "admission", filepath.Join("..", "admission")))
	require.Equal(t, "admit", words["contract.AdmitUpdate"])
	require.Equal(t, "queue_full", words["admission.QueueFull"])
	now := encode(t, words)
	golden(t, "constants", now, func([]byte) []byte { return now })
}

// golden compares what is written today with the golden file, or adds to the
// file. again decodes and encodes the file's text by today's types.
func golden(t *testing.T, name string, now []byte, again func(old []byte) []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".json")
	old, err := os.ReadFile(file)
	if *rewrite && os.IsNotExist(err) {
		require.NoError(t, os.WriteFile(file, now, 0o644))
		return
	}
	require.NoError(t, err, "`make golden` writes it")
	// 1. What is stored is read, and nothing of it is lost.
	require.Empty(t, lost(t, old, again(old)), "histories hold these, and today's type drops or changes them")
	// 2. What is written today is what was written then, and more.
	require.Empty(t, lost(t, old, now), "these are stored, and written differently today")
	if *rewrite {
		require.NoError(t, os.WriteFile(file, now, 0o644))
		return
	}
	require.Empty(t, lost(t, now, old), "`make golden` adds these to the file")
}

// A message that was removed leaves its golden behind: histories may hold it.
func TestEveryGoldenHasAMessage(t *testing.T) {
	want := []string{"constants"}
	for _, m := range messages {
		want = append(want, fmt.Sprintf("%T", m))
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	require.NoError(t, err)
	var have []string
	for _, file := range files {
		have = append(have, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	require.ElementsMatch(t, want, have)
}

func TestEveryStructHasAGolden(t *testing.T) {
	var have []string
	for _, m := range messages {
		if name, ours := strings.CutPrefix(fmt.Sprintf("%T", m), "contract."); ours {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	require.Equal(t, exportedStructs(t, "."), have)
}

// An example that leaves a field at its zero value would say nothing about it.
func TestExamplesAreComplete(t *testing.T) {
	for _, m := range messages {
		require.Empty(t, zeros(reflect.ValueOf(example(reflect.TypeOf(m))), fmt.Sprintf("%T", m)))
	}
}

// The comparison finds each way in which a message can break.
func TestLostFieldsAreFound(t *testing.T) {
	type inner struct {
		N int `json:"n"`
	}
	type stored struct {
		Name string  `json:"name"`
		List []inner `json:"list"`
	}
	old := encode(t, example(reflect.TypeFor[stored]()))
	through := func(now reflect.Type) []string {
		value := reflect.New(now)
		if err := json.Unmarshal(old, value.Interface()); err != nil {
			return []string{err.Error()}
		}
		return lost(t, old, encode(t, value.Elem().Interface()))
	}
	require.Empty(t, through(reflect.TypeFor[stored]()))
	require.Empty(t, through(reflect.TypeFor[struct {
		stored
		Added bool `json:"added"`
	}]()))
	require.Equal(t, []string{"list.0.n", "name"}, through(reflect.TypeFor[struct {
		Title string `json:"title"`
		List  []struct {
			N int `json:"-"`
		} `json:"list"`
	}]()), "renamed, and dropped inside a list")
	require.Equal(t, []string{"list"}, through(reflect.TypeFor[struct {
		Name string  `json:"name"`
		List []inner `json:"-"`
	}]()))
	require.Len(t, through(reflect.TypeFor[struct {
		Name int `json:"name"`
	}]()), 1, "another type cannot be read")
}

// encode writes what goldens hold.
func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	return append(text, '\n')
}

// decode reads a stored message into today's type; it must know every field.
func decode(t *testing.T, text []byte, as reflect.Type) any {
	t.Helper()
	value := reflect.New(as)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(value.Interface()))
	return value.Elem().Interface()
}

// lost lists the paths whose values are in old and not the same in now.
func lost(t *testing.T, old, now []byte) []string {
	t.Helper()
	var a, b any
	require.NoError(t, json.Unmarshal(old, &a))
	require.NoError(t, json.Unmarshal(now, &b))
	out := missing(a, b, "")
	slices.Sort(out)
	return out
}

func missing(old, now any, path string) (out []string) {
	at := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch old := old.(type) {
	case map[string]any:
		object, _ := now.(map[string]any)
		for name, value := range old {
			if has, ok := object[name]; ok {
				out = append(out, missing(value, has, at(name))...)
			} else {
				out = append(out, at(name))
			}
		}
	case []any:
		list, _ := now.([]any)
		if len(list) != len(old) {
			return []string{path}
		}
		for i, value := range old {
			out = append(out, missing(value, list[i], at(fmt.Sprint(i)))...)
		}
	default:
		if old != now {
			out = []string{path}
		}
	}
	return out
}
