package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

// problemBase starts every problem type. The URIs are plain identifiers; nothing
// has to be served there.
const problemBase = "https://headgate.dev/problems/"

type kind struct {
	status int
	title  string
	next   string // what the client does; retry_later is set by Retry-After alone
}

// kinds is the catalogue of everything that the gateway refuses. The name is the
// problem's reason, and with '-' for '_' the last part of its type.
var kinds = map[string]kind{
	// The request itself.
	"invalid_request":         {400, "The request is not valid", contract.NextDoNotRetry},
	"idempotency_key_missing": {400, "The Idempotency-Key field is missing", contract.NextDoNotRetry},
	"idempotency_key_invalid": {400, "The Idempotency-Key field is not valid", contract.NextDoNotRetry},
	"invalid_key":             {400, "The request key is not valid", contract.NextDoNotRetry},
	"invalid_name":            {400, "A name is not valid", contract.NextDoNotRetry},
	"invalid_payload":         {400, "The payload is not valid", contract.NextDoNotRetry},
	"invalid_time":            {400, "A time is not valid", contract.NextDoNotRetry},
	"unknown_operation":       {400, "The operation is not known", contract.NextDoNotRetry},
	"cost_above_limit":        {400, "The cost can never fit", contract.NextDoNotRetry},
	"expired":                 {400, "The deadline has passed", contract.NextDoNotRetry},
	"payload_too_large":       {413, "The payload is too large", contract.NextDoNotRetry},
	"unsupported_media_type":  {415, "The body must be JSON", contract.NextDoNotRetry},
	"cross_origin":            {403, "Requests of other sites are refused", contract.NextDoNotRetry},
	"key_required":            {401, "A valid API key is needed", contract.NextDoNotRetry},
	"role_missing":            {403, "The key's roles do not allow this", contract.NextAskHuman},
	"tenant_forbidden":        {403, "The key is bound to another tenant", contract.NextDoNotRetry},
	"no_such_route":           {404, "Nothing is here", contract.NextDoNotRetry},
	"method_not_allowed":      {405, "The method is not allowed", contract.NextDoNotRetry},

	// One task.
	"task_not_found":     {404, "No such task", contract.NextDoNotRetry},
	"key_reused":         {422, "The request key belongs to another request", contract.NextDoNotRetry},
	"task_rejected":      {409, "The task of this key was refused", contract.NextDoNotRetry},
	"already_dispatched": {409, "The effect has been dispatched", contract.NextWait},
	"already_ended":      {409, "The task has ended", contract.NextDoNotRetry},
	"no_audit":           {404, "No audit is stored", contract.NextDoNotRetry},
	"nothing_to_resolve": {409, "No outcome waits for a decision", contract.NextDoNotRetry},
	"stale_version":      {409, "The reconciliation has moved on", contract.NextAskHuman},
	"resolution_refused": {409, "The decision was refused", contract.NextAskHuman},
	"nothing_to_approve": {409, "The task waits for no approval", contract.NextDoNotRetry},
	"approval_mismatch":  {409, "The approval is of something else", contract.NextAskHuman},
	"same_intent":        {409, "An earlier task has the same intent", contract.NextDoNotRetry},
	"decision_reused":    {422, "The decision's id belongs to another decision", contract.NextDoNotRetry},
	"not_allowed":        {403, "The decision is not this actor's to make", contract.NextAskHuman},

	// Callbacks of providers.
	"callback_not_declared":   {404, "The operation takes no callbacks", contract.NextDoNotRetry},
	"callback_secret_missing": {503, "Callbacks cannot be checked", contract.NextAskHuman},
	"signature_missing":       {401, "The callback is not signed", contract.NextDoNotRetry},
	"signature_invalid":       {401, "The callback's signature is wrong", contract.NextDoNotRetry},
	"signature_stale":         {401, "The callback's signature is too old or too new", contract.NextDoNotRetry},
	"evidence_unmapped":       {422, "The callback names no task", contract.NextAskHuman},
	"evidence_contradicts":    {409, "The callback contradicts how the task ended", contract.NextAskHuman},

	// Verdicts of the budget.
	"tenant_limit":           {429, "The tenant's queue is full", contract.NextDoNotRetry},
	"agent_limit":            {429, "The agent's queue is full", contract.NextDoNotRetry},
	"queue_full":             {429, "The queue is full", contract.NextDoNotRetry},
	"approvals_full":         {429, "Too many tasks wait for a person", contract.NextDoNotRetry},
	"over_share":             {429, "The tenant holds more than its share of the queue", contract.NextDoNotRetry},
	"deadline_unattainable":  {503, "The deadline cannot be met", contract.NextDoNotRetry}, // 429 when the tenant's own backlog is the cause
	"stale_backlog":          {503, "The backlog is stale", contract.NextDoNotRetry},
	"downstream_unavailable": {503, "The provider is not available", contract.NextDoNotRetry},
	"unknown_ceiling":        {503, "Too many outcomes are in doubt", contract.NextDoNotRetry},
	"tenant_closed":          {503, "The tenant takes no new work", contract.NextDoNotRetry},
	"unknown_resource":       {503, "The budget does not know a resource of the operation", contract.NextAskHuman},
	"refused":                {503, "The budget refused the request", contract.NextDoNotRetry},

	// Ourselves.
	"client_rate":          {429, "The client asks too often", contract.NextRetryLater},
	"gateway_busy":         {503, "The gateway is busy", contract.NextRetryLater},
	"budget_unavailable":   {503, "The budget does not answer", contract.NextRetryLater},
	"temporal_unavailable": {503, "Temporal does not answer", contract.NextRetryLater},
	"not_confirmed":        {503, "It is not known whether the task was stored", contract.NextRetryLater},
	"internal":             {500, "Something went wrong in the gateway", contract.NextRetryLater},
}

// slugs are types that are not the reason with other dashes.
var slugs = map[string]string{"expired": "deadline-passed"}

// problemError is an error that is already worded for the client.
type problemError struct {
	contract.Problem
	cause   error // for the log only
	verdict bool  // the budget's, not a failure
}

func (p *problemError) Error() string { return p.Reason + ": " + p.Detail }
func (p *problemError) Unwrap() error { return p.cause }

// refuse makes the problem of a reason in the catalogue.
func refuse(reason, format string, args ...any) *problemError {
	k, ok := kinds[reason]
	if !ok {
		k = kinds["internal"]
	}
	slug, ok := slugs[reason]
	if !ok {
		slug = strings.ReplaceAll(reason, "_", "-")
	}
	return &problemError{Problem: contract.Problem{
		Type: problemBase + slug, Title: k.title, Status: k.status, Reason: reason,
		Detail: fmt.Sprintf(format, args...), NextAction: k.next,
	}}
}

// because keeps an error for the log.
func (p *problemError) because(err error) *problemError {
	p.cause = err
	return p
}

// later asks the client to come back: at least one second, never rounded down.
func (p *problemError) later(after time.Duration) *problemError {
	p.RetryAfter = max(1, int((after+time.Second-1)/time.Second))
	p.NextAction = contract.NextRetryLater
	return p
}

// soon is later with a short pause of our own, spread so that refused clients do
// not come back together.
func (p *problemError) soon() *problemError {
	return p.later(time.Duration(1+rand.IntN(3)) * time.Second)
}

// verdictProblem words a refusal of the budget.
func verdictProblem(v admission.Verdict) *problemError {
	reason := string(v.Reason)
	if _, ok := kinds[reason]; !ok {
		reason = "refused"
	}
	p := refuse(reason, "%s", v.Detail)
	p.verdict = true
	if reason == "refused" {
		p.Reason = string(v.Reason)
	}
	if v.Reason == admission.DeadlineUnattainable && v.OwnBacklog {
		p.Status = http.StatusTooManyRequests
	}
	if v.Detail == "" {
		p.Detail = p.Title
	}
	if v.RetryAfter > 0 {
		return p.later(v.RetryAfter.D())
	}
	return p
}

// resolveProblem words a refusal of the configuration, whose codes are reasons.
func resolveProblem(e *config.ResolveError) *problemError {
	if _, ok := kinds[e.Code]; !ok {
		return refuse("invalid_request", "%s", e.Detail)
	}
	return refuse(e.Code, "%s", e.Detail)
}

// upstream words an error of Temporal; reason is budget_unavailable or
// temporal_unavailable.
func upstream(reason string, err error) *problemError {
	var exhausted *serviceerror.ResourceExhausted
	var missing *serviceerror.NotFound
	var namespace *serviceerror.NamespaceNotFound
	var idle *serviceerror.FailedPrecondition // a query without pollers
	switch {
	case errors.As(err, &exhausted):
		return refuse(reason, "Temporal is at one of its own limits; nothing was stored, and the same key is safe to send again").because(err).soon()
	case errors.As(err, &namespace):
		return refuse(reason, "the Temporal namespace does not exist; an operator must create it or correct --namespace").because(err).later(30 * time.Second)
	case errors.As(err, &missing) && reason == "budget_unavailable":
		return refuse(reason, "no budget is running; an operator must start a control worker (headgate worker --role control)").because(err).later(5 * time.Second)
	case (timedOut(err) || errors.As(err, &idle)) && reason == "budget_unavailable":
		return refuse(reason, "the budget did not answer in time; is a control worker running? The same request is safe to send again").because(err).soon()
	}
	return refuse(reason, "%s; the same request is safe to send again", kinds[reason].title).because(err).soon()
}

// timedOut tells whether a call ended without an answer.
func timedOut(err error) bool {
	var deadline *serviceerror.DeadlineExceeded
	var canceled *serviceerror.Canceled
	var update *client.WorkflowUpdateServiceTimeoutOrCanceledError
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &deadline) || errors.As(err, &canceled) || errors.As(err, &update)
}

// notFound tells whether Temporal does not know the workflow.
func notFound(err error) bool {
	var missing *serviceerror.NotFound
	return errors.As(err, &missing)
}

// fail writes an error as a problem document; it is the only place that does.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	var p *problemError
	if !errors.As(err, &p) {
		p = refuse("internal", "the gateway could not answer; the log has the cause").because(err)
	}
	g.logRefusal(r, p)
	h := w.Header()
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Reason == "key_required" {
		h.Set("WWW-Authenticate", "Bearer")
	}
	h.Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.Problem) // the client may be gone
}

// logRefusal logs what the gateway or the budget could not do, and what they
// would not do for want of room, and that somebody came without a key. What else is wrong with a request is its client's
// business.
func (g *Gateway) logRefusal(r *http.Request, p *problemError) {
	if p.Status < 500 && p.Status != http.StatusTooManyRequests && p.Reason != "key_required" || r.Pattern == readyRoute {
		return
	}
	level, n := zapcore.WarnLevel, 1
	if p.verdict {
		level = zapcore.InfoLevel
	}
	if p.Status != http.StatusInternalServerError { // each of those is another one
		n = g.tally.add(g.now(), p.Reason)
	}
	if line := g.log.Check(level, "requests refused"); line != nil && n > 0 {
		line.Write(zap.Int("requests", n), zap.String("reason", p.Reason), zap.Int("status", p.Status),
			zap.String("method", r.Method), zap.String("route", r.Pattern), zap.Error(p.cause))
	}
}

// reply writes a JSON answer.
func reply(w http.ResponseWriter, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
	return nil
}
