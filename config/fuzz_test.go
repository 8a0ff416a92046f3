package config

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever a file holds: a configuration that is valid, or errors with places.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"../headgate.yaml", "testdata/full.yaml"} {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add(base)
	for _, cut := range []int{10, 50, 100, 200, 300, 400} {
		f.Add(base[:cut])
		f.Add(base[cut:])
	}
	f.Add("a: &b [*b, *b]\n<<: *b\n")
	f.Add("? {a: b}\n: |\n  x\n")
	f.Add("{budget: {resources: {a: {concurrent: 1}}}, operations: {a: {type: http, cost: {a: payload.x}}}}")
	f.Fuzz(func(t *testing.T, data string) {
		c, err := Parse("fuzz.yaml", []byte(data))
		if err == nil {
			if err := c.Budget.Validate(); err != nil {
				t.Fatal(err)
			}
			if len(c.Operations) == 0 || c.PolicyDigest() == "" {
				t.Fatal("a good file has operations and a policy")
			}
			return
		}
		var all Errors
		if c != nil || !errors.As(err, &all) || len(all) == 0 {
			t.Fatalf("%v %v", c, err)
		}
		lines := strings.Count(data, "\n") + 1
		for i, e := range all {
			if e.Line < 1 || e.Line > lines || e.Column < 1 || e.Message == "" || e.File != "fuzz.yaml" {
				t.Fatalf("%d lines, error %#v", lines, e)
			}
			if i > 0 && e.Line < all[i-1].Line {
				t.Fatalf("not in order: %v", err)
			}
		}
	})
}

// Whatever a payload holds: an error, or one text that is stable, valid, and
// means what encoding/json reads.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", `{"b":[1,2.50,-0],"a":{"é":"\u20ac\ud83d\ude00"}}`, `{"a":1,"\u0061":2}`, `[9007199254740991,9007199254740993,1e20,1e-400]`,
		`"\ud800"`, "\"\xff\"", "[[[[[[]]]]]]", "1 2", `{"a":"\\","b":"\""}`, "[1e5,1E-7,0.1]", "\ufeff1", `{"":{"":[{}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := Canonical(in)
		if err != nil {
			if out != nil || len(err.Error()) > 300 {
				t.Fatalf("%q %v", out, err)
			}
			return
		}
		if !utf8.Valid(out) || !json.Valid(out) {
			t.Fatalf("%q", out)
		}
		again, err := Canonical(out)
		if err != nil || string(again) != string(out) {
			t.Fatalf("%q, again %q: %v", out, again, err)
		}
		if len(in) == 0 {
			return
		}
		var a, b any
		if err := errors.Join(json.Unmarshal(in, &a), json.Unmarshal(out, &b)); err != nil {
			t.Fatal(err)
		}
		first, _ := json.Marshal(a)
		second, _ := json.Marshal(b)
		// Only the sign of zero is lost.
		if strings.ReplaceAll(string(first), "-0", "0") != strings.ReplaceAll(string(second), "-0", "0") {
			t.Fatalf("%s is not %s", second, first)
		}
	})
}
