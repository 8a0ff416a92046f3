package provider_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"headgate/testsuite/provider"
)

// BenchmarkCharges is the whole way over HTTP, client included.
func BenchmarkCharges(b *testing.B) {
	var file bytes.Buffer
	for name, o := range map[string]provider.Options{"memory": {}, "ledger file": {Ledger: &file}} {
		b.Run(name, func(b *testing.B) {
			server := provider.New(o)
			url := must(server.Listen("127.0.0.1:0"))
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			var n atomic.Int64
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					request := must(http.NewRequest("POST", url+"/charges", strings.NewReader(euros)))
					request.Header.Set("Idempotency-Key", fmt.Sprint(n.Add(1)))
					answer := must(client.Do(request))
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
		})
	}
}
