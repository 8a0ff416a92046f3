package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"headgate/admission"
	"headgate/contract"
	"headgate/starter/gateway"
)

// change is one limit on which two policies differ. A limit that one of them
// does not have is "-".
type change struct {
	Limit  string `json:"limit"` // as a path of the configuration file
	Before string `json:"before"`
	After  string `json:"after"`
}

func (c change) String() string { return c.Limit + ": " + c.Before + " -> " + c.After }

// changes lists what differs between two normalized policies, by path.
func changes(before, after admission.Policy) []change {
	old, now := limits(before), limits(after)
	paths := maps.Clone(old)
	maps.Copy(paths, now)
	list := []change{}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if old[path] != now[path] {
			list = append(list, change{path, cell(old[path]), cell(now[path])})
		}
	}
	return list
}

// sections are the parts of a policy, and where the file has them.
var sections = map[string]string{"resources": "budget.resources", "queue": "budget.queue", "default": "tenants.default",
	"tenants": "tenants", "operations": "operations",
	"handover": "budget.handover"}

// limits are all values of a policy by their paths.
func limits(p admission.Policy) map[string]string {
	text, _ := json.Marshal(p) // of strings and numbers: it cannot fail
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var parts map[string]any
	_ = d.Decode(&parts) // it is our own
	all := map[string]string{}
	for name, part := range parts {
		if place, ok := sections[name]; ok {
			name = place
		}
		flatten(all, name, part)
	}
	return all
}

// flatten writes a JSON value into paths; the elements of a list go by their names.
func flatten(all map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, part := range v {
			if name != "name" {
				flatten(all, path+"."+name, part)
			}
		}
	case []any:
		for _, part := range v {
			if named, ok := part.(map[string]any); ok {
				name, _ := named["name"].(string)
				flatten(all, path+"."+name, part)
			}
		}
	case string:
		all[path] = v
	case json.Number:
		all[path] = v.String()
	case bool:
		all[path] = map[bool]string{true: "on", false: "off"}[v]
	}
}

// budgetKeeper is the gateway as far as it knows the budget's policy.
type budgetKeeper interface {
	InForce(ctx context.Context) (gateway.BudgetView, error)
	Configure(ctx context.Context, order contract.ConfigureRequest) (contract.ConfigureReply, error)
}

// settlePolicy compares the running budget with the file once, as soon as the
// budget answers. A difference is put in force if an actor asks for it, else it
// is told: a running budget keeps its limits, so that two processes with
// different files cannot make them flap.
func settlePolicy(ctx context.Context, keeper budgetKeeper, file admission.Policy, actor string, log *zap.Logger) {
	const shortest, longest = 200 * time.Millisecond, 30 * time.Second
	for wait := shortest; ; wait = min(2*wait, longest) {
		running, err := keeper.InForce(ctx)
		if err == nil {
			differ := changes(running.Policy, file)
			fields := []zap.Field{zap.String("budget", shortDigest(running.Digest)), zap.String("file", shortDigest(file.Digest())),
				zap.Strings("differences", briefly(differ))}
			switch {
			case running.Digest == file.Digest():
				return
			case actor == "":
				log.Warn("the running budget keeps another policy than the file has", append(fields, zap.String("remedy", "headgate apply"))...)
				return
			}
			if _, err = keeper.Configure(ctx, contract.ConfigureRequest{Policy: file, Actor: actor}); err == nil {
				log.Info("the file's policy is in force", fields...)
				return
			}
			log.Warn("the file's policy is not in force yet", zap.Duration("next_try", wait), zap.Error(err))
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// briefly words the first few differences.
func briefly(list []change) []string {
	const most = 8
	var texts []string
	for _, c := range list[:min(len(list), most)] {
		texts = append(texts, c.String())
	}
	if len(list) > most {
		texts = append(texts, "and more")
	}
	return texts
}

// shortDigest is enough of a digest for people to compare.
func shortDigest(digest string) string {
	const most = 12
	name, hex, ok := strings.Cut(digest, ":")
	if !ok {
		return digest
	}
	return name + ":" + hex[:min(len(hex), most)]
}
