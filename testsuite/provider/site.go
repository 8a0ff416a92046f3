package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The site is a web form for the same effect: a booking is a charge, and takes
// the faults of one. A page's query says how it misbehaves:
//
//	mode=fetch     the button sends the booking from a script, and shows the answer
//	mode=twice     the same, two at once
//	mode=get       the form is sent by GET, and books
//	mode=relay     the form goes to an address that redirects it (307) to the booking
//	mode=jump      the page itself is a redirect (302) to a GET that books
//	mode=service   a service worker books
//	mode=worker    a worker opens a WebSocket, which books
//	mode=socket    a WebSocket books
//	mode=beacon    a beacon books as the page opens
//	mode=busy      the script never yields once the name was typed
//	mode=stuck     the answer to the page never ends
//	mode=slow      the page comes after delay=
func (s *Server) routeSite(mux *http.ServeMux) {
	mux.HandleFunc("GET /site/slots", s.getSlots)
	mux.HandleFunc("GET /site/script.js", getScript)
	mux.HandleFunc("POST /site/relay", relay)
	mux.HandleFunc("POST /site/bookings", s.postBooking)
	mux.HandleFunc("GET /site/book", s.postBooking)
	mux.HandleFunc("GET /site/socket", s.postBooking)
	mux.HandleFunc("GET /site/booked", s.getBooked)
	mux.HandleFunc("GET /site/find", s.getBookings)
}

var pages = template.Must(template.New("slots").Parse(`<!doctype html><title>Book a slot</title><h1>Book a slot</h1>
<form id="form" action="{{.Action}}" method="{{.Method}}"{{if eq .Method "post"}} enctype="multipart/form-data"{{end}}>
<input type="hidden" name="key" value="{{.Key}}">
<label>Slot <select id="slot" name="slot"><option value="">choose</option><option value="mon-9">Monday 9:00</option><option value="tue-9">Tuesday 9:00</option></select></label>
<label>Name <input id="name" name="name" required></label>
<label>Letter <input id="letter" name="letter" type="file"></label>
<button id="book">Book</button></form><p id="answer"></p>
<script>
const mode = {{.Mode}}, key = {{.Key}}, form = document.getElementById('form');
const send = () => fetch('/site/bookings', {method: 'POST', body: new FormData(form)});
const show = r => { document.getElementById('answer').innerHTML = r.ok ? '<b id="confirmation">Booked</b>' : 'Error ' + r.status; };
if (mode == 'fetch' || mode == 'twice') form.onsubmit = e => { e.preventDefault(); send().then(show).catch(() => {}); if (mode == 'twice') send().then(show).catch(() => {}); };
if (mode == 'busy') document.getElementById('name').oninput = () => { setTimeout(() => { for (;;) {} }, 50); };
if (mode == 'beacon') navigator.sendBeacon('/site/bookings', new URLSearchParams({key}));
if (mode == 'socket') { const w = new WebSocket('ws://' + location.host + '/site/socket?key=' + key); w.onclose = w.onerror = () => { document.title = 'closed'; }; }
if (mode == 'service') navigator.serviceWorker?.register('/site/script.js?mode=service&key=' + key).catch(() => {});
if (mode == 'worker') new Worker('/site/script.js?mode=worker&key=' + key);
</script>
{{define "booked"}}<!doctype html><title>Booked</title><p id="confirmation">Booked</p><p>Reference <b id="reference">{{.}}</b></p>{{end}}
{{define "found"}}<!doctype html><title>Your bookings</title><h1>Your bookings</h1><ul>{{range .}}<li class="booking">{{.ID}}</li>{{end}}</ul>{{end}}`))

func (s *Server) getSlots(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	form := struct{ Action, Method, Key, Mode string }{"/site/bookings", "post", q.Get("key"), q.Get("mode")}
	switch form.Mode {
	case "get":
		form.Action, form.Method = "/site/book", "get"
	case "relay":
		form.Action = "/site/relay"
	case "jump":
		http.Redirect(w, r, "/site/book?key="+url.QueryEscape(form.Key), http.StatusFound)
		return
	case "stuck":
		s.stall(w, r, 0)
		return
	case "slow":
		delay, _ := time.ParseDuration(q.Get("delay"))
		if !s.stall(nil, r, delay) {
			return
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = pages.Execute(w, form)
}

// stall keeps a client waiting, for ever if the time is zero, and tells whether
// it still waits. With w it gets the head of an answer first.
func (s *Server) stall(w http.ResponseWriter, r *http.Request, d time.Duration) bool {
	if w != nil {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>wait"))
		_ = http.NewResponseController(w).Flush()
	}
	var over <-chan time.Time
	if d > 0 {
		over = time.After(d)
	}
	select {
	case <-r.Context().Done():
		return false
	case <-s.done:
		return false
	case <-over:
		return true
	}
}

func getScript(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/javascript")
	key := strconv.Quote(r.URL.Query().Get("key"))
	if r.URL.Query().Get("mode") == "worker" {
		fmt.Fprintf(w, "new WebSocket('ws://' + location.host + '/site/socket?key=' + %s);", key)
		return
	}
	fmt.Fprintf(w, "fetch('/site/bookings', {method: 'POST', body: new URLSearchParams({key: %s})});", key)
}

func relay(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/site/bookings", http.StatusTemporaryRedirect)
}

// postBooking makes a booking, whatever brought it here, and sends on to the page
// that shows it. The key is that of headers, else the form's.
func (s *Server) postBooking(w http.ResponseWriter, r *http.Request) {
	v := &visit{on: OnCharge}
	r.Body = http.MaxBytesReader(nil, r.Body, maxBody)
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		_ = r.ParseMultipartForm(maxBody)
	}
	v.key, v.keyed = headerKey(r.Header)
	if v.key == "" {
		v.key = r.FormValue("key")
	}
	if r.Form != nil {
		sum := sha256.Sum256([]byte(r.Form.Encode()))
		v.hash = "sha256:" + hex.EncodeToString(sum[:])
	}
	s.serve(w, r, v, func() answer {
		a := s.commit(v)
		if a.status/100 != 2 || r.URL.Path == "/site/socket" {
			return a
		}
		return answer{status: http.StatusSeeOther, location: "/site/booked?key=" + url.QueryEscape(v.key)}
	})
}

func (s *Server) getBooked(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	found := s.book.byKey[r.URL.Query().Get("key")]
	s.mu.Unlock()
	if len(found) == 0 {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = pages.ExecuteTemplate(w, "booked", found[0].ID)
}

// getBookings is the look-up by page. It takes the faults of one.
func (s *Server) getBookings(w http.ResponseWriter, r *http.Request) {
	v := &visit{on: OnLookup, key: r.URL.Query().Get("key")}
	s.serve(w, r, v, func() answer {
		s.mu.Lock()
		found := visible(s.book.byKey[v.key], time.Now(), s.behaviour.LookupLag)
		s.mu.Unlock()
		var page strings.Builder
		_ = pages.ExecuteTemplate(&page, "found", found)
		return answer{status: http.StatusOK, body: []byte(page.String()), html: true}
	})
}
