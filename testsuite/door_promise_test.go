package testsuite

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/admission"
	"headgate/contract"
	"headgate/testsuite/drill"
	"headgate/testsuite/provider"
	"headgate/testsuite/proxy"
)

// testPromises: a client reads ACCEPTED only of a task that is durable. In all
// other cases nothing is stored, or the same key finds the task.
func testPromises(ctx context.Context, t *testing.T, world *drill.World) {
	c := plain(t, world)
	once := drill.Range{Least: 1, Most: 1}
	play(ctx, t, world, drill.Case{ID: "promise", Title: "no answer before the task is durable", Play: func(ctx context.Context, s *drill.Scene) error {
		id := func(key string) string { return contract.TaskID(s.Tenant, key) }
		ask := func(key string) <-chan drill.Answer {
			answers := make(chan drill.Answer, 1)
			go func() {
				defer close(answers)
				if answer, err := s.Ask(ctx, s.Tenant, key, "charge", admission.Normal); err == nil {
					answers <- answer
				}
			}()
			return answers
		}
		// retry sends a request again, which is the first that is promised anything.
		retry := func(key string) {
			answer, open := <-ask(key)
			require.True(t, open)
			require.Equal(t, http.StatusAccepted, answer.Status, answer.Problem.Detail)
			require.Equal(t, contract.DeliveryAccepted, answer.Task.DeliveryState)
			require.NoError(t, s.Until(ctx, key, contract.PhaseSucceeded))
		}

		// 1. While the budget is being asked, and while the task is being started,
		// there is no answer, and no task.
		for key, rule := range map[string]proxy.Rule{
			"asked":    proxy.Update(proxy.Before, contract.AdmitUpdate),
			"admitted": proxy.Update(proxy.After, contract.AdmitUpdate),
			"starting": proxy.Start(proxy.Before, id("starting")),
		} {
			point := s.Gateway.Proxy.Place(rule)
			answers := ask(key)
			require.NoError(t, point.Reached(ctx))
			requireNoTask(ctx, t, c, id(key))
			read, err := s.Door.Task(ctx, s.Tenant, key)
			require.NoError(t, err)
			require.Equal(t, http.StatusNotFound, read.Status, key)
			require.Empty(t, answers, key)
			point.Release()
			answer := <-answers
			require.Equal(t, []any{http.StatusAccepted, contract.DeliveryAccepted}, []any{answer.Status, answer.Task.DeliveryState}, key)
			_, err = describe(ctx, c, id(key))
			require.NoError(t, err, "%s was promised", key)
			require.NoError(t, s.Until(ctx, key, contract.PhaseSucceeded))
		}
		// While the answer is on its way there is a task, and no answer yet.
		point := s.Gateway.Proxy.Place(proxy.Start(proxy.After, id("started")))
		answers := ask("started")
		require.NoError(t, point.Reached(ctx))
		_, err := describe(ctx, c, id("started"))
		require.NoError(t, err)
		require.Empty(t, answers)
		point.Release()
		require.Equal(t, http.StatusAccepted, (<-answers).Status)
		require.NoError(t, s.Until(ctx, "started", contract.PhaseSucceeded))

		// 2. No start ever reaches the server.
		allow := dropAll(ctx, s.Gateway.Proxy, proxy.Start(proxy.Before, id("lost")))
		answer := <-ask("lost")
		require.Equal(t, []any{http.StatusServiceUnavailable, "not_confirmed", contract.NextRetryLater},
			[]any{answer.Status, answer.Problem.Reason, answer.Problem.NextAction})
		require.NotEmpty(t, answer.RetryAfter)
		require.NotEqual(t, contract.DeliveryAccepted, answer.Problem.DeliveryState)
		allow()
		requireNoTask(ctx, t, c, id("lost"))
		retry("lost")

		// 3. Every start reaches the server, and no answer comes back: the gateway
		// looks, and promises what it sees.
		allow = dropAll(ctx, s.Gateway.Proxy, proxy.Start(proxy.After, id("unheard")))
		answer = <-ask("unheard")
		allow()
		require.Equal(t, http.StatusAccepted, answer.Status, answer.Problem.Detail)
		require.NoError(t, s.Until(ctx, "unheard", contract.PhaseSucceeded))

		// 4. The budget is never reached, or never heard.
		for key, when := range map[string]proxy.When{"unasked": proxy.Before, "unanswered": proxy.After} {
			allow := dropAll(ctx, s.Gateway.Proxy, proxy.Update(when, contract.AdmitUpdate))
			answer := <-ask(key)
			require.Equal(t, []any{http.StatusServiceUnavailable, "budget_unavailable", contract.DeliveryRejected, contract.NextRetryLater},
				[]any{answer.Status, answer.Problem.Reason, answer.Problem.DeliveryState, answer.Problem.NextAction}, key)
			require.NotEmpty(t, answer.RetryAfter)
			allow()
			requireNoTask(ctx, t, c, id(key))
			retry(key)
		}

		// 5. The client leaves, the request is carried to its end.
		point = s.Gateway.Proxy.Place(proxy.Start(proxy.Before, id("left")))
		leaving, leave := context.WithCancel(ctx)
		gone := make(chan error, 1)
		go func() {
			_, err := s.Ask(leaving, s.Tenant, "left", "charge", admission.Normal)
			gone <- err
		}()
		require.NoError(t, point.Reached(ctx))
		leave()
		require.Error(t, <-gone)
		point.Release()
		require.NoError(t, s.Provider.WaitFor(ctx, contract.ProviderKey(s.Tenant, "left"), provider.Counts{Effects: 1}))
		retry("left")
		return nil
	}, Ends: []drill.End{{
		Keys:  []string{"asked", "admitted", "starting", "started", "lost", "unheard", "unasked", "unanswered", "left"},
		Phase: contract.PhaseSucceeded, Effects: 1, Requests: once, Attempts: once,
	}}})
}

// dropAll drops every call that rule names, as often as it is tried, until it is
// told to let them pass.
func dropAll(ctx context.Context, p *proxy.Proxy, rule proxy.Rule) (allow func()) {
	const enough = 200 // each point drops one call
	ctx, cancel := context.WithCancel(ctx)
	var points []*proxy.Point
	var all sync.WaitGroup
	for range enough {
		point := p.Place(rule)
		points = append(points, point)
		all.Go(func() {
			if point.Reached(ctx) == nil {
				point.Drop()
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
		for _, point := range points {
			point.Release()
		}
	}
}
