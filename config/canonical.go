package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

const (
	// maxNesting is how deep arrays and objects of a payload may be nested.
	maxNesting = 64
	// maxExact is the largest whole number that every JSON reader agrees on.
	maxExact = 1<<53 - 1
)

// Canonical gives the one text of a JSON value by RFC 8785 (JCS), so that texts
// of equal values have equal hashes: members are sorted, white space is gone, 1,
// 1.0 and 1e0 are 1, -0 is 0. An empty payload is null. The result is new, and
// canonical again.
//
// What JSON readers do not agree on is refused (I-JSON, RFC 7493): names that
// are there twice, lone surrogates, bytes that are not UTF-8, text after the
// value, nesting deeper than 64, and numbers that a float64 cannot hold: whole
// ones beyond 2^53-1 in either direction, however they are written (1e20 is
// one), overflow, and what would underflow to 0. Send such numbers as strings.
// Fractions are rounded to the nearest float64, as RFC 8785 has it. Noncharacters
// of Unicode, which RFC 7493 also rules out, are kept: they are unambiguous.
//
// The work is linear in the payload but for the sorting of members.
func Canonical(payload []byte) ([]byte, error) {
	if len(payload) == 0 {
		return []byte("null"), nil
	}
	if err := checkJSON(payload); err != nil {
		return nil, err
	}
	out, err := jcs.Transform(payload)
	if err != nil {
		return nil, fmt.Errorf("the payload is not I-JSON: %w", err)
	}
	return out, nil
}

// checkJSON checks what jcs does not: depth and numbers. It trusts the text to
// be JSON, since jcs refuses it afterwards if it is not.
func checkJSON(b []byte) error {
	depth := 0
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case c == '{' || c == '[':
			if depth++; depth > maxNesting {
				return fmt.Errorf("the payload is nested deeper than %d at byte %d", maxNesting, i)
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(b) && strings.IndexByte("0123456789+-.eE", b[end]) >= 0 {
				end++
			}
			if err := checkNumber(string(b[i:end])); err != nil {
				return fmt.Errorf("the number at byte %d %w", i, err)
			}
			i = end
			continue
		}
		i++
	}
	return nil
}

func checkNumber(s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil // jcs refuses it: syntax or overflow
	}
	if math.Abs(f) > maxExact && f == math.Trunc(f) {
		return fmt.Errorf("is a whole number beyond 2^53-1: send it as a string")
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
	if f == 0 && strings.ContainsAny(mantissa, "123456789") {
		return fmt.Errorf("is too small for a float64: send it as a string")
	}
	return nil
}

// Hash identifies what is asked for: an operation and a canonical payload, each
// after its length, so that no two pairs run together. Histories hold it.
func Hash(operation string, canonical []byte) string {
	h := sha256.New()
	var length [8]byte
	for _, part := range [][]byte{[]byte(operation), canonical} {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
