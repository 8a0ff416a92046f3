package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"headgate/config"
	"headgate/contract"
)

func TestActor(t *testing.T) {
	w := newWorld(t)
	c := w.console(nil)
	r := send(c, "", "/console/actor", url.Values{"name": {" Mara Ö. "}, "back": {"/console/tasks?phase=unknown"}})
	require.Equal(t, 303, r.Code)
	assert.Equal(t, "/console/tasks?phase=unknown", r.Header().Get("Location"))
	cookie := r.Result().Cookies()[0]
	assert.True(t, cookie.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	request := httptest.NewRequest(http.MethodGet, "/console/", nil)
	request.AddCookie(cookie)
	assert.Equal(t, "Mara Ö.", actorOf(request))

	r = send(c, "mara", "/console/actor", url.Values{"name": {""}, "back": {"https://evil.example/"}})
	assert.Equal(t, "/console/", r.Header().Get("Location"))
	assert.Negative(t, r.Result().Cookies()[0].MaxAge)
	assert.Equal(t, 400, send(c, "", "/console/actor", url.Values{"name": {strings.Repeat("x", 129)}}).Code)
}

// lockedWorld asks for keys: mara's, who may resolve what acme asks for, and eve's.
func lockedWorld(t *testing.T) *world {
	w := newWorld(t)
	w.keys = map[string]contract.Caller{
		"hgk_mara": {Keys: true, Name: "mara", Tenant: "acme", Roles: []string{"operate"}, Rights: []string{config.RightResolve}},
		"hgk_eve":  {Keys: true, Name: "eve", Tenant: "*", Roles: []string{"view"}},
	}
	return w
}

// withKey visits a page as somebody who has signed in, and who claims a name, too.
func withKey(c *Console, key, path string) (int, string) {
	return visit(c, "tom", path, "Cookie", keyCookie+"="+key)
}

// Without a valid key nothing is shown, on no page, and nothing is done.
func TestNothingIsShownWithoutAKey(t *testing.T) {
	w := lockedWorld(t)
	c := w.console(nil)
	for _, path := range []string{"/console/", "/console/tasks", "/console/tasks/acme/inv-7", "/console/find?q=inv-7", "/console/nothing"} {
		for _, key := range []string{"", "hgk_wrong"} {
			status, page := withKey(c, key, path)
			assert.Equal(t, 401, status, path)
			for _, known := range []string{"charge_card", "psp_calls", "timed out", "PAUSED"} {
				assert.NotContains(t, page, known)
			}
			assert.Contains(t, page, `type="password"`)
			assert.Equal(t, key != "", strings.Contains(page, "The key is not valid"))
		}
	}
	r := send(c, "mara", resolvePath, resolution())
	assert.Equal(t, 401, r.Code)
	assert.Empty(t, w.orders)
	assert.Zero(t, w.asked("/v1/queue"), "the budget is not asked")
}

// Name and rights are the key's, whatever a cookie says.
func TestSignedIn(t *testing.T) {
	w := lockedWorld(t)
	c := w.console(config.People{{Name: "tom", Rights: []string{"pause"}}})
	status, page := withKey(c, "hgk_mara", "/console/")
	require.Equal(t, 200, status)
	assert.Contains(t, page, "You are <strong>mara</strong>")
	assert.Contains(t, page, "operator: resolve, tenant acme")
	assert.NotContains(t, part(t, page, domID("resolve", "acme", "inv-7"), "</form>"), "disabled")
	assert.Contains(t, page, "Off: mara does not hold the right to pause.")
	_, page = withKey(c, "hgk_eve", "/console/")
	assert.Contains(t, page, `id="role">viewer<`)
	assert.NotContains(t, page, "<fieldset data-action>")

	r := send(c, "tom", resolvePath, resolution(), "Cookie", keyCookie+"=hgk_mara")
	require.Equal(t, 303, r.Code, body(r))
	assert.Equal(t, "mara", w.orders[0]["actor"])
	assert.Equal(t, "Bearer hgk_mara", w.sent[len(w.sent)-1])

	// A key that is taken back shows nothing any more.
	delete(w.keys, "hgk_mara")
	w.pass(listEvery)
	status, page = withKey(c, "hgk_mara", "/console/")
	assert.Equal(t, 401, status)
	assert.NotContains(t, page, "charge_card")
}

func TestKeyCookie(t *testing.T) {
	c := lockedWorld(t).console(nil)
	r := send(c, "", "/console/key", url.Values{"key": {" hgk_mara "}, "back": {"/console/tasks"}})
	require.Equal(t, 303, r.Code)
	assert.Equal(t, "/console/tasks", r.Header().Get("Location"))
	cookie := r.Result().Cookies()[0]
	assert.Equal(t, "hgk_mara", cookie.Value)
	assert.True(t, cookie.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	assert.Equal(t, Root, cookie.Path)
	assert.Zero(t, cookie.MaxAge)
	assert.Negative(t, send(c, "", "/console/key", nil).Result().Cookies()[0].MaxAge)
	for _, wrong := range []string{"a b", "a;b", "a\nb", "ö", strings.Repeat("x", maxKey+1)} {
		assert.Equal(t, 400, send(c, "", "/console/key", url.Values{"key": {wrong}}).Code, wrong)
	}
}
