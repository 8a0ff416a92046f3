package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"headgate/contract"
)

// bulkLine is one line of a file of tasks: what is submitted, and the key.
type bulkLine struct {
	Key string `json:"key"`
	contract.SubmitRequest
	number int
	digest string // of the line's text
}

// maxLine is the longest line that can be a request: the payload, and the rest.
const maxLine = 2 * contract.MaxPayload

// readBulk reads and checks all lines before the first is sent. A line without a
// tenant is of the given one.
func readBulk(r io.Reader, tenant string) (lines []bulkLine, err error) {
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 64<<10), maxLine)
	seen := map[string]int{}
	n := 0
	for scan.Scan() {
		n++
		text := bytes.TrimSpace(scan.Bytes())
		if len(text) == 0 {
			continue
		}
		line, err := parseBulk(text, tenant)
		if err != nil {
			return nil, withStatus(exitUsage, "line %d: %w", n, err)
		}
		id := contract.TaskID(line.Tenant, line.Key)
		if seen[id] > 0 {
			return nil, withStatus(exitUsage, "line %d: the key %q is that of line %d: one key is one task", n, line.Key, seen[id])
		}
		seen[id], line.number = n, n
		lines = append(lines, line)
	}
	if err := scan.Err(); err != nil {
		return nil, withStatus(exitUsage, "line %d: %w", n+1, err)
	}
	return lines, nil
}

func parseBulk(text []byte, tenant string) (line bulkLine, err error) {
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&line); err != nil {
		return line, err
	}
	if strict.More() {
		return line, errors.New("there is more than one task on it")
	}
	if line.Tenant == "" {
		line.Tenant = tenant
	}
	sum := sha256.Sum256(append([]byte(line.Tenant+"\n"), text...))
	line.digest = hex.EncodeToString(sum[:8])
	switch {
	case line.Key == "":
		return line, errors.New(`there is no "key": it is what makes a line safe to send again`)
	case line.Operation == "":
		return line, errors.New(`there is no "operation"`)
	case line.Tenant == "":
		return line, errors.New(`there is no "tenant", and no --tenant`)
	}
	return line, contract.CheckKey(line.Key)
}

// entry is what the progress file keeps of a line whose answer is final.
type entry struct {
	Task    string `json:"task"`
	Line    string `json:"line"` // digest: a line that was changed is sent again
	Refused string `json:"refused,omitempty"`
}

// progress is a file that grows by an entry for each line that was answered, so that
// a run goes on where another stopped. It saves requests; it is the keys that make
// sure that nothing is done twice, also when the file is lost.
type progress struct {
	file *os.File // nil: nothing is kept
	done map[string]entry
}

func openProgress(path string) (*progress, error) {
	p := &progress{done: map[string]entry{}}
	if path == "" {
		return p, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, withStatus(exitUsage, "--progress: %w", err)
	}
	p.file = file
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, errors.Join(withStatus(exitUsage, "--progress: %w", err), file.Close())
	}
	for line := range bytes.Lines(text) {
		var e entry
		if json.Unmarshal(line, &e) == nil && e.Task != "" { // the last line of a run that was killed may be cut
			p.done[e.Task] = e
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		if _, err := file.WriteString("\n"); err != nil {
			return nil, errors.Join(fmt.Errorf("keep the progress: %w", err), file.Close())
		}
	}
	return p, nil
}

// has tells of a line that was accepted before, as it is now. What was refused is
// tried again: a run that is started anew wants that.
func (p *progress) has(l bulkLine) bool {
	e, ok := p.done[contract.TaskID(l.Tenant, l.Key)]
	return ok && e.Line == l.digest && e.Refused == ""
}

func (p *progress) keep(l bulkLine, refused string) error {
	if p.file == nil {
		return nil
	}
	text, err := json.Marshal(entry{contract.TaskID(l.Tenant, l.Key), l.digest, refused})
	if err == nil {
		_, err = p.file.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep the progress: %w", err)
	}
	return nil
}

func (p *progress) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
