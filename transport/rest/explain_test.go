package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
)

// explain asks what would be decided, with headers given as name, value, name, value.
func (a *testAPI) explain(t testing.TB, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := request(t, body, headers...)
	r.URL.Path = "/api/v1/explain"
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	a.contract.Check(t, r, body, w)
	return w
}

func explained(t testing.TB, a *testAPI, body string) (e Explanation) {
	t.Helper()
	w := a.explain(t, body)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", body, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// finder knows the user by a header, and a session that is nobody's to see.
type finder struct{ rules.Request }

func (finder) Identify(r *http.Request) rules.Request { return finder{found{r}} }

type found struct{ *http.Request }

func (f found) Method() string            { return f.Request.Method }
func (f found) Host() string              { return f.Request.Host }
func (f found) Path() string              { return f.URL.EscapedPath() }
func (f found) Header(name string) string { return f.Request.Header.Get(name) }
func (f found) Attribute(name string) (string, bool) {
	value := map[string]string{
		"user": f.Request.Header.Get("X-User"), "ip": f.RemoteAddr, "session": f.Request.Header.Get("X-Session"),
	}[name]
	return value, value != ""
}

func (f finder) Findings() []gate.Finding {
	var all []gate.Finding
	for _, name := range []string{"ip", "session", "user"} {
		value, ok := f.Attribute(name)
		one := gate.Finding{Attribute: name, Value: value, Secret: name == "session"}
		if ok {
			one.Source = "test"
		} else {
			one.Missed = []gate.Missed{{Source: "test", Why: "it is absent"}}
		}
		all = append(all, one)
	}
	return all
}

func withRules(t testing.TB, spec rules.Spec) *testAPI {
	t.Helper()
	set, problems := rules.Compile(spec)
	if set == nil {
		t.Fatal(problems)
	}
	store := memory.New(nil)
	g := gate.New(limit.New(store, nil), &gate.Snapshot{Rules: set, Identity: finder{}}, nil)
	return &testAPI{New(g, nil), store, newContract(t)}
}

func to[T any](v T) *T { return &v }

func limits(quota int64) []rules.LimitSpec {
	return []rules.LimitSpec{{Quota: quota, Window: rules.Duration(time.Minute), Algorithm: "fixed"}}
}

var explainRules = rules.Spec{
	Paths: rules.PathSpec{After: "v1"},
	Plans: map[string]rules.Plan{"gold": {Members: map[string][]string{"user": {"ann"}}}},
	Isolation: &rules.IsolationSpec{
		Seats: 64, Tenant: "user|ip", Plans: map[string]rules.SeatPlanSpec{"default": {MaxSeats: to(3), Queue: to(0)}},
		Routes: []rules.RouteSpec{{Match: rules.MatchSpec{Path: "/health"}, Enabled: to(false)}},
	},
	Rules: []rules.RuleSpec{
		{Name: "method", Match: rules.MatchSpec{Methods: []string{"PUT", "DELETE"}}, Limits: limits(1)},
		{Name: "all", Key: []string{"user|ip"}, Limits: limits(600), Overrides: []rules.OverrideSpec{
			{When: map[string]rules.Pattern{"user": "backup"}, Exempt: true}, {Plan: "gold", Limits: limits(900)},
		}},
		{Name: "path", Match: rules.MatchSpec{Path: "/items/{id}"}, Limits: limits(1)},
		{Name: "entity", Match: rules.MatchSpec{Path: "/entity/#"}, Key: []string{"user"}, Status: 503, Limits: limits(2)},
		{Name: "trial", Shadow: true, Key: []string{"session"}, Limits: limits(1)},
		{Name: "header", Match: rules.MatchSpec{Headers: map[string]rules.Pattern{"X-Api-Key": "sesame", "Accept": "*"}}, Limits: limits(1)},
		{Name: "host", Match: rules.MatchSpec{Host: "*.example.org"}, Limits: limits(1)},
		{Name: "of-bob", Match: rules.MatchSpec{Attributes: map[string]rules.Pattern{"user": "bob"}}, Replaces: []string{"all"}, Limits: limits(1)},
		{Name: "session", Match: rules.MatchSpec{Attributes: map[string]rules.Pattern{"session": "x*"}}, Limits: limits(1)},
	},
}

// All that is told of one request, before and after what it asks about has happened.
func TestExplain(t *testing.T) {
	a := withRules(t, explainRules)
	const asked = `{"http":"GET /Repo/v1/entity//12/?x=1 HTTP/1.1\nHost: API.example.com\nX-User: ann\nX-Session: s3cr3t\nX-Api-Key: s3cr3t2\nAccept: */*","peer":"192.0.2.1"}`
	e := explained(t, a, asked)
	policy := func(name string, limit, remaining, retry, reset int64) []ExplainedPolicy {
		return []ExplainedPolicy{{Policy: name, Allowed: retry == 0, Limit: limit, WindowMS: 60000, Remaining: remaining, RetryAfterMS: retry, ResetAfterMS: reset}}
	}
	want := Explanation{
		Request: ExplainedRequest{Method: "GET", Host: "API.example.com", Path: "/Repo/v1/entity/12", API: "/entity/#", Plan: "gold"},
		Identity: []Found{
			{Attribute: "ip", Value: "192.0.2.1", Source: "test", Missed: []Missed{}},
			{Attribute: "session", Secret: true, Source: "test", Missed: []Missed{}},
			{Attribute: "user", Value: "ann", Source: "test", Missed: []Missed{}},
		},
		Seat: &ExplainedSeat{Needed: true, Route: "isolation", Tenant: "user=ann", Plan: "default", Cost: 1, AtOnce: 3},
		Rules: []ExplainedRule{
			{Rule: "all", Applies: true, Status: 429, Key: "user=ann", Cost: 1, Override: "overrides[1]",
				Overrides: []string{`overrides[0]: the attribute user is "ann", and not backup`}, Policies: policy("all", 900, 900, 0, 0)},
			{Rule: "entity", Applies: true, Status: 503, Key: "user=ann", Cost: 1, Policies: policy("entity", 2, 2, 0, 0)},
			{Rule: "trial", Applies: true, Shadow: true, Status: 429, Key: "session=(not shown)", Cost: 1, Policies: policy("trial", 1, 1, 0, 0)},
			{Rule: "method", Status: 429, Part: "method", Why: "the method is GET, and not DELETE or PUT"},
			{Rule: "header", Status: 429, Part: "header", Why: "the header X-Api-Key is not what is asked for; it is not shown"},
			{Rule: "host", Status: 429, Part: "host", Why: "the host is api.example.com, and not *.example.org"},
			{Rule: "of-bob", Status: 429, Part: "attribute", Why: `the attribute user is "ann", and not bob`},
			{Rule: "session", Status: 429, Part: "attribute", Why: "the attribute session is not what is asked for; it is not shown"},
			{Rule: "path", Status: 429, Part: "path", Why: "the path is /Repo/v1/entity/12, and not /items/{id}"},
		},
		Decision: ExplainedDecision{Allowed: true},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if again := explained(t, a, asked); !cmp.Equal(e, again) {
		t.Errorf("asking has spent something:\n%s", cmp.Diff(e, again))
	}
	if w := a.explain(t, asked); strings.Contains(w.Body.String(), "s3cr3t") {
		t.Errorf("a secret is told: %s", w.Body)
	}

	const spend = `{"descriptors":[{"method":"GET","path":"/v1/entity/12","attributes":{"user":"ann","session":"s3cr3t"}}]}`
	for range 2 {
		if got := decoded(t, a.post(t, spend)); !got.Allowed {
			t.Fatal("refused too early")
		}
	}
	e = explained(t, a, asked)
	if e.Decision.Allowed || e.Decision.Status != 503 || e.Decision.RetryAfterMS <= 0 ||
		!strings.HasPrefix(e.Decision.Detail, `Policy "entity" allows 2 of /entity/# in 1m, and this request would exceed that. Try again in `) {
		t.Errorf("decision: %+v", e.Decision)
	}
	for i, remaining := range []int64{898, 0, 0} { // that in shadow is told though the request would be refused
		if p := e.Rules[i].Policies[0]; p.Remaining != remaining || p.Allowed != (remaining > 0) || p.ResetAfterMS <= 0 {
			t.Errorf("%s: %+v, want %d remaining", e.Rules[i].Rule, p, remaining)
		}
	}
}

// Who asks may say who the caller is, and learns of exemptions, replaced rules and routes.
func TestExplainOfGivenCallers(t *testing.T) {
	a := withRules(t, explainRules)
	for name, c := range map[string]struct{ asked, rule, part, why, seat string }{
		"exempt":      {`{"descriptor":{"path":"/x","attributes":{"user":"backup"}}}`, "all", "exempt", "overrides[0] exempts the caller", "user=backup"},
		"replaced":    {`{"descriptor":{"path":"/x","attributes":{"user":"bob"}}}`, "all", "replaced", `rule "of-bob" replaces it`, "user=bob"},
		"no caller":   {`{"descriptor":{"path":"/x"}}`, "of-bob", "attribute", "the attribute user is absent, and is to be bob", "user=-"},
		"an address":  {`{"descriptor":{"path":"/x"},"peer":"192.0.2.9"}`, "header", "header", "the header Accept is absent, and is to be present", "ip=192.0.2.9"},
		"no seat":     {`{"descriptor":{"path":"/health"}}`, "host", "host", "the host is not given, and not *.example.org", ""},
		"a bad path":  {`{"descriptor":{"path":"/items/100%"}}`, "entity", "path", "the path is /items/100%, and not /entity/#", "user=-"},
		"given first": {`{"descriptor":{"path":"/x","headers":{"x-user":"ann"},"attributes":{"user":"bob"}}}`, "all", "replaced", `rule "of-bob" replaces it`, "user=bob"},
	} {
		t.Run(name, func(t *testing.T) {
			e := explained(t, a, c.asked)
			for _, r := range e.Rules {
				if r.Rule == c.rule && (r.Applies || r.Part != c.part || r.Why != c.why || r.Key != "" || r.Policies != nil) {
					t.Errorf("%+v, want %s: %s", r, c.part, c.why)
				}
			}
			if e.Seat.Tenant != c.seat || e.Seat.Needed != (c.seat != "") || e.Seat.Needed == (e.Seat.Route == "isolation.routes[0]") {
				t.Errorf("seat: %+v, want one of %q", *e.Seat, c.seat)
			}
		})
	}
}

func TestExplainRefusesWhatIsNoQuestion(t *testing.T) {
	a := withRules(t, explainRules)
	for body, want := range map[string]string{
		`{"descriptor":{"pth":"/"}}`:                          "descriptor.pth: unknown field; method, host, path, headers and attributes are allowed",
		`{"http":"nonsense"}`:                                 `http: not a request; such as \"GET /items/alex HTTP/1.1`,
		`{"http":"GET / HTTP/1.1","descriptor":{"path":"/"}}`: "http: it has a method, host, path and headers of its own; leave them out of descriptor",
		`{"peer":"localhost"}`:                                `peer: \"localhost\" is not an address`,
		`{"descriptor":{"attributes":{"api":"/x"}}}`:          "it is made of the path",
	} {
		if w := a.explain(t, body); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", body, w.Code, w.Body, want)
		}
	}
}

// A store that does not answer is told as such, and so is what a rule makes of it.
func TestExplainWithoutTheStore(t *testing.T) {
	a := newTestAPI(t)
	a.store.Close()
	e := explained(t, a, `{"descriptor":{"path":"/items/alex"}}`)
	if e.Decision.Allowed || e.Decision.Status != 503 || !strings.HasPrefix(e.Decision.Detail, "The limits of this request could not be checked.") || e.Rules[0].Policies != nil {
		t.Errorf("%+v", e)
	}
}

// Of many rules, those are listed that come nearest.
func TestExplainOfManyRules(t *testing.T) {
	var spec rules.Spec
	for i := range MaxExplained + 200 {
		spec.Rules = append(spec.Rules, rules.RuleSpec{Name: fmt.Sprintf("r%d", i), Match: rules.MatchSpec{Path: fmt.Sprintf("/r%d", i)}, Limits: limits(1)})
	}
	spec.Rules[MaxExplained+100].Match = rules.MatchSpec{Path: "/x", Methods: []string{"PUT"}}
	spec.Rules[MaxExplained+101].Match.Path = "/x"
	e := explained(t, withRules(t, spec), `{"descriptor":{"method":"GET","path":"/x"}}`)
	if len(e.Rules) != MaxExplained || e.NotListed != 200 || !e.Rules[0].Applies || e.Rules[1].Part != "method" || e.Rules[2].Part != "path" {
		t.Errorf("%d listed, %d not, first %+v", len(e.Rules), e.NotListed, e.Rules[:3])
	}
}

// Whatever is asked, the answer is as documented.
func FuzzExplain(f *testing.F) {
	for _, seed := range []string{`{}`, `{"http":"GET / HTTP/1.1"}`, `{"descriptor":{"path":"%zz?"},"peer":"::1"}`, `{"http":"\u0000"}`, `{"http":"GET * HTTP/1.0\n\n"}`, `{"http":"CONNECT a:1 HTTP/1.1\nHost: a:1"}`} {
		f.Add(seed)
	}
	a := withRules(f, explainRules)
	f.Fuzz(func(t *testing.T, body string) {
		if w := a.explain(t, body); w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	})
}
