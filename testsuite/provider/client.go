package provider

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
	"time"
)

// Client is the Witness of a provider in another process. A dead provider is an
// error, never a count of zero.
type Client struct {
	URL  string       // as Listen returned it
	HTTP *http.Client // nil: http.DefaultClient; a Timeout would cut WaitFor
}

// Configure implements Witness.
func (c *Client) Configure(ctx context.Context, b Behaviour) error {
	return c.call(ctx, "PUT", "/admin/behaviour", nil, b, nil)
}

// Inject implements Witness.
func (c *Client) Inject(ctx context.Context, f Fault) (report FaultReport, err error) {
	err = c.call(ctx, "POST", "/admin/faults", nil, f, &report)
	return report, err
}

// Faults implements Witness.
func (c *Client) Faults(ctx context.Context) ([]FaultReport, error) {
	var out faultsBody
	err := c.call(ctx, "GET", "/admin/faults", nil, nil, &out)
	return out.Faults, err
}

// ClearFaults implements Witness.
func (c *Client) ClearFaults(ctx context.Context) ([]FaultReport, error) {
	var out faultsBody
	err := c.call(ctx, "DELETE", "/admin/faults", nil, nil, &out)
	return out.Faults, err
}

// Release implements Witness.
func (c *Client) Release(ctx context.Context, key string) (int, error) {
	var out releasedBody
	err := c.call(ctx, "POST", "/admin/release", url.Values{"key": {key}}, nil, &out)
	return out.Released, err
}

// Effects implements Witness.
func (c *Client) Effects(ctx context.Context, key string) (counts Counts, err error) {
	err = c.call(ctx, "GET", "/admin/effects", url.Values{"key": {key}}, nil, &counts)
	return counts, err
}

// WaitFor implements Witness by long polls. It does not outlive the provider.
func (c *Client) WaitFor(ctx context.Context, key string, want Counts) error {
	query := url.Values{"key": {key}, "timeout": {time.Minute.String()}}
	for name, n := range want.fields() {
		query.Set(name, strconv.Itoa(*n))
	}
	for {
		err := c.call(ctx, "GET", "/admin/wait", query, nil, nil)
		var refused *statusError
		if errors.As(err, &refused) && refused.status == http.StatusGatewayTimeout && ctx.Err() == nil {
			continue
		}
		if ctx.Err() == nil || err == nil {
			return err
		}
		// The deadline cut the poll: ask once more what there is, to say what is missing.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		have, lost := c.Effects(last, key)
		return missed(key, want, have, errors.Join(ctx.Err(), lost))
	}
}

// Ledger implements Witness.
func (c *Client) Ledger(ctx context.Context, key string) ([]Entry, error) {
	answer, err := c.send(ctx, "GET", "/admin/ledger", url.Values{"key": {key}}, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	entries, err := ReadLedger(answer.Body)
	if err != nil {
		return nil, err
	}
	dropped, err := strconv.Atoi(answer.Header.Get(droppedHeader))
	if err != nil {
		return nil, fmt.Errorf("provider: header %s: %w", droppedHeader, err)
	}
	return entries, droppedError(dropped)
}

// Concurrency implements Witness.
func (c *Client) Concurrency(ctx context.Context) (now Concurrency, err error) {
	err = c.call(ctx, "GET", "/admin/concurrency", nil, nil, &now)
	return now, err
}

// Reset implements Witness.
func (c *Client) Reset(ctx context.Context) error {
	return c.call(ctx, "DELETE", "/admin/ledger", nil, nil, nil)
}

// statusError is an answer other than 2xx.
type statusError struct {
	request string
	status  int
	detail  string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("provider: %s: %d: %s", e.request, e.status, e.detail)
}

// call sends in (nil: no body) and reads the answer into out (nil: not read).
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	answer, err := c.send(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	} else {
		err = json.NewDecoder(answer.Body).Decode(out)
	}
	if err != nil {
		return fmt.Errorf("provider: %s %s: read answer: %w", method, path, err)
	}
	return nil
}

// send returns an answer in the 2xx range, whose body the caller closes.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("provider: %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	target := c.URL + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("provider: %s %s: %w", method, path, err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("provider: %s %s: %w", method, path, err)
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		var refusal struct{ Detail string }
		_ = json.NewDecoder(io.LimitReader(answer.Body, maxBody)).Decode(&refusal) // the status says enough
		return nil, &statusError{method + " " + path, answer.StatusCode, refusal.Detail}
	}
	return answer, nil
}
