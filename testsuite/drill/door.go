package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"headgate/admission"
	"headgate/contract"
)

// Door is the gateway as its clients see it.
type Door struct {
	URL  string
	HTTP *http.Client
}

// Answer is one answer of the gateway. Which of the two bodies is filled in
// depends on the status.
type Answer struct {
	Status     int
	RetryAfter string
	Task       contract.TaskView
	Problem    contract.Problem
}

// Submit asks for a task. An error means that no answer was read.
func (d *Door) Submit(ctx context.Context, key string, r contract.SubmitRequest) (Answer, error) {
	return d.call(ctx, http.MethodPost, "/v1/tasks", r, http.Header{"Idempotency-Key": {`"` + key + `"`}})
}

// Task is the state of one task; Status is 404 if there is none.
func (d *Door) Task(ctx context.Context, tenant, key string) (Answer, error) {
	return d.call(ctx, http.MethodGet, taskPath(tenant, key), nil, nil)
}

// Await is Task once the task has ended, or when the time is up.
func (d *Door) Await(ctx context.Context, tenant, key string, wait time.Duration) (Answer, error) {
	return d.call(ctx, http.MethodGet, taskPath(tenant, key)+"?wait="+wait.String(), nil, nil)
}

// Cancel asks for the end of a task.
func (d *Door) Cancel(ctx context.Context, tenant, key string) (Answer, error) {
	return d.call(ctx, http.MethodPost, taskPath(tenant, key)+"/cancel", struct{}{}, nil)
}

// Resolve decides an unknown outcome.
func (d *Door) Resolve(ctx context.Context, tenant, key string, r contract.Resolution) (Answer, error) {
	return d.call(ctx, http.MethodPost, taskPath(tenant, key)+"/resolve", r, nil)
}

// Explain is the timeline of one task.
func (d *Door) Explain(ctx context.Context, tenant, key string) (contract.Explanation, error) {
	var e contract.Explanation
	err := d.read(ctx, taskPath(tenant, key)+"/explain", &e)
	return e, err
}

// Why is what the budget says about one task.
func (d *Door) Why(ctx context.Context, tenant, key string) (admission.Why, error) {
	var w admission.Why
	err := d.read(ctx, taskPath(tenant, key)+"/why", &w)
	return w, err
}

// Queue is what the budget shows.
func (d *Door) Queue(ctx context.Context) (admission.View, error) {
	var v admission.View
	err := d.read(ctx, "/v1/queue", &v)
	return v, err
}

// Tasks lists all tasks of a tenant, page by page.
func (d *Door) Tasks(ctx context.Context, tenant string) ([]contract.TaskView, error) {
	var all []contract.TaskView
	query := url.Values{"tenant": {tenant}}
	for {
		var page contract.TaskPage
		if err := d.read(ctx, "/v1/tasks?"+query.Encode(), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Tasks...)
		if page.Cursor == "" {
			return all, nil
		}
		query.Set("cursor", page.Cursor)
	}
}

// Pause holds a tenant's work back.
func (d *Door) Pause(ctx context.Context, tenant, reason string) error {
	body := struct {
		Dispatch bool   `json:"dispatch"`
		Reason   string `json:"reason"`
	}{true, reason}
	return d.order(ctx, "/v1/tenants/"+tenant+"/pause", body)
}

// Resume lets it go on.
func (d *Door) Resume(ctx context.Context, tenant string) error {
	return d.order(ctx, "/v1/tenants/"+tenant+"/resume", struct{}{})
}

func taskPath(tenant, key string) string {
	return "/v1/tasks/" + url.PathEscape(tenant) + "/" + url.PathEscape(key)
}

// order posts what has to be obeyed.
func (d *Door) order(ctx context.Context, path string, body any) error {
	answer, err := d.call(ctx, http.MethodPost, path, body, nil)
	if err == nil && answer.Status/100 != 2 {
		err = fmt.Errorf("POST %s: %d %s", path, answer.Status, answer.Problem.Detail)
	}
	return err
}

// read gets a document.
func (d *Door) read(ctx context.Context, path string, into any) error {
	status, _, body, err := d.exchange(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, status, bytes.TrimSpace(body))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// call exchanges documents about one task.
func (d *Door) call(ctx context.Context, method, path string, in any, header http.Header) (Answer, error) {
	status, got, body, err := d.exchange(ctx, method, path, in, header)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Status: status, RetryAfter: got.Get("Retry-After")}
	var into any = &a.Task
	if strings.HasPrefix(got.Get("Content-Type"), "application/problem+json") {
		into = &a.Problem
	}
	if err := json.Unmarshal(body, into); err != nil {
		return a, fmt.Errorf("%s %s: %d %q: %w", method, path, status, body, err)
	}
	return a, nil
}

func (d *Door) exchange(ctx context.Context, method, path string, in any, header http.Header) (int, http.Header, []byte, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, nil, nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, d.URL+path, body)
	if err != nil {
		return 0, nil, nil, err
	}
	if header != nil {
		request.Header = header
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := d.HTTP.Do(request)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return answer.StatusCode, answer.Header, text, nil
}
