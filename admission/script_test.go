package admission

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts print into their files")

// A script is a list of commands, each with what it prints, separated by blank
// lines:
//
//	admit k1 tenant=acme cost=slots:1 at=2s
//	----
//	run
//
// The scripts in testdata are the specification of this package; `make golden`
// rewrites what they print, for a person to read the difference.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 6, "the specification is missing")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			got := runScript(string(raw), observer(t, string(raw)))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			require.Equal(t, string(raw), got)
		})
	}
}

func FuzzScript(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4000 || strings.Contains(text, "x=") {
			return
		}
		runScript(text, observer(t, text))
	})
}

func observer(t *testing.T, text string) func(*State) {
	return func(s *State) {
		check(t, s)
		if !strings.Contains(text, "configure") {
			checkLimits(t, s)
		}
	}
}

// script is the interpreter.
type script struct {
	s    *State
	now  time.Time
	sent map[string]Decision // the last decision for each task
}

func runScript(text string, observe func(*State)) string {
	sc := &script{now: start, sent: map[string]Decision{}}
	var out strings.Builder
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		command, _, _ := strings.Cut(block, "\n----")
		out.WriteString(command)
		lines := strings.Split(command, "\n")
		line := lines[len(lines)-1]
		if strings.HasPrefix(line, "#") {
			out.WriteString("\n\n")
			continue
		}
		out.WriteString("\n----\n" + sc.do(strings.Fields(line)) + "\n\n")
		if sc.s != nil {
			observe(sc.s)
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// args are the k=v words of a command; repeated ones keep their order.
type args struct {
	words []string
	named map[string][]string
}

func (a args) get(name, otherwise string) string {
	if v := a.named[name]; len(v) > 0 {
		return v[0]
	}
	return otherwise
}

func (sc *script) do(words []string) string {
	if len(words) == 0 {
		return "empty"
	}
	a := args{named: map[string][]string{}}
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.named[k] = append(a.named[k], v)
		} else {
			a.words = append(a.words, w)
		}
	}
	if at := a.get("at", ""); at != "" {
		sc.now = start.Add(duration(at))
	}
	if sc.s == nil && words[0] != "budget" {
		return "no budget"
	}
	switch words[0] {
	case "budget":
		return sc.budget(a)
	case "admit":
		return sc.each(a, func(r Request) string { return verdictText(sc.s.Admit(sc.now, r)) })
	case "ask":
		return sc.each(a, func(r Request) string {
			sc.s.Ask(sc.now, r, a.get("new", "") == "yes")
			return "asked"
		})
	case "advance":
		return sc.advance(a)
	case "report":
		return sc.report(a)
	case "delivered":
		return sc.eachName(a, func(n string) string {
			sc.s.Delivered(sc.now, sc.sent[n], Delivery(a.get("how", "done")))
			return "ok"
		})
	case "inspected":
		return sc.eachName(a, func(n string) string {
			sc.s.Inspected(sc.now, Inspection{n, number(a.get("attempt", "1"))}, Holder(a.get("holder", "open")), a.get("ticket", ""))
			return "ok"
		})
	case "pause":
		p := Pause{Dispatch: a.get("dispatch", "no") == "yes", Admission: a.get("admission", "no") == "yes", Actor: a.get("by", "ann"), Reason: a.get("reason", "look")}
		if u := a.get("until", ""); u != "" {
			until := start.Add(duration(u))
			p.Until = &until
		}
		sc.s.Pause(sc.now, a.get("tenant", "a"), p)
		return "ok"
	case "freeze", "unfreeze":
		f := &Freeze{Actor: a.get("by", "ann"), Reason: a.get("reason", "look")}
		if words[0] == "unfreeze" {
			f = nil
		}
		sc.s.Freeze(sc.now, a.get("op", "o"), f)
		return fmt.Sprintf("ok, %d to stop", sc.s.Stopping(a.get("op", "o")))
	case "stopped":
		return sc.eachName(a, func(n string) string {
			sc.s.Stopped(sc.now, Stop{Task: n, Attempt: number(a.get("attempt", "1"))}, Delivery(a.get("how", "done")))
			return fmt.Sprintf("ok, %d to stop", sc.s.Stopping(a.get("op", "o")))
		})
	case "restore":
		raw, err := json.Marshal(sc.s.Snapshot())
		if err != nil {
			return err.Error()
		}
		var snap Snapshot
		if err := json.Unmarshal(raw, &snap); err != nil {
			return err.Error()
		}
		s, err := Restore(snap)
		if err != nil {
			return err.Error()
		}
		sc.s = s
		return "ok"
	case "configure":
		was := sc.s
		out := sc.budget(a)
		next := sc.s
		sc.s = was
		if next == was {
			return out
		}
		if err := sc.s.Configure(sc.now, next.policy); err != nil {
			return err.Error()
		}
		return "ok"
	case "why":
		return sc.eachName(a, func(n string) string { return whyText(sc.s.Why(n)) })
	case "view":
		return viewText(sc.s.View(sc.now))
	case "next":
		if n := sc.s.Next(); !n.IsZero() {
			return n.Sub(start).String()
		}
		return "never"
	}
	return "unknown command " + words[0]
}

// budget slots=4 tokens=600/1m/60 hard=10 soft=8 tenant=a:weight=3:inflight=2:queued=5:agent=1
func (sc *script) budget(a args) string {
	p := Policy{Queue: QueuePolicy{Hard: number(a.get("hard", "100")), Soft: number(a.get("soft", "0")),
		CriticalReserve: number(a.get("reserve", "0")), MaxAge: Duration(duration(a.get("max_age", "0s")))}, Handover: a.get("handover", "no") == "yes"}
	for _, name := range []string{"slots", "pages", "tokens", "messages"} {
		for _, v := range a.named[name] {
			parts := strings.Split(v, "/")
			r := Resource{Name: name, Concurrent: int64(number(parts[0]))}
			if n, adaptive := strings.CutSuffix(parts[0], "~"); adaptive {
				r.Concurrent, r.Adapt = int64(number(n)), &Adapt{Min: 1}
			}
			if len(parts) > 1 {
				r = Resource{Name: name, Amount: int64(number(parts[0])), Per: Duration(duration(parts[1]))}
			}
			if len(parts) > 2 {
				r.Burst = int64(number(parts[2]))
			}
			p.Resources = append(p.Resources, r)
		}
	}
	for _, v := range a.named["tenant"] {
		parts := strings.Split(v, ":")
		t := TenantPolicy{Name: parts[0]}
		for _, kv := range parts[1:] {
			k, v, _ := strings.Cut(kv, "=")
			n := number(v)
			switch k {
			case "weight":
				t.Weight = int64(n)
			case "inflight":
				t.MaxInFlight = n
			case "queued":
				t.MaxQueued = n
			case "agent":
				t.Agents.MaxInFlight = n
			}
		}
		if t.Name == "*" {
			t.Name = ""
			p.Default = t
		} else {
			p.Tenants = append(p.Tenants, t)
		}
	}
	p.UnknownCeiling = number(a.get("unknown", "0"))
	for _, v := range a.named["op"] { // op=name:drop_oldest:failures:unknown_ceiling
		parts := append(strings.Split(v, ":"), "", "", "")
		p.Operations = append(p.Operations, OperationPolicy{Name: parts[0], WhenFull: WhenFull(parts[1]),
			Breaker: Breaker{Failures: number(parts[2])}, UnknownCeiling: number(parts[3])})
	}
	s, err := New(p.Normalize(), "", sc.now)
	if err != nil {
		return err.Error()
	}
	sc.s = s
	return "ok"
}

// request k1 k2..k9 tenant=a agent=x op=o priority=high cost=slots:1 deadline=5s not_before=2s attempt=2
func (sc *script) each(a args, do func(Request) string) string {
	return sc.eachName(a, func(name string) string {
		r := Request{Task: name, Attempt: number(a.get("attempt", "1")), Tenant: a.get("tenant", "a"), Agent: a.get("agent", ""),
			Operation: a.get("op", "o"), Hash: a.get("hash", "h"), LeaseFor: Duration(duration(a.get("lease", "1m")))}
		_ = r.Priority.UnmarshalText([]byte(a.get("priority", "")))
		for _, c := range a.named["cost"] {
			n, v, _ := strings.Cut(c, ":")
			r.Cost = append(r.Cost, Cost{n, int64(number(v))})
		}
		r.Hold, r.HoldOn = a.get("hold", "") != "", strings.TrimPrefix(a.get("hold", ""), "yes")
		if d := a.get("deadline", ""); d != "" {
			at := start.Add(duration(d))
			r.Deadline = &at
		}
		if d := a.get("not_before", ""); d != "" {
			at := start.Add(duration(d))
			r.NotBefore = &at
		}
		return do(r)
	})
}

func (sc *script) eachName(a args, do func(string) string) string {
	var out []string
	for _, w := range a.words {
		from, to, ok := strings.Cut(w, "..")
		names := []string{w}
		if ok {
			names = nil
			for i := number(strings.TrimLeft(from, "abcdefghijklmnopqrstuvwxyz")); i <= min(number(to), 200); i++ {
				names = append(names, strings.TrimRight(from, "0123456789")+strconv.Itoa(i))
			}
		}
		for _, n := range names {
			out = append(out, n+": "+do(n))
		}
	}
	return strings.Join(out, "\n")
}

func (sc *script) advance(a args) string {
	e := sc.s.Advance(sc.now)
	var out []string
	for _, d := range e.Decisions {
		sc.sent[d.Task] = d
		text := "granted"
		switch {
		case d.Lease == nil:
			text = "refused " + string(d.Reason)
		case d.Lease.After != "":
			text = "on standby"
		}
		out = append(out, fmt.Sprintf("%s: %s", d.Task, text))
		if a.get("deliver", "yes") == "yes" {
			sc.s.Delivered(sc.now, d, DeliveryDone)
		}
	}
	for _, st := range e.Stops {
		out = append(out, st.Task+": stop ("+st.Reason+")")
	}
	for _, i := range e.Inspections {
		out = append(out, i.Task+": inspect")
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}

func (sc *script) report(a args) string {
	return sc.eachName(a, func(n string) string {
		r := Report{Task: n, Attempt: number(a.get("attempt", "1")), Kind: a.get("kind", Released), Class: Class(a.get("class", "succeeded")), Reason: a.get("reason", ""), RetryAfter: Duration(duration(a.get("retry_after", "0s"))),
			Grace: Duration(duration(a.get("grace", "0s"))), Ticket: a.get("ticket", ""), Doubt: a.get("doubt", "") == "yes"}
		for _, c := range a.named["cost"] {
			n, v, _ := strings.Cut(c, ":")
			r.Cost = append(r.Cost, Cost{n, int64(number(v))})
		}
		if next := sc.sent[a.get("handed", "")].Lease; next != nil { // handed=k2: that one has gone
			r.Successor, r.Waited = next.ID, Duration(duration(a.get("waited", "0s")))
		}
		sc.s.Report(sc.now, r)
		return "ok"
	})
}

func verdictText(v Verdict) string {
	out := string(v.Action)
	for _, s := range []string{string(v.Reason), v.Resource} {
		if s != "" {
			out += " " + s
		}
	}
	if v.Position > 0 {
		out += fmt.Sprintf(" position=%d", v.Position)
	}
	if v.Estimate > 0 {
		out += fmt.Sprintf(" estimate=%s", v.Estimate)
	}
	if v.RetryAfter > 0 {
		out += fmt.Sprintf(" retry_after=%s", time.Duration(v.RetryAfter).Round(time.Second))
	}
	if v.Detail != "" {
		out += " (" + v.Detail + ")"
	}
	return out
}

func whyText(w Why) string {
	out := w.Stand
	for _, s := range []string{string(w.Reason), w.Resource} {
		if s != "" {
			out += " " + s
		}
	}
	if w.Position > 0 {
		out += fmt.Sprintf(" position=%d", w.Position)
	}
	if w.Since != nil {
		out += " since=" + w.Since.Sub(start).String()
	}
	if w.Detail != "" {
		out += " (" + w.Detail + ")"
	}
	return out
}

func viewText(v View) string {
	out := []string{fmt.Sprintf("depth=%d in_flight=%d oldest=%s", v.Depth, v.InFlight, v.OldestAge)}
	if v.Handover != nil {
		out[0] += fmt.Sprintf(" standby=%d lead=%s missed=%d%%", v.Standby, v.Handover.Lead, v.Handover.Missed)
	}
	for _, r := range v.Resources {
		if r.Per > 0 {
			out = append(out, fmt.Sprintf("%s level=%d", r.Name, r.Level))
		} else {
			out = append(out, fmt.Sprintf("%s used=%d of %d", r.Name, r.Used, r.Limit))
		}
	}
	for _, t := range v.Tenants {
		out = append(out, fmt.Sprintf("tenant %s queued=%d in_flight=%d waits_on=%s %s", t.Name, t.Queued, t.InFlight, t.WaitingOn, t.Resource))
	}
	for _, g := range v.Gates {
		if g.Frozen != nil {
			out = append(out, fmt.Sprintf("frozen %s by %s: %s, %d to stop", g.Operation, g.Frozen.Actor, g.Frozen.Reason, g.Stopping))
		}
	}
	for _, d := range v.Doubts {
		out = append(out, fmt.Sprintf("in doubt %s of %s: %d of %d since %s, held %v", d.Operation, d.Tenant, d.Tasks, d.Ceiling, d.Since.Sub(start), d.Held))
	}
	return strings.Join(out, "\n")
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil || d > 1000*time.Hour || d < -1000*time.Hour {
		return 0
	}
	return d
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n > 1_000_000 || n < -1_000_000 {
		return 0
	}
	return n
}
