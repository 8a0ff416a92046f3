package drill

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLeft(t *testing.T) {
	require.Equal(t, "; 12.0 cases a minute, about 40s left", left(10*time.Second, 2, 10))
	require.Empty(t, left(10*time.Second, 10, 10), "the last one")
	require.Empty(t, left(0, 0, 10))
}
