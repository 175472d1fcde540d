package rest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/strictjson"
)

// Question is the body of POST /api/v1/explain: what would become of a request, and why?
type Question struct {
	// Descriptor is the request. Attributes that it gives are believed; all others
	// are looked for in it, as if it came to the reverse proxy.
	Descriptor Descriptor `json:"descriptor,omitzero"`
	// HTTP is a whole request as it is sent, in place of the Descriptor's method,
	// host, path and headers.
	HTTP string `json:"http,omitempty"`
	// Peer is the address that the request comes from, with or without a port.
	Peer string `json:"peer,omitempty"`
}

// Explanation is how a request would be decided now, and why. Nothing was spent for it.
type Explanation struct {
	Request ExplainedRequest `json:"request"`
	// Identity are the attributes of the caller.
	Identity []Found `json:"identity"`
	// Seat is left out if no request needs one.
	Seat *ExplainedSeat `json:"seat,omitempty"`
	// Rules are those that apply, then those of which only the path does, and then
	// the others: at most MaxExplained that do not apply.
	Rules []ExplainedRule `json:"rules"`
	// NotListed counts the rules beyond that. None of them applies.
	NotListed int               `json:"notListed"`
	Decision  ExplainedDecision `json:"decision"`
}

// MaxExplained is how many rules that do not apply are listed.
const MaxExplained = 1000

// maxOverrides is how many overrides of a rule are listed that do not apply.
const maxOverrides = 20

// ExplainedRequest is a request as rules see it.
type ExplainedRequest struct {
	Method string `json:"method"`
	Host   string `json:"host"`
	// Path is in normal form.
	Path string `json:"path"`
	// API is the name of the API that the path calls.
	API string `json:"api"`
	// Plan is the caller's; "" if it has none.
	Plan string `json:"plan"`
}

// Found is an attribute of the caller, and how it was found.
type Found struct {
	Attribute string `json:"attribute"`
	// Value is "" if there is none, and left out if it is Secret.
	Value string `json:"value"`
	// Secret: there is a value, which is a credential.
	Secret bool `json:"secret"`
	// Source is where it comes from: asker if the Descriptor gave it, "" if there is none.
	Source string `json:"source"`
	// Missed are the sources that were asked before and yield nothing.
	Missed []Missed `json:"missed"`
}

// Missed is a source that yields nothing.
type Missed struct {
	Source string `json:"source"`
	Why    string `json:"why"`
}

// ExplainedSeat is what a request needs to run.
type ExplainedSeat struct {
	Needed bool `json:"needed"`
	// Route is the place of what decides that: isolation, or isolation.routes[N].
	Route string `json:"route"`
	// Tenant is whose seats they are. This and what follows is left out if none is Needed.
	Tenant string `json:"tenant,omitempty"`
	Plan   string `json:"plan,omitempty"`
	Cost   int    `json:"cost,omitempty"`
	// AtOnce is how many seats the tenant may have, and Queue how many of its
	// requests may wait.
	AtOnce int `json:"atOnce,omitempty"`
	Queue  int `json:"queue,omitempty"`
	// TimeoutMS bounds waiting and running together; 0 is any time.
	TimeoutMS int64 `json:"timeoutMs,omitempty"`
}

// ExplainedRule is what became of one rule.
type ExplainedRule struct {
	Rule string `json:"rule"`
	// Row is the id of the row that the rule is from, left out if it is from the file.
	Row     int64 `json:"row,omitempty"`
	Applies bool  `json:"applies"`
	// Part is what stands in the way if it does not: path, method, host, header,
	// attribute, exempt or replaced.
	Part string `json:"part,omitempty"`
	// Why says it for people.
	Why    string `json:"why,omitempty"`
	Shadow bool   `json:"shadow"`
	// Status is that of a denial.
	Status int `json:"status"`
	// Key is what is counted by, for people. This and what follows is left out if
	// the rule does not apply.
	Key  string `json:"key,omitempty"`
	Cost int64  `json:"cost,omitempty"`
	// MaxWaitMS is how long the request may wait its turn if it is over the rate.
	MaxWaitMS int64 `json:"maxWaitMs,omitempty"`
	// Override is that which applies: overrides[N].
	Override string `json:"override,omitempty"`
	// Overrides say why those before it do not apply, or why none does; at most 20.
	Overrides []string          `json:"overrides,omitempty"`
	Policies  []ExplainedPolicy `json:"policies,omitempty"`
}

// ExplainedPolicy is one policy and its state. Spans are in milliseconds, rounded up.
type ExplainedPolicy struct {
	Policy       string `json:"policy"`
	Allowed      bool   `json:"allowed"`
	Limit        int64  `json:"limit"`
	WindowMS     int64  `json:"windowMs"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retryAfterMs"`
	ResetAfterMS int64  `json:"resetAfterMs"`
	// Degraded: said without the store that the policy is counted in.
	Degraded bool `json:"degraded"`
}

// ExplainedDecision is what the limits would say. That a seat is free is not looked at.
type ExplainedDecision struct {
	Allowed bool `json:"allowed"`
	// Status is the HTTP status to refuse with; 0 if Allowed.
	Status       int   `json:"status"`
	RetryAfterMS int64 `json:"retryAfterMs"`
	// Detail is what the caller would be told; "" if Allowed.
	Detail string `json:"detail"`
}

func (a *api) explain(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if _, err := read(w, r, &body); err != nil {
		fail(w, r, err)
		return
	}
	question, err := decodeQuestion(body.Bytes())
	if err != nil {
		fail(w, r, err)
		return
	}
	e, err := Explain(r.Context(), a.gate, question)
	if err != nil {
		fail(w, r, err)
		return
	}
	text, err := json.Marshal(e)
	if err != nil { // numbers and strings always encode
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(append(text, '\n'))
}

// decodeQuestion reads a Question, strictly.
func decodeQuestion(body []byte) (q Question, err error) {
	err = strictjson.Read(body, func(r *strictjson.Reader) []strictjson.Field {
		return []strictjson.Field{
			strictjson.Optional("descriptor", func() error { return q.Descriptor.read(r) }),
			strictjson.Optional("http", r.Text(func(text string) error { q.HTTP = text; return nil })),
			strictjson.Optional("peer", value(r, &q.Peer)),
		}
	})
	return q, err
}

// Explain answers q by what g works by. The error is for who asked.
func Explain(ctx context.Context, g *gate.Gate, q Question) (*Explanation, error) {
	sent, err := q.request(ctx)
	if err != nil {
		return nil, err
	}
	asked := &asked{descriptor: descriptor{&q.Descriptor}}
	var found []gate.Finding
	if identity := g.Snapshot().Identity; identity != nil {
		asked.caller = identity.Identify(sent)
		if f, ok := asked.caller.(gate.Finder); ok {
			found = f.Findings()
		}
	}
	e := g.Explain(ctx, asked)
	if done, ok := asked.caller.(interface{ Release() }); ok {
		done.Release()
	}
	return newExplanation(&q.Descriptor, found, e), nil
}

// asked is the request of a Question as rules look at it.
type asked struct {
	descriptor
	caller rules.Request // who finds out what the Descriptor does not give; nil if nobody does
}

func (a *asked) Attribute(name string) (string, bool) {
	if value, ok := a.descriptor.Attribute(name); ok || a.caller == nil {
		return value, ok
	}
	return a.caller.Attribute(name)
}

// request returns q's request as it would have arrived, and makes q's Descriptor say
// the same.
func (q *Question) request(ctx context.Context) (r *http.Request, err error) {
	d := &q.Descriptor
	switch {
	case q.HTTP != "" && (d.Method != "" || d.Host != "" || d.Path != "" || d.Headers != nil):
		return nil, &requestError{http.StatusBadRequest, "http: it has a method, host, path and headers of its own; leave them out of descriptor"}
	case q.HTTP != "":
		if r, err = readHTTP(q.HTTP); err != nil {
			return nil, &requestError{http.StatusBadRequest, "http: not a request; such as \"GET /items/alex HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n\" is"}
		}
		d.Method, d.Host, d.Path, d.Headers = r.Method, r.Host, r.URL.EscapedPath(), make(map[string]string)
		for name, values := range r.Header {
			d.Headers[name] = values[0]
		}
	default:
		r = &http.Request{Method: d.Method, Host: d.Host, Header: make(http.Header), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
		if r.URL, err = url.ParseRequestURI(d.Path); err != nil {
			r.URL = &url.URL{Path: d.Path}
		}
		for name, value := range d.Headers {
			r.Header.Set(name, value)
		}
	}
	if r.RemoteAddr = q.Peer; q.Peer != "" {
		_, bare := netip.ParseAddr(q.Peer)
		_, withPort := netip.ParseAddrPort(q.Peer)
		if bare != nil && withPort != nil {
			return nil, &requestError{http.StatusBadRequest, fmt.Sprintf("peer: %q is not an address; such as 192.0.2.1 and [2001:db8::1]:443 are", strictjson.Shorten(q.Peer))}
		}
	}
	return r.WithContext(ctx), nil
}

// readHTTP reads a request, whose end may be missing if it has no body.
func readHTTP(text string) (*http.Request, error) {
	if !strings.Contains(text, "\n\r\n") && !strings.Contains(text, "\n\n") {
		text = strings.TrimRight(text, "\r\n") + "\r\n\r\n"
	}
	return http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
}

func newExplanation(d *Descriptor, found []gate.Finding, e *gate.Explanation) *Explanation {
	x := &Explanation{
		Request:  ExplainedRequest{Method: d.Method, Host: d.Host, Path: e.Path, API: e.API, Plan: e.Plan},
		Identity: newFound(d, found),
		Rules:    []ExplainedRule{},
		Decision: ExplainedDecision{Allowed: e.Outcome.Allowed, Status: e.Outcome.Status, RetryAfterMS: milliseconds(e.Outcome.RetryAfter)},
	}
	if !e.Outcome.Allowed {
		x.Decision.Detail = httpanswer.Refusal(&e.Outcome).Detail
	}
	hidden := func(attribute string) bool {
		for _, f := range x.Identity {
			if f.Attribute == attribute {
				return f.Secret
			}
		}
		return false
	}
	if e.Isolation != nil {
		x.Seat = newSeat(e, hidden)
	}
	for _, stage := range []func(r *ExplainedRule) bool{
		func(r *ExplainedRule) bool { return r.Applies },
		func(r *ExplainedRule) bool { return !r.Applies && r.Part != rules.PartPath.String() },
		func(r *ExplainedRule) bool { return r.Part == rules.PartPath.String() },
	} {
		for i := range e.Rules {
			rule := newRule(&e.Rules[i], e, hidden)
			switch {
			case !stage(&rule):
			case rule.Applies || len(x.Rules) < MaxExplained:
				x.Rules = append(x.Rules, rule)
			default:
				x.NotListed++
			}
		}
	}
	return x
}

// newFound lists what was found, and what the asker gave in place of it.
func newFound(d *Descriptor, found []gate.Finding) []Found {
	all := []Found{}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		all = append(all, Found{Attribute: name, Value: d.Attributes[name], Source: "asker", Missed: []Missed{}})
	}
	for _, f := range found {
		if _, given := d.Attributes[f.Attribute]; given {
			continue
		}
		one := Found{Attribute: f.Attribute, Value: f.Value, Secret: f.Secret, Source: f.Source, Missed: []Missed{}}
		if f.Secret {
			one.Value = ""
		}
		for _, m := range f.Missed {
			one.Missed = append(one.Missed, Missed{m.Source, m.Why})
		}
		all = append(all, one)
	}
	return all
}

func newSeat(e *gate.Explanation, hidden func(string) bool) *ExplainedSeat {
	s := &ExplainedSeat{Needed: e.Seated, Route: "isolation"}
	if e.Route >= 0 {
		s.Route = fmt.Sprintf("isolation.routes[%d]", e.Route)
	}
	if !e.Seated {
		return s
	}
	s.Tenant = rules.DescribeKeyWithout(e.Claim.Tenant, hidden)
	s.Plan, s.Cost, s.TimeoutMS = e.Claim.Plan, e.Claim.Cost, milliseconds(e.Claim.Timeout)
	s.AtOnce, s.Queue = e.Isolation.Room(e.Claim)
	return s
}

func newRule(x *rules.Explained, e *gate.Explanation, hidden func(string) bool) ExplainedRule {
	r := ExplainedRule{Rule: x.Rule.Name, Row: x.Rule.Row, Shadow: x.Rule.Shadow, Status: x.Rule.Status}
	if x.Unmet.Part != rules.PartNone {
		r.Part, r.Why = x.Unmet.Part.String(), why(x.Unmet, hidden)
		return r
	}
	if x.Match.Override >= 0 {
		r.Override = fmt.Sprintf("overrides[%d]", x.Match.Override)
	}
	if by := e.ReplacedBy[x.Rule]; by != nil {
		r.Part, r.Why = "replaced", fmt.Sprintf("rule %q replaces it", by.Name)
		return r
	}
	if x.Match.Exempt {
		r.Part, r.Why = "exempt", fmt.Sprintf("%s exempts the caller", r.Override)
		return r
	}
	r.Applies = true
	r.Key = rules.DescribeKeyWithout(x.Match.Key, hidden)
	r.Cost, r.MaxWaitMS = x.Rule.Cost, milliseconds(x.Rule.MaxWait)
	for i, unmet := range x.Overrides[:min(len(x.Overrides), maxOverrides)] {
		r.Overrides = append(r.Overrides, fmt.Sprintf("overrides[%d]: %s", i, why(unmet, hidden)))
	}
	for i := range e.Outcome.Decisions {
		if d := &e.Outcome.Decisions[i]; d.Rule == x.Rule {
			r.Policies = append(r.Policies, ExplainedPolicy{
				Policy: d.Policy, Allowed: d.Allowed, Limit: d.Limit, WindowMS: milliseconds(d.Window), Remaining: d.Remaining,
				RetryAfterMS: milliseconds(d.RetryAfter), ResetAfterMS: milliseconds(d.ResetAfter), Degraded: d.Degraded,
			})
		}
	}
	return r
}

// why says what is unmet.
func why(u rules.Unmet, hidden func(string) bool) string {
	switch u.Part {
	case rules.PartUntil:
		return "it ended at " + u.Want
	case rules.PartPath:
		return fmt.Sprintf("the path is %s, and not %s", u.Got, u.Want)
	case rules.PartMethod:
		return fmt.Sprintf("the method is %s, and not %s", orNothing(u.Got), strings.ReplaceAll(u.Want, ",", " or "))
	case rules.PartHost:
		return fmt.Sprintf("the host is %s, and not %s", orNothing(u.Got), u.Want)
	}
	what := u.Part.String() + " " + u.Name
	if u.Part == rules.PartHeader && rules.IsCredential(u.Name) || u.Part == rules.PartAttribute && hidden(u.Name) {
		return fmt.Sprintf("the %s is not what is asked for; it is not shown", what)
	}
	switch u.Want {
	case "":
		return fmt.Sprintf("the %s is %q, and is to be absent", what, u.Got)
	case "*":
		return fmt.Sprintf("the %s is absent, and is to be present", what)
	}
	if u.Got == "" {
		return fmt.Sprintf("the %s is absent, and is to be %s", what, u.Want)
	}
	return fmt.Sprintf("the %s is %q, and not %s", what, u.Got, u.Want)
}

func orNothing(text string) string {
	if text == "" {
		return "not given"
	}
	return text
}
