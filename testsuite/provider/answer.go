package provider

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
)

// answer is what a request ends with. Status 0 is no answer: the connection is
// broken off.
type answer struct {
	status     int
	body       []byte
	problem    bool   // the body is application/problem+json
	retryAfter string // header text
	html       bool   // the body is a page
	location   string // header text
	replayed   bool   // a first answer again
	stream     bool   // the body is text/event-stream
	begun      bool   // the head has left; body is the rest
}

// broken is the answer that never comes.
var broken = answer{}

// unless turns a into no answer if nobody is there to read it.
func (a answer) unless(gone bool) answer {
	if gone {
		return broken
	}
	return a
}

func reply(status int, body any) answer {
	text, err := json.Marshal(body)
	if err != nil { // amounts are checked on arrival, so this is a bug here
		return problem(http.StatusInternalServerError, err.Error())
	}
	return answer{status: status, body: text}
}

func problem(status int, detail string) answer {
	a := reply(status, map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail,
	})
	a.problem = true
	return a
}

// head sends status and header.
func (a answer) head(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if a.problem {
		h.Set("Content-Type", "application/problem+json")
	}
	if a.stream {
		h.Set("Content-Type", "text/event-stream")
	}
	if a.html {
		h.Set("Content-Type", "text/html; charset=utf-8")
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
}

// send writes the answer, or what is left of it, or breaks the connection. A
// client that has left is no error.
func (a answer) send(w http.ResponseWriter) {
	if a.status == 0 {
		reset(w)
		return
	}
	if !a.begun {
		a.head(w)
	}
	_, _ = w.Write(a.body)
}

// reset breaks the connection with a TCP reset where it can, else by closing it.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
