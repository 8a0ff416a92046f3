package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/activities"
	"headgate/config"
	"headgate/contract"
)

func TestWhatToTryFirst(t *testing.T) {
	of := func(name, kind string) config.Operation {
		return config.Operation{Declared: contract.Operation{Name: name, Type: kind}}
	}
	book, charge, refund := of("book", activities.BrowserType), of("charge", activities.HTTPType), of("refund", activities.HTTPType)
	require.Equal(t, "charge", toTry([]config.Operation{book, charge, refund}))
	require.Equal(t, "book", toTry([]config.Operation{book}))
}
