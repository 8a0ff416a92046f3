package contract

// Browser is how an operation acts on web pages. What it does is in the
// declaration; a payload gives values only, never selectors, addresses of other
// hosts or code.
type Browser struct {
	// Effect is the pattern of the one request that is the effect: it is held
	// until the checkpoint is durable. Empty: the steps only read.
	Effect string `json:"effect,omitempty"`
	// ReadOnly are the patterns of the requests that may pass at any time. Any
	// other request is refused.
	ReadOnly []string `json:"read_only,omitempty"`
	// IdempotencyHeader carries the task's provider key on the effect; empty:
	// none is added.
	IdempotencyHeader string `json:"idempotency_header,omitempty"`
	Steps             []Step `json:"steps"`
	// Success is a CEL rule over status, that of the effect's answer, and body,
	// what the steps have extracted; empty: any 2xx. A step that failed is no
	// success, whatever the rule says.
	Success string `json:"success,omitempty"`
	// Harmless is a CEL rule over the same: a failure that it accepts is known to
	// have had no effect. Empty: none is.
	Harmless string `json:"harmless,omitempty"`
	// Reference is a CEL expression for the provider's own name of the effect.
	Reference string `json:"reference,omitempty"`
}

// What a step does.
const (
	StepGoto    = "goto"    // opens the address Target
	StepFill    = "fill"    // types Value into a field
	StepClick   = "click"   //
	StepSelect  = "select"  // chooses the option with the value Value
	StepUpload  = "upload"  // gives the file input a file named File that holds Value
	StepWait    = "wait"    // until the element is in State
	StepExpect  = "expect"  // a visible element, with the text Value if there is one
	StepExtract = "extract" // keeps the element's text, attribute or count under Name
)

// Step is one step on a page.
type Step struct {
	Name   string `json:"name"`
	Do     string `json:"do"`
	Target string `json:"target"` // a selector; of goto, an address
	// Value may hold {payload.x}, {key}, {tenant} and {request_key}, as may the
	// path and the query of an address, where they are escaped.
	Value     string   `json:"value,omitempty"`
	File      string   `json:"file,omitempty"`
	State     string   `json:"state,omitempty"`     // visible, hidden, attached or detached
	Attribute string   `json:"attribute,omitempty"` // extract: of the element; empty: its text
	Count     bool     `json:"count,omitempty"`     // extract: the number of elements
	Optional  bool     `json:"optional,omitempty"`  // extract: an element that is not there gives null
	Timeout   Duration `json:"timeout"`
}

// Visit is a look-up in a browser: the steps only read, and the rules of the
// probe are over status, that of the last page, and what the steps extracted.
type Visit struct {
	ReadOnly []string `json:"read_only"`
	Steps    []Step   `json:"steps"`
}

// Looks tells whether the probe has a look-up, by request or in a browser.
func (p *Probe) Looks() bool { return p != nil && (p.URL != "" || p.Visit != nil) }
