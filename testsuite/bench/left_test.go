package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLeft(t *testing.T) {
	all := []part{{limit: 4 * time.Minute}, {limit: 2 * time.Minute}, {limit: 10 * time.Minute}}
	require.Equal(t, 100*time.Second, left(time.Minute, all[:2], all[2:]))
	require.Equal(t, 3*time.Minute, left(time.Minute, all[:1], all[1:]))
}
