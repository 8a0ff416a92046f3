package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	// signatureAge is how far a callback's time may be from ours, either way.
	signatureAge = 5 * time.Minute
	// maxCallbackID bounds a webhook-id, which histories hold.
	maxCallbackID = 128
)

// signed checks a callback's signature (Standard Webhooks: HMAC-SHA256 over id,
// time and body) and gives its id. The secret is read from the environment each
// time, so that it may be exchanged: while it is, the variable holds both.
func (g *Gateway) signed(h http.Header, body []byte, variable string) (id string, err error) {
	secrets := strings.Fields(g.env(variable))
	if len(secrets) == 0 {
		return "", refuse("callback_secret_missing", "the gateway has no secret to check callbacks with: an operator must set the variable that the operation names").
			because(fmt.Errorf("%s is not set", variable))
	}
	id = h.Get(webhooks.HeaderWebhookID)
	stamp, signature := h.Get(webhooks.HeaderWebhookTimestamp), h.Get(webhooks.HeaderWebhookSignature)
	if id == "" || stamp == "" || signature == "" {
		return "", refuse("signature_missing", "send webhook-id, webhook-timestamp and webhook-signature, as Standard Webhooks has them")
	}
	if len(id) > maxCallbackID {
		return "", refuse("invalid_request", "the webhook-id has more than %d bytes", maxCallbackID)
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return "", refuse("signature_invalid", "the webhook-timestamp is not a number of seconds")
	}
	if !verified(secrets, body, h) {
		return "", refuse("signature_invalid", "no signature is that of this id, time and body")
	}
	// Last, so that only who holds the secret learns what the clock says.
	if age := g.now().Sub(time.Unix(seconds, 0)); age > signatureAge || age < -signatureAge {
		return "", refuse("signature_stale", "the webhook-timestamp is more than %s from the gateway's clock: sign the callback anew", signatureAge)
	}
	return id, nil
}

func verified(secrets []string, body []byte, h http.Header) bool {
	for _, secret := range secrets {
		hook, err := webhooks.NewWebhook(secret)
		if err == nil && hook.VerifyIgnoringTimestamp(body, h) == nil {
			return true
		}
	}
	return false
}
