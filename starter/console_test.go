package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.uber.org/zap"

	"headgate/admission"
	"headgate/config"
	"headgate/starter/console"
	"headgate/starter/gateway"
)

// calm is a Temporal with a budget and no task.
type calm struct{ client.Client }

func (*calm) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	view, err := converter.GetDefaultDataConverter().ToPayloads(admission.View{Now: time.Now(), Policy: "sha256:aa",
		Tenants: []admission.TenantView{{TenantPolicy: admission.TenantPolicy{Name: "acme"}, Queued: 1}, {TenantPolicy: admission.TenantPolicy{Name: "globex"}, Queued: 1}}})
	return client.NewValue(view), err
}

func (*calm) CountWorkflow(context.Context, *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	return &workflowservice.CountWorkflowExecutionsResponse{}, nil
}

func (*calm) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return &workflowservice.ListWorkflowExecutionsResponse{}, nil
}

// The console in front of the gateway itself: a key signs in, shows what is its
// own, and is refused what is not.
func TestConsoleWithKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	mara, entry := config.NewKey("mara", "acme", []string{config.RoleOperate})
	eve, other := config.NewKey("eve", "*", []string{config.RoleView})
	require.NoError(t, os.WriteFile(file, []byte(entry.Line()+"\n"+other.Line()+"\n"), 0o600))
	keys, err := gateway.OpenKeys(file, zap.NewNop())
	require.NoError(t, err)
	api := gateway.New(gateway.Options{Client: &calm{}, Operations: &config.Config{}, Keys: keys}).Handler()
	pages, err := console.New(console.Options{API: api})
	require.NoError(t, err)
	front := console.Front(api, pages.Handler())
	ask := func(method, path, key string, form url.Values) (int, string) {
		r := httptest.NewRequest(method, "http://127.0.0.1:7280"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.AddCookie(&http.Cookie{Name: "headgate_key", Value: key})
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}

	status, page := ask("GET", "/console/", "hgk_wrong", nil)
	assert.Equal(t, 401, status)
	assert.Contains(t, page, "The key is not valid")

	status, page = ask("GET", "/console/", mara, nil)
	require.Equal(t, 200, status)
	assert.Contains(t, page, "You are <strong>mara</strong>")
	assert.Contains(t, page, "Pause acme")
	assert.NotContains(t, page, "globex")
	assert.NotContains(t, page, "disabled")
	assert.NotContains(t, page, `id="stale"`)
	assert.Contains(t, page, "0 tasks: the phases add up.")

	status, page = ask("GET", "/console/", eve, nil)
	require.Equal(t, 200, status)
	assert.Contains(t, page, "Pause globex")
	assert.NotContains(t, page, "<fieldset data-action>")

	// The gateway refuses, not only the page.
	word := url.Values{"reason": {"to look"}, "what": {"dispatch"}}
	for path, key := range map[string]string{"/console/tenants/globex/pause": mara, "/console/tenants/acme/pause": eve, "/console/operations/charge/freeze": mara} {
		status, page = ask("POST", path, key, word)
		assert.Equal(t, 403, status, path)
		assert.Contains(t, page, `id="refused"`)
	}
}
