package gate_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
)

// caller is a rules.Request with a path and a user.
type caller struct{ path, user string }

func (c caller) Method() string       { return "GET" }
func (c caller) Host() string         { return "example.com" }
func (c caller) Path() string         { return c.path }
func (c caller) Header(string) string { return "" }
func (c caller) Attribute(name string) (string, bool) {
	return c.user, name == "user" && c.user != ""
}

// byHeader identifies callers by a header.
type byHeader struct{}

func (byHeader) Identify(r *http.Request) rules.Request {
	return caller{r.URL.Path, r.Header.Get("X-User")}
}

func rule(name string, quota int64, window time.Duration) rules.RuleSpec {
	return rules.RuleSpec{
		Name: name, Key: []string{"user"}, OnStoreError: "deny",
		Limits: []rules.LimitSpec{{Quota: quota, Window: rules.Duration(window)}},
	}
}

func newSet(t testing.TB, specs ...rules.RuleSpec) *rules.Set {
	set, problems := rules.Compile(rules.Spec{Rules: specs})
	if set == nil {
		t.Fatal(problems)
	}
	return set
}

func newGate(t testing.TB, s limit.Store, specs ...rules.RuleSpec) *gate.Gate {
	return gate.New(limit.New(s, nil), &gate.Snapshot{Rules: newSet(t, specs...), Identity: byHeader{}}, nil)
}

// said is what one policy said, for comparison.
type said struct {
	Policy    string
	Allowed   bool
	Remaining int64
}

func heard(out *gate.Outcome) (all []said) {
	for _, d := range out.Decisions {
		all = append(all, said{d.Policy, d.Allowed, d.Remaining})
	}
	return all
}

func decide(g *gate.Gate, ask gate.Ask) *gate.Outcome {
	var out gate.Outcome
	g.Decide(context.Background(), ask, &out)
	return &out
}

func one(path, user string) gate.Ask {
	return gate.Ask{Requests: []rules.Request{caller{path, user}}}
}

func TestAllRulesOfARequestAreChargedOrNone(t *testing.T) {
	strict := rule("strict", 1, time.Minute)
	strict.Status = 503
	g := newGate(t, memory.New(nil), rule("loose", 10, time.Minute), strict)

	out := decide(g, one("/", "alex"))
	if diff := cmp.Diff([]said{{"loose", true, 9}, {"strict", true, 0}}, heard(out)); !out.Allowed || diff != "" {
		t.Errorf("allowed=%v (-want +got):\n%s", out.Allowed, diff)
	}
	for range 5 {
		out = decide(g, one("/", "alex"))
		if diff := cmp.Diff([]said{{"loose", true, 9}, {"strict", false, 0}}, heard(out)); out.Allowed || diff != "" {
			t.Errorf("allowed=%v (-want +got):\n%s", out.Allowed, diff)
		}
		if out.Status != 503 || out.RetryAfter <= 59*time.Second {
			t.Errorf("status %d, retry after %v; want those of the rule that denies", out.Status, out.RetryAfter)
		}
	}
	if out := decide(g, one("/", "kim")); !out.Allowed {
		t.Error("one caller's denial denies another")
	}
}

func TestNoRuleNoLimit(t *testing.T) {
	only := rule("only", 1, time.Minute)
	only.Match.Path = "/limited"
	g := newGate(t, memory.New(nil), only)
	for range 3 {
		if out := decide(g, one("/free", "alex")); !out.Allowed || len(out.Decisions) != 0 {
			t.Errorf("%+v; want allowed without a decision", out)
		}
	}
}

// TestShadowCountsAsEnforced runs the same traffic through a rule in shadow
// and the same rule enforced: what one would deny is what the other denies.
func TestShadowCountsAsEnforced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enforced, shadow := rule("r", 3, 10*time.Second), rule("r", 3, 10*time.Second)
		shadow.Shadow = true
		gates := []*gate.Gate{newGate(t, memory.New(nil), enforced), newGate(t, memory.New(nil), shadow)}
		denials := 0
		for i := range 1000 {
			a := decide(gates[0], one("/", "alex"))
			b := decide(gates[1], one("/", "alex"))
			if !b.Allowed || b.Status != 0 || b.RetryAfter != 0 {
				t.Fatalf("a rule in shadow has refused: %+v", b)
			}
			if diff := cmp.Diff(heard(a), heard(b)); diff != "" {
				t.Fatalf("request %d (-enforced +shadow):\n%s", i, diff)
			}
			if !a.Allowed {
				denials++
			}
			time.Sleep(time.Duration(i%7) * 500 * time.Millisecond)
		}
		if denials < 400 {
			t.Errorf("%d of 1000 denied; the traffic shows nothing", denials)
		}
	})
}

func TestShadowIsChargedForWhatIsLetThrough(t *testing.T) {
	shadow := rule("shadow", 5, time.Minute)
	shadow.Shadow = true
	g := newGate(t, memory.New(nil), shadow, rule("real", 1, time.Minute))
	decide(g, one("/", "alex"))
	if out := decide(g, one("/", "alex")); out.Allowed || len(out.Decisions) != 1 {
		t.Errorf("%+v; want a refusal that does not mention the shadow", out)
	}
	out := decide(g, gate.Ask{Requests: one("/", "alex").Requests, Peek: true})
	if out.Allowed {
		t.Errorf("peek: %+v; want refused", out)
	}
	decide(g, one("/", "kim"))
	out = decide(g, gate.Ask{Requests: one("/", "kim").Requests})
	if out.Allowed {
		t.Fatal("second request of kim allowed")
	}
	g.Swap(&gate.Snapshot{Rules: newSet(t, shadow), Identity: byHeader{}})
	if diff := cmp.Diff([]said{{"shadow", true, 3}}, heard(decide(g, one("/", "kim")))); diff != "" {
		t.Errorf("1 of 5 was spent before, 1 now (-want +got):\n%s", diff)
	}
}

func TestSeveralRequestsAtOnce(t *testing.T) {
	g := newGate(t, memory.New(nil), rule("r", 5, time.Minute))
	both := gate.Ask{Requests: []rules.Request{caller{"/", "alex"}, caller{"/", "kim"}}, Cost: 3}
	out := decide(g, both)
	if !out.Allowed || out.Decisions[0].Request != 0 || out.Decisions[1].Request != 1 {
		t.Fatalf("%+v; want both allowed, in order", out)
	}
	decide(g, gate.Ask{Requests: []rules.Request{caller{"/", "kim"}}, Cost: 1})
	out = decide(g, gate.Ask{Requests: both.Requests, Cost: 2})
	if diff := cmp.Diff([]said{{"r", true, 2}, {"r", false, 1}}, heard(out)); out.Allowed || diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if out := decide(g, gate.Ask{Requests: both.Requests, Cost: 6}); !errors.Is(out.Err, limit.ErrCost) || out.Status != 503 {
		t.Errorf("a cost above the burst: %+v; want ErrCost", out)
	}
}

func TestPeekChargesNothing(t *testing.T) {
	g := newGate(t, memory.New(nil), rule("r", 2, time.Minute))
	ask := one("/", "alex")
	ask.Peek = true
	for range 10 {
		if diff := cmp.Diff([]said{{"r", true, 2}}, heard(decide(g, ask))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// broken is a store that is down.
type broken struct{ limit.Store }

func (broken) Update(context.Context, []string, func(algo.Ticks, []limit.Cell) error) error {
	return &limit.StoreError{Store: "broken", Op: "update", Err: errors.New("connection refused")}
}

func TestStoreFaultIsNeverADenial(t *testing.T) {
	for failure, want := range map[string]struct {
		allowed bool
		status  int
	}{"deny": {false, 503}, "allow": {true, 0}, "local": {true, 0}} {
		t.Run(failure, func(t *testing.T) {
			spec := rule("r", 1, time.Minute)
			spec.OnStoreError = failure
			l := limit.New(broken{memory.New(nil)}, &limit.Options{Local: memory.New(nil)})
			g := gate.New(l, &gate.Snapshot{Rules: newSet(t, spec), Identity: byHeader{}}, nil)
			out := decide(g, one("/", "alex"))
			if out.Allowed != want.allowed || out.Status != want.status {
				t.Errorf("%+v; want allowed=%v status=%d", out, want.allowed, want.status)
			}
			if want.allowed != (out.Err == nil) || want.allowed && !out.Decisions[0].Degraded {
				t.Errorf("%+v; want an error, or a degraded decision", out)
			}
		})
	}
}

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shaped := rule("shaped", 60, time.Minute)
		shaped.Limits[0].Burst = new(int64(1))
		shaped.Queue = &rules.QueueSpec{MaxWait: rules.Duration(2500 * time.Millisecond), MaxQueue: 5}
		g := newGate(t, memory.New(nil), shaped)

		began := time.Now()
		type end struct {
			Allowed     bool
			At          time.Duration
			Waited      time.Duration
			RetryAfter  time.Duration
			StatusOfRef int
		}
		ends := make([]end, 4)
		var wg sync.WaitGroup
		for i := range ends {
			wg.Go(func() {
				out := decide(g, one("/", "alex"))
				ends[i] = end{out.Allowed, time.Since(began), out.Waited, out.RetryAfter, out.Status}
			})
			synctest.Wait()
		}
		wg.Wait()
		want := []end{
			{true, 0, 0, 0, 0},
			{true, time.Second, time.Second, 0, 0},
			{true, 2 * time.Second, 2 * time.Second, 0, 0},
			{false, 0, 0, 3 * time.Second, 429}, // its turn would come after max_wait
		}
		if diff := cmp.Diff(want, ends); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestQueueDoesNotWaitForAnotherRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shaped := rule("shaped", 60, time.Minute)
		shaped.Queue = &rules.QueueSpec{MaxWait: rules.Duration(time.Minute), MaxQueue: 5}
		g := newGate(t, memory.New(nil), shaped, rule("hard", 1, 10*time.Second))
		began := time.Now()
		decide(g, one("/", "alex"))
		out := decide(g, one("/", "alex"))
		if out.Allowed || time.Since(began) != 0 || out.RetryAfter != 10*time.Second {
			t.Errorf("%+v after %v; want the hard rule's refusal at once", out, time.Since(began))
		}
	})
}

func TestCallerWhoGoesLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shaped := rule("shaped", 1, time.Minute)
		shaped.Queue = &rules.QueueSpec{MaxWait: rules.Duration(time.Minute), MaxQueue: 1}
		g := newGate(t, memory.New(nil), shaped)
		decide(g, one("/", "alex"))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var out gate.Outcome
		g.Decide(ctx, one("/", "alex"), &out)
		if out.Allowed || !errors.Is(out.Err, context.DeadlineExceeded) || out.Waited != time.Second {
			t.Errorf("%+v; want the caller's deadline", out)
		}
		if out := decide(g, one("/", "alex")); !out.Allowed || out.Waited != 59*time.Second {
			t.Errorf("%+v; want the place in line that was left", out)
		}
	})
}

func TestOverrides(t *testing.T) {
	base := rule("r", 1, time.Minute)
	until := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	base.Overrides = []rules.OverrideSpec{
		{When: map[string]rules.Pattern{"user": "admin"}, Exempt: true},
		{When: map[string]rules.Pattern{"user": "gold"}, Until: &until, Limits: []rules.LimitSpec{{Quota: 3, Window: rules.Duration(time.Minute)}}},
	}
	now := until.Add(-time.Second)
	g := gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: newSet(t, base), Identity: byHeader{}}, &gate.Options{Clock: func() time.Time { return now }})
	count := func(user string) (n int) {
		for range 10 {
			if decide(g, one("/", user)).Allowed {
				n++
			}
		}
		return n
	}
	if a, b, c := count("admin"), count("gold"), count("alex"); a != 10 || b != 3 || c != 1 {
		t.Errorf("admin %d, gold %d, alex %d of 10; want 10, 3, 1", a, b, c)
	}
	now = until
	out := decide(g, one("/", "gold"))
	if out.Allowed || out.Decisions[0].Limit != 1 {
		t.Errorf("after the end of the override: %+v; want the rule's own limit, with what was spent", out)
	}
}

func TestHTTPAllocatesOnlyTheKey(t *testing.T) {
	g := newGate(t, memory.New(nil), rule("r", 1_000_000_000, time.Hour))
	r := httptest.NewRequest("GET", "/items", nil)
	r.Header.Set("X-User", "alex")
	var out gate.Outcome
	if n := testing.AllocsPerRun(1000, func() { g.HTTP(r, &out) }); n > 2 { // the key, and byHeader's caller
		t.Errorf("%v allocations", n)
	}
}
