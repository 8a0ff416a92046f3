package activities

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"headgate/contract"
)

// follow reads what a redirect of a mere read points to, on a connection of its
// own: the same checks of the address hold for it. Credentials go to the origin
// that they were declared for only. It gives nil if the answer is no redirect.
func (e *httpEffect) follow(ctx context.Context, from *http.Request, answer *http.Response) (*http.Request, error) {
	switch answer.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	to, err := from.URL.Parse(answer.Header.Get("Location"))
	switch {
	case answer.Header.Get("Location") == "" || err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https":
		return nil, errors.New("it points to no http or https URL")
	case to.User != nil:
		return nil, errors.New("it points to a URL with a credential")
	case from.URL.Scheme == "https" && to.Scheme == "http":
		return nil, errors.New("it leads from https to http")
	}
	_ = answer.Body.Close() // nothing of it is read
	to.Fragment = ""
	next := from.Clone(ctx)
	next.URL, next.Host = to, ""
	if origin(to) != origin(from.URL) {
		next.Header = http.Header{"User-Agent": {"headgate"}, "Accept": next.Header["Accept"]}
	}
	conn, err := e.owner.Network.connect(ctx, e.owner.Dial, to, e.secure)
	if err != nil {
		var refusal *Refusal
		if errors.As(unreached(err), &refusal) {
			return nil, errors.New(refusal.Reason)
		}
		return nil, err
	}
	// The first request has asked the attempt's guard, and left. A read more does no
	// harm late; the context still ends it.
	conn.guard = &Guard{now: e.now, sendBy: e.now().Add(e.timeout)}
	e.conn.seal()
	e.conn = conn
	return next, nil
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// redirectRefused is the outcome of a read that led somewhere else.
func redirectRefused(o contract.Outcome, err error) contract.Outcome {
	o.Reason, o.Detail = "redirect_refused", brief("the redirect is not followed: "+err.Error())
	return o
}
