package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing that is wrong with a file, at one place.
type Error struct {
	File    string
	Line    int    // from 1
	Column  int    // from 1, in characters
	Path    string // the field, such as operations.charge_card.timeout; empty: the file
	Message string // what is wrong and what to do
}

func (e Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", e.File, e.Line, e.Column, e.Path, e.Message)
}

// Errors is everything that is wrong with a file, in the order of its lines.
type Errors []Error

// Error has one line an error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// place is a position in a file.
type place struct{ line, column int }

// report collects the errors of one file.
type report struct {
	file   string
	errors Errors
}

func (r *report) add(at place, path, format string, args ...any) {
	r.errors = append(r.errors, Error{
		File: r.file, Line: max(1, at.line), Column: max(1, at.column), Path: path, Message: fmt.Sprintf(format, args...),
	})
}

// nearest finds the word that is meant by a misspelt one; empty: none is near.
func nearest(word string, words []string) string {
	best, limit := "", min(2, (len(word)+1)/3)
	for _, w := range words {
		if d := distance(word, w, limit); d <= limit {
			best, limit = w, d-1
		}
	}
	return best
}

// distance is the Levenshtein distance of two words in bytes, or more than limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			swap := corner
			if a[i] != b[j] {
				swap++
			}
			corner = row[j+1]
			row[j+1] = min(swap, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
