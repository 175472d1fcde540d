package limittest

import (
	"fmt"
	"testing"

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
	histories, stride := 0, &stride{h: h}
	for _, a := range algo.All {
		t.Run(a.Name, func(t *testing.T) {
			randomly(t, func(r *rapid.T) {
				histories++
				compare(t, r, stride, s, fast, a, fmt.Sprint("history ", histories))
			})
		})
	}
}

func compare(t *testing.T, r *rapid.T, stride *stride, s limit.Store, fast limit.Taker, a *algo.Algorithm, key string) {
	p := drawPolicy(r, a)
	var pure algo.State
	var expires algo.Ticks
	for range rapid.IntRange(1, 20).Draw(r, "steps") {
		if rapid.IntRange(0, 9).Draw(r, "change") == 0 {
			p = drawPolicy(r, a)
		}
		stride.take(t, r, p)
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
