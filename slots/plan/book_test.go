package plan_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/slots/plan"
)

func mustNew(t testing.TB, now plan.Ticks, versions ...plan.Version) *plan.Timeline {
	t.Helper()
	line, err := plan.New(now, versions...)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func mustBook(t testing.TB, l *ledger, line *plan.Timeline, now plan.Ticks, n int, r plan.Request) []plan.Grant {
	t.Helper()
	grants, err := l.book(line, now, slices.Repeat([]plan.Request{r}, n)...)
	if err != nil {
		t.Fatal(err)
	}
	return grants
}

// perWindow counts the slots of each window of a span of time.
func perWindow(l *ledger, window plan.Ticks) map[int64]int {
	counts := map[int64]int{}
	for _, s := range l.events() {
		counts[int64(s.At/window)]++
	}
	return counts
}

var payments = plan.Version{Max: 100, Window: 4 * plan.Second}

func TestWindowsFillUpInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		v      plan.Version
		events int
	}{
		"10,000 events at once":     {payments, 10_000},
		"a window of a millisecond": {plan.Version{Max: 10, Window: plan.Millisecond}, 10_000},
		"a window of a day":         {plan.Version{Max: 1_000_000, Window: plan.Day}, 10_000},
		"a window of a year":        {plan.Version{Max: 7, Window: plan.MaxWindow}, 100},
		"spread":                    {plan.Version{Max: 7, Window: plan.Second, Mode: plan.Spread}, 1000},
		"one event in each window":  {plan.Version{Max: 1, Window: 4 * plan.Second, Seed: 1 << 63}, 100},
	} {
		l := newLedger()
		mustBook(t, l, mustNew(t, 0, c.v), 0, c.events, plan.Request{})
		counts := perWindow(l, c.v.Window)
		for k := range c.events / c.v.Max {
			if counts[int64(k)] != c.v.Max {
				t.Errorf("%s: %d slots in window %d, not %d", name, counts[int64(k)], k, c.v.Max)
			}
		}
	}
}

func TestRestOfAWindowIsUsedInFull(t *testing.T) {
	l, line := newLedger(), mustNew(t, 0, payments)
	mustBook(t, l, line, 0, 60, plan.Request{})
	for _, g := range mustBook(t, l, line, 0, 1, plan.Request{At: 3 * plan.Second}) {
		if g.At < 3*plan.Second || g.At >= 4*plan.Second {
			t.Errorf("60 of 100 are taken, and a request at 3s gets %d", g.At)
		}
	}
}

func TestAWindowWithoutARowIsEmpty(t *testing.T) {
	l, line := newLedger(), mustNew(t, 0, payments)
	mustBook(t, l, line, 0, 1, plan.Request{At: 30 * plan.Day})
	mustBook(t, l, line, 0, 100, plan.Request{})
	if g := mustBook(t, l, line, 0, 1, plan.Request{})[0]; g.At < 4*plan.Second || g.At >= 8*plan.Second {
		t.Errorf("after the first window is full, the next event goes to %d", g.At)
	}
}

func TestARunOfFullWindowsIsSkippedAtOnce(t *testing.T) {
	l, line := newLedger(), mustNew(t, 0, payments)
	mustBook(t, l, line, 0, 500_000, plan.Request{})
	if len(l.full[0]) != 1 || l.full[0][0] != (plan.Run{From: 0, To: 5000}) {
		t.Fatalf("5,000 full windows are kept as %v", l.full)
	}
	l.loads = 0
	if g := mustBook(t, l, line, 0, 1, plan.Request{})[0]; g.Window != 5000 || l.loads > 1 {
		t.Errorf("the next event is in window %d, after %d loads", g.Window, l.loads)
	}
	s := plan.Slot{Window: 1234, Phase: 56}
	l.cancel(line, s)
	if g := mustBook(t, l, line, 0, 1, plan.Request{})[0]; g.Window != s.Window || g.Phase != s.Phase {
		t.Errorf("a slot that was given back is %+v, the next event gets %+v", s, g)
	}
}

func TestMaxIsRaisedInWindowsThatWereFull(t *testing.T) {
	l, raised := newLedger(), payments
	raised.Max = 200
	mustBook(t, l, mustNew(t, 0, payments), 0, 1000, plan.Request{})
	clear(l.full)
	mustBook(t, l, mustNew(t, 0, payments, raised), 0, 1000, plan.Request{})
	counts := perWindow(l, 4*plan.Second)
	for k := range int64(10) {
		if counts[k] != 200 {
			t.Errorf("window %d has %d slots", k, counts[k])
		}
	}
}

func TestMaxIsLowered(t *testing.T) {
	l, lowered := newLedger(), payments
	lowered.Max = 50
	line := mustNew(t, 0, payments)
	for k := range plan.Ticks(150) {
		mustBook(t, l, line, 0, 80, plan.Request{At: k * 4 * plan.Second})
	}
	clear(l.full)
	if g := mustBook(t, l, mustNew(t, 0, payments, lowered), 0, 1, plan.Request{})[0]; g.Window != 150 {
		t.Errorf("150 windows, from 0 on, hold 80, 50 are allowed, and the next event goes to window %d", g.Window)
	}
}

func TestTheWindowChangesWhileManySlotsAreBooked(t *testing.T) {
	l := newLedger()
	mustBook(t, l, mustNew(t, 0, payments), 0, 8000, plan.Request{})
	for _, v := range []plan.Version{{Max: 250, Window: 10 * plan.Second}, {Max: 20, Window: plan.Second}, {Max: 2000, Window: plan.Minute}, {Max: 150, Window: 4 * plan.Second, Seed: 1}} {
		clear(l.full)
		line := mustNew(t, 0, payments, v)
		for _, g := range mustBook(t, l, line, 0, 10, plan.Request{}) {
			if n := most(sortedByTime(l.events()), v.Window, g.At); n > v.Max {
				t.Errorf("%+v: %d slots in an interval around %+v", v, n, g)
			}
			l.cancel(line, g.Slot)
		}
	}
}

func TestLimitsOfARequest(t *testing.T) {
	l, line := newLedger(), mustNew(t, 0, plan.Version{Max: 1, Window: 4 * plan.Second})
	for i, want := range []plan.Grant{
		{},
		{Slot: plan.Slot{Window: 1, At: 4 * plan.Second}, Delay: 4 * plan.Second},
		{Slot: plan.Slot{Window: 2, At: 8 * plan.Second}, Delay: 8 * plan.Second, Refused: plan.TooLate},
	} {
		if g := mustBook(t, l, line, 0, 1, plan.Request{MaxDelay: 8*plan.Second - 1})[0]; g != want {
			t.Errorf("request %d: got %+v, want %+v", i, g, want)
		}
	}
	want := plan.Grant{Slot: plan.Slot{Window: 2, At: 8 * plan.Second}, Delay: 8 * plan.Second, Refused: plan.TooFar}
	if g := mustBook(t, l, line, 0, 1, plan.Request{Horizon: 8*plan.Second - 1})[0]; g != want {
		t.Errorf("got %+v, want %+v", g, want)
	}
	want.Refused = ""
	if g := mustBook(t, l, line, 0, 1, plan.Request{Horizon: 8 * plan.Second, MaxDelay: 8 * plan.Second})[0]; g != want {
		t.Errorf("a refused request has consumed something: got %+v, want %+v", g, want)
	}
	if g := mustBook(t, l, line, 11*plan.Second, 1, plan.Request{At: 0, MaxDelay: plan.Second})[0]; g.At != 12*plan.Second || g.Delay != plan.Second || g.Refused != "" {
		t.Errorf("a request of the past is one of now: %+v", g)
	}
}

func TestQuoteIsWhatBookGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line, err := plan.New(0, drawVersion(t))
		if err != nil {
			t.Fatal(err)
		}
		l := newLedger()
		if _, err := l.book(line, 0, drawRequests(t, 0, 8)...); err != nil {
			t.Fatal(err)
		}
		r := plan.Request{At: plan.Ticks(rapid.IntRange(0, 5000).Draw(t, "at")), MaxDelay: plan.Ticks(rapid.IntRange(0, 5000).Draw(t, "max delay"))}
		n := rapid.IntRange(1, 30).Draw(t, "n")
		q, err := line.Quote(0, r, n, l)
		if err != nil {
			t.Fatal(err)
		}
		grants, err := l.book(line, 0, slices.Repeat([]plan.Request{r}, n)...)
		if err != nil {
			t.Fatal(err)
		}
		var want plan.Quote
		for _, g := range grants {
			if want.Refused = g.Refused; g.Refused != "" {
				want.Next = g.Slot
				break
			}
			want.Granted++
			want.First, want.Median, want.Last = grants[0].Delay, grants[(want.Granted-1)/2].Delay, g.Delay
		}
		if q != want {
			t.Fatalf("got %+v, want %+v", q, want)
		}
	})
}

func TestVersionsThatAreRefused(t *testing.T) {
	for why, v := range map[string]plan.Version{
		"max: 0 is too small":          {Window: plan.Second},
		"max: -1 is too small":         {Max: -1, Window: plan.Second},
		"at most 333 is allowed":       {Max: 334, Window: plan.Millisecond},
		"at most 4194304 is allowed":   {Max: 1<<22 + 1, Window: plan.Day},
		"PT0.001S to P366D":            {Max: 1, Window: plan.Millisecond - 1},
		"is out of bounds; PT0.001S":   {Max: 1, Window: math.MaxInt64},
		`mode: "even" is unknown`:      {Max: 1, Window: plan.Second, Mode: "even"},
		"from: 9223372036854775807 is": {Max: 1, Window: plan.Second, From: math.MaxInt64},
	} {
		if _, err := plan.New(0, v); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if _, err := plan.New(0); err == nil {
		t.Error("no version at all is allowed")
	}
}

// broken is an Occupancy that fails.
type broken struct{ error }

func (b broken) Load(plan.Need) (plan.Chunk, error)                           { return plan.Chunk{To: -1}, b.error }
func (b broken) Strays(int, int, plan.Ticks, plan.Ticks) ([]plan.Slot, error) { return nil, b.error }

func TestErrorsOfTheLedgerAreReturned(t *testing.T) {
	down := errors.New("the database is down")
	line := mustNew(t, 0, payments)
	if _, err := line.Book(0, make([]plan.Request, 1), broken{down}); !errors.Is(err, down) {
		t.Errorf("Book: %v", err)
	}
	if _, err := line.Quote(0, plan.Request{}, 1, broken{down}); !errors.Is(err, down) {
		t.Errorf("Quote: %v", err)
	}
	if _, err := line.Book(0, make([]plan.Request, 1), broken{}); err == nil {
		t.Error("an answer that does not go forward is taken")
	}
}

func TestTheEndOfTime(t *testing.T) {
	l, line := newLedger(), mustNew(t, plan.MinInstant, plan.Version{From: plan.MinInstant, Max: 2, Window: plan.MaxWindow})
	for _, at := range []plan.Ticks{plan.MinInstant, -1, 0, 9_223_372_036_854_775, plan.MaxInstant} {
		g := mustBook(t, l, line, plan.MinInstant, 1, plan.Request{At: at})[0]
		if g.Refused == "" && (g.At < at || g.At > plan.MaxInstant) || g.Refused != "" && at != plan.MaxInstant {
			t.Errorf("request at %d: %+v", at, g)
		}
	}
	for _, at := range []plan.Ticks{math.MinInt64, plan.MinInstant - 1, plan.MaxInstant + 1, math.MaxInt64} {
		if _, err := line.Book(0, []plan.Request{{At: at}}, l); err == nil {
			t.Errorf("a request at %d is taken", at)
		}
		if _, err := line.Book(at, nil, l); err == nil {
			t.Errorf("a now of %d is taken", at)
		}
		if _, err := line.Quote(at, plan.Request{}, 1, l); err == nil {
			t.Errorf("a quote at %d is given", at)
		}
	}
}

func FuzzBook(f *testing.F) {
	f.Add(int64(0), int64(0), int64(4_000_000), int64(100), int64(0), int64(0), int64(5_000_000), int64(7), uint64(1))
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(1000), int64(333), int64(1), int64(-1), int64(31_622_400_000_000), int64(1), uint64(math.MaxUint64))
	f.Add(int64(plan.MaxInstant), int64(plan.MaxInstant), int64(31_622_400_000_000), int64(1), int64(-1), int64(1), int64(1000), int64(1), uint64(0))
	f.Fuzz(func(t *testing.T, now, at, window, most, maxDelay, horizon, window2, from2 int64, seed uint64) {
		versions := []plan.Version{
			{From: plan.MinInstant, Max: int(most % 1000), Window: plan.Ticks(window), Seed: seed},
			{From: plan.Ticks(from2), Max: int(most % 77), Window: plan.Ticks(window2)},
		}
		line, err := plan.New(plan.Ticks(now), versions...)
		if err != nil {
			return
		}
		l := newLedger()
		r := plan.Request{At: plan.Ticks(at), MaxDelay: plan.Ticks(maxDelay), Horizon: plan.Ticks(horizon)}
		grants, err := l.book(line, plan.Ticks(now), r, r, r)
		if err != nil {
			return
		}
		for _, g := range grants {
			if g.Refused != plan.Never && (g.At < plan.Ticks(max(at, now)) || g.At > plan.MaxInstant || g.Delay < 0) {
				t.Errorf("%+v under %+v: %+v", r, versions, g)
			}
		}
	})
}

func TestBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b plan.Bits
		set := map[int]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			j := rapid.IntRange(0, 40).Draw(t, "phase")
			if set[j] = rapid.Bool().Draw(t, "with"); set[j] {
				b = b.With(j)
			} else {
				b = b.Without(j)
			}
		}
		count, below := 0, rapid.IntRange(0, 50).Draw(t, "below")
		for j := range 50 {
			if b.Has(j) != set[j] {
				t.Fatalf("%x has %d: %t", b, j, b.Has(j))
			}
			if j < below && set[j] {
				count++
			}
		}
		if b.Count(below) != count {
			t.Fatalf("%x has %d phases below %d, not %d", b, b.Count(below), below, count)
		}
	})
}

func TestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs plan.Runs
		var set [40]bool
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			from := rapid.Int64Range(0, 30).Draw(t, "from")
			r := plan.Run{From: from, To: from + rapid.Int64Range(1, 9).Draw(t, "length")}
			add := rapid.Bool().Draw(t, "add")
			if add {
				rs = rs.Add(r)
			} else {
				rs = rs.Cut(r)
			}
			for k := r.From; k < r.To; k++ {
				set[k] = add
			}
		}
		for i, r := range rs {
			if r.From >= r.To || i > 0 && rs[i-1].To > r.From {
				t.Fatalf("not in order: %v", rs)
			}
		}
		for k := range int64(len(set)) {
			next := rs.From(k)
			if in := len(next) > 0 && next[0].From <= k; in != set[k] {
				t.Fatalf("%d is in %v: %t", k, rs, in)
			}
		}
	})
}
