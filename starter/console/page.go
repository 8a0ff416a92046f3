package console

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"headgate/config"
)

// head is what every page has.
type head struct {
	Now    time.Time
	Self   string // path and query of the page
	Actor  string // empty: nobody said a name
	Rights []string
	Look   *look
	Stale  bool
	Limit  time.Duration // how old a look may be for decisions
	Poll   time.Duration // how often the page refreshes its parts
	Done   string        // what was just ordered, in words
	Draft  draft
	UI     string
}

// draft is a form that was refused, so that nothing of it has to be typed again.
type draft struct {
	Form    string // its DOM ID
	Problem *problem
	Values  url.Values
}

type problemPage struct {
	head
	Problem *problem
}

// actorCookie holds the name that a person gave, which goes into every order.
const actorCookie = "headgate_actor"

// rights in the order in which they are shown.
var rights = []string{config.RightPause, config.RightResolve, config.RightApprove}

func (c *Console) head(r *http.Request) head {
	h := head{Now: c.now(), Self: r.URL.RequestURI(), Actor: actorOf(r), Look: c.looks.see(r), Limit: c.stale, Poll: c.poll, UI: c.ui}
	if r.Method != http.MethodGet {
		h.Self = Root + "/"
	}
	h.Stale = h.Look.staleAt(c.now(), c.stale)
	if who := h.Look.Caller; who.Keys {
		h.Actor, h.Rights = who.Name, who.Rights
	} else if h.Actor != "" {
		for _, right := range rights {
			if c.people.May(h.Actor, right) {
				h.Rights = append(h.Rights, right)
			}
		}
	}
	h.Done = doneText(r.URL.Query())
	return h
}

func actorOf(r *http.Request) string {
	cookie, err := r.Cookie(actorCookie)
	if err != nil {
		return ""
	}
	name, err := url.QueryUnescape(cookie.Value)
	if err != nil || len(name) > maxActor {
		return ""
	}
	return name
}

// Role is viewer for somebody without any right.
func (h head) Role() string {
	if len(h.Rights) == 0 {
		return "viewer"
	}
	return "operator: " + strings.Join(h.Rights, ", ")
}

// Off says why an action is off; empty: it is on.
func (h head) Off(right string) string {
	switch {
	case h.Stale:
		return "Off: what is shown is not current."
	case h.Actor == "":
		return "Off: say who you are first, at the top of the page."
	}
	for _, held := range h.Rights {
		if held == right {
			return ""
		}
	}
	return "Off: " + h.Actor + " does not hold the right to " + right + "."
}

// NotCurrent says since when the page is not current, and why; empty: it is.
func (h head) NotCurrent() string {
	if !h.Stale {
		return ""
	}
	text := "Nothing could be read yet"
	if !h.Look.At.IsZero() {
		text = "What you see is not current since " + clock(h.Look.At)
	}
	if p := h.Look.Failed; p != nil && p.Detail != "" {
		text += ": " + p.Detail
	}
	return text + ". Every action is off until it is."
}

// Refused is the problem of a form, if it was this one that was refused.
func (h head) Refused(form string) *problem {
	if h.Draft.Form == form {
		return h.Draft.Problem
	}
	return nil
}

// Typed is what was typed into a field of a form that was refused.
func (h head) Typed(form, field string) string {
	if h.Draft.Form == form {
		return h.Draft.Values.Get(field)
	}
	return ""
}

// Decision names the decision that a form makes, so that one that is sent twice
// decides once: also after an answer that did not say whether it was taken.
func (h head) Decision(form string) string {
	if p := h.Refused(form); p != nil && p.Status >= http.StatusInternalServerError && h.Typed(form, "id") != "" {
		return h.Typed(form, "id")
	}
	return "console-" + rand.Text()[:16]
}

// Temporal is the address of a workflow in the Temporal Web UI; empty: none.
func (h head) Temporal(workflow string) string {
	if h.UI == "" {
		return ""
	}
	return h.UI + url.PathEscape(workflow)
}

// domID makes an ID of names that may hold anything.
func domID(kind string, names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return kind + "-" + hex.EncodeToString(sum[:6])
}

// render makes the whole page before the first byte is sent.
func (c *Console) render(w http.ResponseWriter, status int, name string, page any) error {
	var text bytes.Buffer
	if err := c.pages.ExecuteTemplate(&text, name, page); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = text.WriteTo(w) // a browser that went away has nobody to tell
	return nil
}

// show makes a page, or only its part that is refreshed if the page itself asks.
func (c *Console) show(w http.ResponseWriter, r *http.Request, status int, name string, page any) error {
	if r.Header.Get("HX-Request") == "true" && r.Method == http.MethodGet {
		name += "-live"
	}
	return c.render(w, status, name, page)
}

// doneText words what a redirect says was done.
func doneText(query url.Values) string {
	what, ok := map[string]string{
		"resolved": "The outcome of %s is decided.", "approved": "%s is approved.", "declined": "%s is declined: nothing is sent.",
		"paused": "%s is paused.", "resumed": "%s goes on.", "frozen": "%s is frozen.", "unfrozen": "%s is not frozen any more.",
	}[query.Get("done")]
	if !ok {
		return ""
	}
	return strings.Replace(what, "%s", query.Get("of"), 1)
}
