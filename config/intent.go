package config

import (
	"time"

	"headgate/contract"
)

// readIntent reads what becomes of requests with the same intent.
func readIntent(s *section) *contract.Intent {
	if s == nil {
		return nil
	}
	defer s.done()
	return &contract.Intent{Same: s.oneOf("same", contract.SameRefuse, contract.SameRefuse, contract.SameReturn, contract.SameAllow),
		Window: s.span("window", contract.DefaultIntentWindow.D(), minIntentWindow, maxIntentWindow)}
}

const (
	minIntentWindow = time.Second
	maxIntentWindow = 366 * 24 * time.Hour
)

// intentFor is what holds for a request; nil: it has no intent. A request may ask
// for less than the operation allows, never for more: only an operation that
// declares allow lets a second task have the same intent.
func intentFor(declared *contract.Intent, in contract.TaskInput) (*contract.Intent, *ResolveError) {
	if in.Intent == "" {
		if in.SameIntent != "" {
			return nil, refuse(InvalidRequest, "same_intent without an intent: add one, or leave it out")
		}
		return nil, nil
	}
	if err := contract.CheckIntent(in.Intent); err != nil {
		return nil, refuse(InvalidRequest, "%v", err)
	}
	out := contract.Intent{Same: contract.SameRefuse, Window: contract.DefaultIntentWindow}
	if declared != nil {
		out = *declared
	}
	switch in.SameIntent {
	case "":
	case contract.SameRefuse, contract.SameReturn:
		out.Same = in.SameIntent
	case contract.SameAllow:
		if out.Same != contract.SameAllow {
			return nil, refuse(InvalidRequest, "same_intent allow: the operation declares %s; only its declaration can allow a second task", out.Same)
		}
	default:
		return nil, refuse(InvalidRequest, "same_intent %.40q: want refuse, return or allow", in.SameIntent)
	}
	return &out, nil
}
