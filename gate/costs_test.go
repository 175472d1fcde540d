package gate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
)

// TestCosts: each request has its own cost, may only look, and one that never fits
// is a denial; all are charged, or none.
func TestCosts(t *testing.T) {
	shadow := rule("shadow", 4, time.Hour)
	shadow.Shadow = true
	g := newGate(t, memory.New(nil), rule("user", 5, time.Hour), shadow)
	two := func(peek bool, costs ...int64) gate.Ask {
		return gate.Ask{Requests: []rules.Request{caller{"/", "a"}, caller{"/", "b"}}, Costs: costs, Peek: peek}
	}
	for i, tt := range []struct {
		ask     gate.Ask
		allowed bool
		want    []said
	}{
		{two(false, 3, 0), true, []said{{"user", true, 2}, {"user", true, 4}, {"shadow", true, 1}, {"shadow", true, 3}}},
		{two(false, gate.Look, 2), true, []said{{"user", true, 2}, {"user", true, 2}, {"shadow", true, 1}, {"shadow", true, 1}}},
		{two(false, 3, 1), false, []said{{"user", false, 2}, {"user", true, 2}}},
		{two(false, 6, 1), false, []said{{"user", false, 2}, {"user", true, 2}}},
		{two(true, 6, gate.Look), false, []said{{"user", false, 2}, {"user", true, 2}}},
		{two(true, 2, gate.Look), true, []said{{"user", true, 2}, {"user", true, 2}, {"shadow", false, 1}, {"shadow", true, 1}}},
		{two(false, 2, gate.Look), true, []said{{"user", true, 0}, {"user", true, 2}, {"shadow", false, 1}, {"shadow", true, 1}}},
		{two(false, gate.Look, 2), false, []said{{"user", false, 0}, {"user", true, 2}}},
		{two(false, 5, 2), false, []said{{"user", false, 0}, {"user", true, 2}}},
	} {
		out := decide(g, tt.ask)
		if out.Err != nil || out.Allowed != tt.allowed || !out.Allowed && out.RetryAfter <= 0 {
			t.Errorf("%d: allowed %v, retry %v, %v", i, out.Allowed, out.RetryAfter, out.Err)
		}
		if diff := cmp.Diff(tt.want, heard(out)); diff != "" {
			t.Errorf("%d (-want +got):\n%s", i, diff)
		}
	}
	if out := decide(g, gate.Ask{Requests: []rules.Request{caller{"/", "a"}}, Cost: 6}); !errors.Is(out.Err, limit.ErrCost) {
		t.Errorf("one cost for all that never fits: %v", out.Err)
	}
}

// TestCostsInLine: who only looks does not wait its turn.
func TestCostsInLine(t *testing.T) {
	r := rule("user", 1, time.Hour)
	r.Queue = &rules.QueueSpec{MaxWait: rules.Duration(time.Hour), MaxQueue: 5}
	g := newGate(t, memory.New(nil), r)
	for i, cost := range []int64{1, gate.Look, 2} {
		out := decide(g, gate.Ask{Requests: []rules.Request{caller{"/", "a"}}, Costs: []int64{cost}})
		if out.Err != nil || out.Waited != 0 || out.Allowed != (i == 0) {
			t.Errorf("cost %d: allowed %v after %v, %v", cost, out.Allowed, out.Waited, out.Err)
		}
	}
}

func TestInsteadAndExempt(t *testing.T) {
	r := rule("user", 1, time.Hour)
	r.Overrides = []rules.OverrideSpec{{When: map[string]rules.Pattern{"user": "free"}, Exempt: true}}
	g := newGate(t, memory.New(nil), r)
	instead := newSet(t, rule("instead", 3, time.Hour)).Match(nil, caller{"/", "a"}, time.Now)
	out := decide(g, gate.Ask{
		Requests: []rules.Request{caller{"/", "a"}, caller{"/", "free"}, caller{"/", "b"}, caller{"/", "c"}},
		Instead:  [][]rules.Match{instead, nil, nil, {}},
	})
	if diff := cmp.Diff([]said{{"instead", true, 2}, {"user", true, 0}}, heard(out)); diff != "" {
		t.Error(diff)
	}
	for i, want := range []bool{false, true, false, false} {
		if got := out.Exempt(i); got != want {
			t.Errorf("request %d is exempt: %v", i, got)
		}
	}
}

// TestReplaces: a rule takes others away from all that is decided together, unless
// its caller is exempt from it or it is in shadow.
func TestReplaces(t *testing.T) {
	special := func(change func(*rules.RuleSpec)) *gate.Gate {
		general, special := rule("general", 5, time.Hour), rule("special", 9, time.Hour)
		special.Match.Attributes = map[string]rules.Pattern{"user": "a"}
		special.Replaces = []string{"general"}
		change(&special)
		return newGate(t, memory.New(nil), special, general)
	}
	both := gate.Ask{Requests: []rules.Request{caller{"/", "b"}, caller{"/", "a"}}}
	for name, tt := range map[string]struct {
		change func(*rules.RuleSpec)
		ask    gate.Ask
		want   []said
	}{
		"alone":               {func(*rules.RuleSpec) {}, one("/", "a"), []said{{"special", true, 8}}},
		"decided together":    {func(*rules.RuleSpec) {}, both, []said{{"special", true, 8}}},
		"where it is not for": {func(*rules.RuleSpec) {}, one("/", "b"), []said{{"general", true, 4}}},
		"in shadow":           {func(r *rules.RuleSpec) { r.Shadow = true }, one("/", "a"), []said{{"general", true, 4}, {"special", true, 8}}},
		"exempt": {func(r *rules.RuleSpec) {
			r.Overrides = []rules.OverrideSpec{{When: map[string]rules.Pattern{"user": "a"}, Exempt: true}}
		}, one("/", "a"), []said{{"general", true, 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, heard(decide(special(tt.change), tt.ask))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
