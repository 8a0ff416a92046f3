// Package tools is the Model Context Protocol (MCP) side of Headgate: what an
// agent may do, as tools. They ask a gateway like any other client.
//
// Contract:
//   - An answer states delivery and execution apart, and next_step says in words
//     what to do next. Accepted is not done; unknown is not failed.
//   - No tool approves, resolves, pauses or freezes: that is for people.
//   - The tenant is not the agent's to choose; it belongs to the server.
//   - Arguments are read strictly, and a payload is passed on as it was written: no
//     number of it is rounded on the way.
package tools

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"headgate/admission"
	"headgate/client"
	"headgate/contract"
)

// Options of a server.
type Options struct {
	Client  *client.Client
	Tenant  string // who the work is for
	Agent   string // who asks; empty: nobody in particular
	Version string // of this program
}

const instructions = `Headgate runs side effects (charges, messages, bookings, calls) once, or says that it does not know.
Choose one key for each thing you intend, from its own name (an order and an action), before the first try, and use the same
key each time you try again: the same key is the same task. Never choose a new key because an answer was lost, late or
unknown: that can make the effect happen twice. Accepted means stored, not done: look at execution_state, and do what
next_step says.`

// NewServer makes a server with all tools.
func NewServer(o Options) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "headgate", Title: "Headgate", Version: o.Version}, &mcp.ServerOptions{Instructions: instructions})
	for _, t := range o.tools() {
		s.AddTool(&t.tool, t.handle)
	}
	return s
}

// tool is one tool. Its handler's result is sent as structured content and as text.
type tool struct {
	tool   mcp.Tool
	handle mcp.ToolHandler
}

type object = map[string]any

func text(description string) object { return object{"type": "string", "description": description} }

func input(properties object, required ...string) object {
	return object{"type": "object", "properties": properties, "required": append([]string{}, required...), "additionalProperties": false}
}

// make describes a tool and gives it a handler.
func makeTool(name, title, description string, hints mcp.ToolAnnotations, in object, do func(context.Context, json.RawMessage) (any, bool)) tool {
	hints.Title = title
	return tool{mcp.Tool{Name: name, Title: title, Description: description, Annotations: &hints, InputSchema: in},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, ok := do(ctx, r.Params.Arguments)
			written, err := json.Marshal(answer)
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{StructuredContent: json.RawMessage(written), IsError: !ok, Content: []mcp.Content{&mcp.TextContent{Text: string(written)}}}, nil
		}}
}

// longestWait bounds one call of wait_for_task: hosts give up on tools that are
// silent for about a minute.
const longestWait = 50 * time.Second

func (o Options) tools() []tool {
	key := text("the request key of the task: 1 to 255 printable ASCII characters")
	world, closed, yes := true, false, true
	reads := mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}
	return []tool{
		makeTool("list_operations", "List operations", "List the operations that can be asked for, and what holds for each: may it be sent again when nobody saw the answer (replay), is a person asked first (approval).",
			reads, input(object{}), o.listOperations),
		makeTool("submit_task", "Ask for a side effect", "Ask for one side effect. The same key is the same task: calling again with the same key and payload never does it twice, and tells how it stands. Another payload under a used key is refused.",
			mcp.ToolAnnotations{IdempotentHint: true, DestructiveHint: &yes, OpenWorldHint: &world},
			input(object{
				"operation": text("one of list_operations"),
				"key":       text("your own name for this one intended effect, such as order-7/refund; choose it before the first try and keep it"),
				"payload":   object{"description": "what the operation is to be done with: any JSON value, mostly an object"},
				"priority":  object{"type": "string", "enum": []string{"low", "normal", "high", "critical"}, "description": "default: normal"},
				"deadline":  object{"type": "string", "format": "date-time", "description": "the latest start; after it the task expires without an effect"},
				"intent":    text("a business key, if the operation knows intents: an earlier task that has it is met also under another key"),
			}, "operation", "key"), o.submit),
		makeTool("get_task", "Look a task up", "Tell how a task stands: its delivery, its execution, and what to do next.", reads, input(object{"key": key}, "key"), o.look),
		makeTool("wait_for_task", "Wait for a task", "Wait until a task has ended, or the time is up; then tell how it stands.", reads,
			input(object{"key": key, "seconds": object{"type": "integer", "minimum": 1, "maximum": int(longestWait / time.Second), "description": "default: 30"}}, "key"), o.wait),
		makeTool("cancel_task", "Cancel a task", "Ask for a task to be cancelled before its effect is sent. An effect that was sent cannot be taken back by this. It takes an API key with the role operate, where the gateway has keys.",
			mcp.ToolAnnotations{IdempotentHint: true, DestructiveHint: &yes, OpenWorldHint: &closed},
			input(object{"key": key, "reason": text("why, for everybody to see")}, "key"), o.cancel),
	}
}

func (o Options) listOperations(ctx context.Context, arguments json.RawMessage) (any, bool) {
	if err := read(arguments, &struct{}{}); err != nil {
		return misused(err), false
	}
	var list json.RawMessage
	if err := o.Client.Do(ctx, "GET", "/v1/operations", nil, nil, &list); err != nil {
		return refusal("", err), false
	}
	return list, true
}

func (o Options) submit(ctx context.Context, arguments json.RawMessage) (any, bool) {
	var in struct {
		Operation string             `json:"operation"`
		Key       string             `json:"key"`
		Payload   json.RawMessage    `json:"payload"`
		Priority  admission.Priority `json:"priority"`
		Deadline  *time.Time         `json:"deadline"`
		Intent    string             `json:"intent"`
	}
	if err := read(arguments, &in); err != nil {
		return misused(err), false
	}
	once := *o.Client
	once.Retry.Tries = 1 // the agent is told to come back, with the same key
	view, err := once.Submit(ctx, in.Key, contract.SubmitRequest{Tenant: o.Tenant, Agent: o.Agent, Operation: in.Operation, Priority: in.Priority,
		Deadline: in.Deadline, Payload: in.Payload, Intent: in.Intent})
	if err != nil {
		return refusal(in.Key, err), false
	}
	return answerOf(view), true
}

func (o Options) look(ctx context.Context, arguments json.RawMessage) (any, bool) {
	var in struct {
		Key string `json:"key"`
	}
	if err := read(arguments, &in); err != nil {
		return misused(err), false
	}
	return o.tell(in.Key)(o.once().Task(ctx, o.Tenant, in.Key))
}

func (o Options) wait(ctx context.Context, arguments json.RawMessage) (any, bool) {
	in := struct {
		Key     string `json:"key"`
		Seconds int    `json:"seconds"`
	}{Seconds: 30}
	if err := read(arguments, &in); err != nil {
		return misused(err), false
	}
	longest := min(max(0, time.Duration(in.Seconds)*time.Second), longestWait)
	return o.tell(in.Key)(o.once().Wait(ctx, o.Tenant, in.Key, longest))
}

func (o Options) cancel(ctx context.Context, arguments json.RawMessage) (any, bool) {
	var in struct {
		Key    string `json:"key"`
		Reason string `json:"reason"`
	}
	if err := read(arguments, &in); err != nil {
		return misused(err), false
	}
	return o.tell(in.Key)(o.Client.Cancel(ctx, o.Tenant, in.Key, o.Agent, in.Reason))
}

// once is the client for what an agent can ask again by itself.
func (o Options) once() *client.Client {
	c := *o.Client
	c.Retry.Tries = 2
	return &c
}

func (o Options) tell(key string) func(contract.TaskView, error) (any, bool) {
	return func(view contract.TaskView, err error) (any, bool) {
		if err != nil {
			return refusal(key, err), false
		}
		return answerOf(view), true
	}
}
