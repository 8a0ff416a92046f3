package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"headgate/contract"
)

// Submit asks for one side effect under a request key, until it is accepted, or
// refused for good, or ctx ends. Repeating it with the same key and request, also
// after the program has died, is safe.
func (c *Client) Submit(ctx context.Context, key string, s contract.SubmitRequest) (contract.TaskView, error) {
	var view contract.TaskView
	if err := contract.CheckKey(key); err != nil {
		return view, err
	}
	body, err := json.Marshal(s) // once: each try sends the same bytes
	if err != nil {
		return view, fmt.Errorf("encoding the request: %w", err)
	}
	header := http.Header{"Idempotency-Key": {QuoteKey(key)}}
	err = c.Retry.repeat(ctx, func() error { return c.send(ctx, http.MethodPost, "/v1/tasks", header, body, &view) })
	return view, err
}

// Task tells how a task stands.
func (c *Client) Task(ctx context.Context, tenant, key string) (contract.TaskView, error) {
	return c.poll(ctx, tenant, key, 0)
}

// longestPoll is how long one request waits; a connection that is silent for
// longer is cut by some proxies.
const longestPoll = 20 * time.Second

// Wait waits until a task is in an end phase, which includes unknown, or the time
// is up: then it tells how the task stands.
func (c *Client) Wait(ctx context.Context, tenant, key string, longest time.Duration) (contract.TaskView, error) {
	for until := time.Now().Add(longest); ; {
		left := max(0, time.Until(until))
		view, err := c.poll(ctx, tenant, key, min(left, longestPoll))
		if err != nil || view.Phase.End() || left == 0 {
			return view, err
		}
	}
}

func (c *Client) poll(ctx context.Context, tenant, key string, wait time.Duration) (contract.TaskView, error) {
	var view contract.TaskView
	path := TaskPath(tenant, key)
	if wait > 0 {
		path += "?wait=" + wait.String()
	}
	err := c.Retry.repeat(ctx, func() error { return c.Do(ctx, http.MethodGet, path, nil, nil, &view) })
	return view, err
}

// Cancel asks for a task to be cancelled before it is dispatched. Afterwards a
// *Refusal with the reason already_dispatched says that the outcome decides.
func (c *Client) Cancel(ctx context.Context, tenant, key, actor, reason string) (contract.TaskView, error) {
	var view contract.TaskView
	order := struct {
		Actor  string `json:"actor,omitempty"`
		Reason string `json:"reason,omitempty"`
	}{actor, reason}
	err := c.Do(ctx, http.MethodPost, TaskPath(tenant, key)+"/cancel", nil, order, &view)
	return view, err
}

// Filter is what a listing asks for; empty fields ask for everything.
type Filter struct {
	Tenant, Operation, Priority string
	Phase                       contract.Phase
	Limit                       int    // of the page; zero: the gateway's
	Cursor                      string // of the page before
}

// List reads a page of tasks, the newest first.
func (c *Client) List(ctx context.Context, f Filter) (contract.TaskPage, error) {
	query := url.Values{}
	for name, value := range map[string]string{"tenant": f.Tenant, "operation": f.Operation, "priority": f.Priority, "phase": string(f.Phase), "cursor": f.Cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.Limit > 0 {
		query.Set("limit", strconv.Itoa(f.Limit))
	}
	var page contract.TaskPage
	err := c.Do(ctx, http.MethodGet, "/v1/tasks?"+query.Encode(), nil, nil, &page)
	return page, err
}

// TaskPath is the path of a task. A request key is one segment of it.
func TaskPath(tenant, key string) string { return "/v1/tasks/" + Segment(tenant) + "/" + Segment(key) }

// Segment escapes one segment of a path. The two that a path cannot hold as they
// are ("." and "..") are escaped too.
func Segment(s string) string {
	if s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E")
	}
	return url.PathEscape(s)
}

// QuoteKey writes a request key as the Idempotency-Key field has it: a
// structured-field string.
func QuoteKey(key string) string {
	return fmt.Sprintf(`"%s"`, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key))
}
