package testsuite

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"headgate/testsuite/drill"
)

// span is one that a process has sent.
type span struct{ service, name, id, parent string }

// spans is a collector: OTLP over HTTP.
type spans struct {
	mu  sync.Mutex
	all map[string][]span // by trace
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var sent collector.ExportTraceServiceRequest
	text, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(text, &sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, from := range sent.GetResourceSpans() {
		service := ""
		for _, a := range from.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range from.GetScopeSpans() {
			for _, one := range scope.GetSpans() {
				id := hex.EncodeToString(one.GetTraceId())
				s.all[id] = append(s.all[id], span{service, one.GetName(), hex.EncodeToString(one.GetSpanId()), hex.EncodeToString(one.GetParentSpanId())})
			}
		}
	}
}

// of gives the spans of a trace by their names.
func (s *spans) of(trace string) map[string]span {
	s.mu.Lock()
	defer s.mu.Unlock()
	named := map[string]span{}
	for _, one := range s.all[trace] {
		named[one.name] = one
	}
	return named
}

// A client's trace goes from its request through the task and the attempt to the
// provider, over three processes.
func TestTraceOfATask(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	got := &spans{all: map[string][]span{}}
	receiver := httptest.NewServer(got)
	defer receiver.Close()
	received := make(chan string, 10)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received <- r.Header.Get("Traceparent")
		_, _ = io.WriteString(w, "{}")
	}))
	defer provider.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100") // milliseconds

	binaries, err := drill.Build(ctx, t.TempDir())
	require.NoError(t, err)
	world, err := drill.NewWorldOf(ctx, t.TempDir(), binaries, drill.Layout{Gateways: 1, Controls: 1, Workers: 1, Slots: 2,
		Declaration: strings.ReplaceAll(alertDeclaration, "http://provider.invalid", provider.URL)})
	require.NoError(t, err)
	defer world.Close()

	const trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	answer, err := send(ctx, world, http.MethodPost, "/v1/tasks", http.Header{"Idempotency-Key": {`"k1"`}, "Traceparent": {"00-" + trace + "-" + caller + "-01"}},
		[]byte(`{"tenant":"acme","operation":"charge","payload":{"amount":1}}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, answer.status, "%s", answer.body)

	names := []string{"POST /v1/tasks", "StartWorkflow:Task", "RunWorkflow:Task", "StartActivity:effect", "RunActivity:effect"}
	eventually(ctx, t, "every process has sent its spans", func() bool {
		named := got.of(trace)
		for _, name := range names {
			if named[name].id == "" {
				return false
			}
		}
		return true
	})
	named, parent := got.of(trace), caller
	for _, name := range names {
		assert.Equal(t, parent, named[name].parent, name)
		parent = named[name].id
	}
	assert.Equal(t, "headgate-gateway", named["POST /v1/tasks"].service)
	assert.Equal(t, "headgate-worker", named["RunActivity:effect"].service)
	assert.Equal(t, "00-"+trace+"-"+parent+"-01", <-received, "the provider's request is a child of the attempt")
}
