package playwright

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Owners share no browser; one whose session is open keeps its own, and the one
// that was idle for longest makes room for another owner.
func TestPoolOfOwners(t *testing.T) {
	s := newSite(t)
	o := s.driver.o
	o.Browsers = 2
	pool := NewPool(o)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, pool.Start(s.ctx))
	entries, err := os.ReadDir(s.temp)
	require.NoError(t, err)
	require.Empty(t, entries, "nobody has asked for a page yet")
	open := func(owner string) *Session {
		plan := s.plan(owner, "", form...)
		plan.Owner = owner
		session, err := pool.Open(s.ctx, plan)
		require.NoError(t, err)
		return session
	}
	a, b := open("a"), open("b")
	require.NotSame(t, a.engine, b.engine)
	again := open("a")
	require.Same(t, a.engine, again.engine)
	require.NoError(t, again.Close())
	require.NoError(t, b.Close())

	c := open("c") // b's is idle, a's is not
	select {
	case <-b.engine.dead:
	case <-time.After(20 * time.Second):
		t.Fatal("the idle browser did not make room")
	}
	held, err := a.Run(s.ctx)
	require.NoError(t, err)
	require.True(t, held, "a's session went on")
	d := open("d") // nobody is idle: better one more than none
	require.NotSame(t, c.engine, d.engine)
	for _, session := range []*Session{a, c, d} {
		require.NoError(t, session.Close())
	}
	require.NoError(t, pool.Close())
	_, err = pool.Open(s.ctx, s.plan("late", "", form...))
	require.ErrorIs(t, err, errClosed)
}

// Without a number of browsers, all owners share one.
func TestPoolShared(t *testing.T) {
	s := newSite(t)
	pool := NewPool(s.driver.o)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, pool.Start(s.ctx))
	plan := s.plan("a", "", form...)
	plan.Owner = "a"
	a, err := pool.Open(s.ctx, plan)
	require.NoError(t, err)
	plan.Owner = "b"
	b, err := pool.Open(s.ctx, plan)
	require.NoError(t, err)
	require.Same(t, a.engine, b.engine)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
}
