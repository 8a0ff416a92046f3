package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"headgate/client"
	"headgate/contract"
)

// gateway answers like one that is busy at first.
func gateway() *httptest.Server {
	tries := 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries == 1 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"title": "The queue is full", "status": 429, "reason": "queue_full", "retry_after": 1, "next_action": "retry_later"}`)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"tenant": "acme", "key": "inv-42", "delivery_state": "ACCEPTED", "execution_state": "PENDING", "phase": "accepted", "next_action": "wait"}`)
	})
	mux.HandleFunc("GET /v1/tasks/acme/inv-42", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"tenant": "acme", "key": "inv-42", "delivery_state": "ACCEPTED", "execution_state": "SUCCEEDED", "phase": "succeeded", "reference": "ch_1", "next_action": "use_result"}`)
	})
	mux.HandleFunc("POST /v1/tasks/acme/inv-42/cancel", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"title": "The task has ended", "status": 409, "reason": "already_ended", "next_action": "use_result"}`)
	})
	return httptest.NewServer(mux)
}

// The key is chosen before the first try and belongs to the intent, so that a
// program that died can ask again without asking twice.
func ExampleClient_Submit() {
	server := gateway()
	defer server.Close()
	c := &client.Client{URL: server.URL}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	task, err := c.Submit(ctx, "inv-42", contract.SubmitRequest{Tenant: "acme", Operation: "charge_card", Payload: []byte(`{"amount": 1200}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(task.DeliveryState, task.ExecutionState, task.NextAction)
	task, err = c.Wait(ctx, task.Tenant, task.Key, 30*time.Second)
	fmt.Println(task.DeliveryState, task.ExecutionState, task.NextAction, task.Reference, err)
	// Output:
	// ACCEPTED PENDING wait
	// ACCEPTED SUCCEEDED use_result ch_1 <nil>
}

// A refusal says what to do next.
func ExampleRefusal() {
	server := gateway()
	defer server.Close()
	c := &client.Client{URL: server.URL}
	_, err := c.Cancel(context.Background(), "acme", "inv-42", "billing-1", "typo")
	if refusal := (*client.Refusal)(nil); errors.As(err, &refusal) {
		fmt.Println(refusal.Status, refusal.Reason, refusal.NextAction)
	}
	// Output: 409 already_ended use_result
}
