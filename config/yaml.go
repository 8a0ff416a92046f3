package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// kind is what a node is, in the words of the errors.
type kind string

const (
	mapping  kind = "a mapping"
	text     kind = "text"
	whole    kind = "a whole number"
	fraction kind = "a number"
	truth    kind = "true or false"
	nothing  kind = "nothing"
)

// node is a value of the file, as far as this package has use for YAML.
type node struct {
	place
	kind   kind
	text   string  // of a scalar, as it is written for all but text
	fields []field // of a mapping
}

type field struct {
	place
	name  string
	value *node
}

// parseYAML reads a file that holds one mapping. It gives nil after errors that
// leave nothing to go on with.
func parseYAML(r *report, data []byte) *node {
	if !checkText(r, data) {
		return nil
	}
	tokens := lexer.Tokenize(string(data))
	if !checkTokens(r, tokens) {
		return nil
	}
	file, err := parseTokens(tokens)
	if err != nil {
		var known yaml.Error
		at := place{1, 1}
		message := err.Error()
		if errors.As(err, &known) {
			at, message = placeOf(known.GetToken()), known.GetMessage()
		}
		r.add(at, "", "this is not YAML: %s; check the indentation, the quotes and the brackets here", message)
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			root = doc.Body
		}
	}
	if root == nil {
		r.add(place{1, 1}, "", "the file is empty: declare a budget and operations")
		return nil
	}
	n := convert(r, "", root)
	if n.kind != mapping {
		r.add(n.place, "", "the file is %s: write a mapping with budget and operations", n.kind)
		return nil
	}
	return n
}

// checkText bounds the size and refuses bytes that are no text.
func checkText(r *report, data []byte) bool {
	if len(data) > maxBytes {
		r.add(place{1, 1}, "", "the file has more than %d bytes: make it smaller", maxBytes)
		return false
	}
	blank := 0
	for i, line := range strings.Split(string(data), "\n") {
		at := place{i + 1, 1}
		for j, c := range line {
			if c == utf8.RuneError {
				if _, size := utf8.DecodeRuneInString(line[j:]); size <= 1 {
					r.add(at, "", "the file is not UTF-8: save it as UTF-8")
					return false
				}
			}
			if c < ' ' && c != '\t' && (c != '\r' || j < len(line)-1) || c == 0x7f || c == 0xfeff {
				r.add(at, "", "the file holds the control character U+%04X: remove it", c)
				return false
			}
			at.column++
		}
		if strings.TrimSpace(line) == "" {
			if blank++; blank > maxBlank {
				r.add(at, "", "the file has more than %d empty lines: remove some", maxBlank)
				return false
			}
		}
	}
	return true
}

// checkTokens refuses the parts of YAML that this file has no use for, and that
// make it hard to read for people (and for parsers).
func checkTokens(r *report, tokens token.Tokens) bool {
	before := len(r.errors)
	if len(tokens) > maxTokens {
		r.add(placeOf(tokens[maxTokens]), "", "the file has more than %d words: make it smaller", maxTokens)
		return false
	}
	depth, content := 0, false
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			r.add(placeOf(t), "", "anchors, aliases and merge keys are not allowed: write the value out")
		case token.TagType, token.DirectiveType:
			r.add(placeOf(t), "", "tags and directives are not allowed: remove %q", t.Value)
		case token.SequenceEntryType, token.SequenceStartType:
			r.add(placeOf(t), "", "no field takes a list: write a mapping")
		case token.MappingKeyType:
			r.add(placeOf(t), "", "keys with %q are not allowed: write `name: value`", "?")
		case token.DocumentHeaderType, token.DocumentEndType:
			if content || t.Type == token.DocumentEndType {
				r.add(placeOf(t), "", "the file holds one document: remove %q and what follows", t.Value)
			}
		case token.MappingStartType:
			if depth++; depth > maxDepth {
				r.add(placeOf(t), "", "braces are nested deeper than %d: write the mapping flat", maxDepth)
				return false
			}
		case token.MappingEndType:
			depth--
		}
		if t.Type != token.CommentType {
			content = true
		}
		if len(r.errors)-before >= 100 {
			return false
		}
	}
	return len(r.errors) == before
}

// parseTokens turns a panic of the parser, which has had some on broken input,
// into an error: a broken file must be refused, whatever it is.
func parseTokens(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up (%v)", p)
		}
	}()
	// Fields that are there twice are found in convert, all of them.
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

func convert(r *report, path string, n ast.Node) *node {
	at := placeOf(n.GetToken())
	switch n := n.(type) {
	case *ast.MappingNode:
		out := &node{place: at, kind: mapping}
		seen := map[string]place{}
		for _, v := range n.Values {
			key := placeOf(v.Key.GetToken())
			name := v.Key.GetToken().Value
			if first, twice := seen[name]; twice {
				r.add(key, join(path, name), "it is there twice, first in line %d: remove one", first.line)
				continue
			}
			seen[name] = key
			out.fields = append(out.fields, field{key, name, convert(r, join(path, name), v.Value)})
		}
		if len(out.fields) > 0 && !n.IsFlowStyle {
			out.place = out.fields[0].place
		}
		return out
	case *ast.StringNode:
		return &node{place: at, kind: text, text: n.Value}
	case *ast.LiteralNode:
		return &node{place: at, kind: text, text: n.Value.Value}
	case *ast.IntegerNode:
		return &node{place: at, kind: whole, text: n.GetToken().Value}
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return &node{place: at, kind: fraction, text: n.GetToken().Value}
	case *ast.BoolNode:
		return &node{place: at, kind: truth, text: n.GetToken().Value}
	case *ast.NullNode:
		return &node{place: at, kind: nothing}
	}
	r.add(at, path, "this kind of YAML is not allowed: write a mapping, text or a number")
	return &node{place: at, kind: nothing}
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
