package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"headgate/client"
	"headgate/contract"
)

const defaultGateway = client.DefaultURL

// door is the gateway as the client commands see it.
type door struct {
	gateway string // base URL
	json    bool   // print answers as they are
	key     string // API key; empty: none is sent
	keyFile string
	tls     tlsFiles // of the connection to a gateway with TLS
}

// keyVariable holds the API key. There is no flag with the key itself: others on
// the machine would read it off the list of processes.
const keyVariable = "HEADGATE_API_KEY"

// flags adds what every client command has.
func (d *door) flags(c *cobra.Command) {
	d.connection(c)
	c.Flags().BoolVar(&d.json, "json", false, "print the answer as JSON")
}

// connection adds how the gateway is reached.
func (d *door) connection(c *cobra.Command) {
	c.Flags().StringVar(&d.gateway, "gateway", cmp.Or(os.Getenv("HEADGATE_GATEWAY"), defaultGateway), "URL of the gateway (or HEADGATE_GATEWAY)")
	c.Flags().StringVar(&d.keyFile, "api-key-file", "", "`FILE` with the API key (or the key itself in HEADGATE_API_KEY)")
	d.tls.clientFlags(c, "gateway-tls", "the gateway")
}

// get reads a document.
func (d *door) get(ctx context.Context, path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return d.call(ctx, http.MethodGet, path, nil, nil, out)
}

// post gives an order; a nil in is an empty body.
func (d *door) post(ctx context.Context, path string, in, out any) error {
	return d.call(ctx, http.MethodPost, path, nil, in, out)
}

func (d *door) call(ctx context.Context, method, path string, header http.Header, in, out any) error {
	c, err := d.client()
	if err != nil {
		return err
	}
	return d.worded(c.Do(ctx, method, path, header, in, out))
}

// client is what the flags say about the gateway.
func (d *door) client() (*client.Client, error) {
	if base, err := url.Parse(d.gateway); err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, withStatus(exitUsage, "--gateway %q is not a URL: want something like %s", d.gateway, defaultGateway)
	}
	key, err := d.apiKey()
	if err != nil {
		return nil, err
	}
	c := &client.Client{URL: d.gateway, APIKey: key}
	if !d.tls.none() {
		secure, err := clientTLS("--gateway-tls", d.tls)
		if err != nil {
			return nil, err
		}
		c.HTTP = &http.Client{Timeout: client.Timeout, Transport: &http.Transport{TLSClientConfig: secure, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	}
	return c, nil
}

// apiKey finds the key to send.
func (d *door) apiKey() (string, error) {
	if d.keyFile == "" {
		return cmp.Or(d.key, os.Getenv(keyVariable)), nil
	}
	text, err := os.ReadFile(d.keyFile)
	if err != nil {
		return "", withStatus(exitUsage, "--api-key-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// worded gives an error its exit status, and says what it is, why, and what to do
// next.
func (d *door) worded(err error) error {
	var refusal *client.Refusal
	var silence *client.Unreachable
	switch {
	case errors.As(err, &silence):
		return withStatus(exitUnreachable, "%w\nStart one (headgate dev, headgate gateway), or name it with --gateway or HEADGATE_GATEWAY.", err)
	case !errors.As(err, &refusal):
		return err
	}
	p := refusal.Problem
	words := p.Title
	if p.Reason != "" {
		words += " (" + p.Reason + ")"
	}
	if p.Detail != "" && p.Detail != p.Title {
		words += ": " + p.Detail
	}
	status := exitRefused
	switch {
	case p.Reason == "task_not_found":
		status = exitNotFound
	case p.Reason == "temporal_unavailable":
		status = exitUnreachable
	case p.NextAction == contract.NextRetryLater:
		status = exitLater
	}
	if next := nextText(p); next != "" {
		words += "\n" + next
	}
	return &statusError{status: status, text: words, cause: err}
}

// nextText is the advice that goes with a refusal.
func nextText(p contract.Problem) string {
	switch p.NextAction {
	case contract.NextRetryLater:
		if p.RetryAfter > 0 {
			return fmt.Sprintf("Try again in %d s, with the same key.", p.RetryAfter)
		}
		return "Try again later, with the same key."
	case contract.NextAskHuman:
		return "A person has to look at it."
	case contract.NextWait:
		return "Wait for its outcome (headgate status --wait)."
	case contract.NextUseResult:
		return "Its result is there (headgate status)."
	}
	return ""
}

// taskArgs reads TENANT KEY, or one argument TENANT/KEY or task/TENANT/KEY.
func taskArgs(args []string) (tenant, key string, err error) {
	if len(args) == 2 {
		tenant, key = args[0], args[1]
	} else {
		id := args[0]
		if !strings.HasPrefix(id, "task/") {
			id = "task/" + id
		}
		var ok bool
		if tenant, key, ok = contract.ParseTaskID(id); !ok {
			return "", "", withStatus(exitUsage, "%q is not a task: want TENANT KEY, or TENANT/KEY", args[0])
		}
	}
	if err := contract.CheckName("tenant", tenant); err != nil {
		return "", "", withStatus(exitUsage, "%w", err)
	}
	if err := contract.CheckKey(key); err != nil {
		return "", "", withStatus(exitUsage, "%w", err)
	}
	return tenant, key, nil
}
