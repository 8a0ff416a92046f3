// Package client asks a Headgate gateway for side effects, from Go.
//
// A request key is what makes asking safe: the same key is the same task, so
// Submit repeats a request that was refused for now, or whose answer was lost,
// with the same key and the same bytes. It ends with an accepted task, with a
// refusal for good, or with its context.
//
// Accepted is not done. A TaskView has two states, delivery and execution, and
// NextAction says what to do: wait, use_result, retry_later, ask_human (the outcome
// is unknown: asking again under a new key could make the effect happen twice) or
// do_not_retry.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"headgate/contract"
)

const (
	// DefaultURL is where a gateway listens if nothing else is said.
	DefaultURL = "http://127.0.0.1:7280"
	// Timeout bounds one request; a gateway takes less for anything.
	Timeout = 90 * time.Second
	// answerLimit bounds an answer: a page of 100 tasks fits well.
	answerLimit = 64 << 20
)

// Client is a gateway as its clients see it. The zero value asks DefaultURL
// without a key. It may be used by many goroutines.
type Client struct {
	URL    string       // base URL; empty: DefaultURL
	APIKey string       // empty: none is sent
	HTTP   *http.Client // nil: one with Timeout
	Retry  Retry
}

// Refusal is a problem document that the gateway answered with.
type Refusal struct{ contract.Problem }

func (r *Refusal) Error() string {
	if r.Detail == "" {
		return fmt.Sprintf("the gateway refused: %s (%s)", r.Title, r.Reason)
	}
	return fmt.Sprintf("the gateway refused: %s (%s): %s", r.Title, r.Reason, r.Detail)
}

// Unreachable tells that no whole answer came: whether the gateway took the
// request is not known.
type Unreachable struct {
	URL   string
	Cause error
}

func (u *Unreachable) Error() string {
	return fmt.Sprintf("no gateway answers at %s: %v", u.URL, u.Cause)
}
func (u *Unreachable) Unwrap() error { return u.Cause }

// base is the URL that paths are added to.
func (c *Client) base() (string, error) {
	if c.URL == "" {
		return DefaultURL, nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is not a URL: want something like %s", c.URL, DefaultURL)
	}
	return strings.TrimRight(c.URL, "/"), nil
}

// Do makes one request, once, and reads the answer into out. A nil in is an empty
// body. The error is a *Refusal or an *Unreachable if the request was sent.
func (c *Client) Do(ctx context.Context, method, path string, header http.Header, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
	}
	return c.send(ctx, method, path, header, body, out)
}

func (c *Client) send(ctx context.Context, method, path string, header http.Header, body []byte, out any) error {
	base, err := c.base()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.APIKey != "" {
		r.Header.Set("Authorization", "Bearer "+c.APIKey)
	}
	sender := c.HTTP
	if sender == nil {
		sender = &http.Client{Timeout: Timeout}
	}
	answer, err := sender.Do(r)
	if err != nil {
		return &Unreachable{base, withoutURL(err)}
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit))
	switch {
	case err != nil:
		return &Unreachable{base, fmt.Errorf("the answer broke off: %w", err)}
	case answer.StatusCode/100 != 2:
		return refused(base, answer, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s does not answer like a Headgate gateway: %w", base, err)
	}
	return nil
}

// refused reads a problem document. Its Retry-After is the header's, if a proxy
// has set one.
func refused(base string, answer *http.Response, text []byte) error {
	var p contract.Problem
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/problem+json") || json.Unmarshal(text, &p) != nil {
		return fmt.Errorf("%s answers %s, and not like a Headgate gateway", base, answer.Status)
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > p.RetryAfter {
		p.RetryAfter = seconds
	}
	return &Refusal{p}
}

// withoutURL takes the repetition of the URL out of an error of net/http.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
