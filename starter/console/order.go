package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"headgate/client"
	"headgate/contract"
)

const (
	// maxForm bounds what a form may send, maxActor a person's name; in bytes.
	maxForm  = 64 << 10
	maxActor = 128
	// untilLayout is how a browser writes the time of a datetime-local field.
	untilLayout = "2006-01-02T15:04"
)

// order is what a form asks of the API.
type order struct {
	form      string // DOM ID, to show a refusal beside
	method    string
	path      string
	body      func(actor string, form url.Values) (any, *problem)
	done, who string // what the page says afterwards, and of whom
}

// give gives an order and goes back to the page that it came from. What is
// refused is shown there, with all that was typed.
func (c *Console) give(w http.ResponseWriter, r *http.Request, o order) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	refused := c.try(r, o)
	if refused == nil {
		c.looks.soon(r)
		back := Root + "/"
		if r.PostForm.Get("from") == "task" {
			back = taskPath(r.PathValue("tenant"), r.PathValue("key"))
		}
		http.Redirect(w, r, back+"?"+url.Values{"done": {o.done}, "of": {o.who}}.Encode(), http.StatusSeeOther)
		return nil
	}
	c.log.Info("order refused", zap.String("path", o.path), zap.String("reason", refused.Reason), zap.Int("status", refused.Status))
	if refused.Status != http.StatusServiceUnavailable {
		c.looks.soon(r) // it may be about something that has moved on
	}
	d := draft{Form: o.form, Problem: refused, Values: r.PostForm}
	if r.PostForm.Get("from") == "task" {
		if page, err := c.taskOf(r, d); err == nil {
			return c.render(w, refused.Status, "task", page)
		}
	}
	return c.render(w, refused.Status, "index", c.indexOf(r, d))
}

func (c *Console) try(r *http.Request, o order) *problem {
	h := c.head(r)
	switch {
	case h.Actor == "":
		return &problem{Status: http.StatusForbidden, Reason: "not_allowed", Title: "Nobody decides without a name", Detail: "say who you are first, at the top of the page."}
	case h.Stale:
		return &problem{Status: http.StatusServiceUnavailable, Reason: "stale", Title: "Nothing was done", Detail: h.NotCurrent()}
	}
	body, refused := o.body(h.Actor, r.PostForm)
	if refused != nil {
		return refused
	}
	var done map[string]any
	if err := c.call(r.Context(), r, o.method, o.path, body, &done); err != nil {
		return asProblem(err)
	}
	return nil
}

func invalid(detail string) *problem {
	return &problem{Status: http.StatusBadRequest, Reason: "invalid_request", Title: "Nothing was done", Detail: detail}
}

// version reads the row version that a form was made from.
func version(form url.Values) (int, *problem) {
	n, err := strconv.Atoi(form.Get("version"))
	if err != nil {
		return 0, invalid("the form has no row version: read the page again.")
	}
	return n, nil
}

func (c *Console) resolve(w http.ResponseWriter, r *http.Request) error {
	tenant, key := r.PathValue("tenant"), r.PathValue("key")
	return c.give(w, r, order{form: domID("resolve", tenant, key), method: http.MethodPost,
		path: client.TaskPath(tenant, key) + "/resolve", done: "resolved", who: tenant + "/" + key,
		body: func(actor string, form url.Values) (any, *problem) {
			n, refused := version(form)
			word := contract.Resolution{ID: form.Get("id"), Actor: actor, Outcome: form.Get("outcome"), Evidence: strings.TrimSpace(form.Get("evidence")), Version: n}
			switch {
			case refused != nil:
				return nil, refused
			case word.Evidence == "":
				return nil, invalid("evidence is required: say how you know what happened.")
			case word.Outcome == "":
				return nil, invalid("say what happened: choose one of the outcomes.")
			}
			return word, nil
		}})
}

// approve takes both words on an approval; the path says which.
func (c *Console) approve(w http.ResponseWriter, r *http.Request) error {
	tenant, key := r.PathValue("tenant"), r.PathValue("key")
	word, done := "approve", "approved"
	if strings.HasSuffix(r.URL.Path, "/decline") {
		word, done = "decline", "declined"
	}
	return c.give(w, r, order{form: domID("approve", tenant, key), method: http.MethodPost,
		path: client.TaskPath(tenant, key) + "/" + word, done: done, who: tenant + "/" + key,
		body: func(actor string, form url.Values) (any, *problem) {
			n, refused := version(form)
			evidence := strings.TrimSpace(form.Get("evidence"))
			switch {
			case refused != nil:
				return nil, refused
			case evidence == "":
				return nil, invalid("evidence is required: say why you decide so.")
			}
			return map[string]any{"id": form.Get("id"), "actor": actor, "evidence": evidence, "version": n,
				"payload_hash": form.Get("payload_hash"), "operation_digest": form.Get("operation_digest")}, nil
		}})
}

func (c *Console) pause(w http.ResponseWriter, r *http.Request) error {
	tenant := r.PathValue("tenant")
	return c.give(w, r, order{form: domID("pause", tenant), method: http.MethodPost,
		path: "/v1/tenants/" + client.Segment(tenant) + "/pause", done: "paused", who: tenant,
		body: func(actor string, form url.Values) (any, *problem) {
			word := map[string]any{"actor": actor, "reason": strings.TrimSpace(form.Get("reason")),
				"dispatch": form.Get("what") != "admission", "admission": form.Get("what") == "admission" || form.Get("what") == "both"}
			if word["reason"] == "" {
				return nil, invalid("a reason is required: those who wait want to know why.")
			}
			if text := form.Get("until"); text != "" {
				until, err := time.ParseInLocation(untilLayout, text, time.UTC)
				if err != nil {
					return nil, invalid("until is not a time such as 2026-12-01T18:30 (UTC).")
				}
				word["until"] = until
			}
			return word, nil
		}})
}

func (c *Console) resume(w http.ResponseWriter, r *http.Request) error {
	tenant := r.PathValue("tenant")
	return c.give(w, r, order{form: domID("pause", tenant), method: http.MethodPost,
		path: "/v1/tenants/" + client.Segment(tenant) + "/resume", done: "resumed", who: tenant, body: reasoned})
}

// freeze takes both orders about an operation; the path says which.
func (c *Console) freeze(w http.ResponseWriter, r *http.Request) error {
	operation := r.PathValue("operation")
	word, done := "freeze", "frozen"
	if strings.HasSuffix(r.URL.Path, "/unfreeze") {
		word, done = "unfreeze", "unfrozen"
	}
	return c.give(w, r, order{form: domID("freeze", operation), method: http.MethodPut,
		path: "/v1/operations/" + client.Segment(operation) + "/" + word, done: done, who: operation, body: reasoned})
}

// reasoned is an order that says no more than why; whether it must is the API's
// to say.
func reasoned(actor string, form url.Values) (any, *problem) {
	return map[string]any{"actor": actor, "reason": strings.TrimSpace(form.Get("reason"))}, nil
}
