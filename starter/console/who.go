package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// signinPage asks for a key.
type signinPage struct {
	head
	Wrong bool // one was given
}

// maxKey bounds an API key, in bytes; they are far shorter.
const maxKey = 512

// key keeps the API key of somebody who signs in, until the browser is closed;
// an empty one is forgotten. Whether it is valid, the API says.
func (c *Console) key(w http.ResponseWriter, r *http.Request) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	text := strings.TrimSpace(r.PostForm.Get("key"))
	if len(text) > maxKey || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`",;\\`, c) }) {
		return &problem{Status: http.StatusBadRequest, Title: "This is no API key", Detail: "Keys are made by `headgate keys new`."}
	}
	cookie := &http.Cookie{Name: keyCookie, Value: text, Path: Root, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
	if text == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
	back(w, r)
	return nil
}

// actor keeps the name that a person gives where the API asks for no key; an empty
// one is forgotten.
func (c *Console) actor(w http.ResponseWriter, r *http.Request) error {
	if err := readForm(w, r); err != nil {
		return err
	}
	name := strings.TrimSpace(r.PostForm.Get("name"))
	if len(name) > maxActor {
		return &problem{Status: http.StatusBadRequest, Title: "The name is too long", Detail: "A name has at most " + strconv.Itoa(maxActor) + " bytes."}
	}
	cookie := &http.Cookie{Name: actorCookie, Value: url.QueryEscape(name), Path: Root, MaxAge: 30 * 24 * 3600, HttpOnly: true,
		Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
	if name == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
	back(w, r)
	return nil
}

// back goes to the page that a form was on.
func back(w http.ResponseWriter, r *http.Request) {
	path := r.PostForm.Get("back")
	if !strings.HasPrefix(path, Root+"/") {
		path = Root + "/"
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
}

// readForm reads what a form sends.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return &problem{Status: http.StatusBadRequest, Title: "The form cannot be read", Detail: "It is longer than " + strconv.Itoa(maxForm) + " bytes, or cut off."}
	}
	return nil
}
