package gateway

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/contract"
)

var loaded = sync.OnceValues(func() (*openapi3.T, error) { return openapi3.NewLoader().LoadFromData(apiDocument) })

// The document is what the types and the routes of today make.
func TestDocument(t *testing.T) {
	g := newGateway(&fake{})
	text, err := json.MarshalIndent(makeDocument(g.routes()), "", " ")
	require.NoError(t, err)
	text = append(text, '\n')
	if *rewrite {
		require.NoError(t, os.WriteFile("openapi.json", text, 0o644))
		return // this program holds the one before
	}
	assert.True(t, bytes.Equal(text, apiDocument), "openapi.json is not what the handlers are: run this test with -rewrite, and read the diff")
	doc, err := loaded()
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context(), openapi3.IsOpenAPI31OrLater()))

	r := do(t, g, "GET", "/openapi.json", "")
	require.Equal(t, 200, r.StatusCode)
	assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
}

// Routes and methods are the same on both sides.
func TestDocumentHasEveryRoute(t *testing.T) {
	doc, err := loaded()
	require.NoError(t, err)
	var here, there []string
	for _, rt := range newGateway(&fake{}).routes() {
		here = append(here, rt.method+" "+rt.path)
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			there = append(there, method+" "+path)
		}
	}
	assert.ElementsMatch(t, here, there)
}

var wanted = regexp.MustCompile(`is not known(?: here)?; want (.*)$`)

// The fields of bodies and the parameters of queries are those that the handlers
// take: they say so themselves when they meet another one.
func TestDocumentHasEveryField(t *testing.T) {
	f := &fake{}
	f.put(openTask(acmeInput()))
	g := newGateway(f)
	for _, e := range endpoints() {
		method, path, _ := strings.Cut(e.line, " ")
		path = fillPath(path, "acme", "inv-42")
		known := func(path, body string) []string {
			r := do(t, g, method, path, body, "Idempotency-Key", "inv-42")
			p := decodeBody[contract.Problem](t, r)
			found := wanted.FindStringSubmatch(p.Detail)
			require.NotNil(t, found, "%s: %s", e.line, p.Detail)
			return strings.Split(found[1], ", ")
		}
		if e.body != nil {
			var want []string
			for name := range e.body {
				want = append(want, strings.TrimSuffix(name, "!"))
			}
			assert.ElementsMatch(t, want, known(path, `{"no_such_field": 1}`), e.line)
		}
		if e.query["limit"] != "" {
			assert.ElementsMatch(t, slices.Collect(maps.Keys(e.query)), known(path+"?no_such_field=1", ""), e.line)
		}
	}
}

// A body that lacks what is required is refused.
func TestDocumentRequiredFields(t *testing.T) {
	full := map[string]string{"operation": `"charge_card"`, "outcome": `"happened"`, "evidence": `"seen"`, "version": "1", "payload_hash": `"sha256:aa"`,
		"operation_digest": `"d"`, "actor": `"mara"`, "reason": `"look"`, "policy": `{"resources": []}`, "tenant": `"acme"`}
	for _, e := range endpoints() {
		for left := range e.body {
			left, must := strings.CutSuffix(left, "!")
			if !must {
				continue
			}
			var parts []string
			for name := range e.body {
				if name = strings.TrimSuffix(name, "!"); name != left && full[name] != "" {
					parts = append(parts, fmt.Sprintf("%q: %s", name, full[name]))
				}
			}
			method, path, _ := strings.Cut(e.line, " ")
			f := &fake{}
			f.put(openTask(acmeInput()))
			r := do(t, newGateway(f), method, fillPath(path, "acme", "inv-42"), "{"+strings.Join(parts, ", ")+"}", "Idempotency-Key", "new")
			assert.Equal(t, 400, r.StatusCode, "%s without %s", e.line, left)
		}
	}
}

// The check of answers finds what it is there for.
func TestDocumentRefuses(t *testing.T) {
	doc, err := loaded()
	require.NoError(t, err)
	schema := doc.Components.Schemas["TaskView"].Value
	whole := func(change func(map[string]any)) error {
		text, err := json.Marshal(contract.TaskView{Tenant: "acme", Phase: contract.PhaseAccepted, WaitingOn: []contract.Waiting{{Reason: "capacity"}}})
		require.NoError(t, err)
		var body map[string]any
		require.NoError(t, json.Unmarshal(text, &body))
		change(body)
		return schema.VisitJSON(body)
	}
	require.NoError(t, whole(func(map[string]any) {}))
	for name, change := range map[string]func(map[string]any){
		"another field":        func(b map[string]any) { b["colour"] = "red" },
		"a field less":         func(b map[string]any) { delete(b, "execution_state") },
		"another type":         func(b map[string]any) { b["attempts"] = "3" },
		"another word":         func(b map[string]any) { b["phase"] = "done" },
		"null":                 func(b map[string]any) { b["tenant"] = nil },
		"deep inside, another": func(b map[string]any) { b["waiting_on"].([]any)[0].(map[string]any)["colour"] = "red" },
	} {
		assert.Error(t, whole(change), name)
	}
}

// answered are the answers that the tests of this package have seen.
var answered sync.Map

// documented holds an answer against the document: status, kind of body, and each
// field of it.
func documented(t *testing.T, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	method, path, ok := strings.Cut(r.Pattern, " ")
	if !ok || bytes.Equal(apiDocument, []byte("{}\n")) || r.Method != method { // no route of ours; before the first document
		return
	}
	doc, err := loaded()
	require.NoError(t, err)
	item := doc.Paths.Value(path)
	require.NotNil(t, item, "%s is not in the document", r.Pattern)
	answer := item.GetOperation(method).Responses.Status(w.Code)
	if w.Code == http.StatusForbidden && w.Body.Len() > 0 && strings.Contains(w.Body.String(), "cross_origin") {
		return // it is about the browser, not the route
	}
	require.NotNil(t, answer, "%s answers %d, which is not in the document: %s", r.Pattern, w.Code, w.Body)
	media := answer.Value.Content.Get(w.Header().Get("Content-Type"))
	require.NotNil(t, media, "%s answers %d as %s", r.Pattern, w.Code, w.Header().Get("Content-Type"))
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		answered.Store(r.Pattern+" "+strconv.Itoa(w.Code), true)
		return
	}
	var body any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), r.Pattern)
	require.NoError(t, media.Schema.Value.VisitJSON(body), "%s answers %d: %s", r.Pattern, w.Code, w.Body)
	answered.Store(r.Pattern+" "+strconv.Itoa(w.Code), true)
}

// TestMain asks in the end whether every status that the document names for a
// route of its own was an answer of some test.
func TestMain(m *testing.M) {
	status := m.Run()
	if run := flag.Lookup("test.run").Value.String(); status == 0 && run == "" {
		for _, e := range endpoints() {
			for _, code := range append(slices.Collect(maps.Keys(e.answers)), e.refusals...) {
				if _, ok := answered.Load(e.line + " " + strconv.Itoa(code)); !ok {
					fmt.Fprintf(os.Stderr, "the document says that %s may answer %d, but no test has seen it\n", e.line, code)
					status = 1
				}
			}
		}
	}
	os.Exit(status)
}
