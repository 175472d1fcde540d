package limittest

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// taker spends on random histories, now through Take and now through Update.
// Both must give the verdicts of the pure algorithm and leave its States.
func taker(t *testing.T, h Harness) {
	s := h.open(t)
	fast, ok := s.(limit.Taker)
	switch {
	case !ok:
		t.Skip("the store is no limit.Taker")
	case h.Advance == nil:
		t.Skip("the store's clock cannot be set")
	}
	histories := 0
	for _, a := range algo.All {
		t.Run(a.Name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				histories++
				compare(t, r, h, s, fast, a, fmt.Sprint("history ", histories))
			})
		})
	}
}

func compare(t *testing.T, r *rapid.T, h Harness, s limit.Store, fast limit.Taker, a *algo.Algorithm, key string) {
	p := drawPolicy(r, a)
	var pure algo.State
	var expires algo.Ticks
	for range rapid.IntRange(1, 20).Draw(r, "steps") {
		if rapid.IntRange(0, 9).Draw(r, "change") == 0 {
			p = drawPolicy(r, a)
		}
		window := int64(p.Window / time.Microsecond)
		gap := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 10), rapid.Int64Range(0, window/2), rapid.Int64Range(0, 3*window)).Draw(r, "gap")
		h.Advance(t, time.Duration(gap)*time.Microsecond)
		kept, now := look(t, s, limit.StoreKey(p, key))
		if now >= expires && kept.Equal(algo.State{}) {
			pure = kept // dropped; under another limit that may be earlier than its reset
		}
		if !kept.Equal(pure) {
			r.Fatalf("at %d Update sees %s, want %s", now, brief(kept), brief(pure))
		}
		_, peek := p.Decide(pure, now, 0)
		cost := rapid.OneOf(
			rapid.Just(int64(1)),
			rapid.Just(peek.Remaining),
			rapid.Just(min(peek.Remaining, p.Capacity()-1)+1),
			rapid.Int64Range(-p.Capacity(), p.Capacity()),
		).Draw(r, "cost")

		var want, got algo.Verdict
		var err error
		pure, want = p.Decide(kept, now, cost)
		if !pure.Equal(kept) {
			expires = now + want.ResetAfter
		}
		if rapid.Bool().Draw(r, "through update") {
			got, err = spend(t.Context(), s, p, key, cost)
		} else {
			got, err = fast.Take(t.Context(), p, key, cost)
		}
		if err != nil {
			r.Fatal(err)
		}
		if got != want {
			r.Fatalf("at %d, a cost of %d under %+v: got %+v, want %+v", now, cost, p.Limit(), got, want)
		}
	}
}

func drawPolicy(r *rapid.T, a *algo.Algorithm) *limit.Policy {
	units := rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, min(a.MaxQuota, 1e12)))
	windows := rapid.OneOf(
		rapid.SampledFrom([]int64{1e3, 1e6, 60e6, 3600e6}),
		rapid.Int64Range(1e3, 3600e6),
	)
	return &limit.Policy{
		Name:      "drawn",
		Algorithm: a,
		Quota:     units.Draw(r, "quota"),
		Window:    time.Duration(windows.Draw(r, "window")) * time.Microsecond,
		Burst:     units.Draw(r, "burst"),
	}
}
