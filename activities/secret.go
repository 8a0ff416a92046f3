package activities

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"headgate/contract"
)

// maxSecret bounds a secret, in bytes.
const maxSecret = 16 << 10

// secret reads a secret from the worker's surroundings. It stays in memory, and
// no error holds it. One that is missing may be there on another worker, so this
// is no final failure.
func secret(s contract.Secret) (string, error) {
	if s.File == "" {
		value := os.Getenv(s.Env)
		if value == "" {
			return "", fmt.Errorf("the environment variable %s is not set on this worker", s.Env)
		}
		return value, nil
	}
	f, err := os.Open(s.File)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch value := strings.TrimSpace(string(text)); {
	case err != nil:
		return "", err
	case len(text) > maxSecret:
		return "", fmt.Errorf("%s has more than %d bytes", s.File, maxSecret)
	case value == "":
		return "", fmt.Errorf("%s is empty", s.File)
	default:
		return value, nil
	}
}

// setHeaders adds the declared headers.
func setHeaders(r *http.Request, headers []contract.Header) error {
	for _, h := range headers {
		value := h.Value
		if h.Env != "" || h.File != "" {
			hidden, err := secret(contract.Secret{Env: h.Env, File: h.File})
			if err != nil {
				return fmt.Errorf("header %s: %w", h.Name, err)
			}
			value = h.Prefix + hidden
		}
		if i := strings.IndexFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }); i >= 0 {
			return fmt.Errorf("header %s: its value holds a control character", h.Name)
		}
		if strings.EqualFold(h.Name, "Host") {
			r.Host = value
			continue
		}
		r.Header.Set(h.Name, value)
	}
	return nil
}

// signer signs a request by Standard Webhooks (standardwebhooks.com): HMAC-SHA256
// over id, time and body. The id is the task's provider key, the same in each
// attempt, so that the receiver can tell a repetition.
type signer struct {
	id    string
	hooks []*webhooks.Webhook // one for each secret that is valid now
}

// signerFor reads the secrets: several, separated by blanks, while one is
// exchanged for another; each signs.
func signerFor(s *contract.Secret, id string) (*signer, error) {
	if s == nil {
		return nil, nil
	}
	text, err := secret(*s)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	out := &signer{id: id}
	for _, one := range strings.Fields(text) {
		hook, err := webhooks.NewWebhook(one)
		if err != nil {
			return nil, errors.New("webhook: the secret is not whsec_ and base64") // its own error may quote it
		}
		out.hooks = append(out.hooks, hook)
	}
	return out, nil
}

// sign sets the three headers. Receivers refuse an old time, so it is done last.
func (s *signer) sign(r *http.Request, body []byte, now time.Time) error {
	if s == nil {
		return nil
	}
	var all []string
	for _, hook := range s.hooks {
		one, err := hook.Sign(s.id, now, body)
		if err != nil {
			return errors.New("webhook: the request cannot be signed")
		}
		all = append(all, one)
	}
	r.Header.Set(webhooks.HeaderWebhookID, s.id)
	r.Header.Set(webhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(webhooks.HeaderWebhookSignature, strings.Join(all, " "))
	return nil
}
