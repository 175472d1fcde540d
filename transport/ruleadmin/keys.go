package ruleadmin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/strictjson"
)

// Keys are what requests that are alike are counted by, one for each rule.
type Keys struct {
	Keys []Key `json:"keys"`
}

// Key is what one rule counts a request by.
type Key struct {
	Rule string `json:"rule"`
	// Row is the id of the rule in the table, 0 if it is one of the file.
	Row    int64 `json:"row"`
	Shadow bool  `json:"shadow"`
	// Key is the key as a person reads it, such as user=ann.
	Key string `json:"key"`
	// Exempt: an override says that the rule is not for this caller, who has no
	// Policies then.
	Exempt   bool          `json:"exempt"`
	Policies []PolicyState `json:"policies"`
}

// PolicyState is how much of a policy's quota is left. Spans are in milliseconds, rounded up.
type PolicyState struct {
	Policy    string `json:"policy"`
	Mode      string `json:"mode"`
	Limit     int64  `json:"limit"`
	Remaining int64  `json:"remaining"`
	// RetryAfterMS is 0 if one more unit would be admitted now.
	RetryAfterMS int64 `json:"retryAfterMs"`
	// ResetAfterMS is when all of the quota is there again.
	ResetAfterMS int64 `json:"resetAfterMs"`
	// Degraded: the store did not answer, and this is what the process knows alone.
	Degraded bool `json:"degraded"`
}

// Bounds of what a query says of a request.
const (
	maxPairs = 64      // headers, and attributes
	maxName  = 64      // bytes
	maxValue = 8 << 10 // bytes
)

// described is a request as a query describes it. It is a rules.Request.
type described struct {
	method, host, path  string
	headers, attributes map[string]string
}

func (d *described) Method() string            { return d.method }
func (d *described) Host() string              { return d.host }
func (d *described) Path() string              { return d.path }
func (d *described) Header(name string) string { return d.headers[http.CanonicalHeaderKey(name)] }
func (d *described) Attribute(name string) (string, bool) {
	value, ok := d.attributes[name]
	return value, ok
}

// find returns what the rules that r asks about count the request by that it describes.
func (a *api) find(r *request) ([]rules.Match, error) {
	q, err := query(r.Request, "rule", "method", "host", "path", "header.", "attribute.")
	if err != nil {
		return nil, err
	}
	d, err := describe(q)
	if err != nil {
		return nil, err
	}
	matches := a.gate.Match(d)
	name := q.Get("rule")
	if name == "" {
		if len(matches) == 0 {
			return nil, problem(http.StatusNotFound, "No rule in force is for such a request. Say more of it: %s.", "method, host, path, header.NAME and attribute.NAME")
		}
		return matches, nil
	}
	for _, m := range matches {
		if m.Rule.Name == name {
			return []rules.Match{m}, nil
		}
	}
	for _, rule := range a.gate.Snapshot().Rules.Rules() {
		if rule.Name == name {
			return nil, problem(http.StatusUnprocessableEntity, "rule: %q is not for such a request; say what it matches by: method, host, path, header.NAME and attribute.NAME", name)
		}
	}
	return nil, problem(http.StatusNotFound, "rule: no rule in force is called %q", strictjson.Shorten(name))
}

// describe returns the request that a query describes.
func describe(q values) (*described, error) {
	d := &described{
		method: q.Get("method"), host: q.Get("host"), path: q.Get("path"),
		headers: map[string]string{}, attributes: map[string]string{},
	}
	for parameter, all := range q.Values {
		kind, name, paired := strings.Cut(parameter, ".")
		if len(all[0]) > maxValue {
			return nil, problem(http.StatusBadRequest, "%s: %d bytes; at most %d are allowed", strictjson.Shorten(parameter), len(all[0]), maxValue)
		}
		if !paired {
			continue
		}
		switch {
		case name == "" || len(name) > maxName:
			return nil, problem(http.StatusBadRequest, "%s: the name has %d bytes; 1 to %d are allowed", strictjson.Shorten(parameter), len(name), maxName)
		case kind == "header":
			d.headers[http.CanonicalHeaderKey(name)] = all[0]
		case name == "method", name == "host", name == "path", name == "api":
			return nil, problem(http.StatusBadRequest, "%s: this is no attribute of a caller; give %s", parameter, map[bool]string{true: "path, which it is made of", false: name}[name == "api"])
		default:
			d.attributes[name] = all[0]
		}
	}
	if len(d.headers) > maxPairs || len(d.attributes) > maxPairs {
		return nil, problem(http.StatusBadRequest, "query: %d headers and %d attributes; at most %d of each are allowed", len(d.headers), len(d.attributes), maxPairs)
	}
	return d, nil
}

// keys answers GET /admin/keys.
func (a *api) keys(ctx context.Context, r *request) (answer, error) {
	matches, err := a.find(r)
	if err != nil {
		return answer{}, err
	}
	return a.states(ctx, matches)
}

// states returns what is left under matches.
func (a *api) states(ctx context.Context, matches []rules.Match) (answer, error) {
	all := Keys{Keys: []Key{}}
	for i := range matches {
		m := &matches[i]
		key := Key{Rule: m.Rule.Name, Row: m.Rule.Row, Shadow: m.Rule.Shadow, Key: "-", Exempt: m.Exempt, Policies: []PolicyState{}}
		if !m.Exempt {
			key.Key = rules.DescribeKey(m.Key)
		}
		decisions, err := a.gate.State(ctx, m)
		if err != nil {
			return answer{}, err
		}
		for j, d := range decisions {
			key.Policies = append(key.Policies, PolicyState{
				Policy: d.Policy, Mode: modeOf(m.Policies[j].Mode), Limit: d.Limit, Remaining: d.Remaining,
				RetryAfterMS: milliseconds(d.RetryAfter), ResetAfterMS: milliseconds(d.ResetAfter), Degraded: d.Degraded,
			})
		}
		all.Keys = append(all.Keys, key)
	}
	return answer{status: http.StatusOK, json: all}, nil
}

func modeOf(m limit.Mode) string {
	switch m {
	case limit.Local:
		return "local"
	case limit.Synced:
		return "synced"
	}
	return "exact"
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// resetKeys answers DELETE /admin/keys.
func (a *api) resetKeys(ctx context.Context, r *request) (answer, error) {
	matches, err := a.find(r)
	if err != nil {
		return answer{}, err
	}
	var errs []error
	for i := range matches {
		m := &matches[i]
		if m.Exempt {
			continue
		}
		err := a.gate.Reset(ctx, m)
		errs = append(errs, err)
		if err == nil {
			a.Logger.InfoContext(ctx, "key reset", "who", r.who, "peer", r.RemoteAddr, "rule", m.Rule.Name, "key", rules.DescribeKey(m.Key))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return answer{}, err
	}
	return a.states(ctx, matches)
}
