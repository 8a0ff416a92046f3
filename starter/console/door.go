package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"headgate/client"
	"headgate/contract"
)

// problem is what the gateway, or the console itself, refuses.
type problem contract.Problem

func (p *problem) Error() string { return p.Reason + ": " + p.Detail }

// call asks the API as r's sender; a nil in has no body. A refusal of the API is
// a *problem.
func (c *Console) call(ctx context.Context, r *http.Request, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, path, &body)
	if err != nil {
		return err
	}
	request.RequestURI, request.Host, request.RemoteAddr, request.TLS = path, r.Host, r.RemoteAddr, r.TLS
	if word := credentials(r); word != "" {
		request.Header.Set("Authorization", word)
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer := &answer{header: http.Header{}, status: http.StatusOK}
	c.api.ServeHTTP(answer, request)
	if answer.status/100 != 2 {
		p := &problem{}
		if err := json.Unmarshal(answer.body.Bytes(), p); err != nil || p.Status == 0 {
			return fmt.Errorf("%s %s is answered %d and not by a problem document", method, path, answer.status)
		}
		return p
	}
	if err := json.Unmarshal(answer.body.Bytes(), out); err != nil {
		return fmt.Errorf("reading the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// keyCookie holds the API key of somebody who has signed in.
const keyCookie = "headgate_key"

// credentials are what a request brings to the API; empty: nothing.
func credentials(r *http.Request) string {
	if word := r.Header.Get("Authorization"); word != "" {
		return word
	}
	if cookie, err := r.Cookie(keyCookie); err == nil && cookie.Value != "" {
		return "Bearer " + cookie.Value
	}
	return ""
}

// answer keeps what the API writes.
type answer struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if !a.wrote {
		a.status, a.wrote = status, true
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.wrote = true
	return a.body.Write(b)
}

// taskPath is the page of a task.
func taskPath(tenant, key string) string {
	return Root + "/tasks/" + client.Segment(tenant) + "/" + client.Segment(key)
}
