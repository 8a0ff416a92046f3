package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	maxBody = 1 << 20 // bytes of a request's body; more is refused with 413
	maxKey  = 255     // bytes of a key; more is refused with 400
)

// Charge is the body of a successful answer. Amount is the request's, as it was.
type Charge struct {
	ID     string          `json:"id"`
	Key    string          `json:"key"`
	State  string          `json:"state"` // "captured"; "cancelled" is only said to who cancels
	Amount json.RawMessage `json:"amount,omitempty"`
	Count  int             `json:"count,omitempty"` // look-up only: the visible effects of this key; the charge is the first
}

// postCharge is the effect. 201 made, 200 replayed, 400 malformed, 409 the first
// with this key has not made its effect yet, 410 cancelled, 413 too long, 422 other body.
func (s *Server) postCharge(w http.ResponseWriter, r *http.Request) {
	v, refusal := readCharge(r)
	s.serve(w, r, v, func() answer {
		if v.malformed {
			return refusal
		}
		return s.commit(v)
	})
}

// readCharge reads the whole request; if it is malformed, the answer says why.
func readCharge(r *http.Request) (*visit, answer) {
	v := &visit{on: OnCharge, tenant: r.Header.Get("X-Tenant")}
	v.key, v.keyed = headerKey(r.Header)
	refuse := func(status int, detail string) (*visit, answer) {
		v.malformed = true
		return v, problem(status, detail)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
		return refuse(http.StatusRequestEntityTooLarge, "the body is longer than 1 MiB")
	} else if err != nil {
		return refuse(http.StatusBadRequest, "the body could not be read")
	}
	sum := sha256.Sum256(body)
	v.hash = "sha256:" + hex.EncodeToString(sum[:])

	var in struct{ Key, Tenant, Amount json.RawMessage }
	if err := json.Unmarshal(body, &in); err != nil || !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return refuse(http.StatusBadRequest, "the body is not a JSON object")
	}
	v.amount = in.Amount
	if v.key == "" && r.URL.RawQuery != "" {
		v.key = r.URL.Query().Get("key")
	}
	if v.key == "" {
		v.key = text(in.Key)
	}
	if v.tenant == "" {
		v.tenant = text(in.Tenant)
	}
	if len(v.key) > maxKey {
		v.key = v.key[:maxKey]
		return refuse(http.StatusBadRequest, "the key is longer than 255 bytes")
	}
	return v, answer{}
}

// headerKey reads the key from the header. The Idempotency-Key draft writes it
// as a quoted string, others do not: both are the same key.
func headerKey(h http.Header) (key string, keyed bool) {
	key = h.Get("Idempotency-Key")
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	if key != "" {
		return key, true
	}
	return h.Get("X-Request-Key"), false
}

// text is a JSON string's value, or any other value as it is written.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func (s *Server) deduplicates(v *visit) bool {
	return v.keyed && !v.malformed && s.behaviour.Keys != KeysIgnored
}

// commit makes the effect, unless the key says otherwise. Another body is told
// so even while the first one is in flight.
func (s *Server) commit(v *visit) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !v.keyed && s.behaviour.Keys == KeysRequired {
		return problem(http.StatusBadRequest, "the header Idempotency-Key is missing")
	}
	if s.book.cancelled[v.key] {
		return problem(http.StatusGone, "the key was cancelled")
	}
	var mine *claim
	if s.deduplicates(v) {
		mine = s.book.claim(v, s.behaviour.KeyWindow)
		switch {
		case mine.hash != v.hash:
			return problem(http.StatusUnprocessableEntity, "the key was used with another body")
		case mine.done:
			v.replayed = true
			return mine.replay()
		case mine.owner != v.id:
			return problem(http.StatusConflict, "the first request with this key is in flight")
		}
	}
	made := s.make(v, now, 0)
	a := reply(http.StatusCreated, made.Charge)
	if mine != nil {
		mine.settle(a, now)
	}
	return a
}

// make makes an effect and counts it, under the server's lock.
func (s *Server) make(v *visit, now time.Time, tokens int) *charge {
	made := s.book.add(v, now)
	e := v.entry(EventEffect, now)
	e.Effect, e.Tokens = made.ID, tokens
	s.ledger.add(e)
	s.counts.add(v.key, Counts{Effects: 1, First: now.UTC(), Last: now.UTC()})
	return made
}

// remember saves an error under its key, if this provider does so.
func (s *Server) remember(v *visit, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.book.keys[v.key]; s.behaviour.CacheErrors && first != nil && first.owner == v.id {
		first.settle(a, time.Now())
	}
}

// getRead is harmless, and counted.
func (s *Server) getRead(w http.ResponseWriter, r *http.Request) {
	v := &visit{on: OnRead, tenant: r.Header.Get("X-Tenant")}
	if v.key, v.keyed = headerKey(r.Header); v.key == "" {
		v.key = r.URL.Query().Get("key")
	}
	s.serve(w, r, v, func() answer {
		return reply(http.StatusOK, map[string]string{"key": v.key, "state": "read"})
	})
}

// getCharges looks one key up, or lists.
func (s *Server) getCharges(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Has("key") {
		v := &visit{on: OnLookup, key: query.Get("key")}
		s.serve(w, r, v, func() answer { return s.lookup(v.key) })
		return
	}
	v := &visit{on: OnList}
	s.serve(w, r, v, func() answer { return s.list(query) })
}

// lookup answers 200 with the first effect of a key and their number, or 404.
func (s *Server) lookup(key string) answer {
	s.mu.Lock()
	found := visible(s.book.byKey[key], time.Now(), s.behaviour.LookupLag)
	s.mu.Unlock()
	if len(found) == 0 {
		return problem(http.StatusNotFound, "no charge with this key")
	}
	first := found[0].Charge
	first.Count = len(found)
	return reply(http.StatusOK, first)
}

// list answers the visible effects in the order they were made, those after the
// charge "after", with keys that start with "prefix", at most "limit" (1 to
// 1000, default 100); "next" is the value of "after" for the next page, absent on
// the last one.
func (s *Server) list(query url.Values) answer {
	limit, badLimit := number("limit", query.Get("limit"), 100)
	after, badAfter := number("after", strings.TrimPrefix(query.Get("after"), "ch_"), 0)
	if badLimit != nil || badAfter != nil || limit < 1 || limit > 1000 {
		return problem(http.StatusBadRequest, "limit is 1 to 1000, after a charge id")
	}
	s.mu.Lock()
	all := visible(s.book.charges, time.Now(), s.behaviour.LookupLag)
	s.mu.Unlock()
	var page struct {
		Charges []Charge `json:"charges"`
		Next    string   `json:"next,omitempty"`
	}
	page.Charges = []Charge{}
	for _, c := range all[past(all, after):] {
		if !strings.HasPrefix(c.Key, query.Get("prefix")) {
			continue
		}
		if len(page.Charges) == limit {
			page.Next = page.Charges[limit-1].ID
			break
		}
		page.Charges = append(page.Charges, c.Charge)
	}
	return reply(http.StatusOK, page)
}
