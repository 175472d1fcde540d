package slotstest

import (
	"math"
	"slices"
	"testing"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

func bookings(t *testing.T, h Harness) {
	clients := h.clients(t)
	create(t, clients[0], "payments")
	alice, bob := event("alice", 1, 0), event("bob", 1, 9)
	past := slots.Event{ID: "past", Requested: plan.MinInstant, Booked: noon, Slot: plan.Slot{Era: 3, Window: math.MinInt64 / 4, Phase: 1<<22 - 1, At: plan.MinInstant}}
	future := slots.Event{ID: "future", Requested: plan.MaxInstant, Booked: noon, Slot: plan.Slot{Era: 3, Window: math.MaxInt64 / 4, Phase: 0, At: plan.MaxInstant}}
	all := []slots.Event{alice, bob, past, future}
	commit(t, clients[0], "payments", &slots.Changes{
		Booked: all,
		Windows: []plan.Window{
			{Era: 0, Index: 1, Taken: bits(0, 9)},
			{Era: 3, Index: past.Window, Taken: bits(past.Phase)},
			{Era: 3, Index: future.Window, Taken: bits(0)},
		},
	})
	for _, e := range all {
		same(t, "Event "+e.ID, e, lookUp(t, clients[1], "payments", e.ID))
	}
	tx := begin(t, clients[1], "payments", "alice", "carol", "future", "past", "alice")
	same(t, "Known", map[string]slots.Event{"alice": alice, "future": future, "past": past}, tx.Known())
	taken(t, tx, 0, []int64{0, 1, 2}, plan.Window{Index: 1, Taken: bits(0, 9)})
	taken(t, tx, 3, []int64{future.Window, 1, past.Window},
		plan.Window{Era: 3, Index: past.Window, Taken: bits(past.Phase)}, plan.Window{Era: 3, Index: future.Window, Taken: bits(0)})
	load(t, tx, plan.Need{From: 0, Windows: 1})
	load(t, tx, plan.Need{From: 1, Windows: 1}, plan.Window{Index: 1, Taken: bits(0, 9)})
	load(t, tx, plan.Need{Era: 3, From: past.Window, Windows: 1}, plan.Window{Era: 3, Index: past.Window, Taken: bits(past.Phase)})
	load(t, tx, plan.Need{Era: 4, From: 1, Windows: 100})
	tx.Rollback()

	tx = begin(t, clients[1], "payments")
	same(t, "Known of nobody asked for", nil, tx.Known())
}

// taken checks what Taken says, in whatever order and with whatever empty windows.
func taken(t testing.TB, tx slots.Tx, era int, windows []int64, want ...plan.Window) {
	t.Helper()
	got, err := tx.Taken(era, windows)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "Taken", want, settled(got))
}

// settled returns windows that are not empty, in order, without zeros at the end.
func settled(windows []plan.Window) (some []plan.Window) {
	for _, w := range windows {
		w.Taken = slices.Clone(w.Taken).Without(1 << 30)
		if len(w.Taken) > 0 {
			some = append(some, w)
		}
	}
	slices.SortFunc(some, func(a, b plan.Window) int { return int(min(1, max(-1, a.Index-b.Index))) })
	return some
}

// load checks what Load says of the windows that were asked for, where no run of
// full ones is.
func load(t testing.TB, tx slots.Tx, n plan.Need, want ...plan.Window) {
	t.Helper()
	c, err := tx.Load(n)
	if err != nil {
		t.Fatal(err)
	}
	var asked []plan.Window
	for _, w := range c.Taken {
		if w.Index < n.From+int64(n.Windows) {
			asked = append(asked, w)
		}
	}
	same(t, "Load", want, settled(asked))
	if c.To <= n.From || len(c.Full) > 0 {
		t.Errorf("Load(%+v) answers to %d and has full windows %v; want more than was asked from, and none full", n, c.To, c.Full)
	}
}

// loads has runs of full windows made and cut, and looks at them from all sides.
func loads(t *testing.T, h Harness) {
	l := h.open(t)
	create(t, l, "payments")
	commit(t, l, "payments", &slots.Changes{
		Windows: []plan.Window{{Index: 9, Taken: bits(1)}, {Index: 15, Taken: bits(2)}, {Index: 31, Taken: bits(3)}, {Index: 5000, Taken: bits(4)}},
		Full:    []plan.Run{{From: 10, To: 20}, {From: 20, To: 30}, {From: 40, To: 4000}, {Era: 1, From: 9, To: 10}, {From: -30, To: -20}},
	})
	tx := begin(t, l, "payments")
	for from := int64(-35); from < 45; from++ {
		for _, windows := range []int{1, 2, 50} {
			checkLoad(t, tx, plan.Need{From: from, Windows: windows},
				plan.Runs{{From: -30, To: -20}, {From: 10, To: 20}, {From: 20, To: 30}, {From: 40, To: 4000}},
				map[int64]plan.Bits{9: bits(1), 15: bits(2), 31: bits(3)})
		}
	}
	checkLoad(t, tx, plan.Need{Era: 1, From: 0, Windows: 10}, plan.Runs{{Era: 1, From: 9, To: 10}}, nil)
	checkLoad(t, tx, plan.Need{From: 3999, Windows: 1}, plan.Runs{{From: 40, To: 4000}}, map[int64]plan.Bits{5000: bits(4)})
	checkLoad(t, tx, plan.Need{From: 4000, Windows: 1000}, nil, map[int64]plan.Bits{5000: bits(4)})
	tx.Rollback()

	// First what is cut out, then what is full; what is full replaces what it overlaps.
	commit(t, l, "payments", &slots.Changes{
		Reopened: []plan.Run{{From: 12, To: 13}, {From: 25, To: 45}, {Era: 1, From: math.MinInt64, To: math.MaxInt64}},
		Full:     []plan.Run{{From: 12, To: 16}, {From: 4000, To: 4001}, {From: 3998, To: 3999}},
	})
	tx = begin(t, l, "payments")
	runs := plan.Runs{
		{From: -30, To: -20}, {From: 10, To: 12}, {From: 12, To: 16}, {From: 16, To: 20}, {From: 20, To: 25},
		{From: 45, To: 3998}, {From: 3998, To: 3999}, {From: 3999, To: 4000}, {From: 4000, To: 4001},
	}
	for _, from := range []int64{-40, 0, 10, 13, 24, 25, 26, 44, 45, 46, 3999} {
		checkLoad(t, tx, plan.Need{From: from, Windows: 3}, runs, map[int64]plan.Bits{9: bits(1), 15: bits(2), 31: bits(3)})
	}
	checkLoad(t, tx, plan.Need{Era: 1, From: 0, Windows: 10}, nil, nil)
}

// checkLoad compares what Load says with all runs, as they were made and cut, and
// all windows that are not empty. Runs that touch may be kept as one.
func checkLoad(t testing.TB, tx slots.Tx, n plan.Need, runs plan.Runs, windows map[int64]plan.Bits) {
	t.Helper()
	c, err := tx.Load(n)
	if err != nil {
		t.Fatalf("Load(%+v): %v", n, err)
	}
	if c.To <= n.From {
		t.Fatalf("Load(%+v) answers to %d: it must tell of one window at least", n, c.To)
	}
	var want []plan.Run
	for _, r := range joined(runs) {
		if r.To > n.From && r.From < c.To {
			want = append(want, r)
		}
	}
	// Of runs that touch, those that are over before From may be left out, as may
	// those that begin at To or later.
	got := joined(c.Full)
	for i := range min(len(want), len(got)) {
		for _, r := range runs {
			if got[i].From == r.From && r.From <= n.From {
				want[i].From = max(want[i].From, r.From)
			}
			if got[i].To == r.To && r.To >= c.To {
				want[i].To = min(want[i].To, r.To)
			}
		}
	}
	same(t, "runs that a Load tells of", want, got)

	full := func(k int64) bool {
		return slices.ContainsFunc(runs, func(r plan.Run) bool { return r.From <= k && k < r.To })
	}
	var wantTaken, gotTaken []plan.Window
	for k, b := range windows {
		if k >= n.From && k < c.To && !full(k) {
			wantTaken = append(wantTaken, plan.Window{Era: n.Era, Index: k, Taken: b})
		}
	}
	if !slices.IsSortedFunc(c.Taken, func(a, b plan.Window) int { return int(a.Index - b.Index) }) {
		t.Errorf("Load(%+v): the windows are not in ascending order: %v", n, c.Taken)
	}
	for _, w := range c.Taken {
		if w.Index < n.From {
			t.Errorf("Load(%+v) tells of window %d", n, w.Index)
		}
		if w.Index < c.To && !full(w.Index) {
			gotTaken = append(gotTaken, w)
		}
	}
	same(t, "windows that a Load tells of", settled(wantTaken), settled(gotTaken))
}

// joined returns runs of one era, in ascending order, with those that touch as one.
func joined(runs []plan.Run) (all []plan.Run) {
	for _, r := range runs {
		if n := len(all); n > 0 && all[n-1].To == r.From {
			all[n-1].To = r.To
		} else {
			all = append(all, r)
		}
	}
	return all
}

func strays(t *testing.T, h Harness) {
	l := h.open(t)
	create(t, l, "payments")
	create(t, l, "refunds")
	at := func(id string, era, phase int, after plan.Ticks) slots.Event {
		e := event(id, int64(after), phase)
		e.Era, e.At = era, noon+after
		return e
	}
	// Neither in the order of time nor of places.
	a, b, c, d, e := at("a", 0, 5, 40), at("b", 1, 0, 10), at("c", 0, 4, 30), at("d", 2, 9, 20), at("e", 1, 8, 50)
	commit(t, l, "payments", &slots.Changes{Booked: []slots.Event{a, b, c, d, e}})
	commit(t, l, "refunds", &slots.Changes{Booked: []slots.Event{a}})
	tx := begin(t, l, "payments")
	for _, test := range []struct {
		what       string
		era, phase int
		from, to   plan.Ticks
		want       []slots.Event
	}{
		{"all", 0, 0, plan.MinInstant, plan.MaxInstant + 1, []slots.Event{b, d, c, a, e}},
		{"all of an era that is not there", 7, 0, noon, noon + 100, []slots.Event{b, d, c, a, e}},
		{"other eras", 0, math.MaxInt, noon, noon + 100, []slots.Event{b, d, e}},
		{"from a phase on", 0, 5, noon, noon + 100, []slots.Event{b, d, a, e}},
		{"of another era", 1, 8, noon, noon + 100, []slots.Event{d, c, a, e}},
		{"from, included", 0, 0, noon + 20, noon + 100, []slots.Event{d, c, a, e}},
		{"to, not included", 0, 0, noon, noon + 40, []slots.Event{b, d, c}},
		{"none", 0, 0, noon + 41, noon + 50, nil},
	} {
		got, err := tx.Strays(test.era, test.phase, test.from, test.to)
		if err != nil {
			t.Fatal(err)
		}
		var want []plan.Slot
		for _, e := range test.want {
			want = append(want, e.Slot)
		}
		same(t, "Strays: "+test.what, want, got)
	}
}
