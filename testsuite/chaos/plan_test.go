package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/config"
	"headgate/contract"
	"headgate/testsuite/provider"
)

func TestAPlanIsTheSeeds(t *testing.T) {
	require.Equal(t, newPlan(7, 200, 30), newPlan(7, 200, 30))
	require.NotEqual(t, newPlan(7, 200, 30), newPlan(8, 200, 30))
}

func TestAPlanHasTheFaultsThatWereAskedFor(t *testing.T) {
	p := newPlan(1, 1000, 120)
	require.Len(t, p.Tasks, 1000)
	require.Len(t, p.Strikes, 40)
	unlucky := 0
	keys := map[string]bool{}
	for _, task := range p.Tasks {
		require.False(t, keys[task.Key], "one key, one task")
		keys[task.Key] = true
		if len(task.Faults) > 0 {
			unlucky++
		}
		for _, f := range task.Faults {
			require.NoError(t, f.Validate())
			require.Equal(t, contract.ProviderKey(task.Tenant, task.Key), f.Key)
			if task.Operation == "charge_lookup" || task.Operation == "charge_keyed_lookup" {
				// Its effect would land when the look-ups have rightly been believed.
				require.NotContains(t, []provider.Kind{provider.Late, provider.HangBefore}, f.Kind)
			}
		}
	}
	require.Equal(t, 80, unlucky)
	for i, s := range p.Strikes {
		require.Positive(t, s.After)
		require.Less(t, s.After, 1000, "none after the last task")
		if i > 0 {
			require.Greater(t, s.After, p.Strikes[i-1].After)
		}
	}
}

func TestTheDeclarationIsValid(t *testing.T) {
	c, err := config.Parse("chaos.yaml", []byte(declaration))
	require.NoError(t, err)
	require.Equal(t, int64(capacity), c.Budget.Resources[0].Concurrent)
	for _, class := range classes {
		op, ok := c.Operation(class)
		require.True(t, ok, class)
		require.Equal(t, heartbeat, op.Declared.Heartbeat.D(), class)
	}
}

func TestOptions(t *testing.T) {
	var o Options
	require.NoError(t, o.Validate())
	require.Equal(t, Options{Tasks: 60, Faults: 8, Callers: 7, Limit: o.Limit}, o)
	require.ErrorContains(t, (&Options{Tasks: 5, Faults: 6}).Validate(), "6 faults for 5 tasks")
	require.Error(t, (&Options{Tasks: -1}).Validate())
}
