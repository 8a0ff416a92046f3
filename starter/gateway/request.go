package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dunglas/httpsfv"

	"headgate/config"
	"headgate/contract"
)

const (
	// maxSubmit bounds the body of a submission: the largest payload, and room
	// for the envelope around it.
	maxSubmit = contract.MaxPayload + 16<<10
	// maxOrder bounds the body of an operator's order, and of a callback.
	maxOrder = 64 << 10
)

// requestKey reads the Idempotency-Key field: a structured-field string
// ("inv-42", the draft's form) or the bare key (inv-42, as most clients send it).
// A bare key with a quote, a comma or a blank is refused, since it could be read
// in two ways.
func requestKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", refuse("idempotency_key_missing", `send Idempotency-Key: "your-own-name-of-this-request"; the same key means the same task`)
	}
	if len(values) > 1 {
		return "", refuse("idempotency_key_invalid", "the Idempotency-Key field is there %d times: want one", len(values))
	}
	key := strings.Trim(values[0], " \t")
	switch {
	case strings.HasPrefix(key, `"`):
		item, err := httpsfv.UnmarshalItem([]string{key})
		text, ok := item.Value.(string)
		if err != nil || !ok {
			return "", refuse("idempotency_key_invalid", "the Idempotency-Key field is not a quoted string of printable ASCII")
		}
		key = text
	case strings.ContainsAny(key, "\", \t"):
		return "", refuse("idempotency_key_invalid", `a bare key holds no quote, comma or blank: put the key in quotes, with a backslash before " and \ in it`)
	}
	if err := contract.CheckKey(key); err != nil {
		return "", refuse("idempotency_key_invalid", "%v", err)
	}
	return key, nil
}

// readBody reads a JSON body of at most limit bytes. An empty body is nil.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, refuse("payload_too_large", "the body has more than %d bytes", limit)
	case err != nil:
		return nil, refuse("invalid_request", "the body could not be read to its end").because(err)
	case len(bytes.TrimSpace(body)) == 0:
		return nil, nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, refuse("unsupported_media_type", "send Content-Type: application/json")
	}
	if !utf8.Valid(body) {
		return nil, refuse("invalid_request", "the body is not valid UTF-8")
	}
	return body, nil
}

// decodeStrict reads one JSON object into the named fields: unknown and repeated
// names, other letter case, and anything after the object are refused. A field
// that is absent keeps its value.
func decodeStrict(body []byte, fields map[string]any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return refuse("invalid_request", "the body is not a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return refuse("invalid_request", "the body is not valid JSON at byte %d", d.InputOffset())
		}
		name := t.(string) // a name of an object: the decoder allows nothing else
		into, ok := fields[name]
		if !ok {
			return refuse("invalid_request", "the field %.80q is not known; want %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if seen[name] {
			return refuse("invalid_request", "the field %q is there twice", name)
		}
		seen[name] = true
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return refuse("invalid_request", "the body is not valid JSON at byte %d", d.InputOffset())
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return refuse("invalid_request", "the field %q: %s", name, plain(err))
		}
	}
	if _, err := d.Token(); err != nil {
		return refuse("invalid_request", "the body is not valid JSON at byte %d", d.InputOffset())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse("invalid_request", "something follows the JSON object")
	}
	return nil
}

// plain words a decoding error without Go's types.
func plain(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Sprintf("a JSON %s does not fit here", kind.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// readSubmit reads a submission into the start input of a task, with the payload
// in its canonical form and the hash of what is asked for.
func readSubmit(w http.ResponseWriter, r *http.Request) (contract.TaskInput, error) {
	key, err := requestKey(r.Header)
	if err != nil {
		return contract.TaskInput{}, err
	}
	body, err := readBody(w, r, maxSubmit)
	if err != nil {
		return contract.TaskInput{}, err
	}
	if body == nil {
		return contract.TaskInput{}, refuse("invalid_request", "the body is empty: want a JSON object with tenant, operation and payload")
	}
	var s contract.SubmitRequest
	err = decodeStrict(body, map[string]any{
		"tenant": &s.Tenant, "agent": &s.Agent, "operation": &s.Operation, "priority": &s.Priority,
		"deadline": &s.Deadline, "not_before": &s.NotBefore, "payload": &s.Payload,
		"intent": &s.Intent, "same_intent": &s.SameIntent,
	})
	if err != nil {
		return contract.TaskInput{}, err
	}
	switch c := who(r); {
	case !c.bound():
	case s.Tenant == "":
		s.Tenant = c.tenant
	case !c.owns(s.Tenant):
		return contract.TaskInput{}, foreign()
	}
	in := contract.TaskInput{
		Tenant: s.Tenant, Key: key, Agent: s.Agent, Operation: s.Operation, Priority: s.Priority,
		Deadline: s.Deadline, NotBefore: s.NotBefore, Payload: s.Payload,
		Intent: s.Intent, SameIntent: s.SameIntent,
	}
	if err := contract.CheckName("tenant", in.Tenant); err != nil {
		return in, refuse("invalid_name", "%v", err)
	}
	if err := contract.CheckName("operation", in.Operation); err != nil {
		return in, refuse("invalid_name", "%v", err)
	}
	if in.Agent != "" {
		if err := contract.CheckName("agent", in.Agent); err != nil {
			return in, refuse("invalid_name", "%v", err)
		}
	}
	if in.Payload, err = config.Canonical(s.Payload); err != nil {
		return in, refuse("invalid_payload", "%v", err)
	}
	if len(in.Payload) > contract.MaxPayload {
		return in, refuse("payload_too_large", "the payload has %d bytes in its canonical form: at most %d are allowed", len(in.Payload), contract.MaxPayload)
	}
	in.Hash = config.Hash(in.Operation, in.Payload)
	return in, nil
}
