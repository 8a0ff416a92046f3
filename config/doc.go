// Package config reads headgate.yaml: the budget, the tenants and the
// operations. Everything is checked before anything starts, and every error has
// a line, a column and what to do about it; as many as possible come at once.
//
// A file is read strictly: unknown fields, fields that are there twice, empty
// fields and wrong types are errors, and so are anchors, aliases, tags and lists
// (nothing in the file is a list). A field that is left out has the default that
// defaults.go documents, which is the careful reading; a field that is written
// is meant.
//
// The package also holds what is decided by the file's expressions, which are
// CEL (https://cel.dev): costs over `payload` when a task is resolved, rules
// over `status` and `body` when an answer is judged. Each evaluation is bounded
// in work and time, whatever a payload or an answer holds.
package config
