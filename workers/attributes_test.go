package workers

import (
	"testing"

	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
)

func TestMissingAttributes(t *testing.T) {
	missing := missingAttributes(map[string]enums.IndexedValueType{"HeadgateTenant": enums.INDEXED_VALUE_TYPE_KEYWORD, "Other": enums.INDEXED_VALUE_TYPE_INT})
	require.Len(t, missing, len(searchAttributes)-1)
	require.NotContains(t, missing, "HeadgateTenant")
}
