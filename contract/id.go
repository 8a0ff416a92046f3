package contract

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxKey is the longest request key, in bytes.
const MaxKey = 255

// MaxName is the longest tenant, agent or operation name, in bytes.
const MaxName = 64

// TaskID is the workflow ID of a task. A tenant holds no slash, so the key may.
func TaskID(tenant, key string) string { return "task/" + tenant + "/" + key }

// ParseTaskID is the inverse of TaskID.
func ParseTaskID(id string) (tenant, key string, ok bool) {
	rest, ok := strings.CutPrefix(id, "task/")
	if !ok {
		return "", "", false
	}
	tenant, key, ok = strings.Cut(rest, "/")
	if !ok || CheckName("tenant", tenant) != nil || CheckKey(key) != nil {
		return "", "", false
	}
	return tenant, key, true
}

// ReconcileID is the workflow ID of the reconciliation of one attempt.
func ReconcileID(tenant, key string, attempt int) string {
	return fmt.Sprintf("reconcile/%s/%s/%d", tenant, key, attempt)
}

// ParseReconcileID is the inverse of ReconcileID.
func ParseReconcileID(id string) (tenant, key string, attempt int, ok bool) {
	rest, ok := strings.CutPrefix(id, "reconcile/")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", "", 0, false
	}
	attempt, err := strconv.Atoi(rest[i+1:])
	if err != nil || attempt < 1 || strconv.Itoa(attempt) != rest[i+1:] {
		return "", "", 0, false
	}
	tenant, key, ok = ParseTaskID("task/" + rest[:i])
	return tenant, key, attempt, ok
}

// BudgetID is the workflow ID of a budget.
func BudgetID(name string) string { return "budget/" + name }

// CheckKey refuses a request key that is empty, longer than MaxKey bytes, or
// holds anything but printable ASCII: it travels in a header field.
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("the request key is empty")
	}
	if len(key) > MaxKey {
		return fmt.Errorf("the request key has %d bytes: at most %d are allowed", len(key), MaxKey)
	}
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7e {
			return fmt.Errorf("the request key holds byte 0x%02x: only printable ASCII is allowed", key[i])
		}
	}
	return nil
}

// CheckName refuses a tenant, agent or operation name that is empty, longer
// than MaxName bytes, or holds anything but letters, digits, '.', '_' and '-',
// or starts with one of the last three.
func CheckName(what, name string) error {
	if name == "" {
		return fmt.Errorf("the %s is empty", what)
	}
	if len(name) > MaxName {
		return fmt.Errorf("the %s has %d bytes: at most %d are allowed", what, len(name), MaxName)
	}
	for i := range len(name) {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return fmt.Errorf("the %s %q holds %q at byte %d: want letters, digits, '.', '_' or '-', and a letter or digit first", what, name, c, i)
		}
	}
	return nil
}
