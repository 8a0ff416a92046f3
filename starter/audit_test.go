package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

// An audit is waited for, and its exit status never says clean of what was not
// asked.
func TestAudit(t *testing.T) {
	const path = "/v1/operations/charge_card/audit"
	found := []contract.Finding{{Kind: contract.FindingOrphaned, Effect: "hg-planted", At: *at(5)}}
	for name, c := range map[string]struct {
		view   contract.AuditView
		status int
		says   string
	}{
		"clean": {contract.AuditView{State: "done", Verdict: contract.AuditClean, Report: &contract.AuditReport{Operation: "charge_card", Tasks: 3, Agreed: 3, Listing: contract.ListingComplete, Listed: 3}},
			exitDone, "clean"},
		"found": {contract.AuditView{State: "done", Verdict: contract.AuditFound, Report: &contract.AuditReport{Operation: "charge_card", Listing: contract.ListingComplete, Findings: found}},
			exitFound, "hg-planted"},
		"the listing failed": {contract.AuditView{State: "done", Verdict: contract.AuditUnknown, Report: &contract.AuditReport{Operation: "charge_card", Listing: contract.ListingFailed, Detail: "the listing answers 503"}},
			exitUnknown, "the listing answers 503"},
		"it was terminated": {contract.AuditView{Operation: "charge_card", State: "failed", Detail: "ended from outside"}, exitUnknown, "ended from outside"},
	} {
		t.Run(name, func(t *testing.T) {
			newCannedGateway(t, map[string][]canned{"POST " + path: {{202, contract.AuditView{Run: "r1", State: "running"}}},
				"GET " + path: {{200, contract.AuditView{Run: "r1", State: "running"}}, {200, c.view}}})
			got := command("", "audit", "charge_card")
			require.Equal(t, c.status, got.status, got.errors)
			require.Contains(t, got.out, c.says)
			require.Empty(t, got.errors)
		})
	}
}
