package admission

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// filled is a budget with so many tasks queued by so many tenants, all slots
// taken.
func filled(b *testing.B, queued, tenants int) (*State, []*item) {
	p := Policy{
		Resources: []Resource{{Name: "slots", Concurrent: 64}, {Name: "tokens", Per: Duration(time.Minute), Amount: 1 << 30, Burst: 1 << 30}},
		Queue:     QueuePolicy{Hard: 1_000_000, Soft: 1_000_000},
		Default:   TenantPolicy{Weight: 1},
	}.Normalize()
	s, err := New(p, "e", start)
	if err != nil {
		b.Fatal(err)
	}
	for i := range queued + 64 {
		s.Ask(start, benchRequest(i, tenants), false)
	}
	s.Advance(start)
	return s, s.leases()
}

func benchRequest(i, tenants int) Request {
	return Request{Task: fmt.Sprintf("task/t%d/order-%08d", i%tenants, i), Attempt: 1, Tenant: fmt.Sprintf("t%d", i%tenants), Agent: fmt.Sprintf("agent-%d", i%3),
		Operation: "charge_card", Priority: Priority(i%4 - 1), Hash: benchHash(i),
		Cost: []Cost{{"slots", 1}, {"tokens", 10}}, LeaseFor: Duration(time.Minute)}
}

func benchHash(i int) string {
	sum := sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)})
	return "sha256:" + hex.EncodeToString(sum[:])
}

var sizes = []struct{ queued, tenants int }{{100, 10}, {100, 100}, {10_000, 1000}}

func BenchmarkAdmit(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("queued=%d/tenants=%d", size.queued, size.tenants), func(b *testing.B) {
			s, _ := filled(b, size.queued, size.tenants)
			r := benchRequest(1_000_000, size.tenants)
			b.ReportAllocs()
			for b.Loop() {
				s.Admit(start, r)
				s.Report(start, Report{Task: r.Task, Attempt: 1, Kind: Withdrawn}) // the depth stays what it is said to be
			}
		})
	}
}

// One turn: a lease comes back, the next task is chosen, its decision is heard,
// another task joins the queue. That is an admission and a grant.
func BenchmarkTurn(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("queued=%d/tenants=%d", size.queued, size.tenants), func(b *testing.B) {
			s, held := filled(b, size.queued, size.tenants)
			now := start
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				now = now.Add(10 * time.Millisecond)
				it := held[i%len(held)]
				s.Report(now, Report{Task: it.req.Task, Attempt: 1, Kind: Released, Class: Succeeded})
				e := s.Advance(now)
				for _, d := range e.Decisions {
					s.Delivered(now, d, DeliveryDone)
					held[i%len(held)] = s.items[attempt{d.Task, 1}]
				}
				s.Ask(now, it.req, false)
			}
		})
	}
}

func BenchmarkRefusal(b *testing.B) {
	s, _ := filled(b, 10_000, 1000)
	s.policy.Queue.Hard, s.policy.Queue.Soft = 10_000, 10_000
	r := benchRequest(3_000_000, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, refused := s.Refusal(start, r); !refused {
			b.Fatal("not refused")
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s, _ := filled(b, 10_000, 1000)
	b.ReportAllocs()
	var raw []byte
	for b.Loop() {
		raw, _ = json.Marshal(s.Snapshot())
	}
	b.ReportMetric(float64(len(raw)), "bytes")
	b.ReportMetric(float64(deflated(raw)), "deflated_bytes")
}

func BenchmarkRestore(b *testing.B) {
	s, _ := filled(b, 10_000, 1000)
	raw, _ := json.Marshal(s.Snapshot())
	b.ReportAllocs()
	for b.Loop() {
		var snap Snapshot
		if err := json.Unmarshal(raw, &snap); err != nil {
			b.Fatal(err)
		}
		if _, err := Restore(snap); err != nil {
			b.Fatal(err)
		}
	}
}

func deflated(raw []byte) int {
	var buf bytes.Buffer
	w := zlib.NewWriter(&buf)
	_, _ = w.Write(raw)
	_ = w.Close()
	return buf.Len()
}
