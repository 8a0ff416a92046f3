package workers

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/activities"
	"headgate/contract"
)

type fax struct{}

func (fax) Prepare(context.Context, contract.EffectInput) (activities.Prepared, error) {
	return nil, nil
}

// A type of one's own is a role with a queue of its own, and no other one's.
func TestTypesOfYourOwn(t *testing.T) {
	o := testOptions(t)
	o.Types = map[string]activities.Type{"fax": fax{}}
	o, err := o.normalize()
	require.NoError(t, err)
	chosen, err := choose([]string{"fax"}, o.Types)
	require.NoError(t, err)
	require.Len(t, chosen, 1)
	require.Equal(t, "headgate-effects-fax", chosen[0].queue)
	var n names
	chosen[0].register(&n, o, "me")
	require.Equal(t, []string{"effect", "probe", "sweep"}, n.activities)
	require.Empty(t, n.workflows)
	require.False(t, chosen[0].budget)
	require.NotContains(t, Roles(), "fax", "it is no role of every process")

	_, err = choose([]string{"sms"}, o.Types)
	require.ErrorContains(t, err, `there is no role "sms"`)
	_, err = choose([]string{"fax"}, map[string]activities.Type{"http": fax{}})
	require.ErrorContains(t, err, "has the name of a role")
}
