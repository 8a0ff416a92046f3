package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeople(t *testing.T) {
	c, err := Parse("test.yaml", []byte(base))
	require.NoError(t, err)
	require.True(t, c.People.May("anybody", RightApprove), "without the section everything is allowed")

	c, err = Parse("test.yaml", []byte(base+"\npeople:\n  mara: \"resolve, approve\"\n  ops@example.org: pause\n"))
	require.NoError(t, err)
	require.Equal(t, People{{"mara", []string{"approve", "resolve"}}, {"ops@example.org", []string{"pause"}}}, c.People)
	for _, row := range []struct {
		actor, right string
		may          bool
	}{
		{"mara", RightApprove, true}, {"mara", RightResolve, true}, {"mara", RightPause, false},
		{"ops@example.org", RightPause, true}, {"ops@example.org", RightApprove, false},
		{"Mara", RightApprove, false}, {"tom", RightPause, false}, {"", RightPause, false},
	} {
		require.Equal(t, row.may, c.People.May(row.actor, row.right), "%s %s", row.actor, row.right)
	}
	for text, want := range map[string]string{
		"people: {}":                   "nobody is named",
		"people: mara":                 "want a mapping",
		"people: {mara: all}":          `"all" is no right: write approve, pause, resolve`,
		"people: {mara: 1}":            "want text",
		"people: {mara: \"\"}":         "it is empty",
		"people: {m: \"pause pause\"}": "pause is there twice",
	} {
		_, err := Parse("test.yaml", []byte(base+"\n"+text+"\n"))
		require.ErrorContains(t, err, want)
	}
}
