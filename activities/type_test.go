package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

// asking is a type that looks up as a test says.
type asking struct {
	own
	probe func(ctx context.Context) contract.Evidence
}

func (a *asking) Probe(ctx context.Context, _ contract.ProbeInput) contract.Evidence {
	return a.probe(ctx)
}

// The word of a type about its own effects is held to the rules that an answer
// over HTTP is held to.
func TestProbeOfAType(t *testing.T) {
	say := func(finding string) func(context.Context) contract.Evidence {
		return func(context.Context) contract.Evidence {
			return contract.Evidence{Finding: finding, Kind: "mine", Actor: "me", Reference: "r", Status: 7}
		}
	}
	for _, c := range []struct {
		name, finding, detail string
		probe                 func(context.Context) contract.Evidence
	}{
		{"happened", contract.Happened, "", say(contract.Happened)},
		{"did not", contract.DidNotHappen, "", say(contract.DidNotHappen)},
		{"inconclusive", contract.Inconclusive, "", say(contract.Inconclusive)},
		{"nothing", contract.Inconclusive, "", say("")},
		{"a person's word", contract.Inconclusive, "", say(contract.FailedFinding)},
		{"too late", contract.Inconclusive, "", func(ctx context.Context) contract.Evidence {
			<-ctx.Done()
			return contract.Evidence{Finding: contract.DidNotHappen}
		}},
		{"panic", contract.Inconclusive, "the look-up panicked", func(context.Context) contract.Evidence { panic("x") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &Effects{Types: map[string]Type{"sms": &asking{probe: c.probe}}, Worker: "sms@here:1", Log: nopLog()}
			found, err := e.Probe(t.Context(), contract.ProbeInput{Kind: contract.ProbeLookup,
				Probe: contract.Probe{URL: contract.TypeProbe + "sms", Timeout: contract.Duration(20 * time.Millisecond)}})
			require.NoError(t, err)
			require.Equal(t, c.finding, found.Finding)
			require.Equal(t, c.detail, found.Detail)
			require.Equal(t, contract.EvidenceLookup, found.Kind)
			require.Equal(t, "sms@here:1", found.Actor, "the worker says who looked")
		})
	}
	e := &Effects{Types: map[string]Type{"sms": &own{}}, Log: nopLog()}
	found, err := e.Probe(t.Context(), contract.ProbeInput{Kind: contract.ProbeLookup, Probe: contract.Probe{URL: contract.TypeProbe + "sms"}})
	require.NoError(t, err)
	require.Equal(t, contract.Inconclusive, found.Finding)
	require.Contains(t, found.Detail, "cannot look up")
}
