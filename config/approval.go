package config

import (
	"bytes"
	"encoding/json"

	"cel.dev/cel-go/common/types"

	"headgate/admission"
	"headgate/contract"
)

// readApproval reads who is asked, and when. A rule that is never true would be
// no approval, so `required: false` is refused: leave the section out.
func readApproval(s *section, budget admission.Policy) *contract.Approval {
	if s == nil {
		return nil
	}
	defer s.done()
	out := &contract.Approval{Expires: s.span("expires", DefaultApprovalExpires, minApprovalExpires, maxApprovalExpires)}
	if f, ok := s.need("required", "true, or a rule such as \"payload.amount > 1000\""); ok {
		switch {
		case f.value.kind == truth && f.value.text == "true":
		case f.value.kind != text:
			s.errorAt(f, "write `required: true`, or a rule over the payload; without an approval, remove the section")
		default:
			out.Rule = s.expressionOf(f, approvals)
		}
	}
	if f, ok := s.field("resource"); ok {
		if out.Resource = s.textOf(f); out.Resource != "" {
			r, known := budget.Resource(out.Resource)
			switch {
			case !known:
				s.unknownResource(field{name: out.Resource, place: f.value.place, value: f.value}, budget)
			case r.Per > 0:
				s.errorAt(f, "%s is a resource per interval: people are a concurrent one, such as `%s: {concurrent: 5}`", out.Resource, out.Resource)
			}
		}
	}
	return out
}

// approvalFor is the approval that a payload needs; nil: none. A rule that cannot
// be applied to a payload needs one: nothing passes a person by accident.
func approvalFor(declared *contract.Approval, payload []byte) *contract.Approval {
	if declared == nil || declared.Rule == "" {
		return declared
	}
	p, err := approvals.compile(declared.Rule)
	if err != nil {
		return declared
	}
	vars, err := payloadVars(payload)
	if err != nil {
		return declared
	}
	if v, err := p.evaluate(vars); err == nil && v == types.False {
		return nil
	}
	return declared
}

// payloadVars are the variables of expressions over a canonical payload.
func payloadVars(payload []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	return map[string]any{"payload": numbers(v)}, nil
}
