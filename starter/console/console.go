// Package console is the operators' page: what waits on what, what runs, and what
// a person must decide, with the forms to decide it.
//
// Contract:
//   - The console is a client of the gateway's API in the same process. It reads
//     and orders by the same requests as any other client, with the credentials of
//     who looks, so that it can do nothing that the API refuses.
//   - All pages that show the state share one look. It is taken when somebody
//     looks, at most once in two seconds, however many pages are open.
//   - Nothing is decided on stale data: while the last good look is too old, or the
//     budget does not answer, every action is off and refused.
//   - A decision carries the row version that its form was made from.
//   - Every page works without JavaScript. With it parts are refreshed, and what is
//     being typed stays.
package console

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"headgate/config"
)

// Root is the path below which everything of the console is.
const Root = "/console"

// Options of a Console. API is required.
type Options struct {
	API       http.Handler  // the gateway's
	People    config.People // who may decide what; empty: everybody who gives a name
	UI        string        // base URL of the Temporal Web UI; empty: no links to it
	Namespace string        // of Temporal; empty: default
	Stale     time.Duration // how old a look may be for decisions; zero: 10 s
	Now       func() time.Time
	Log       *zap.Logger // nil: no log
}

// Console answers the operators' pages.
type Console struct {
	api    http.Handler
	people config.People
	ui     string // with the namespace; empty: none
	stale  time.Duration
	now    func() time.Time
	log    *zap.Logger
	pages  *template.Template
	looks  *looks
	poll   time.Duration // how often a page refreshes its parts
}

//go:embed templates
var templates embed.FS

//go:embed assets
var assets embed.FS

// New makes a console; it starts nothing. An error tells what is wrong with UI.
func New(o Options) (*Console, error) {
	c := &Console{api: o.API, people: o.People, stale: o.Stale, now: o.Now, log: o.Log}
	if o.UI != "" {
		base, err := url.Parse(o.UI)
		if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
			return nil, fmt.Errorf("%q is no base URL of a Temporal Web UI: want something like http://127.0.0.1:8233", o.UI)
		}
		if o.Namespace == "" {
			o.Namespace = "default"
		}
		c.ui = strings.TrimRight(o.UI, "/") + "/namespaces/" + url.PathEscape(o.Namespace) + "/workflows/"
	}
	if c.stale <= 0 {
		c.stale = 10 * time.Second
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.log == nil {
		c.log = zap.NewNop()
	}
	c.poll, c.looks = pollEvery, &looks{take: c.take, now: c.now, every: lookEvery, lists: listEvery}
	var err error
	c.pages, err = template.New("").Funcs(c.words()).ParseFS(templates, "templates/*.html")
	return c, err
}

// Handler is every page below Root, with its guards.
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, page := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET " + Root + "/{$}":                              c.index,
		"GET " + Root + "/find":                             c.find,
		"GET " + Root + "/tasks":                            c.list,
		"GET " + Root + "/tasks/{tenant}/{key}":             c.task,
		"POST " + Root + "/actor":                           c.actor,
		"POST " + Root + "/key":                             c.key,
		"POST " + Root + "/tasks/{tenant}/{key}/resolve":    c.resolve,
		"POST " + Root + "/tasks/{tenant}/{key}/approve":    c.approve,
		"POST " + Root + "/tasks/{tenant}/{key}/decline":    c.approve,
		"POST " + Root + "/tenants/{tenant}/pause":          c.pause,
		"POST " + Root + "/tenants/{tenant}/resume":         c.resume,
		"POST " + Root + "/operations/{operation}/freeze":   c.freeze,
		"POST " + Root + "/operations/{operation}/unfreeze": c.freeze,
	} {
		mux.Handle(pattern, c.serve(page))
	}
	mux.Handle("GET "+Root, http.RedirectHandler(Root+"/", http.StatusSeeOther))
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.Handle("GET "+Root+"/assets/", http.StripPrefix(Root+"/assets/", cached(http.FileServerFS(files))))
	mux.Handle(Root+"/", c.serve(func(http.ResponseWriter, *http.Request) error {
		return &problem{Status: http.StatusNotFound, Detail: "There is no such page."}
	}))
	return guard(mux)
}

// policy lets a page load nothing but our own files, and be framed by nobody.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard is around every page. A form is taken only from our own pages: a browser
// says where a post comes from, and one that does not say is refused.
func guard(next http.Handler) http.Handler {
	foreign := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "same-origin") // with less a browser does not say whence a form comes
		h.Set("Cache-Control", "no-store")
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		says := r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !says || foreign.Check(r) != nil {
			http.Error(w, "this form was not sent by a page of this console", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// cached lets a browser keep files whose names change with their content.
func cached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

// serve makes a page of ours a handler; what it refuses is a page of its own.
func (c *Console) serve(page func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := c.head(r)
		if h.Look.Locked() && !strings.HasSuffix(r.Pattern, Root+"/key") {
			if err := c.show(w, r, http.StatusUnauthorized, "signin", signinPage{h, credentials(r) != ""}); err != nil {
				c.log.Error("console page failed", zap.String("route", r.Pattern), zap.Error(err))
			}
			return
		}
		err := page(w, r)
		if err == nil {
			return
		}
		var p *problem
		if !errors.As(err, &p) {
			c.log.Error("console page failed", zap.String("route", r.Pattern), zap.Error(err))
			p = &problem{Status: http.StatusInternalServerError, Detail: "The console could not make this page; the log has the cause."}
		}
		if err := c.render(w, p.Status, "problem", problemPage{head: c.head(r), Problem: p}); err != nil {
			c.log.Error("console page failed", zap.String("route", r.Pattern), zap.Error(err))
		}
	})
}

// Front sends browsers that ask for the front page to the console, everything of
// the console to it, and all else to the API.
func Front(api, console http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == Root, strings.HasPrefix(r.URL.Path, Root+"/"):
			console.ServeHTTP(w, r)
		case r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, Root+"/", http.StatusSeeOther)
		default:
			api.ServeHTTP(w, r)
		}
	})
}
