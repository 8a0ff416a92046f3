package contract_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"headgate/contract"
)

func TestTaskIDs(t *testing.T) {
	for _, c := range []struct{ tenant, key, id string }{
		{"acme", "inv-42", "task/acme/inv-42"},
		{"acme", "a/b", "task/acme/a/b"},
		{"acme", "/", "task/acme//"},
		{"acme", "//x/", "task/acme///x/"},
		{"acme", "..", "task/acme/.."},
		{"acme", "a#b?c=%2F&d", "task/acme/a#b?c=%2F&d"},
		{"acme", `"quoted" \ and spaced `, `task/acme/"quoted" \ and spaced `},
		{"acme", " ", "task/acme/ "},
		{"acme", "task/other/k", "task/acme/task/other/k"},
		{"a.b_c-D9", "k", "task/a.b_c-D9/k"},
		{strings.Repeat("t", 64), strings.Repeat("k", 255), "task/" + strings.Repeat("t", 64) + "/" + strings.Repeat("k", 255)},
	} {
		require.Equal(t, c.id, contract.TaskID(c.tenant, c.key))
		tenant, key, ok := contract.ParseTaskID(c.id)
		require.True(t, ok, c.id)
		require.Equal(t, []string{c.tenant, c.key}, []string{tenant, key})
	}
	for _, id := range []string{
		"", "task", "task/", "task//", "task/acme", "task/acme/", "task//k", "Task/acme/k", " task/acme/k", "reconcile/acme/k/1", "budget/default",
		"task/.acme/k", "task/-/k", "task/ac me/k", "task/ac#me/k", "task/ac%2Fme/k", "task/äcme/k",
		"task/" + strings.Repeat("t", 65) + "/k", "task/acme/" + strings.Repeat("k", 256),
		"task/acme/ключ", "task/acme/k\n", "task/acme/\x00", "task/acme/\x7f", "task/acme/\xff", "task/acme/\t",
	} {
		_, _, ok := contract.ParseTaskID(id)
		require.False(t, ok, "%q", id)
	}
}

func TestReconcileIDs(t *testing.T) {
	for _, c := range []struct {
		tenant, key string
		attempt     int
		id          string
	}{
		{"acme", "inv-42", 1, "reconcile/acme/inv-42/1"},
		{"acme", "a/1", 12, "reconcile/acme/a/1/12"}, // the attempt is the last part
		{"acme", "/", 2, "reconcile/acme///2"},
		{"acme", "k#?%2F", 1 << 40, "reconcile/acme/k#?%2F/1099511627776"},
	} {
		require.Equal(t, c.id, contract.ReconcileID(c.tenant, c.key, c.attempt))
		tenant, key, attempt, ok := contract.ParseReconcileID(c.id)
		require.True(t, ok, c.id)
		require.Equal(t, []any{c.tenant, c.key, c.attempt}, []any{tenant, key, attempt})
	}
	for _, id := range []string{
		"", "reconcile/", "reconcile/acme/1", "reconcile/acme//1", "reconcile/acme/k/", "reconcile/acme/k/0", "reconcile/acme/k/-1", "reconcile/acme/k/+1",
		"reconcile/acme/k/01", "reconcile/acme/k/1 ", "reconcile/acme/k/one", "reconcile/acme/k/99999999999999999999", "task/acme/k/1", "reconcile/acme/ü/1",
	} {
		_, _, _, ok := contract.ParseReconcileID(id)
		require.False(t, ok, "%q", id)
	}
}

func TestOtherNames(t *testing.T) {
	require.Equal(t, "budget/default", contract.BudgetID(contract.DefaultBudget))
	require.Equal(t, "headgate-effects-http", contract.EffectsQueue("http"))
}

func TestCheckKeySaysWhatIsWrong(t *testing.T) {
	require.NoError(t, contract.CheckKey(strings.Repeat("~", 255)))
	require.EqualError(t, contract.CheckKey(""), "the request key is empty")
	require.EqualError(t, contract.CheckKey(strings.Repeat("k", 256)), "the request key has 256 bytes: at most 255 are allowed")
	require.EqualError(t, contract.CheckKey("ké"), "the request key holds byte 0xc3: only printable ASCII is allowed")
}

func TestCheckNameSaysWhatIsWrong(t *testing.T) {
	require.NoError(t, contract.CheckName("agent", "0.a_B-"))
	require.EqualError(t, contract.CheckName("agent", ""), "the agent is empty")
	require.EqualError(t, contract.CheckName("tenant", strings.Repeat("t", 65)), "the tenant has 65 bytes: at most 64 are allowed")
	require.ErrorContains(t, contract.CheckName("tenant", "a/b"), `holds '/' at byte 1`)
	require.ErrorContains(t, contract.CheckName("tenant", "-a"), "a letter or digit first")
}

var providerKey = regexp.MustCompile(`^hg-[a-z2-7]{32}$`)

// Providers remember these for as long as their window is: a task that is open
// over an upgrade must be sent with the same one.
func TestProviderKeysAreStable(t *testing.T) {
	for _, c := range []struct{ tenant, key, want string }{
		{"acme", "inv-42", "hg-idx2lv4jfh6c5rsoxxceiibtf7xi72yb"},
		{"globex", "inv-42", "hg-c65scokq3trrfyed6nb2wcibffenu5zv"},
		{"acme", "a/b", "hg-ags6aeq3owkosjxqhp6bet74qhtcc65c"},
		{"acme", " ", "hg-lm7ozrl6zzjjq6pw6vjbuwf7ompegmes"},
	} {
		require.Equal(t, c.want, contract.ProviderKey(c.tenant, c.key), "%s/%s", c.tenant, c.key)
	}
}

func FuzzIDs(f *testing.F) {
	for _, seed := range []struct {
		tenant, key string
		attempt     int
	}{
		{"acme", "inv-42", 1}, {"acme", "a/b/1", 3}, {"a/b", "c", 1}, {"", "", 0}, {"acme", "ключ", 2}, {".", "..", -1},
		{"acme", "#?%", 7}, {strings.Repeat("t", 64), strings.Repeat("k", 255), 9}, {strings.Repeat("t", 65), strings.Repeat("k", 256), 9},
	} {
		f.Add(seed.tenant, seed.key, seed.attempt)
	}
	f.Fuzz(func(t *testing.T, tenant, key string, attempt int) {
		valid := contract.CheckName("tenant", tenant) == nil && contract.CheckKey(key) == nil
		id := contract.TaskID(tenant, key)

		// What may be built can be taken apart again.
		gotTenant, gotKey, ok := contract.ParseTaskID(id)
		if valid && (!ok || gotTenant != tenant || gotKey != key) {
			t.Errorf("%q is taken apart as %q and %q (%v)", id, gotTenant, gotKey, ok)
		}
		// What can be taken apart is made of valid parts, and of no others.
		if ok && (contract.CheckName("tenant", gotTenant) != nil || contract.CheckKey(gotKey) != nil || contract.TaskID(gotTenant, gotKey) != id) {
			t.Errorf("%q is taken apart as %q and %q, which do not make it", id, gotTenant, gotKey)
		}
		child := contract.ReconcileID(tenant, key, attempt)
		rTenant, rKey, rAttempt, rOK := contract.ParseReconcileID(child)
		if valid && attempt > 0 && (!rOK || rTenant != tenant || rKey != key || rAttempt != attempt) {
			t.Errorf("%q is taken apart as %q, %q and %d (%v)", child, rTenant, rKey, rAttempt, rOK)
		}
		if rOK && contract.ReconcileID(rTenant, rKey, rAttempt) != child {
			t.Errorf("%q is taken apart as %q, %q and %d, which do not make it", child, rTenant, rKey, rAttempt)
		}
		// Free text, too.
		for _, text := range []string{tenant, key} {
			if a, b, ok := contract.ParseTaskID(text); ok && contract.TaskID(a, b) != text {
				t.Errorf("%q is taken apart as %q and %q", text, a, b)
			}
			if a, b, n, ok := contract.ParseReconcileID(text); ok && contract.ReconcileID(a, b, n) != text {
				t.Errorf("%q is taken apart as %q, %q and %d", text, a, b, n)
			}
		}
		if k := contract.ProviderKey(tenant, key); len(k) != 35 || !providerKey.MatchString(k) {
			t.Errorf("the provider key of %q is %q", id, k)
		}
	})
}
