package tools

import (
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Handler answers MCP over streamable HTTP, without sessions: each request stands
// for itself. The API key is the one that the request brings, never one of ours,
// so that nobody gains by going this way.
func Handler(o Options) http.Handler {
	serve := func(r *http.Request) *mcp.Server {
		mine := *o.Client
		mine.APIKey = ""
		if scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
			mine.APIKey = key
		}
		asked := o
		asked.Client = &mine
		return NewServer(asked)
	}
	return http.NewCrossOriginProtection().Handler(mcp.NewStreamableHTTPHandler(serve, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: 2 << 20,
	}))
}
