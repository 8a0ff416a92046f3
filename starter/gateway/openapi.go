package gateway

import (
	_ "embed"
	"net/http"
)

// apiDocument describes the API (OpenAPI 3.1). A test makes it of the same types
// that the handlers answer with, and holds every answer of the other tests
// against it.
//
//go:embed openapi.json
var apiDocument []byte

// document is GET /openapi.json. It is the same for everybody, and needs no key.
func (g *Gateway) document(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(apiDocument) // the client may be gone
	return nil
}
