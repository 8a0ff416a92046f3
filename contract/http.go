package contract

// Header is a fixed header, or one whose value comes from the worker's
// environment or a file there when the effect is prepared.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	Env   string `json:"env,omitempty"`  // name of an environment variable; its value is never stored
	File  string `json:"file,omitempty"` // path of a file on the worker; its text is never stored
	// Prefix stands before a value that comes from Env or File, such as "Bearer ".
	Prefix string `json:"prefix,omitempty"`
}

// Field is a name and its value: of a form, where the value is a template, or a
// setting of a type.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Secret says where a worker finds a secret: one of the two is set. The secret
// itself is never stored.
type Secret struct {
	Env  string `json:"env,omitempty"`
	File string `json:"file,omitempty"`
}

// TLS versions.
const (
	TLS12 = "1.2"
	TLS13 = "1.3"
)

// TLS is how a worker connects over TLS. The paths are of files on the worker,
// read for each attempt, so that they may be exchanged.
type TLS struct {
	CAFile     string `json:"ca_file,omitempty"`   // PEM; trusted in place of the system's roots
	CertFile   string `json:"cert_file,omitempty"` // PEM; the client's certificate
	KeyFile    string `json:"key_file,omitempty"`  // PEM; its key
	MinVersion string `json:"min_version,omitempty"`
}
