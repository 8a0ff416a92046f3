package activities

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"headgate/config"
)

const (
	maxHeader     = 64 << 10                  // bytes of an answer's header
	maxAnswer     = config.DefaultMaxResponse // bytes of an answer's body that are kept, unless the operation wants fewer
	maxRetryAfter = 10 * time.Minute
)

// reading is an answer as far as it could be read.
type reading struct {
	status  int
	header  http.Header
	raw     json.RawMessage // the body, if it is JSON and within bounds
	body    any             // the same, decoded for rules; nil otherwise
	broken  bool            // the body broke off
	foreign bool            // there is a body, and it is not one that rules can read
	detail  string          // why raw is empty though there is a body
}

// readAnswer reads the answer's body, which is bounded by its size in bytes here and by time
// through the request's context.
func readAnswer(r *http.Response, most int) reading {
	a := reading{status: r.StatusCode, header: r.Header}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(most)+1))
	body = bytes.TrimSpace(body)
	switch {
	case len(body) > most:
		a.foreign, a.detail = true, fmt.Sprintf("the answer is longer than %d bytes and was not kept", most)
	case err != nil:
		a.broken, a.detail = true, brief("the answer broke off: "+err.Error())
	case len(body) == 0:
	case !utf8.Valid(body) || !json.Valid(body):
		a.foreign, a.detail = true, "the answer is not JSON and was not kept"
	default:
		a.raw, a.body = body, decode(body)
	}
	return a
}

// decode keeps numbers as they are written: references may be long ones.
func decode(body []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// retryAfter reads the Retry-After field: seconds or a date. Junk is none; the
// rest is clamped to 0 and ten minutes. A date counts from the provider's own
// clock, if the answer tells it.
func retryAfter(h http.Header, now time.Time) time.Duration {
	field := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(field, 64); err == nil || math.IsInf(seconds, 0) {
		switch {
		case math.IsNaN(seconds) || seconds <= 0:
			return 0
		case seconds >= maxRetryAfter.Seconds():
			return maxRetryAfter
		}
		return time.Duration(seconds * float64(time.Second))
	}
	at, err := http.ParseTime(field)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
