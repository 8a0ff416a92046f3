package contract

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	hostPort = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
	portEnd  = regexp.MustCompile(`:[0-9]+$`)
)

var patternMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// RequestPattern tells which requests of a page are meant: "POST
// https://shop.example/orders", or an address alone for GET and HEAD. In the
// path and the query, * is any text without / and ?, ** is any text.
// The text is in one form: the host in lower case, a default port left out.
type RequestPattern string

// ParseRequestPattern refuses a pattern that could mean another host than the one
// that is written.
func ParseRequestPattern(text string) (RequestPattern, error) {
	method, address, both := strings.Cut(strings.TrimSpace(text), " ")
	if !both {
		method, address = "", method
	} else if !slices.Contains(patternMethods, method) {
		return "", fmt.Errorf("%q does not begin with a method: write %s, or the address alone for GET and HEAD", text, strings.Join(patternMethods, ", "))
	}
	address = strings.TrimSpace(address)
	scheme, rest, _ := strings.Cut(address, "://")
	host, path, slash := strings.Cut(rest, "/")
	switch {
	case scheme != "http" && scheme != "https" || !hostPort.MatchString(host):
		return "", fmt.Errorf("%q is not an absolute address with its host written out: write http://host/path or https://host/path", text)
	case strings.ContainsAny(path, "# {}"):
		return "", fmt.Errorf("%q holds a space, a # or a brace: write only what a request has", text)
	case !slash:
		return "", fmt.Errorf("%q has no path: write %s/** for all of the host", text, address)
	}
	// Browsers write it so.
	host = strings.TrimSuffix(strings.ToLower(host), map[string]string{"http": ":80", "https": ":443"}[scheme])
	address = scheme + "://" + host + "/" + path
	if method != "" {
		address = method + " " + address
	}
	return RequestPattern(address), nil
}

// ParseRequestPatterns parses all.
func ParseRequestPatterns(texts []string) ([]RequestPattern, error) {
	out := make([]RequestPattern, len(texts))
	for i, t := range texts {
		p, err := ParseRequestPattern(t)
		if err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

// Match tells whether a request is meant; its address is as the browser writes it.
func (p RequestPattern) Match(method, address string) bool {
	want, pattern, both := strings.Cut(string(p), " ")
	if !both {
		want, pattern = "", want
	}
	if pattern == "" || want != method && (want != "" || method != "GET" && method != "HEAD") {
		return false
	}
	address, _, _ = strings.Cut(address, "#")
	return glob(pattern, address)
}

// Host is the host and port that the pattern names; empty for the zero value.
func (p RequestPattern) Host() string {
	_, address, both := strings.Cut(string(p), " ")
	if !both {
		address = string(p)
	}
	scheme, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	switch {
	case host == "" || portEnd.MatchString(host):
	case scheme == "https":
		host += ":443"
	default:
		host += ":80"
	}
	return host
}

// glob matches without going back over more than one star: each star of a kind
// is retried from where it last matched.
func glob(pattern, text string) bool {
	star, resume := -1, 0
	deep, deepResume := -1, 0
	i, j := 0, 0
	for j < len(text) {
		switch {
		case strings.HasPrefix(pattern[i:], "**"):
			i += 2
			deep, deepResume, star = i, j, -1
		case i < len(pattern) && pattern[i] == '*':
			i++
			star, resume = i, j
		case i < len(pattern) && pattern[i] == text[j]:
			i++
			j++
		case star >= 0 && text[resume] != '/' && text[resume] != '?':
			resume++
			i, j = star, resume
		case deep >= 0:
			deepResume++
			i, j, star = deep, deepResume, -1
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}
