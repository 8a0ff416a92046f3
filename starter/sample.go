package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"headgate/admission"
	"headgate/client"
	"headgate/config"
	"headgate/contract"
)

// ready waits until the gateway can admit work.
func (d *door) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var answer struct{ Status string }
		err := d.get(ctx, "/readyz", url.Values{}, &answer)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// sampleTask is one task of the workload.
type sampleTask struct {
	tenant, agent, operation string
	priority                 admission.Priority
	payload                  string
}

// sampleTasks are a few tasks of two tenants, for operations of headgate.yaml.
func sampleTasks() []sampleTask {
	var all []sampleTask
	for i := range 4 {
		all = append(all, sampleTask{"acme", "billing-1", "charge_card", admission.Normal, fmt.Sprintf(`{"amount": %d, "currency": "EUR"}`, 1200+i)})
	}
	return append(all,
		sampleTask{"globex", "crm-1", "charge_card", admission.High, `{"amount": 990, "currency": "EUR"}`},
		sampleTask{"globex", "crm-1", "notify", admission.Low, `{"to": "mara", "text": "hello"}`},
		sampleTask{"acme", "desk-1", "book_slot", admission.Normal, `{"slot": "mon-9", "name": "Ann"}`},
		sampleTask{"acme", "research-1", "read_page", admission.Normal, `{"page": "news"}`},
	)
}

// sendSample submits the workload under new keys and gives the keys that were
// accepted. A configuration without the sample's operations gets none of it.
func sendSample(ctx context.Context, to *door, checked *config.Config, now time.Time, log *zap.Logger) []string {
	var keys []string
	for i, task := range sampleTasks() {
		if _, ok := checked.Operation(task.operation); !ok {
			continue
		}
		key := fmt.Sprintf("sample-%s-%d", now.UTC().Format("20060102-150405"), i+1)
		var view contract.TaskView
		err := to.call(ctx, http.MethodPost, "/v1/tasks", http.Header{"Idempotency-Key": {client.QuoteKey(key)}}, contract.SubmitRequest{
			Tenant: task.tenant, Agent: task.agent, Operation: task.operation, Priority: task.priority, Payload: json.RawMessage(task.payload)}, &view)
		if err != nil {
			log.Warn("sample task not accepted", zap.String("tenant", task.tenant), zap.String("operation", task.operation), zap.Error(err))
			continue
		}
		keys = append(keys, key)
	}
	return keys
}
