package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

func TestConflict(t *testing.T) {
	succeeded := contract.Settled{Phase: contract.PhaseSucceeded, Attempt: 2, Reference: "ch_1"}
	failed := contract.Settled{Phase: contract.PhaseFailed}
	look := func(finding string, count int) contract.Evidence {
		return contract.Evidence{Kind: contract.EvidenceLookup, Finding: finding, Count: count}
	}
	late := func(finding, reference string) contract.Evidence {
		return contract.Evidence{Kind: contract.EvidenceLate, Finding: finding, Reference: reference}
	}
	for name, c := range map[string]struct {
		end     contract.Settled
		replay  string
		attempt int
		e       contract.Evidence
		want    string
	}{
		"agrees":                              {succeeded, contract.ReplayNever, 0, look(contract.Happened, 1), ""},
		"counted twice":                       {succeeded, contract.ReplayKeyed, 0, look(contract.Happened, 2), contract.FindingDuplicate},
		"counted twice, and failed":           {failed, contract.ReplayNever, 0, look(contract.Happened, 2), contract.FindingDuplicate},
		"not there":                           {succeeded, contract.ReplayNever, 0, look(contract.DidNotHappen, 0), contract.FindingLost},
		"failed, and it is there":             {failed, contract.ReplayNever, 0, look(contract.Happened, 0), contract.FindingContradicted},
		"failed, and it is not there":         {failed, contract.ReplayNever, 0, look(contract.DidNotHappen, 0), ""},
		"failed, and it was answered":         {failed, contract.ReplayNever, 1, late(contract.Happened, "ch_1"), contract.FindingContradicted},
		"the last attempt's answer again":     {succeeded, contract.ReplayNever, 2, late(contract.Happened, "ch_1"), ""},
		"two attempts answered":               {succeeded, contract.ReplayNever, 1, late(contract.Happened, "ch_2"), contract.FindingDuplicate},
		"two attempts answered, by key":       {succeeded, contract.ReplayKeyed, 1, late(contract.Happened, "ch_1"), ""},
		"two effects in spite of the key":     {succeeded, contract.ReplayKeyed, 1, late(contract.Happened, "ch_2"), contract.FindingDuplicate},
		"two attempts answered, safe":         {succeeded, contract.ReplaySafe, 1, late(contract.Happened, "ch_2"), ""},
		"an earlier attempt had none":         {succeeded, contract.ReplayNever, 1, late(contract.DidNotHappen, ""), ""},
		"the last attempt's answer says none": {succeeded, contract.ReplayNever, 2, late(contract.DidNotHappen, ""), contract.FindingContradicted},
		"nothing is said":                     {succeeded, contract.ReplayNever, 0, look(contract.Inconclusive, 0), ""},
		"ended from outside":                  {contract.Settled{}, contract.ReplayNever, 0, look(contract.Happened, 1), ""},
	} {
		require.Equal(t, c.want, contract.Conflict(c.end, c.replay, c.attempt, c.e), name)
	}
}

func TestAuditVerdict(t *testing.T) {
	require.Equal(t, contract.AuditClean, contract.AuditReport{Listing: contract.ListingComplete}.Verdict())
	require.Equal(t, contract.AuditClean, contract.AuditReport{Listing: contract.ListingNone}.Verdict())
	require.Equal(t, contract.AuditUnknown, contract.AuditReport{Listing: contract.ListingFailed}.Verdict())
	require.Equal(t, contract.AuditUnknown, contract.AuditReport{Listing: contract.ListingComplete, Unclear: 1}.Verdict())
	require.Equal(t, contract.AuditFound, contract.AuditReport{Listing: contract.ListingFailed, Findings: []contract.Finding{{}}}.Verdict())
}
