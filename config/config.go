package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"headgate/admission"
	"headgate/contract"
)

// Config is one file, checked. It is not changed after Parse, so that it may be
// used by many goroutines.
type Config struct {
	Budget     admission.Policy `json:"budget"`     // normalized and valid
	Operations []Operation      `json:"operations"` // sorted by name
	Gateway    Gateway          `json:"gateway"`
	Temporal   Temporal         `json:"temporal"`
	People     People           `json:"people,omitempty"`
	Network    Network          `json:"network,omitzero"`
	Types      []string         `json:"types,omitempty"` // of your own, sorted
}

// Gateway is how the HTTP door listens.
type Gateway struct {
	Listen  string `json:"listen"`             // host:port
	APIKeys string `json:"api_keys,omitempty"` // a file, see ParseKeys; empty: the door is open
}

// Temporal is where the server is. Empty fields are decided by the environment.
type Temporal struct {
	Address   string `json:"address,omitempty"` // host:port
	Namespace string `json:"namespace,omitempty"`
	UI        string `json:"ui,omitempty"` // base URL of its Web UI, which the console links to; empty: no links
}

// Operation is one declared operation. Declared holds no cost: costs depend on
// the payload, and Resolve puts them in.
type Operation struct {
	Declared contract.Operation `json:"declared"`
	Costs    []Cost             `json:"costs,omitempty"` // sorted by resource
}

// Load reads and checks a file. An error is Errors if the file could be read.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse checks a file's text; name stands in the errors. An error is Errors.
func Parse(name string, data []byte) (*Config, error) {
	r := &report{file: name}
	c := &Config{}
	if root := parseYAML(r, data); root != nil {
		c.read(newSection(r, place{1, 1}, "", root))
	}
	if len(r.errors) > 0 {
		r.errors.sort()
		return nil, r.errors
	}
	return c, nil
}

func (c *Config) read(s *section) {
	c.Budget = readBudget(s)
	c.Types = readTypes(s)
	c.Operations = readOperations(s, &c.Budget, c.Types)
	c.Budget = c.Budget.Normalize()
	if err := c.Budget.Validate(); err != nil && len(s.errors) == 0 {
		s.add(s.place, "budget", "%v", err) // a rule that this package does not know
	}

	c.People = readPeople(s.child("people"))

	c.Gateway.Listen = DefaultListen
	if g := s.child("gateway"); g != nil {
		if f, ok := g.field("listen"); ok {
			c.Gateway.Listen = g.address(f)
		}
		c.Gateway.APIKeys = g.text("api_keys")
		g.done()
	}
	c.Network = readNetwork(s.child("network"))
	if t := s.child("temporal"); t != nil {
		if f, ok := t.field("address"); ok {
			c.Temporal.Address = t.address(f)
		}
		c.Temporal.Namespace = t.text("namespace")
		if f, ok := t.field("ui"); ok {
			c.Temporal.UI = t.webURL(f)
		}
		t.done()
	}
	s.done()
}

// address is a field of the form host:port.
func (s *section) address(f field) string {
	t := s.textOf(f)
	if t == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(t)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || strconv.FormatUint(n, 10) != port || strings.ContainsAny(t, " /") {
		s.errorAt(f, "%q is not an address: write host:port, such as %s", t, DefaultListen)
	}
	return t
}

// webURL is a field that names a place for a browser.
func (s *section) webURL(f field) string {
	t := s.textOf(f)
	if t == "" {
		return ""
	}
	if u, err := url.Parse(t); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		s.errorAt(f, "%q is not the address of a page: write something like http://127.0.0.1:8233", t)
	}
	return t
}

// Operation finds an operation by name.
func (c *Config) Operation(name string) (*Operation, bool) {
	i, ok := slices.BinarySearchFunc(c.Operations, name, func(o Operation, n string) int { return strings.Compare(o.Declared.Name, n) })
	if !ok {
		return nil, false
	}
	return &c.Operations[i], true
}

// Declared are all operations, by name.
func (c *Config) Declared() []contract.Operation {
	out := make([]contract.Operation, len(c.Operations))
	for i := range c.Operations {
		out[i] = c.Operations[i].Declared
	}
	return out
}

// PolicyDigest is the SHA-256 of the budget: two processes with one digest
// would configure a budget alike.
func (c *Config) PolicyDigest() string { return digest(c.Budget) }

// digest is the SHA-256 of a value's JSON, whose fields have a fixed order. Only
// plain structs and slices get here.
func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("config: digest of %T: %v", v, err))
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
