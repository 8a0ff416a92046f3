package workers

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"headgate/contract"
)

// What the SDK's handler is told is shown under the documented names, with labels
// as they are.
func TestMetricsAreShownUnderTheirNames(t *testing.T) {
	m := NewMetrics(zap.NewNop())
	tagged := m.Handler.WithTags(map[string]string{contract.OperationLabel: "charge-card.v2", "task_queue": contract.ControlQueue})
	tagged.Counter(contract.AttemptsMetric).Inc(2)
	tagged.Timer(contract.StartMetric).Record(90 * time.Second)
	tagged.Gauge("temporal_num_pollers").Update(3)
	m.Close() // reports what is left

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- m.Serve(ctx, listener) }()
	answer, err := http.Get("http://" + listener.Addr().String() + MetricsPath)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	const labels = `operation="charge-card.v2",task_queue="headgate-control"`
	for _, line := range []string{
		`headgate_attempts_total{` + labels + `} 2`,
		`headgate_task_start_seconds_bucket{` + labels + `,le="60"} 0`,
		`headgate_task_start_seconds_bucket{` + labels + `,le="120"} 1`,
		`headgate_task_start_seconds_sum{` + labels + `} 90`,
		`temporal_num_pollers{` + labels + `} 3`,
		`go_goroutines `,
	} {
		require.Contains(t, string(text), line)
	}
	stop()
	require.NoError(t, <-served)
}
