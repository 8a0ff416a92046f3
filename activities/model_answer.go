package activities

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/admission"
	"headgate/contract"
)

const (
	maxModelAnswer = 4 << 20   // bytes of a model's answer that are read, all of a stream included
	maxModelText   = 200 << 10 // bytes of text that are kept
	maxModelUsage  = 1 << 31   // tokens of one call that are believed
)

var errLongAnswer = errors.New("the answer is too long")

// keep bounds the answer's body, and reads that of a failure.
func (w *modelWire) keep(response *http.Response) (*http.Response, error) {
	body := response.Body
	if response.StatusCode/100 == 2 {
		response.Body = &bounded{body: body, left: maxModelAnswer}
		return response, nil
	}
	w.fault, _ = io.ReadAll(io.LimitReader(body, maxHeader)) // its status says enough
	_ = body.Close()
	response.Body = io.NopCloser(bytes.NewReader(w.fault))
	return response, nil
}

type bounded struct {
	body io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongAnswer
	}
	n, err := b.body.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *bounded) Close() error { return b.body.Close() }

// outcome classifies a call.
//
//	no status                          as for http: not dispatched, or unknown
//	a spend cap, 402                   failed     spend_cap: waiting does not help
//	429                                refused    rate_limited, held for everybody
//	503, 529, overloaded               refused    overloaded, the same
//	refused for its content            failed     refused_by_model
//	other statuses                     as for http
//	an answer that broke off           unknown    answer_cut: it may cost what was reserved
//	an answer                          succeeded
func (e *modelEffect) outcome(guard *Guard, said completion, err error) contract.Outcome {
	w := e.wire
	switch {
	case w.status == 0:
		return w.conn.unanswered(guard, err)
	case w.status/100 != 2:
		return e.refused()
	case err != nil || said.finish == "":
		o := contract.Outcome{Class: admission.Unknown, Reason: "answer_cut", Status: w.status, Detail: "the answer broke off"}
		if err != nil {
			o.Detail = brief("the answer broke off: " + err.Error())
		}
		return o
	}
	o := contract.Outcome{Class: admission.Succeeded, Status: w.status, Reference: brief(said.id)}
	if o.Cost = e.used(said); o.Cost == nil && e.spec.Tokens != "" {
		o.Detail = "the answer does not say what was used in a way that can be believed: it is charged as reserved"
	}
	if said.refusal != "" {
		o.Class, o.Reason, o.Detail = admission.Failed, "refused_by_model", brief(said.refusal)
		return o
	}
	if len(said.text) > maxModelText {
		o.Detail = "the answer's text is too long and was not kept"
		return o
	}
	result, err := json.Marshal(contract.ModelAnswer{Text: said.text, Finish: said.finish, Model: said.model, Usage: said.usage})
	if err != nil {
		o.Detail = "the answer's text cannot be kept"
		return o
	}
	o.Result = result
	return o
}

// refused classifies an answer that is no success. Nothing was used, except where
// the provider does not know itself.
func (e *modelEffect) refused() contract.Outcome {
	w := e.wire
	words := faultWords(w.fault)
	has := func(any ...string) bool {
		return slices.ContainsFunc(words, func(s string) bool { return slices.Contains(any, s) })
	}
	o := contract.Outcome{Status: w.status, Detail: brief(strings.Join(words, ", "))}
	switch {
	case w.status == http.StatusPaymentRequired,
		has("insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached", "enforced_spend_limit_reached", "billing_error"):
		o.Class, o.Reason = admission.Failed, "spend_cap"
	case w.status == http.StatusTooManyRequests:
		o.Class, o.Reason = admission.Refused, "rate_limited"
	case w.status == http.StatusServiceUnavailable, w.status == 529, has("overloaded_error", "slow_down"):
		o.Class, o.Reason = admission.Refused, "overloaded"
	case has("content_filter", "content_policy_violation"):
		o.Class, o.Reason = admission.Failed, "refused_by_model"
	default:
		o.Class, o.Reason = admission.Classify(admission.Answer{Sent: true, Status: w.status})
	}
	if o.Class == admission.Refused {
		o.RetryAfter = contract.Duration(modelRetryAfter(w.header, e.now()))
	}
	if o.Class != admission.Unknown && e.spec.Tokens != "" {
		o.Cost = []admission.Cost{{Resource: e.spec.Tokens}}
	}
	return o
}

// faultWords are the machine-readable words of an error, never its prose, which
// may quote the prompt.
func faultWords(body []byte) (words []string) {
	type fault struct {
		Type      string          `json:"type"`
		Code      json.RawMessage `json:"code"`
		ErrorCode string          `json:"error_code"`
		Details   struct {
			ErrorCode string `json:"error_code"`
		} `json:"details"`
	}
	var in struct {
		Error fault `json:"error"`
	}
	if json.Unmarshal(body, &in) != nil {
		return nil
	}
	code := ""
	_ = json.Unmarshal(in.Error.Code, &code) // some servers send a number
	for _, w := range []string{in.Error.Type, code, in.Error.ErrorCode, in.Error.Details.ErrorCode} {
		if w != "" && len(w) < 64 && !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return words
}

// used is the real cost. A count that cannot be is not believed: what was
// reserved stays charged then.
func (e *modelEffect) used(said completion) []admission.Cost {
	u := said.usage
	total := u.Input + u.Output
	if e.spec.Tokens == "" || u.Input <= 0 || u.Output < 0 || u.Output == 0 && said.text != "" || total <= 0 || total > maxModelUsage {
		return nil
	}
	return []admission.Cost{{Resource: e.spec.Tokens, Amount: total}}
}

// modelRetryAfter reads when to come again: Retry-After, in milliseconds where
// OpenAI says so, else the time at which a limit that is used up is filled again,
// as a duration (OpenAI) or a time (Anthropic). Clamped like any other.
func modelRetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return min(time.Duration(min(ms, 1e9)*float64(time.Millisecond)), maxRetryAfter)
	}
	if after := retryAfter(h, now); after > 0 {
		return after
	}
	longest := time.Duration(0)
	for _, limit := range []string{"Requests", "Tokens"} {
		if h.Get("X-Ratelimit-Remaining-"+limit) == "0" {
			if d, err := time.ParseDuration(h.Get("X-Ratelimit-Reset-" + limit)); err == nil {
				longest = max(longest, d)
			}
		}
	}
	for _, limit := range []string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
		if h.Get("Anthropic-Ratelimit-"+limit+"-Remaining") == "0" {
			if at, err := time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-"+limit+"-Reset")); err == nil {
				longest = max(longest, at.Sub(now))
			}
		}
	}
	return min(longest, maxRetryAfter)
}
