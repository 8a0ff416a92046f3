package contract

// Caller is who a gateway takes a client for.
type Caller struct {
	// Keys tells that the gateway asks for API keys. Without, everybody may come,
	// orders name their actor themselves, and the rest is empty.
	Keys   bool     `json:"keys"`
	Name   string   `json:"name,omitempty"`   // of the key: the actor of its orders
	Tenant string   `json:"tenant,omitempty"` // * is all
	Roles  []string `json:"roles,omitempty"`
	Rights []string `json:"rights,omitempty"` // decisions that are the key's to make
}
