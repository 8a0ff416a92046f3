package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"headgate/activities"
	"headgate/activities/conformance"
	"headgate/admission"
	"headgate/config"
	"headgate/contract"
)

// Gateway sends text messages. It stands for a client library of your provider.
type Gateway interface {
	// Send calls before right before the message leaves, and sends nothing if that
	// gives an error.
	Send(ctx context.Context, key, from, to, text string, before func() error) (id string, err error)
	Find(ctx context.Context, key string) (id string, err error)
}

var errNoMessage = errors.New("there is no such message")

// SMS is an operation type: one effect is one text message.
type SMS struct{ Gateway Gateway }

// message is one that is ready to leave.
type message struct {
	gateway       Gateway
	key, from, to string
	text          string
}

// Prepare reads the payload. Nothing of this can be seen outside.
func (s *SMS) Prepare(_ context.Context, in contract.EffectInput) (activities.Prepared, error) {
	var payload struct{ To, Text string }
	if err := json.Unmarshal(in.Payload, &payload); err != nil || payload.To == "" {
		return nil, &activities.Refusal{Class: admission.Failed, Reason: config.InvalidPayload, Detail: "the payload names nobody to send to"}
	}
	return &message{s.Gateway, in.ProviderKey, in.Operation.Setting("from"), payload.To, payload.Text}, nil
}

// Effect sends the message, once, and says what it knows.
func (m *message) Effect(ctx context.Context, guard *activities.Guard) contract.Outcome {
	sent := false
	id, err := m.gateway.Send(ctx, m.key, m.from, m.to, m.text, func() error {
		err := guard.MaySend() // at the last moment: a worker that was stopped for long sends nothing
		sent = err == nil
		return err
	})
	switch {
	case err == nil:
		result, _ := json.Marshal(map[string]string{"id": id})
		return contract.Outcome{Class: admission.Succeeded, Reference: id, Result: result}
	case sent:
		return contract.Outcome{Class: admission.Unknown, Reason: "no_answer", Detail: err.Error()}
	case guard.Refusal() != nil:
		return contract.Outcome{Class: admission.NotDispatched, Reason: guard.Refusal().Error()}
	}
	return contract.Outcome{Class: admission.NotDispatched, Reason: "connection_failed", Detail: err.Error()}
}

// Probe looks a message up by its key. That nothing was found is one thing, that
// nobody answered another.
func (s *SMS) Probe(ctx context.Context, in contract.ProbeInput) contract.Evidence {
	switch id, err := s.Gateway.Find(ctx, in.ProviderKey); {
	case err == nil:
		return contract.Evidence{Finding: contract.Happened, Reference: id}
	case errors.Is(err, errNoMessage):
		return contract.Evidence{Finding: contract.DidNotHappen}
	default:
		return contract.Evidence{Finding: contract.Inconclusive, Detail: err.Error()}
	}
}

// A type of your own has a Prepare, its prepared effect an Effect, and if it can
// look effects up, a Probe. A worker serves it with one line:
//
//	workers.Run(ctx, workers.Options{..., Roles: []string{"sms"},
//		Types: map[string]activities.Type{"sms": &SMS{gateway}}})
//
// docs/your-own-operation.md goes through it.
func Example() {
	sms := &SMS{&memory{}}
	in := contract.EffectInput{
		Tenant: "acme", Key: "msg-1", ProviderKey: contract.ProviderKey("acme", "msg-1"),
		Operation: contract.Operation{Name: "text", Type: "sms", Timeout: contract.Duration(time.Second), With: []contract.Field{{Name: "from", Value: "+49 1"}}},
		Payload:   json.RawMessage(`{"to": "+49 2", "text": "hello"}`),
	}
	outcome := activities.Try(context.Background(), sms, in)
	fmt.Println(outcome.Class, outcome.Reference)
	fmt.Println(sms.Probe(context.Background(), contract.ProbeInput{ProviderKey: in.ProviderKey}).Finding)
	fmt.Println(sms.Probe(context.Background(), contract.ProbeInput{ProviderKey: "another"}).Finding)
	// Output:
	// succeeded m_1
	// happened
	// did_not_happen
}

// The example passes what every type passes.
func TestExampleConforms(t *testing.T) {
	conformance.Run(t, func(_ *testing.T, p *conformance.Provider) conformance.Subject {
		return conformance.Subject{Type: &SMS{&memory{arrive: p.Act}}, Payload: `{"to": "+49 2", "text": "hello"}`,
			Operation: contract.Operation{With: []contract.Field{{Name: "from", Value: "+49 1"}}}, Result: `{"id": "m_1"}`, Reference: "m_1"}
	})
}

// memory is a gateway in memory.
type memory struct {
	arrive func(context.Context) error // of a message; nil: answered at once
	sent   map[string]string           // ids by key
}

func (m *memory) Send(ctx context.Context, key, _, _, _ string, before func() error) (string, error) {
	if err := before(); err != nil {
		return "", err
	}
	if m.sent == nil {
		m.sent = map[string]string{}
	}
	if m.sent[key] == "" {
		m.sent[key] = fmt.Sprintf("m_%d", len(m.sent)+1)
	}
	if m.arrive != nil {
		if err := m.arrive(ctx); err != nil {
			return "", err
		}
	}
	return m.sent[key], nil
}

func (m *memory) Find(_ context.Context, key string) (string, error) {
	if id := m.sent[key]; id != "" {
		return id, nil
	}
	return "", errNoMessage
}
