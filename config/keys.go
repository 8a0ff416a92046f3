package config

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"headgate/contract"
)

// Roles of API keys. Each is separate; submit and operate may look, too.
const (
	RoleView    = "view"    // read tasks
	RoleSubmit  = "submit"  // ask for tasks
	RoleOperate = "operate" // give orders: cancel, resolve, approve, pause, freeze, configure
)

var roles = []string{RoleOperate, RoleSubmit, RoleView}

// AllTenants is the tenant of a key that is bound to none.
const AllTenants = "*"

const (
	// keyPrefix lets scanners for leaked secrets know a key.
	keyPrefix = "hgk_"
	hashName  = "sha256:"
	// maxKeys bounds a file: each request is compared with all of them.
	maxKeys = 4096
)

// Key is one entry of a file of API keys. The key itself is not in it.
type Key struct {
	Name   string            // who it is given to: the actor of its orders
	Hash   [sha256.Size]byte // of the whole text of the key
	Tenant string            // or AllTenants
	Roles  []string          // sorted
}

// Keys are the entries of one file.
type Keys []Key

// NewKey makes a key of 256 random bits and its entry. The text is nowhere else.
func NewKey(name, tenant string, roles []string) (text string, entry Key) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	text = keyPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	roles = slices.Sorted(slices.Values(roles))
	return text, Key{Name: name, Hash: sha256.Sum256([]byte(text)), Tenant: tenant, Roles: roles}
}

// Line is the entry as a file has it.
func (k Key) Line() string {
	return strings.Join([]string{k.Name, hashName + hex.EncodeToString(k.Hash[:]), k.Tenant, strings.Join(k.Roles, ",")}, " ")
}

// Find looks a key up. How long it takes tells nothing of which entry it is, nor
// how near a wrong text is to one: hashes are compared, with all entries, in
// constant time.
func (k Keys) Find(text string) (found Key, ok bool) {
	sum := sha256.Sum256([]byte(text))
	for i := range k {
		if subtle.ConstantTimeCompare(sum[:], k[i].Hash[:]) == 1 {
			found, ok = k[i], true
		}
	}
	return found, ok
}

// LoadKeys reads a file of API keys. An error is Errors if the file could be read.
func LoadKeys(path string) (Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the API keys: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the API keys: %w", err)
	}
	return ParseKeys(path, data)
}

// ParseKeys reads entries, one a line: name, hash, tenant, and roles with commas
// between. Empty lines and lines that begin with # are left out. A name may have
// several keys of the same rights, while one is exchanged for another. No entry
// at all is valid, and lets nobody in. An error is Errors.
func ParseKeys(name string, data []byte) (Keys, error) {
	r := &report{file: name}
	if len(data) > maxBytes {
		r.add(place{1, 1}, "", "the file has more than %d bytes: make it smaller", maxBytes)
		return nil, r.errors
	}
	var out Keys
	for i, line := range strings.Split(string(data), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		at := place{i + 1, 1}
		k, wrong := parseKey(words)
		if wrong == "" {
			wrong = out.clash(k)
		}
		switch {
		case wrong != "":
			r.add(at, "", "%s", wrong)
		case len(out) == maxKeys:
			r.add(at, "", "there are more than %d keys: remove some", maxKeys)
			return nil, r.errors
		default:
			out = append(out, k)
		}
	}
	if len(r.errors) > 0 {
		return nil, r.errors
	}
	return out, nil
}

func parseKey(words []string) (k Key, wrong string) {
	if len(words) != 4 {
		return k, fmt.Sprintf("the entry has %d words: want NAME %sHASH TENANT ROLE, as `headgate keys new` prints it", len(words), hashName)
	}
	if err := CheckKeyName(words[0]); err != nil {
		return k, err.Error()
	}
	digits, named := strings.CutPrefix(words[1], hashName)
	sum, err := hex.DecodeString(digits)
	if !named || err != nil || len(sum) != sha256.Size {
		return k, "the second word is no hash: want " + hashName + " and 64 hexadecimal digits, not the key itself"
	}
	k = Key{Name: words[0], Hash: [sha256.Size]byte(sum), Tenant: words[2], Roles: slices.Sorted(slices.Values(strings.Split(words[3], ",")))}
	return k, wrongRights(k.Tenant, k.Roles)
}

// CheckRights refuses a tenant that is none, and words that are no roles.
func CheckRights(tenant string, roles []string) error {
	if wrong := wrongRights(tenant, roles); wrong != "" {
		return fmt.Errorf("%s", wrong)
	}
	return nil
}

func wrongRights(tenant string, list []string) string {
	if tenant != AllTenants {
		if err := contract.CheckName("tenant", tenant); err != nil {
			return err.Error() + "; for all tenants write " + AllTenants
		}
	}
	if len(list) == 0 {
		return "there is no role: write " + strings.Join(roles, ", ")
	}
	for i, role := range list {
		switch {
		case !slices.Contains(roles, role):
			return fmt.Sprintf("%q is no role: write %s", role, strings.Join(roles, ", "))
		case slices.Contains(list[:i], role):
			return role + " is there twice"
		}
	}
	return ""
}

// CheckKeyName refuses a name that could not stand in a log and a history as the
// actor of an order: want 1 to 128 printable ASCII characters without blanks.
func CheckKeyName(name string) error {
	bad := strings.IndexFunc(name, func(c rune) bool { return c <= ' ' || c > '~' })
	if name == "" || len(name) > maxActor || bad >= 0 || name[0] == '#' {
		return fmt.Errorf("%.40q cannot be the name of a key: want 1 to %d printable characters of ASCII, no blanks and no # in front", name, maxActor)
	}
	return nil
}

// clash finds an entry that does not go with another one.
func (k Keys) clash(one Key) string {
	for _, other := range k {
		switch {
		case other.Hash == one.Hash:
			return fmt.Sprintf("the hash is the one of %s: each key is given to one", other.Name)
		case other.Name == one.Name && (other.Tenant != one.Tenant || !slices.Equal(other.Roles, one.Roles)):
			return fmt.Sprintf("%s is there with other rights: two keys of one name have the same tenant and roles", one.Name)
		}
	}
	return ""
}
