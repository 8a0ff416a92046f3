package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"sync"

	"headgate/admission"
	"headgate/client"
	"headgate/contract"
)

// taskPage is the page of one task.
type taskPage struct {
	head
	contract.Explanation
	Approval *contract.ApprovalView // nil: it waits for none
	Payload  string                 // of the approval
}

func (c *Console) task(w http.ResponseWriter, r *http.Request) error {
	page, err := c.taskOf(r, draft{})
	if err != nil {
		return err
	}
	return c.show(w, r, http.StatusOK, "task", page)
}

func (c *Console) taskOf(r *http.Request, d draft) (taskPage, error) {
	tenant, key := r.PathValue("tenant"), r.PathValue("key")
	p := taskPage{head: c.head(r)}
	p.Draft = d
	if r.Method != http.MethodGet {
		p.Self = taskPath(tenant, key)
	}
	if err := c.call(r.Context(), r, http.MethodGet, client.TaskPath(tenant, key)+"/explain", nil, &p.Explanation); err != nil {
		return p, err
	}
	if p.Task.Approval == nil {
		return p, nil
	}
	var ask contract.ApprovalView
	err := c.call(r.Context(), r, http.MethodGet, client.TaskPath(tenant, key)+"/approval", nil, &ask)
	var refused *problem
	switch {
	case errors.As(err, &refused): // decided meanwhile
	case err != nil:
		return p, err
	case ask.Task.Approval != nil:
		var text bytes.Buffer
		if json.Indent(&text, ask.Payload, "", "  ") != nil {
			text.Reset()
			text.Write(ask.Payload)
		}
		p.Approval, p.Payload = &ask, text.String()
	}
	return p, nil
}

// Live tells whether the page may still change by itself.
func (p taskPage) Live() bool { return p.Task.Ended == nil }

// listPage is a page of tasks.
type listPage struct {
	head
	contract.TaskPage
	Filter url.Values
	Next   string // the next page; empty: there is none
	Phases []contract.Phase
}

// filters are the parameters of the API's listing that a page may have.
var filters = []string{"tenant", "operation", "priority", "phase", "cursor"}

func (c *Console) list(w http.ResponseWriter, r *http.Request) error {
	p := listPage{head: c.head(r), Filter: url.Values{}, Phases: contract.Phases()}
	for _, name := range filters {
		if value := strings.TrimSpace(r.URL.Query().Get(name)); value != "" {
			p.Filter.Set(name, value)
		}
	}
	if err := c.call(r.Context(), r, http.MethodGet, "/v1/tasks?"+p.Filter.Encode(), nil, &p.TaskPage); err != nil {
		return err
	}
	if p.Cursor != "" {
		next := url.Values{}
		for name, values := range p.Filter {
			next[name] = values
		}
		next.Set("cursor", p.Cursor)
		p.Next = Root + "/tasks?" + next.Encode()
	}
	return c.show(w, r, http.StatusOK, "list", p)
}

// Priorities are the choices of the filter.
func (p listPage) Priorities() []admission.Priority { return priorities() }

// maxTried is the most tenants among which a bare key is looked for.
const maxTried = 100

// findPage is what a search that is not plain has found.
type findPage struct {
	head
	Query string
	Found []contract.TaskView
	Tried int // tenants
}

// find goes to the task of "tenant/key", or looks for a bare key among the
// tenants that have something in the budget.
func (c *Console) find(w http.ResponseWriter, r *http.Request) error {
	p := findPage{head: c.head(r), Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	if p.Query == "" {
		http.Redirect(w, r, Root+"/", http.StatusSeeOther)
		return nil
	}
	if tenant, key, ok := contract.ParseTaskID("task/" + strings.TrimPrefix(p.Query, "task/")); ok {
		var view contract.TaskView
		if c.call(r.Context(), r, http.MethodGet, client.TaskPath(tenant, key), nil, &view) == nil {
			http.Redirect(w, r, taskPath(tenant, key), http.StatusSeeOther)
			return nil
		}
	}
	tenants := p.tenants()
	p.Tried = len(tenants)
	p.Found = c.findIn(r, tenants, p.Query)
	if len(p.Found) == 1 {
		http.Redirect(w, r, taskPath(p.Found[0].Tenant, p.Found[0].Key), http.StatusSeeOther)
		return nil
	}
	status := http.StatusOK
	if len(p.Found) == 0 {
		status = http.StatusNotFound
	}
	return c.show(w, r, status, "find", p)
}

// tenants are those that the page knows, the busiest first.
func (p findPage) tenants() []string {
	var names []string
	all, _ := tenantsOf(p.Look.Queue.Tenants, "")
	for _, t := range all {
		names = append(names, t.Name)
	}
	seen := map[string]bool{}
	for _, name := range names {
		seen[name] = true
	}
	for _, list := range [][]contract.TaskView{p.Look.Unknown.Tasks, p.Look.Approvals.Tasks} {
		for _, t := range list {
			if !seen[t.Tenant] {
				seen[t.Tenant], names = true, append(names, t.Tenant)
			}
		}
	}
	return names[:min(len(names), maxTried)]
}

// findIn looks for a key of each tenant, a few at one time.
func (c *Console) findIn(r *http.Request, tenants []string, key string) []contract.TaskView {
	var mu sync.Mutex
	var found []contract.TaskView
	var done sync.WaitGroup
	places := make(chan struct{}, 8)
	for _, tenant := range tenants {
		done.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			var view contract.TaskView
			if c.call(r.Context(), r, http.MethodGet, client.TaskPath(tenant, key), nil, &view) == nil {
				mu.Lock()
				defer mu.Unlock()
				found = append(found, view)
			}
		})
	}
	done.Wait()
	sort.Slice(found, func(i, j int) bool { return found[i].Tenant < found[j].Tenant })
	return found
}
