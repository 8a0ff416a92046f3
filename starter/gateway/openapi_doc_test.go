package gateway

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/admission"
	"headgate/contract"
)

// endpoint is what the document says of one route. Its body's fields have the type
// of the Go value beside them; those whose names end with ! are required.
type endpoint struct {
	line, summary string
	query         map[string]string
	body          map[string]any
	foreign       bool // the body is somebody else's: any JSON
	answers       map[int]any
	refusals      []int // beside those of every route that needs a key
}

func init() {
	var phases []any
	for _, p := range contract.Phases() {
		phases = append(phases, p)
	}
	words = map[string]object{
		"Phase":    {"type": "string", "enum": phases},
		"Priority": {"type": "string", "enum": []any{"low", "normal", "high", "critical"}},
		"Duration": {"type": "string", "description": "a duration such as 1m30s"},
	}
}

const (
	page    = "tasks of a page, 1 to 100 (default: 50)"
	cursor  = "of the page before"
	wait    = "a duration such as 20s: wait for the end so long, at most 60s"
	tenants = "of this tenant only"
)

func endpoints() []endpoint {
	task := map[int]any{200: contract.TaskView{}}
	filter := map[string]string{"tenant": tenants, "operation": "of this operation only", "priority": "low, normal, high or critical",
		"phase": "in this phase only", "limit": page, "cursor": cursor}
	open := maps.Clone(filter)
	delete(open, "phase")
	text, at, number, flag := "", time.Time{}, 0, false
	words := map[string]any{"actor": text, "reason": text}
	decision := map[string]any{"id": text, "actor!": text, "evidence!": text, "version!": number, "payload_hash!": text, "operation_digest!": text}
	const one, tenant, operation = "/v1/tasks/{tenant}/{key}", "/v1/tenants/{tenant}", "/v1/operations/{operation}"
	return []endpoint{
		{line: "POST /v1/tasks", summary: "Ask for a side effect; the same Idempotency-Key is the same task",
			body: map[string]any{"tenant": text, "agent": text, "operation!": text, "priority": admission.Normal, "deadline": at, "not_before": at,
				"payload": nil, "intent": text, "same_intent": text},
			answers: map[int]any{202: contract.TaskView{}}, refusals: []int{400, 409, 413, 415, 422}},
		{line: "GET /v1/tasks", summary: "List tasks, the newest first", query: filter, answers: map[int]any{200: contract.TaskPage{}}, refusals: []int{400}},
		{line: "GET " + one, summary: "Tell how a task stands", query: map[string]string{"wait": wait}, answers: task, refusals: []int{400, 404}},
		{line: "GET " + one + "/explain", summary: "Tell everything that happened to a task", answers: map[int]any{200: contract.Explanation{}}, refusals: []int{404}},
		{line: "GET " + one + "/why", summary: "Tell what a task waits on", answers: map[int]any{200: WhyView{}}, refusals: []int{404}},
		{line: "POST " + one + "/cancel", summary: "Ask for a task to be cancelled before it is dispatched", body: words,
			answers: map[int]any{202: contract.TaskView{}}, refusals: []int{400, 404, 409, 413}},
		{line: "POST " + one + "/resolve", summary: "Say what happened to an unknown outcome",
			body:    map[string]any{"id": text, "actor": text, "outcome!": text, "evidence!": text, "version!": number},
			answers: map[int]any{200: contract.ResolveReply{}}, refusals: []int{400, 404, 409, 422}},
		{line: "GET " + one + "/approval", summary: "Show what a task asks a person, with its payload", answers: map[int]any{200: contract.ApprovalView{}}, refusals: []int{404, 409}},
		{line: "POST " + one + "/approve", summary: "Let a task go on that waits for an approval", body: decision,
			answers: map[int]any{200: contract.ApprovalReply{}}, refusals: []int{400, 409, 422}},
		{line: "POST " + one + "/decline", summary: "End a task that waits for an approval, without an effect", body: decision,
			answers: map[int]any{200: contract.ApprovalReply{}}, refusals: []int{400, 422}},
		{line: "POST /v1/evidence", summary: "A provider's own word about an effect, signed by Standard Webhooks", query: map[string]string{"operation": "whose callback it is"},
			foreign: true, answers: map[int]any{200: contract.EvidenceReply{}, 202: contract.EvidenceReply{}}, refusals: []int{400, 401, 404, 409, 422, 503}},
		{line: "POST " + tenant + "/pause", summary: "Hold a tenant's work back",
			body:    map[string]any{"dispatch": flag, "admission": flag, "reason": text, "actor": text, "until": at},
			answers: map[int]any{200: contract.PauseRequest{}}, refusals: []int{400}},
		{line: "POST " + tenant + "/resume", summary: "Let a paused tenant's work go on", body: words, answers: map[int]any{200: contract.PauseRequest{}}, refusals: []int{400}},
		{line: "GET /v1/operations", summary: "List the operations that can be asked for", answers: map[int]any{200: OperationList{}}},
		{line: "PUT " + operation + "/freeze", summary: "Let nothing of an operation be dispatched any more",
			body: map[string]any{"reason!": text, "actor": text}, answers: map[int]any{200: contract.FreezeReply{}}, refusals: []int{400}},
		{line: "PUT " + operation + "/unfreeze", summary: "Let a frozen operation go on", body: words, answers: map[int]any{200: contract.FreezeReply{}}, refusals: []int{400}},
		{line: "POST " + operation + "/audit", summary: "Hold what the provider has against what the tasks say", body: map[string]any{"actor": text},
			answers: map[int]any{202: contract.AuditView{}}, refusals: []int{400}},
		{line: "GET " + operation + "/audit", summary: "Tell how the last audit stands", query: map[string]string{"run": "a certain one"},
			answers: map[int]any{200: contract.AuditView{}}, refusals: []int{404}},
		{line: "GET " + operation + "/findings", summary: "Show what was found wrong about an operation's effects",
			answers: map[int]any{200: contract.FindingsView{}}, refusals: []int{400}},
		{line: "GET /v1/queue", summary: "Show what runs, what waits, and on what", answers: map[int]any{200: QueueView{}}, refusals: []int{500}},
		{line: "GET /v1/phases", summary: "Count the tasks in each phase", answers: map[int]any{200: contract.PhaseCounts{}}},
		{line: "GET /v1/caller", summary: "Tell who the gateway takes the client for", answers: map[int]any{200: contract.Caller{}}},
		{line: "GET /v1/budget", summary: "Show the limits in force", answers: map[int]any{200: BudgetView{}}},
		{line: "PUT /v1/budget", summary: "Put other limits in force", body: map[string]any{"policy!": admission.Policy{}, "actor": text},
			answers: map[int]any{200: contract.ConfigureReply{}}, refusals: []int{400}},
		{line: "GET /v1/unknown", summary: "List what only a person can tell", query: open, answers: map[int]any{200: contract.TaskPage{}}, refusals: []int{400}},
		{line: "GET /v1/approvals", summary: "List what waits for an approval", query: open, answers: map[int]any{200: contract.TaskPage{}}, refusals: []int{400}},
		{line: "GET /healthz", summary: "Tell that the process answers", answers: map[int]any{200: health{}}},
		{line: "GET /readyz", summary: "Tell that submissions can be admitted", answers: map[int]any{200: health{}}, refusals: []int{503}},
		{line: "GET /metrics", summary: "What this process measures, for Prometheus", answers: map[int]any{200: ""}},
		{line: "GET /openapi.json", summary: "This document", answers: map[int]any{200: nil}},
	}
}

// document makes the OpenAPI document of the endpoints and of what routes need.
func makeDocument(routes []route) object {
	s := &schemas{components: object{}}
	problem := s.named(reflect.TypeFor[contract.Problem]())
	refusal := func(title string) object {
		return object{"description": title, "content": object{"application/problem+json": object{"schema": problem}},
			"headers": object{"Retry-After": object{"description": "seconds, where coming back helps", "schema": object{"type": "integer", "minimum": 1}}}}
	}
	titles := map[int]string{400: "The request is not valid", 401: "A valid API key, or signature, is needed", 403: "Not allowed", 404: "Not there",
		409: "In conflict with how things stand", 413: "Too large", 415: "Not JSON", 422: "A key or id with another content", 429: "Too much; later",
		500: "Something went wrong in the gateway", 503: "Not now; later"}
	paths := object{}
	for _, e := range endpoints() {
		method, path, _ := strings.Cut(e.line, " ")
		i := slices.IndexFunc(routes, func(r route) bool { return r.method == method && r.path == path })
		op := object{"summary": e.summary, "operationId": operationID(method, path)}
		statuses := e.refusals
		if i >= 0 && routes[i].needs.role != "" {
			op["security"] = []object{{"key": []string{}}}
			op["description"] = needsText(routes[i].needs)
			statuses = append(slices.Clone(statuses), 401, 403, 429, 500, 503)
		}
		var parameters []object
		for _, part := range strings.Split(path, "/") {
			if strings.HasPrefix(part, "{") {
				parameters = append(parameters, object{"name": strings.Trim(part, "{}"), "in": "path", "required": true, "schema": object{"type": "string"}})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(e.query)) {
			parameters = append(parameters, object{"name": name, "in": "query", "description": e.query[name], "schema": object{"type": "string"}})
		}
		if e.line == "POST /v1/tasks" {
			parameters = append(parameters, object{"name": "Idempotency-Key", "in": "header", "required": true,
				"description": "1 to 255 printable ASCII characters, bare or as a quoted string", "schema": object{"type": "string"}})
		}
		if parameters != nil {
			op["parameters"] = parameters
		}
		if e.body != nil || e.foreign {
			schema := object{}
			required := e.foreign
			if e.body != nil {
				schema = bodySchema(s, e.body)
				required = schema["required"] != nil
			}
			op["requestBody"] = object{"required": required, "content": object{"application/json": object{"schema": schema}}}
		}
		responses := object{}
		for status, value := range e.answers {
			schema := object{"type": "object"}
			if value != nil {
				schema = s.of(reflect.TypeOf(value))
			}
			kind := "application/json"
			if value == "" {
				kind = "text/plain"
			}
			responses[strconv.Itoa(status)] = object{"description": "Done", "content": object{kind: object{"schema": schema}}}
			if status == 202 {
				responses["202"].(object)["description"] = "Accepted: it is durable"
			}
		}
		for _, status := range statuses {
			responses[strconv.Itoa(status)] = refusal(titles[status])
		}
		op["responses"] = responses
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(method)] = op
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Headgate", "version": "1",
			"description": "Durable side effects for agents. delivery_state and execution_state are two states; next_action says what to do next: wait, use_result, retry_later, ask_human or do_not_retry."},
		"paths": paths,
		"components": object{"schemas": s.components,
			"securitySchemes": object{"key": object{"type": "http", "scheme": "bearer", "description": "an API key, where the gateway has a file of them"}}},
	}
}

func needsText(n needs) string {
	text := fmt.Sprintf("Takes a key with the role %s", n.role)
	if n.role == "view" {
		text = "Takes a key of any role"
	}
	if n.all {
		text += " and of no single tenant"
	}
	return text + "."
}

func operationID(method, path string) string {
	id := strings.ToLower(method)
	for _, part := range strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune("/{}.", c) }) {
		if part != "v1" {
			id += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return id
}

func bodySchema(s *schemas, body map[string]any) object {
	properties, required := object{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		schema := object{}
		if value := body[name]; value != nil {
			schema = s.of(reflect.TypeOf(value))
		}
		plain, must := strings.CutSuffix(name, "!")
		if must {
			required = append(required, plain)
		}
		properties[plain] = schema
	}
	out := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}
