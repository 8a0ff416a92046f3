package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", "null"},
		{"null", "null", "null"},
		{"white space", " \t\r\n { \"a\" : [ 1 , 2 ] } \n", `{"a":[1,2]}`},
		{"order of members", `{"b":1,"a":2,"aa":3,"A":4,"":5}`, `{"":5,"A":4,"a":2,"aa":3,"b":1}`},
		{"order inside", `[{"b":{"d":1,"c":2}}]`, `[{"b":{"c":2,"d":1}}]`},
		{"order of elements stays", `[3,1,2]`, `[3,1,2]`},
		{"order by UTF-16, not by code point", "{\"\uFB33\":1,\"\U0001F600\":2,\"\u20ac\":3,\"\\r\":4,\"1\":5,\"\u0080\":6,\"\u00f6\":7}",
			"{\"\\r\":4,\"1\":5,\"\u0080\":6,\"\u00f6\":7,\"\u20ac\":3,\"\U0001F600\":2,\"\uFB33\":1}"},
		{"one", `[1,1.0,1e0,10e-1,0.1e1,1E+0]`, `[1,1,1,1,1,1]`},
		{"minus zero", `[0,-0,-0.0,0e5,-0e-5]`, `[0,0,0,0,0]`},
		{"shortest fraction", `[0.1,1.10,3.333333333333333333333,1e-6,1e-7,0.000001234,123e-20]`, `[0.1,1.1,3.3333333333333335,0.000001,1e-7,0.000001234,1.23e-18]`},
		{"largest whole numbers", `[9007199254740991,-9007199254740991,9.007199254740991e15]`, `[9007199254740991,-9007199254740991,9007199254740991]`},
		{"smallest number", `[5e-324,4.9406564584124654e-324]`, `[5e-324,5e-324]`},
		{"escapes", `"\u0041\/\u20ac\u00e9\"\\\b\f\n\r\t\u001F\u007f"`, "\"A/\u20ac\u00e9\\\"\\\\\\b\\f\\n\\r\\t\\u001f\u007f\""},
		{"no escape of HTML", `"<&>\u2028"`, "\"<&>\u2028\""},
		{"a pair of surrogates", `"\ud83d\ude00"`, "\"\U0001F600\""},
		{"noncharacters stay", `"\uffff\ufdd0"`, "\"\uffff\ufdd0\""},
		{"no normalization", "[\"e\u0301\",\"\u00e9\"]", "[\"e\u0301\",\"\u00e9\"]"},
		{"numbers in strings", `{"9007199254740993":"1e400"}`, `{"9007199254740993":"1e400"}`},
		{"quotes and brackets in strings", `["\"[{","\\"]`, `["\"[{","\\"]`},
		{"deep", strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 64) + strings.Repeat("]", 64)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Canonical([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"white space only", " ", "not I-JSON"},
		{"not JSON", "{a:1}", "not I-JSON"},
		{"single quotes", "{'a':1}", "not I-JSON"},
		{"comma at the end", "[1,]", "not I-JSON"},
		{"comment", "[1] // one", "not I-JSON"},
		{"cut off", `{"a":[1`, "not I-JSON"},
		{"string cut off in an escape", `"\`, "not I-JSON"},
		{"text after the value", `{} {}`, "not I-JSON"},
		{"byte order mark", "\ufeff{}", "not I-JSON"},
		{"names twice", `{"a":1,"a":1}`, "Duplicate key"},
		{"names twice, one escaped", `{"a":1,"\u0061":2}`, "Duplicate key"},
		{"names twice, inside", `[{"x":{"":1,"":2}}]`, "Duplicate key"},
		{"high surrogate alone", `"\ud800"`, "not I-JSON"},
		{"high surrogate before text", `"\ud800abcdef"`, "urrogate"},
		{"low surrogate alone", `"\udc00"`, "surrogate"},
		{"surrogates in the wrong order", `"\udc00\ud800"`, "surrogate"},
		{"surrogate in a name", `{"\ud800x":1}`, "urrogate"},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", "UTF-8"},
		{"bad UTF-8", "\"\xff\"", "UTF-8"},
		{"overlong UTF-8", "\"\xc0\xaf\"", "UTF-8"},
		{"control character", "\"a\nb\"", "not I-JSON"},
		{"NaN", "NaN", "not I-JSON"},
		{"infinity", "-Infinity", "not I-JSON"},
		{"overflow", "[1e400]", "out of range"},
		{"overflow, negative", "-1e400", "out of range"},
		{"underflow", `{"a":1e-400}`, "number at byte 5 is too small"},
		{"2^53", "9007199254740992", "beyond 2^53-1"},
		{"2^53 + 1", "[9007199254740993]", "number at byte 1 is a whole number beyond 2^53-1"},
		{"-2^53", "-9007199254740992", "beyond 2^53-1"},
		{"2^53 with a fraction", "9007199254740993.0", "beyond 2^53-1"},
		{"1e20", "1e20", "beyond 2^53-1"},
		{"1e300", `{"a":{"b":1e300}}`, "beyond 2^53-1"},
		{"leading zero", "01", "not I-JSON"},
		{"plus", "+1", "not I-JSON"},
		{"bare point", "1.", "not I-JSON"},
		{"hexadecimal", "0x10", "not I-JSON"},
		{"underscore", "1_000", "not I-JSON"},
		{"too deep", strings.Repeat("[", 65) + strings.Repeat("]", 65), "nested deeper than 64"},
		{"too deep, mixed", strings.Repeat(`{"a":[`, 33) + strings.Repeat("]}", 33), "nested deeper than 64"},
		{"very deep", strings.Repeat("[", 1<<20), "nested deeper than 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Canonical([]byte(c.in))
			require.ErrorContains(t, err, c.want)
			require.Nil(t, got)
			require.Less(t, len(err.Error()), 200)
		})
	}
}

// writeJSON writes a random value twice, as two texts that mean the same.
func writeJSON(r *rand.Rand, depth int) (a, b string) {
	switch n := r.IntN(8); {
	case n == 0:
		return "null", "null"
	case n == 1:
		return "true", " true"
	case n == 2:
		whole := r.Int64N(2*maxExact) - maxExact
		return strconv.FormatInt(whole, 10), strconv.FormatInt(whole, 10) + ".000"
	case n == 3:
		f := r.NormFloat64()
		return strconv.FormatFloat(f, 'g', -1, 64), strconv.FormatFloat(f, 'e', 20, 64)
	case n == 4 || depth == 0:
		s := string(rune(r.IntN(0x2000) + 1))
		plain, _ := json.Marshal(s)
		return string(plain), fmt.Sprintf(`"\u%04X"`, []rune(s)[0])
	case n <= 6:
		var as, bs []string
		for i := range r.IntN(6) {
			va, vb := writeJSON(r, depth-1)
			as = append(as, fmt.Sprintf(`"k%d": %s`, i, va))
			bs = append(bs, fmt.Sprintf(`"\u006b%d":%s`, i, vb))
		}
		r.Shuffle(len(bs), func(i, j int) { bs[i], bs[j] = bs[j], bs[i] })
		return "{" + strings.Join(as, ",") + "}", "{\n" + strings.Join(bs, "\t,") + "}"
	default:
		var as, bs []string
		for range r.IntN(5) {
			va, vb := writeJSON(r, depth-1)
			as, bs = append(as, va), append(bs, vb)
		}
		return "[" + strings.Join(as, ",") + "]", "[ " + strings.Join(bs, " , ") + " ]"
	}
}

func TestCanonicalIsOneTextForOneValue(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	for range 3000 {
		a, b := writeJSON(r, 4)
		first, err := Canonical([]byte(a))
		require.NoError(t, err, a)
		second, err := Canonical([]byte(b))
		require.NoError(t, err, b)
		require.Equal(t, string(first), string(second))
		again, err := Canonical(first)
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
}

// Large payloads of awkward shapes: quadratic work would show as a time-out.
func TestCanonicalOfLargePayloads(t *testing.T) {
	const n = 1 << 17
	var names strings.Builder
	for i := 0; names.Len() < n; i++ {
		fmt.Fprintf(&names, `"%s%d":1,`, strings.Repeat("a", 40), i)
	}
	for name, in := range map[string]string{
		"elements":  "[" + strings.Repeat("1,", n/2) + "1]",
		"objects":   "[" + strings.Repeat("{},", n/3) + "{}]",
		"members":   "{" + names.String() + `"z":1}`,
		"digits":    "0." + strings.Repeat("1", n),
		"escapes":   `"` + strings.Repeat(`\u00e9`, n/6) + `"`,
		"space":     strings.Repeat(" ", n) + "1",
		"backslash": `"` + strings.Repeat(`\\`, n/2) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Canonical([]byte(in))
			require.NoError(t, err)
			require.True(t, json.Valid(out))
		})
	}
}

func TestHash(t *testing.T) {
	// Histories hold these values: they never change.
	require.Equal(t, "sha256:c27ebd8203b55926d2fce831b3ca181aea4f71b6bf94d46b1af998e5cab62040", Hash("charge_card", []byte(`{"amount":1200,"currency":"EUR"}`)))
	require.Equal(t, "sha256:", Hash("", nil)[:7])

	seen := map[string]string{}
	for _, pair := range [][2]string{{"ab", "c"}, {"a", "bc"}, {"", "abc"}, {"abc", ""}, {"a", ""}, {"", "a"}, {"a", "null"}, {"a\x00", ""}, {"a", "\x00"}} {
		h := Hash(pair[0], []byte(pair[1]))
		require.Empty(t, seen[h])
		seen[h] = fmt.Sprint(pair)
	}
}

func TestCanonicalLeavesItsInputAlone(t *testing.T) {
	in := []byte(`{"b":1,"a":1.0}`)
	before := bytes.Clone(in)
	out, err := Canonical(in)
	require.NoError(t, err)
	require.Equal(t, before, in)
	out[0] = 'x'
	require.Equal(t, before, in)
}
