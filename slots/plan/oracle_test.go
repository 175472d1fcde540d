package plan_test

import (
	"math/big"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/slots/plan"
)

// An oracle books by trying one slot after the other, from the definitions. It
// knows no calendars.
type oracle struct {
	versions []plan.Version
	eras     []int // by version
	taken    []plan.Slot
}

func (o *oracle) change(v plan.Version) {
	era := len(o.versions)
	if era > 0 {
		latest := o.eras[era-1]
		first := o.versions[latest]
		places := func(v plan.Version) [3]any {
			if v.Mode == plan.Spread {
				return [3]any{v.Window, v.Mode, v.Max}
			}
			return [3]any{v.Window, v.Mode, v.Seed}
		}
		if v.From >= first.From && places(v) == places(first) {
			era = latest
		}
	}
	o.versions, o.eras = append(o.versions, v), append(o.eras, era)
}

// inForce returns the version that holds at the instant at, and its era; -1 if
// there is none.
func (o *oracle) inForce(at plan.Ticks) (v plan.Version, era int) {
	for i, v := range slices.Backward(o.versions) {
		if v.From <= at {
			return v, o.eras[i]
		}
	}
	return plan.Version{}, -1
}

// until returns where the era that holds at the instant at ends.
func (o *oracle) until(at plan.Ticks) plan.Ticks {
	_, era := o.inForce(at)
	until := plan.MaxInstant
	for _, v := range o.versions {
		if _, next := o.inForce(v.From); v.From > at && next != era {
			until = min(until, v.From)
		}
	}
	return until
}

// offset returns where phase j lies in its window.
func offset(v plan.Version, j int) plan.Ticks {
	w := big.NewInt(int64(v.Window))
	if v.Mode == plan.Spread {
		at := w.Mul(w, big.NewInt(int64(j)))
		return plan.Ticks(at.Quo(at, big.NewInt(int64(v.Max))).Int64())
	}
	whole := new(big.Int).Lsh(big.NewInt(1), 64)
	at := new(big.Int).SetUint64(0x9E3779B97F4A7C15)
	at.Mul(at, big.NewInt(int64(j)))
	at.Add(at, new(big.Int).SetUint64(v.Seed))
	at.Mod(at, whole)
	at.Mul(at, w)
	return plan.Ticks(at.Quo(at, whole).Int64())
}

// window is a window as far as it belongs to its era.
type window struct {
	v          plan.Version // that holds at its end
	era        int
	k          int64
	start, end plan.Ticks
}

func (o *oracle) windowAt(at plan.Ticks) (w window, ok bool) {
	v, era := o.inForce(at)
	if era < 0 {
		return w, false
	}
	w = window{era: era, k: int64(at / v.Window)}
	w.start = max(plan.Ticks(w.k)*v.Window, o.versions[era].From)
	w.end = min(plan.Ticks(w.k+1)*v.Window, o.until(at))
	w.v, _ = o.inForce(w.end - 1)
	return w, true
}

// limit is the greatest c that the definition of the limit allows.
func (o *oracle) limit(w window) int {
	length, until := w.v.Window, o.until(w.start)
	// What an interval holds, and may hold, changes at these instants only.
	begins := []plan.Ticks{w.start - length + 1, w.start, w.end - length + 1, w.end - 1}
	for _, s := range o.taken {
		begins = append(begins, s.At-length+1, s.At+1)
	}
	// within is how many slots there are in the window if the phases less than c are
	// taken. Its own are counted where the end of the era cuts them off, too.
	within := func(c int) int {
		n := c
		for _, s := range o.taken {
			own := s.Era == w.era
			if own && s.Window == w.k && s.Phase >= c || !own && s.At >= w.start && s.At < w.end {
				n++
			}
		}
		return n
	}
	// interval is how many there are in an interval, but for strays.
	interval := func(c int, from plan.Ticks) int {
		n := c
		for _, s := range o.taken {
			own := s.Era == w.era
			if s.At >= from && s.At < min(from+length, until) && (!own || s.Phase >= c && s.Phase < w.v.Max) {
				n++
			}
		}
		return n
	}
	c := w.v.Max
	for c > 0 && within(c) > w.v.Max {
		c--
	}
	for _, from := range begins {
		if from <= w.start-length || from >= w.end {
			continue
		}
		for c > 0 && interval(c, from) > w.v.Max {
			c--
		}
	}
	return c
}

// book returns the earliest free slot at or after at, and takes it.
func (o *oracle) book(now, at plan.Ticks) plan.Slot {
	for at = max(at, now); ; {
		w, ok := o.windowAt(at)
		if !ok {
			at++
			continue
		}
		first := o.versions[w.era].From
		if opens := first + w.v.Window; o.versions[0].From < first && now < first && at < opens && o.preceded(w.era) {
			at++
			continue
		}
		limit := o.limit(w)
		var free []plan.Slot
		for j := range limit {
			s := plan.Slot{Era: w.era, Window: w.k, Phase: j, At: plan.Ticks(w.k)*w.v.Window + offset(w.v, j)}
			if s.At >= at && s.At < w.end && !slices.Contains(o.taken, s) {
				free = append(free, s)
			}
		}
		if len(free) == 0 {
			at = w.end
			continue
		}
		s := slices.MinFunc(free, func(a, b plan.Slot) int { return int(a.At - b.At) })
		o.taken = append(o.taken, s)
		return s
	}
}

// preceded reports whether another era holds before era does.
func (o *oracle) preceded(era int) bool {
	_, before := o.inForce(o.versions[era].From - 1)
	return before >= 0
}

// sortedByTime returns the instants of slots, ascending.
func sortedByTime(slots []plan.Slot) []plan.Ticks {
	var instants []plan.Ticks
	for _, s := range slots {
		instants = append(instants, s.At)
	}
	slices.Sort(instants)
	return instants
}

// most returns the most instants that lie in an interval of one window which
// holds at.
func most(instants []plan.Ticks, window, at plan.Ticks) int {
	most := 0
	for i, from := range instants {
		if from > at-window && from <= at {
			to := sort.Search(len(instants), func(j int) bool { return instants[j] >= from+window })
			most = max(most, to-i)
		}
	}
	return most
}

var modes = rapid.SampledFrom([]plan.Mode{plan.Jitter, plan.Spread})

func drawVersion(t *rapid.T) plan.Version {
	return plan.Version{
		Max:    rapid.IntRange(1, 8).Draw(t, "max"),
		Window: plan.Millisecond + plan.Ticks(rapid.IntRange(0, 3).Draw(t, "window"))*170,
		Mode:   modes.Draw(t, "mode"),
		Seed:   rapid.Uint64().Draw(t, "seed"),
	}
}

func drawRequests(t *rapid.T, from plan.Ticks, most int) []plan.Request {
	var requests []plan.Request
	for range rapid.IntRange(1, most).Draw(t, "requests") {
		at := from + plan.Ticks(rapid.IntRange(0, 5000).Draw(t, "at"))
		for range rapid.SampledFrom([]int{1, 1, 9}).Draw(t, "same") {
			requests = append(requests, plan.Request{At: at})
		}
	}
	return requests
}

func TestBookGivesWhatTheOracleGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawVersion(t)
		line, err := plan.New(0, v)
		if err != nil {
			t.Fatal(err)
		}
		l, o := newLedger(), &oracle{}
		o.change(v)
		l.atMost = rapid.IntRange(0, 3).Draw(t, "chunk")
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			requests := drawRequests(t, 0, 8)
			grants, err := l.book(line, 0, requests...)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortStableFunc(grants, func(a, b plan.Grant) int { return int((a.At - a.Delay) - (b.At - b.Delay)) })
			slices.SortStableFunc(requests, func(a, b plan.Request) int { return int(a.At - b.At) })
			for i, r := range requests {
				if want := o.book(0, r.At); grants[i].Slot != want {
					t.Fatalf("request at %d: got %+v, want %+v", r.At, grants[i].Slot, want)
				}
			}
			if rapid.Bool().Draw(t, "cancel") {
				i := rapid.IntRange(0, len(o.taken)-1).Draw(t, "which")
				l.cancel(line, o.taken[i])
				o.taken = slices.Delete(o.taken, i, i+1)
			}
		}
	})
}

func TestOrderChangesNeitherSlotsNorTotalDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line, err := plan.New(0, drawVersion(t))
		if err != nil {
			t.Fatal(err)
		}
		requests := drawRequests(t, 0, 12)
		at := func(requests []plan.Request, batch int) (*ledger, plan.Ticks) {
			l, total := newLedger(), plan.Ticks(0)
			for part := range slices.Chunk(requests, batch) {
				grants, err := l.book(line, 0, part...)
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range grants {
					total += g.Delay
				}
			}
			return l, total
		}
		l, total := at(requests, len(requests))
		batch := rapid.IntRange(1, 5).Draw(t, "batch")
		l2, total2 := at(shuffled(rapid.Uint64().Draw(t, "order"), requests), batch)
		if !slices.Equal(l.events(), l2.events()) || total != total2 {
			t.Fatalf("at once: %v, delay %d\nin batches of %d in another order: %v, delay %d", l.events(), total, batch, l2.events(), total2)
		}
	})
}

// Configs change while events are booked and cancelled: Max, the window, the
// mode, at once or from some instant on, and before a change that was to come.
func TestPromiseHoldsThroughChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := plan.Ticks(0)
		l, o := newLedger(), &oracle{}
		o.change(drawVersion(t))
		l.atMost = rapid.IntRange(0, 3).Draw(t, "chunk")
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			now += plan.Ticks(rapid.SampledFrom([]int{0, 1, 300, 1500}).Draw(t, "gap"))
			if rapid.Bool().Draw(t, "change") {
				v := o.versions[len(o.versions)-1]
				if rapid.Bool().Draw(t, "grid") {
					v = drawVersion(t)
				}
				v.Max = rapid.IntRange(1, 8).Draw(t, "new max")
				v.From = now + plan.Ticks(rapid.SampledFrom([]int{0, 700, 2500}).Draw(t, "ahead"))
				o.change(v)
				clear(l.full)
			}
			line, err := plan.New(now, o.versions...)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range drawRequests(t, now, 3) {
				grants, err := l.book(line, now, r)
				if err != nil {
					t.Fatal(err)
				}
				got := grants[0].Slot
				if want := o.book(now, r.At); got != want {
					t.Fatalf("at %d, request for %d under %+v:\ngot %+v, want %+v\n%v", now, r.At, o.versions, got, want, o.taken)
				}
				o.checkPromise(t, got)
			}
			if rapid.Bool().Draw(t, "cancel") {
				i := rapid.IntRange(0, len(o.taken)-1).Draw(t, "which")
				l.cancel(line, o.taken[i])
				o.taken = slices.Delete(o.taken, i, i+1)
			}
		}
	})
}

// checkPromise fails if an interval that holds s, which was just taken, holds
// more than is allowed in a window that the interval may touch, or was when a slot
// of that window was booked: a phase is less than what was allowed then.
func (o *oracle) checkPromise(t *rapid.T, s plan.Slot) {
	v := o.versions[s.Era]
	var before []plan.Slot // that the era ends
	for _, other := range o.taken {
		if _, era := o.inForce(other.At); era == s.Era || other.At < s.At {
			before = append(before, other)
		}
	}
	allowed := 0
	for _, at := range []plan.Ticks{max(s.At-v.Window, v.From), s.At, min(s.At+v.Window, o.until(s.At)-1)} {
		w, _ := o.windowAt(at)
		allowed = max(allowed, w.v.Max)
	}
	for _, other := range o.taken {
		if other.Era == s.Era && other.Window >= s.Window-1 && other.Window <= s.Window+1 {
			allowed = max(allowed, other.Phase+1)
		}
	}
	if n := most(sortedByTime(before), v.Window, s.At); n > allowed {
		t.Fatalf("%d slots in an interval of %d around %+v; %d are allowed: %v", n, v.Window, s, allowed, o.taken)
	}
}
