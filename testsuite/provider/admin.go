package provider

import (
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

// droppedHeader carries how many entries are missing from a ledger.
const droppedHeader = "Ledger-Dropped"

// maxWait bounds one long poll; Client asks again.
const maxWait = 10 * time.Minute

// routeAdmin adds the Witness over HTTP. Keys in queries are patterns.
//
//	GET    /admin/effects?key=           Counts
//	GET    /admin/wait?key=&requests=&effects=&replays=&finished=&lookups=&reads=&timeout=30s
//	                                     Counts once reached; 504 after the timeout
//	GET    /admin/ledger?key=            a line of JSON for each entry
//	DELETE /admin/ledger                 204; everything counted is forgotten
//	GET    /admin/concurrency            Concurrency
//	POST   /admin/faults                 a Fault; 201 FaultReport
//	GET    /admin/faults                 {"faults": [FaultReport]}
//	DELETE /admin/faults                 the same, as they were
//	POST   /admin/release?key=           {"released": n}
//	PUT    /admin/behaviour              a Behaviour; 204
func (s *Server) routeAdmin(mux *http.ServeMux) {
	mux.HandleFunc("GET /admin/effects", admin(func(r *http.Request) (int, any, error) {
		counts, err := s.Effects(r.Context(), r.URL.Query().Get("key"))
		return http.StatusOK, counts, err
	}))
	mux.HandleFunc("GET /admin/wait", s.getWait)
	mux.HandleFunc("GET /admin/ledger", s.getLedger)
	mux.HandleFunc("DELETE /admin/ledger", admin(func(r *http.Request) (int, any, error) {
		return http.StatusNoContent, nil, s.Reset(r.Context())
	}))
	mux.HandleFunc("GET /admin/concurrency", admin(func(r *http.Request) (int, any, error) {
		now, err := s.Concurrency(r.Context())
		return http.StatusOK, now, err
	}))
	mux.HandleFunc("POST /admin/faults", admin(func(r *http.Request) (int, any, error) {
		var f Fault
		if err := strictly(r, &f); err != nil {
			return 0, nil, err
		}
		report, err := s.Inject(r.Context(), f)
		return http.StatusCreated, report, err
	}))
	mux.HandleFunc("GET /admin/faults", admin(func(r *http.Request) (int, any, error) {
		reports, err := s.Faults(r.Context())
		return http.StatusOK, faultsBody{reports}, err
	}))
	mux.HandleFunc("DELETE /admin/faults", admin(func(r *http.Request) (int, any, error) {
		reports, err := s.ClearFaults(r.Context())
		return http.StatusOK, faultsBody{reports}, err
	}))
	mux.HandleFunc("POST /admin/release", admin(func(r *http.Request) (int, any, error) {
		n, err := s.Release(r.Context(), r.URL.Query().Get("key"))
		return http.StatusOK, releasedBody{n}, err
	}))
	mux.HandleFunc("PUT /admin/behaviour", admin(func(r *http.Request) (int, any, error) {
		var b Behaviour
		if err := strictly(r, &b); err != nil {
			return 0, nil, err
		}
		return http.StatusNoContent, nil, s.Configure(r.Context(), b)
	}))
}

type (
	faultsBody struct {
		Faults []FaultReport `json:"faults"`
	}
	releasedBody struct {
		Released int `json:"released"`
	}
)

// admin answers a status and a body, or 400 with the error.
func admin(do func(*http.Request) (int, any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, body, err := do(r)
		switch {
		case err != nil:
			problem(http.StatusBadRequest, err.Error()).send(w)
		case body == nil:
			w.WriteHeader(status)
		default:
			reply(status, body).send(w)
		}
	}
}

// strictly reads a body without unknown fields, so that a misspelt fault is not
// a harmless one.
func strictly(r *http.Request, into any) error {
	body := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	body.DisallowUnknownFields()
	if err := body.Decode(into); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if _, err := body.Token(); !errors.Is(err, io.EOF) {
		return errors.New("body: something follows the object")
	}
	return nil
}

func (s *Server) getWait(w http.ResponseWriter, r *http.Request) {
	want, timeout, err := wanted(r.URL.Query())
	if err != nil {
		problem(http.StatusBadRequest, err.Error()).send(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	have, err := s.await(ctx, r.URL.Query().Get("key"), want)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		problem(http.StatusGatewayTimeout, err.Error()).send(w)
	case err != nil:
		problem(http.StatusServiceUnavailable, err.Error()).send(w)
	default:
		reply(http.StatusOK, have).send(w)
	}
}

func wanted(query url.Values) (want Counts, timeout time.Duration, err error) {
	for name, field := range want.fields() {
		n, failed := number(name, query.Get(name), 0)
		if failed != nil {
			err = failed
		}
		*field = n
	}
	timeout = 30 * time.Second
	if text := query.Get("timeout"); text != "" && err == nil {
		timeout, err = time.ParseDuration(text)
	}
	return want, min(timeout, maxWait), err
}

// fields names the numbers of c as JSON and queries do.
func (c *Counts) fields() map[string]*int {
	return map[string]*int{
		"requests": &c.Requests, "effects": &c.Effects, "replays": &c.Replays,
		"finished": &c.Finished, "lookups": &c.Lookups, "reads": &c.Reads,
	}
}

// number is the value of a non-negative query parameter.
func number(name, value string, absent int) (int, error) {
	if value == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: %q is not a number", name, value)
	}
	return n, nil
}

func (s *Server) getLedger(w http.ResponseWriter, r *http.Request) {
	entries, dropped := s.entries(r.URL.Query().Get("key"))
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set(droppedHeader, strconv.Itoa(dropped))
	lines := json.NewEncoder(w)
	for _, e := range entries {
		if lines.Encode(e) != nil {
			return // the client has left
		}
	}
}
