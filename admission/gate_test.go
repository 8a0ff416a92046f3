package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What asks for less is held for everybody, and does not count as broken.
func TestHealth(t *testing.T) {
	for _, c := range []struct {
		report Report
		want   condition
	}{
		{Report{Class: Succeeded}, well},
		{Report{Class: Refused, Reason: "rate_limited"}, limited},
		{Report{Class: Refused, Reason: "overloaded"}, limited},
		{Report{Class: Refused, Reason: "declared_harmless", RetryAfter: 1}, limited},
		{Report{Class: Refused, Reason: "declared_harmless"}, ill},
		{Report{Class: Failed, Reason: "spend_cap"}, silent},
		{Report{Class: Failed, Reason: "address_refused"}, silent},
		{Report{Class: NotDispatched, Reason: "connection_failed"}, ill},
		{Report{Class: Unknown, Reason: "answer_cut"}, ill},
	} {
		require.Equal(t, c.want, health(c.report), "%+v", c.report)
	}
}
