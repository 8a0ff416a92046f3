package config

import (
	"cmp"
	"slices"
	"time"

	"headgate/admission"
	"headgate/contract"
)

// Codes of a ResolveError; they are reasons of the HTTP and JSON contract.
const (
	UnknownOperation = "unknown_operation"
	InvalidPayload   = "invalid_payload"
	PayloadTooLarge  = "payload_too_large"
	InvalidKey       = "invalid_key"
	InvalidName      = "invalid_name" // of a tenant, agent, operation, budget or priority
	InvalidTime      = "invalid_time"
	InvalidRequest   = "invalid_request"
	CostAboveLimit   = string(admission.CostAboveLimit)
)

// maxDelay bounds not_before: a task that waits longer is a mistyped date.
const maxDelay = 366 * 24 * time.Hour

// ResolveError says why a request can never be taken as it is.
type ResolveError struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Error begins with the code and a colon.
func (e *ResolveError) Error() string { return e.Code + ": " + e.Detail }

// Resolve is ResolveE for tasks that were started without a gateway: a refusal is
// in Refused, as the error's text. They have no intent, which a gateway claims.
func (c *Config) Resolve(in contract.TaskInput, now time.Time) contract.Resolved {
	if in.Intent != "" {
		return contract.Resolved{Refused: refuse(InvalidRequest, "an intent is claimed by a gateway: submit through one, or leave it out").Error()}
	}
	out, err := c.ResolveE(in, now)
	if err != nil {
		return contract.Resolved{Refused: err.Error()}
	}
	return out
}

// ResolveE checks a request and pins what it asks for: the operation as it is
// declared now, with the cost of this payload, and the payload in its canonical
// form. What the operation points to is shared with the Config: do not change it.
//
// A deadline in the past is taken: admission answers it. The fields Pinned and
// Ticket are not looked at; a Hash must be the payload's.
func (c *Config) ResolveE(in contract.TaskInput, now time.Time) (contract.Resolved, *ResolveError) {
	op, err := c.check(in, now)
	if err != nil {
		return contract.Resolved{}, err
	}
	payload, err := checkPayload(in.Payload)
	if err != nil {
		return contract.Resolved{}, err
	}
	hash := Hash(in.Operation, payload)
	if in.Hash != "" && in.Hash != hash {
		return contract.Resolved{}, refuse(InvalidPayload, "the hash is not the payload's: leave it out, or send %s", hash)
	}
	pinned := op.Declared
	pinned.Doubts, pinned.OnFinding = true, cmp.Or(pinned.OnFinding, contract.OnFindingRecord)
	if pinned.Cost, err = c.cost(op, payload); err != nil {
		return contract.Resolved{}, err
	}
	if pinned.Intent, err = intentFor(op.Declared.Intent, in); err != nil {
		return contract.Resolved{}, err
	}
	if err := renders(pinned, in, payload); err != nil {
		return contract.Resolved{}, err
	}
	pinned.Approval = approvalFor(op.Declared.Approval, payload)
	return contract.Resolved{Operation: &pinned, Payload: payload, Hash: hash, Logic: contract.LogicNewest}, nil
}

// check is all that does not need the payload.
func (c *Config) check(in contract.TaskInput, now time.Time) (*Operation, *ResolveError) {
	if err := contract.CheckName("tenant", in.Tenant); err != nil {
		return nil, refuse(InvalidName, "%v", err)
	}
	if err := contract.CheckKey(in.Key); err != nil {
		return nil, refuse(InvalidKey, "%v", err)
	}
	if in.Agent != "" {
		if err := contract.CheckName("agent", in.Agent); err != nil {
			return nil, refuse(InvalidName, "%v", err)
		}
	}
	if err := contract.CheckName("operation", in.Operation); err != nil {
		return nil, refuse(InvalidName, "%v", err)
	}
	if in.BudgetName() != contract.DefaultBudget {
		return nil, refuse(InvalidName, "there is no budget %.64q: leave it out, or name %q", in.Budget, contract.DefaultBudget)
	}
	if !slices.Contains(admission.Priorities(), in.Priority) {
		return nil, refuse(InvalidName, "%s is not a priority: want low, normal, high or critical", in.Priority)
	}
	op, ok := c.Operation(in.Operation)
	if !ok {
		return nil, refuse(UnknownOperation, "there is no operation %q in the configuration", in.Operation)
	}
	return op, checkTimes(in, now)
}

func checkTimes(in contract.TaskInput, now time.Time) *ResolveError {
	sane := func(t *time.Time) bool { return t == nil || !t.IsZero() && t.Year() >= 1970 && t.Year() <= 9999 }
	switch {
	case !sane(in.Deadline):
		return refuse(InvalidTime, "the deadline is not a time between the years 1970 and 9999")
	case !sane(in.NotBefore):
		return refuse(InvalidTime, "not_before is not a time between the years 1970 and 9999")
	case in.NotBefore != nil && in.Deadline != nil && !in.NotBefore.Before(*in.Deadline):
		return refuse(InvalidTime, "not_before is not before the deadline: nothing could ever run")
	case in.NotBefore != nil && in.NotBefore.Sub(now) > maxDelay:
		return refuse(InvalidTime, "not_before is more than 366 days away")
	}
	return nil
}

// checkPayload refuses what is far too long before it reads it: four times the
// limit leaves room for white space and escapes.
func checkPayload(raw []byte) ([]byte, *ResolveError) {
	if len(raw) > 4*contract.MaxPayload {
		return nil, refuse(PayloadTooLarge, "the payload has %d bytes: at most %d are allowed", len(raw), contract.MaxPayload)
	}
	payload, err := Canonical(raw)
	if err != nil {
		return nil, refuse(InvalidPayload, "%v", err)
	}
	if len(payload) > contract.MaxPayload {
		return nil, refuse(PayloadTooLarge, "the payload has %d bytes in its canonical form: at most %d are allowed", len(payload), contract.MaxPayload)
	}
	return payload, nil
}

func (c *Config) cost(op *Operation, payload []byte) ([]admission.Cost, *ResolveError) {
	var vars map[string]any
	out := make([]admission.Cost, 0, len(op.Costs))
	for i := range op.Costs {
		rule := &op.Costs[i]
		if vars == nil && !rule.constant() {
			var err error
			if vars, err = payloadVars(payload); err != nil {
				return nil, refuse(InvalidPayload, "the payload cannot be read: %v", err)
			}
		}
		cost, err := rule.amount(vars, c.Budget)
		if err != nil {
			return nil, err
		}
		out = append(out, cost)
	}
	return out, nil
}

// renders refuses a payload that the operation's request cannot be made of.
func renders(op contract.Operation, in contract.TaskInput, payload []byte) *ResolveError {
	if op.Model != nil {
		if _, err := ReadPrompt(op.Model, payload); err != nil {
			return refuse(InvalidPayload, "%v", err)
		}
	}
	if op.Request == nil {
		return nil
	}
	call := Call{Payload: payload, Key: contract.ProviderKey(in.Tenant, in.Key), Tenant: in.Tenant, RequestKey: in.Key}
	if _, _, err := Body(op.Request, call); err != nil {
		return refuse(InvalidPayload, "the request cannot be made of the payload: %v", err)
	}
	return nil
}
