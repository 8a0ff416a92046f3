package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
)

// stands starts to stand by, and returns when it is known to.
func stands(t *testing.T, p *places, ctx context.Context, ahead, lease string, op contract.Operation) <-chan error {
	t.Helper()
	got := make(chan error, 1)
	go func() { got <- p.stand(ctx, ahead, lease, op) }()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.at(ahead).next != nil || len(got) > 0
	}, 10*time.Second, time.Millisecond)
	return got
}

func TestPlaces(t *testing.T) {
	op := contract.Operation{Name: "charge", Cost: []admission.Cost{{Resource: "slots", Amount: 1}}}
	other := contract.Operation{Name: "refund", Cost: op.Cost}
	apart := contract.Operation{Name: "notify"}
	ctx := context.Background()

	t.Run("handed over once the one ahead has ended", func(t *testing.T) {
		p := newPlaces(time.Now)
		p.hold("a")
		got := stands(t, p, ctx, "a", "b", op)
		successor, waited := p.end("a", true)
		assert.Equal(t, "b", successor)
		assert.GreaterOrEqual(t, waited, time.Duration(0))
		require.NoError(t, <-got)
		successor, _ = p.end("a", true)
		assert.Empty(t, successor, "a place is handed over once")
	})
	t.Run("not after a failure", func(t *testing.T) {
		p := newPlaces(time.Now)
		p.hold("a")
		got := stands(t, p, ctx, "a", "b", op)
		successor, _ := p.end("a", false)
		assert.Empty(t, successor)
		require.ErrorIs(t, <-got, errMissed)
	})
	t.Run("one comes before the other", func(t *testing.T) {
		p := newPlaces(time.Now)
		got := stands(t, p, ctx, "a", "b", op)
		p.hold("a")
		successor, _ := p.end("a", true)
		assert.Equal(t, "b", successor)
		require.NoError(t, <-got)
	})
	t.Run("too late, or not here", func(t *testing.T) {
		p := newPlaces(time.Now)
		p.hold("a")
		p.end("a", true)
		require.ErrorIs(t, p.stand(ctx, "a", "b", op), errMissed)
		require.ErrorIs(t, p.stand(ctx, "elsewhere", "b", op), errLate)
	})
	t.Run("only one follows", func(t *testing.T) {
		p := newPlaces(time.Now)
		p.hold("a")
		first := stands(t, p, ctx, "a", "b", op)
		require.ErrorIs(t, p.stand(ctx, "a", "c", op), errMissed)
		successor, _ := p.end("a", true)
		assert.Equal(t, "b", successor)
		require.NoError(t, <-first)
	})
	t.Run("a refusal closes what needs the same", func(t *testing.T) {
		p := newPlaces(time.Now)
		for _, lease := range []string{"a", "b", "c"} {
			p.hold(lease)
		}
		p.close(op, time.Minute)
		same, alike, free := stands(t, p, ctx, "a", "a2", op), stands(t, p, ctx, "b", "b2", other), stands(t, p, ctx, "c", "c2", apart)
		for lease, want := range map[string]string{"a": "", "b": "", "c": "c2"} {
			successor, _ := p.end(lease, true)
			assert.Equal(t, want, successor)
		}
		require.ErrorIs(t, <-same, errMissed)
		require.ErrorIs(t, <-alike, errMissed)
		require.NoError(t, <-free)
	})
	t.Run("given up", func(t *testing.T) {
		p := newPlaces(time.Now)
		p.hold("a")
		ctx, cancel := context.WithCancelCause(ctx)
		got := stands(t, p, ctx, "a", "b", op)
		cancel(errCancelled)
		require.ErrorIs(t, <-got, errCancelled)
		successor, _ := p.end("a", true)
		assert.Empty(t, successor)
	})
	t.Run("what is long over is forgotten", func(t *testing.T) {
		now := time.Now()
		p := newPlaces(func() time.Time { return now })
		p.hold("a")
		p.end("a", true)
		p.hold("held")
		p.close(op, time.Second)
		now = now.Add(2 * keepFor)
		p.hold("b")
		assert.NotContains(t, p.places, "a")
		assert.Contains(t, p.places, "held")
		assert.Empty(t, p.closed)
	})
}
