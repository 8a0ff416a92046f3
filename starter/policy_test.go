package main

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"headgate/admission"
	"headgate/contract"
	"headgate/starter/gateway"
)

// values are the names of all numbers and texts in a JSON document.
func values(t *testing.T, text []byte) iter.Seq[string] {
	var v any
	require.NoError(t, json.Unmarshal(text, &v))
	var walk func(name string, v any, yield func(string) bool)
	walk = func(name string, v any, yield func(string) bool) {
		switch v := v.(type) {
		case map[string]any:
			for name, part := range v {
				walk(name, part, yield)
			}
		case []any:
			for _, part := range v {
				walk(name, part, yield)
			}
		default:
			yield(name)
		}
	}
	return func(yield func(string) bool) { walk("", v, yield) }
}

// keeper is a budget that answers at last.
type keeper struct {
	running    admission.Policy
	failures   int // before the first answer
	refusals   int // before the first order is obeyed
	configured []contract.ConfigureRequest
}

func (k *keeper) InForce(context.Context) (gateway.BudgetView, error) {
	if k.failures > 0 {
		k.failures--
		return gateway.BudgetView{}, errors.New("no budget yet")
	}
	return gateway.BudgetView{Policy: k.running, Digest: k.running.Digest()}, nil
}

func (k *keeper) Configure(_ context.Context, order contract.ConfigureRequest) (contract.ConfigureReply, error) {
	if k.refusals > 0 {
		k.refusals--
		return contract.ConfigureReply{}, errors.New("the budget does not answer")
	}
	k.configured = append(k.configured, order)
	before := k.running.Digest()
	k.running = order.Policy
	return contract.ConfigureReply{Before: before, After: order.Policy.Digest()}, nil
}

func TestSettlePolicy(t *testing.T) {
	file := filePolicy(t)
	another := filePolicy(t)
	another.Queue.Hard = 50
	for name, c := range map[string]struct {
		keeper     keeper
		actor      string
		lines      []string
		configured int
	}{
		"the same":               {keeper{running: file}, "", nil, 0},
		"the same, to apply":     {keeper{running: file}, "mara", nil, 0},
		"another":                {keeper{running: another, failures: 12}, "", []string{"warn: the running budget keeps another policy than the file has"}, 0},
		"another, to apply":      {keeper{running: another, failures: 3}, "mara", []string{"info: the file's policy is in force"}, 1},
		"another, in the end":    {keeper{running: another, refusals: 1}, "mara", []string{"warn: the file's policy is not in force yet", "info: the file's policy is in force"}, 1},
		"a budget that is never": {keeper{failures: 1 << 30}, "mara", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.DebugLevel)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				k := c.keeper
				settlePolicy(ctx, &k, file, c.actor, zap.New(core))
				var lines []string
				for _, e := range logs.All() {
					lines = append(lines, e.Level.String()+": "+e.Message)
					if differ, ok := e.ContextMap()["differences"]; ok {
						assert.Equal(t, []any{"budget.queue.hard: 50 -> 100"}, differ)
					}
				}
				assert.Equal(t, c.lines, lines)
				require.Len(t, k.configured, c.configured)
				for _, order := range k.configured {
					assert.Equal(t, contract.ConfigureRequest{Policy: file, Actor: "mara"}, order)
				}
			})
		})
	}
}

func TestBriefly(t *testing.T) {
	var list []change
	for range 10 {
		list = append(list, change{"budget.queue.hard", "1", "2"})
	}
	texts := briefly(list)
	assert.Len(t, texts, 9)
	assert.Equal(t, "and more", texts[8])
	assert.Equal(t, "sha256:0123456789ab", shortDigest("sha256:0123456789abcdef"))
	assert.Equal(t, "odd", shortDigest("odd"))
}
