package mutants

// another puts a control in the place of the worker: its Effect for ours, and
// Temporal's own retries.
func another(name, breaks string, passes bool, shows string, adds ...string) Mutant {
	return Mutant{Name: name, Breaks: breaks, Passes: passes, Shows: shows, Adds: adds, Cases: []string{"C1", "C2", "C3"},
		Edits: []Edit{
			{"activities/effect.go", "func (e *Effects) Effect(ctx", "func (e *Effects) protocol(ctx"},
			{"workflows/options.go", "MaximumAttempts: 1},\n\t\tSummary:             op.Name", "MaximumAttempts: 10},\n\t\tSummary:             op.Name"},
		}}
}

// All are the controls and the mutants.
func All() []Mutant {
	return []Mutant{
		another("naive", "another worker: sends again until an answer comes", false, "has counted 2 effects", "naive", "send"),
		another("stable-key", "another worker: the same, always with one key", true, "", "stable", "send"),
		another("idle", "another worker: does nothing and says that it did", false, "has had 0 effects", "idle"),
		{
			// Each of the four holds a worker back that has lost its claim.
			Name: "no-fence", Breaks: "goes on though its claim is lost, or was never confirmed", Cases: []string{"A10 claim"}, Shows: "has counted 2 effects",
			Edits: []Edit{
				{"activities/effect.go", "\tif said != acknowledged {\n\t\treturn why\n", "\tif said != acknowledged && a == nil {\n\t\treturn why\n"},
				{"activities/effect.go", "if !a.pulse.sure() {", "if !a.pulse.sure() && a == nil {"},
				{"activities/effect.go", "\tcase claimLost:\n\t\treturn nil, why\n\t}\n", "\tcase claimLost:\n\t\treturn guard, nil\n\t}\n"},
				{"activities/effect.go", "\ta.log.Warn(\"attempt is fenced\")\n", "\ta.log.Warn(\"attempt is fenced\")\n\tif why != nil {\n\t\treturn\n\t}\n"},
			},
		},
		{
			// Either of the two alone would hold it back.
			Name: "no-send-guard", Breaks: "sends however late it is resumed, and however late its checkpoint is answered", Cases: []string{"A10 checkpoint"}, Shows: "has counted 2 effects",
			Edits: []Edit{
				{"activities/guard.go", "case g.refused == nil && past(g.now(), g.sendBy):", "case g.used && past(g.now(), g.sendBy):"},
				{"activities/effect.go", "\tcase claimLost:\n\t\treturn nil, why\n\t}\n\treturn guard, why\n", "\tcase claimLost:\n\t\treturn nil, why\n\t}\n\treturn guard, nil\n"},
			},
		},
		{
			Name: "no-checkpoint", Breaks: "sends with no durable mark", Cases: []string{"C4"}, Shows: "has counted 2 effects",
			Edits: []Edit{{"activities/effect.go", "= admission.StepDispatching, sent", "= admission.StepClaimed, sent"}},
		},
		{
			Name: "answer-in-memory", Breaks: "does not keep the answer before it returns it", Cases: []string{"A9 completion"}, Shows: "it is unknown",
			Edits: []Edit{{"activities/attempt.go", "b.Step, b.Outcome = admission.StepResponded, &o", "b.Outcome = nil"}},
		},
		{
			Name: "blind-rerun", Breaks: "repeats what may have happened, whatever its replay class", Cases: []string{"A6 happened"}, Shows: "has counted 2 effects",
			Edits: []Edit{{"workflows/reconcile.go", "Before(closes)\n\t}\n\treturn false", "Before(closes)\n\t}\n\treturn true"}},
		},
		{
			Name: "ambiguous-is-failed", Breaks: "takes a lost answer for a failure", Cases: []string{"A8"}, Shows: "has had 1 effects",
			Edits: []Edit{{"admission/outcome.go", "return Unknown, \"no_answer\"", "return Failed, \"no_answer\""}},
		},
		{
			Name: "one-read", Breaks: "concludes absence from one look-up", Cases: []string{"F3 one read"}, Shows: "has counted 2 effects",
			Edits: []Edit{{"admission/absence.go", "const agreeing = 2", "const agreeing = 1"}},
		},
		{
			Name: "lease-by-the-clock", Breaks: "takes an overdue lease back from who holds it", Cases: []string{"P36"}, Shows: "after the lease's time",
			Edits: []Edit{{"admission/advance.go", "\t\tif it.stand == leased {\n\t\t\ts.audit(it, s.now.Add(AuditAgain))", "\t\tif it.stand == leased {\n\t\t\ts.remove(it, nil)"}},
		},
		{
			Name: "key-ignored", Breaks: "takes another payload under a known key for the same request", Cases: []string{"A17"}, Shows: "want 422",
			Edits: []Edit{{"starter/gateway/submit.go", "\tif !same {\n\t\tp := refuse(\"key_reused\"", "\tif !same && view.Task == \"\" {\n\t\tp := refuse(\"key_reused\""}},
		},
		{
			Name: "cap-off-by-one", Breaks: "lets a tenant run one more than its cap", Cases: []string{"A12"}, Shows: "want 429",
			Edits: []Edit{{"admission/tenant.go", "t.inFlight+t.claims >= t.MaxInFlight }", "t.inFlight+t.claims > t.MaxInFlight }"}},
		},
	}
}
