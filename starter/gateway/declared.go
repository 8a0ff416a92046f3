package gateway

import (
	"cmp"
	"net/http"

	"headgate/contract"
)

// OperationView is what a client may know of an operation before it asks for it.
type OperationView struct {
	Name    string            `json:"name"`
	Type    string            `json:"type"`
	Replay  string            `json:"replay"` // safe, keyed or never
	Timeout contract.Duration `json:"timeout"`
	// Approval is always, or the rule over the payload by which a person is asked
	// first; empty: nobody is.
	Approval string `json:"approval,omitempty"`
	// SameIntent is what becomes of a request whose intent an earlier task has.
	SameIntent string `json:"same_intent,omitempty"`
}

// OperationList is the answer of GET /v1/operations.
type OperationList struct {
	Operations []OperationView `json:"operations"` // by name
}

// declarations is GET /v1/operations. Where providers are and how they are reached
// is not told.
func (g *Gateway) declarations(w http.ResponseWriter, _ *http.Request) error {
	list := OperationList{Operations: []OperationView{}}
	for _, op := range g.operations.Declared() {
		v := OperationView{Name: op.Name, Type: op.Type, Replay: op.Replay.Class, Timeout: op.Timeout}
		if op.Approval != nil {
			v.Approval = cmp.Or(op.Approval.Rule, "always")
		}
		if op.Intent != nil {
			v.SameIntent = op.Intent.Same
		}
		list.Operations = append(list.Operations, v)
	}
	return reply(w, http.StatusOK, list)
}
