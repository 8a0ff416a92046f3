package testsuite

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"headgate/admission"
	"headgate/contract"
)

// historyFolder has a folder for each type of workflow.
const historyFolder = "histories"

// storedHistories names the files below the folder, without their endings.
func storedHistories(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(historyFolder, "*", "*"))
	require.NoError(t, err)
	names := make([]string, len(files))
	for i, file := range files {
		name, err := filepath.Rel(historyFolder, file)
		require.NoError(t, err)
		names[i] = strings.TrimSuffix(filepath.ToSlash(name), ".json")
	}
	slices.Sort(names)
	return names
}

func historyFile(name string) string {
	return filepath.Join(historyFolder, filepath.FromSlash(name)+".json")
}

// loadHistory reads a stored history, which must have events.
func loadHistory(t *testing.T, name string) *history.History {
	t.Helper()
	file, err := os.Open(historyFile(name))
	require.NoError(t, err)
	defer file.Close()
	h, err := client.HistoryFromJSON(file, client.HistoryJSONOptions{})
	require.NoError(t, err, name)
	require.NotEmpty(t, h.GetEvents(), name)
	return h
}

// storeHistory writes a history, in which no worker tells the name of its machine.
func storeHistory(t *testing.T, name string, h *history.History) {
	t.Helper()
	host, err := os.Hostname()
	require.NoError(t, err)
	inside := strings.NewReplacer("@"+host+":", "@host:", "@"+host+"@", "@host@") // identities
	h = proto.CloneOf(h)
	replaceText(h.ProtoReflect(), func(text string) string {
		if rest, ok := strings.CutPrefix(text, host+":"); ok { // a worker's own queue
			return "host:" + rest
		}
		return inside.Replace(text)
	})
	text, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(h)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(historyFile(name)), 0o755))
	require.NoError(t, os.WriteFile(historyFile(name), append(text, '\n'), 0o644))
}

// replaceText replaces all strings and bytes of a message.
func replaceText(m protoreflect.Message, by func(text string) string) {
	replaced := func(kind protoreflect.Kind, v protoreflect.Value) protoreflect.Value {
		switch kind {
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(by(v.String()))
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes([]byte(by(string(v.Bytes()))))
		case protoreflect.MessageKind, protoreflect.GroupKind:
			replaceText(v.Message(), by)
		}
		return v
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsMap():
			v.Map().Range(func(key protoreflect.MapKey, item protoreflect.Value) bool {
				v.Map().Set(key, replaced(field.MapValue().Kind(), item))
				return true
			})
		case field.IsList():
			for i := range v.List().Len() {
				v.List().Set(i, replaced(field.Kind(), v.List().Get(i)))
			}
		default:
			m.Set(field, replaced(field.Kind(), v))
		}
		return true
	})
}

// fetchHistory reads the history of a run from the server; an empty run is the
// latest.
func fetchHistory(ctx context.Context, t *testing.T, c client.Client, workflow, run string) *history.History {
	t.Helper()
	h := &history.History{}
	for it := c.GetWorkflowHistory(ctx, workflow, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		event, err := it.Next()
		require.NoError(t, err, workflow)
		h.Events = append(h.Events, event)
	}
	return h
}

// Marks that are no names of messages or activities.
const (
	markFirst     = "first run"     // not continued from another one
	markContinued = "continued run" // begins with what another one left
	markChild     = "child"         // starts a child workflow
	markNew       = "begins a new run"
	markSucceeded = "succeeded"
	markFailed    = "failed"
	markCancelled = "cancelled"
	markOpen      = "open"
	markStandby   = "stands by"   // was told to take the place of another task
	markHanded    = "handed over" // a report that names a successor
)

// marks is the story of a history in words: how it began, each activity that was
// scheduled, each local one that ran, each signal and update that was taken, and
// how it ended.
func marks(h *history.History) []string {
	var out []string
	end := markOpen
	for _, e := range h.GetEvents() {
		switch e.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
			out = append(out, markFirst)
			if e.GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId() != "" {
				out[0] = markContinued
			}
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			out = append(out, e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName())
		case enums.EVENT_TYPE_MARKER_RECORDED:
			var local struct{ ActivityType string }
			if first(e.GetMarkerRecordedEventAttributes().GetDetails()["data"], &local) {
				out = append(out, local.ActivityType)
			}
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
			a := e.GetWorkflowExecutionSignaledEventAttributes()
			out = append(out, a.GetSignalName())
			var told contract.Decision
			if a.GetSignalName() == contract.DecisionSignal && first(a.GetInput(), &told) && told.Lease != nil && told.Lease.After != "" {
				out = append(out, markStandby)
			}
			var batch contract.ReportBatch
			if a.GetSignalName() == contract.ReportSignal && first(a.GetInput(), &batch) &&
				slices.ContainsFunc(batch.Reports, func(r admission.Report) bool { return r.Successor != "" }) {
				out = append(out, markHanded)
			}
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
			out = append(out, e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetName())
		case enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
			out = append(out, markChild)
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
			end = markNew
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
			end = markSucceeded
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
			end = markFailed
		case enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
			end = markCancelled
		}
	}
	return append(out, end)
}

// shows tells whether a history has these marks, in this order, from its first to
// its last.
func shows(h *history.History, want []string) bool {
	have := marks(h)
	if have[0] != want[0] || have[len(have)-1] != want[len(want)-1] {
		return false
	}
	for _, mark := range have {
		if len(want) > 0 && mark == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// first decodes the first of some payloads.
func first(p *common.Payloads, into any) bool {
	all := p.GetPayloads()
	return len(all) > 0 && json.Unmarshal(all[0].GetData(), into) == nil
}
