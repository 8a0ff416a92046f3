package config

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestKeys(t *testing.T) {
	text, entry := NewKey("mara@example.com", "acme", []string{"submit", "operate"})
	again, other := NewKey("mara@example.com", "acme", []string{"operate", "submit"})
	require.NotEqual(t, text, again)
	require.Len(t, text, len("hgk_")+43, "256 bits")
	require.NotContains(t, entry.Line(), text)

	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("# people\n\n"+entry.Line()+"\r\n"+other.Line()+"\n  ci\t"+hashOf("x")+" *  view\n"), 0o600))
	keys, err := LoadKeys(path)
	require.NoError(t, err)
	require.Len(t, keys, 3)
	for _, mine := range []string{text, again} {
		k, ok := keys.Find(mine)
		require.True(t, ok)
		assert.Equal(t, []string{"mara@example.com", "acme", "operate,submit"}, []string{k.Name, k.Tenant, strings.Join(k.Roles, ",")})
	}
	k, ok := keys.Find("x")
	require.True(t, ok)
	assert.Equal(t, AllTenants, k.Tenant)
	for _, wrong := range []string{"", text[:len(text)-1], text + " ", strings.ToUpper(text), entry.Line(), strings.Fields(entry.Line())[1]} {
		_, ok := keys.Find(wrong)
		assert.False(t, ok, wrong)
	}
	_, err = LoadKeys(filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "read the API keys")
	none, err := ParseKeys("keys", []byte("# nobody\n"))
	require.NoError(t, err)
	_, ok = none.Find(text)
	assert.False(t, ok)
}

func TestKeysRefused(t *testing.T) {
	good := "ci " + hashOf("x") + " acme view"
	for line, want := range map[string]string{
		"ci":                                           "the entry has 1 words",
		good + " extra":                                "the entry has 5 words",
		"ci hgk_secret acme view":                      "the second word is no hash",
		"ci sha256:00 acme view":                       "the second word is no hash",
		"ci " + hashOf("y")[7:] + " acme view":         "the second word is no hash",
		"ci " + hashOf("y") + " a/b view":              "for all tenants write *",
		"ci " + hashOf("y") + " acme admin":            `"admin" is no role`,
		"ci " + hashOf("y") + " acme view,":            `"" is no role`,
		"ci " + hashOf("y") + " acme view,view":        "view is there twice",
		"c\u00ef " + hashOf("y") + " acme view":        "cannot be the name of a key",
		"two " + hashOf("x") + " acme view":            "the hash is the one of ci",
		"ci " + hashOf("y") + " globex view":           "ci is there with other rights",
		"ci " + hashOf("y") + " acme view,submit":      "ci is there with other rights",
		strings.Repeat("n", 129) + " sha256:00 a view": "cannot be the name of a key",
	} {
		_, err := ParseKeys("keys", []byte(good+"\n"+line+"\n"))
		require.ErrorContains(t, err, "keys:2:1: ", line)
		assert.ErrorContains(t, err, want, line)
		assert.NotContains(t, err.Error(), "hgk_secret", "what may be a key is not repeated")
	}
	_, err := ParseKeys("keys", []byte(strings.Repeat("x", maxBytes+1)))
	assert.ErrorContains(t, err, "more than")
}
