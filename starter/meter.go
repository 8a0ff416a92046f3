package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	redrawEvery = 200 * time.Millisecond // on a terminal, where one line moves
	lineEvery   = 10 * time.Second       // elsewhere
)

// isTerminal tells whether somebody looks at what is written, as it is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// styled tells whether a terminal may be sent more than text (https://no-color.org).
func styled(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// meter shows how far a command is, how fast it goes, and how long it will take. On
// a terminal one line moves; elsewhere a line is written now and then.
type meter struct {
	w     io.Writer
	what  string // one of what is counted, in the plural
	total int
	begun time.Time
	now   func() time.Time

	mu      sync.Mutex
	done    int // since begun
	before  int // when it began: an earlier run did them
	note    string
	written time.Time
	moving  bool // the line is open
}

func newMeter(w io.Writer, what string, total, before int) *meter {
	return &meter{w: w, what: what, total: total, before: before, begun: time.Now(), now: time.Now}
}

// add counts, and shows it if it is time. The note says what else is to be known.
func (m *meter) add(n int, note string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done, m.note = m.done+n, note
	every := lineEvery
	if isTerminal(m.w) {
		every = redrawEvery
	}
	if now := m.now(); now.Sub(m.written) >= every {
		if m.written.IsZero() && every == lineEvery { // not for what is over at once
			m.written = now
			return
		}
		m.written = now
		m.write()
	}
}

func (m *meter) write() {
	if !isTerminal(m.w) {
		fmt.Fprintln(m.w, m.text())
		return
	}
	fmt.Fprintf(m.w, "\r%s\x1b[K", m.text())
	m.moving = true
}

// text is the line: how many, how fast, and how much longer at that pace.
func (m *meter) text() string {
	text := fmt.Sprintf("%d of %d %s", m.before+m.done, m.total, m.what)
	took := m.now().Sub(m.begun)
	left := m.total - m.before - m.done
	if m.done > 0 && took > 0 {
		rate := float64(m.done) / took.Seconds()
		text += fmt.Sprintf(", %.3g/s", rate)
		if left > 0 {
			text += ", about " + short(time.Duration(float64(left)/rate*float64(time.Second))) + " left"
		}
	}
	if m.note != "" {
		text += "; " + m.note
	}
	return text
}

// end closes the line that moves.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moving {
		m.write()
		fmt.Fprintln(m.w)
		m.moving = false
	}
}
