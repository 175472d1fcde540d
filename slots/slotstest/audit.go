package slotstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// Report is what Audit has counted.
type Report struct {
	// Events are all that are booked, in the order of Events.
	Events []slots.Event
	// Full is how many windows have as many events as the newest version allows,
	// and Partial how many others have any.
	Full, Partial int
	// Worst is how many events there are at most in an interval of one Window of
	// the newest version, wherever it begins.
	Worst int
}

// Audit reads all that l holds of a config and returns an error that says what is
// wrong with it, if anything is:
//
//   - every event has a slot of its own, in the window that it is said to lie in;
//   - what is kept of a window is what its events take, and no other window is
//     said to have any;
//   - in a run of full windows nothing can be booked from now on;
//   - if the versions of the config have one Window all, no interval of that length
//     holds more events than the greatest Max.
//
// Nobody else must be changing the config meanwhile. Audit holds its lock for a
// part of the time, and keeps all its events in memory.
func Audit(ctx context.Context, l slots.Ledger, config string) (*Report, error) {
	events, err := allEvents(ctx, l, config, 5000)
	if err != nil {
		return nil, err
	}
	tx, err := l.Begin(ctx, config, nil, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	a := &audit{tx: tx, config: tx.Config(), book: newBook(config), report: &Report{Events: events}}
	if len(a.config.Versions) == 0 {
		return nil, slots.ErrNoConfig
	}
	a.slots()
	a.promise()
	for _, check := range []func() error{a.strays, a.windows, a.runs} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return a.report, errors.Join(a.wrong...)
}

// audit compares what a ledger holds with a book made of its events, in which no
// run of full windows is known.
type audit struct {
	tx     slots.Tx
	config *slots.Config
	book   *book
	report *Report

	full  map[int]plan.Runs // what Load tells of, by era
	wrong []error
}

// mostFaults bounds how many faults are told.
const mostFaults = 20

func (a *audit) faultf(format string, args ...any) {
	if len(a.wrong) < mostFaults {
		a.wrong = append(a.wrong, fmt.Errorf(format, args...))
	}
}

// slots looks at the events.
func (a *audit) slots() {
	for i, e := range a.report.Events {
		if i > 0 && byTime(a.report.Events[i-1], e) >= 0 {
			a.faultf("event %+v is listed after %+v", e, a.report.Events[i-1])
		}
		if e.Cancelled != 0 {
			a.faultf("event %+v is listed, and cancelled", e)
		}
		if err := a.book.apply(&slots.Changes{Booked: []slots.Event{e}}); err != nil {
			a.faultf("%w", err)
			continue
		}
		p := place{era: e.Era, window: e.Window}
		a.book.windows[p] = a.book.windows[p].With(e.Phase)
		if from, until, ok := a.bounds(e.Era, e.Window); ok && (e.At < from || e.At >= until) {
			a.faultf("event %+v does not lie in its window, which is from %d to %d", e, from, until)
		}
	}
	for p, taken := range a.book.windows {
		if v := a.config.Versions[len(a.config.Versions)-1]; p.era < len(a.config.Versions) && taken.Count(v.Max) == v.Max {
			a.report.Full++
		} else {
			a.report.Partial++
		}
	}
}

// bounds returns where a window begins and ends, unless a calendar says.
func (a *audit) bounds(era int, window int64) (from, until plan.Ticks, ok bool) {
	if era < 0 || era >= len(a.config.Versions) {
		a.faultf("there is a slot of era %d, and the config has %d versions", era, len(a.config.Versions))
		return 0, 0, false
	}
	v := a.config.Versions[era]
	from = plan.Ticks(window) * v.Window
	return from, from + v.Window, v.Calendar == nil
}

// promise looks for the interval that holds most.
func (a *audit) promise() {
	newest := a.config.Versions[len(a.config.Versions)-1]
	most, first := 0, 0
	for i, e := range a.report.Events {
		for a.report.Events[first].At <= e.At-newest.Window {
			first++
		}
		a.report.Worst = max(a.report.Worst, i-first+1)
	}
	for _, v := range a.config.Versions {
		if v.Window != newest.Window {
			return
		}
		most = max(most, v.Max)
	}
	if a.report.Worst > most {
		a.faultf("an interval of %d microseconds holds %d events; %d are allowed", newest.Window, a.report.Worst, most)
	}
}

// strays compares the slots that Strays tells of.
func (a *audit) strays() error {
	got, err := a.tx.Strays(-1, 0, plan.MinInstant, plan.MaxInstant+1)
	if err != nil {
		return err
	}
	if len(got) != len(a.report.Events) {
		a.faultf("there are %d events, and %d slots are taken", len(a.report.Events), len(got))
	}
	for i, s := range got {
		if i > 0 && got[i-1].At > s.At {
			a.faultf("Strays tells of %+v after %+v", s, got[i-1])
		}
		if _, taken := a.book.taken[placeOf(s)]; !taken {
			a.faultf("Strays tells of %+v, which no event has", s)
		}
	}
	return nil
}

// windows compares what is kept of windows, by era.
func (a *audit) windows() error {
	a.full = make(map[int]plan.Runs)
	byEra := make(map[int][]int64)
	for p := range a.book.windows {
		byEra[p.era] = append(byEra[p.era], p.window)
	}
	for era := range a.config.Versions {
		slices.Sort(byEra[era])
		for some := range slices.Chunk(byEra[era], 1000) {
			taken, err := a.tx.Taken(era, some)
			if err != nil {
				return err
			}
			a.compare("Taken", era, some, taken)
		}
		if err := a.load(era, byEra[era]); err != nil {
			return err
		}
	}
	return nil
}

// compare looks whether got is what the events of some windows take.
func (a *audit) compare(what string, era int, windows []int64, got []plan.Window) {
	told := make(map[int64]plan.Bits)
	for _, w := range got {
		told[w.Index] = w.Taken
	}
	for _, k := range windows {
		want := a.book.windows[place{era: era, window: k}]
		if !slices.Equal(slices.Clone(told[k]).Without(1<<30), want) {
			a.faultf("%s says that window %d of era %d has %x taken, and its events take %x", what, k, era, told[k], want)
		}
	}
	for k := range told {
		if _, has := a.book.windows[place{era: era, window: k}]; !has {
			a.faultf("%s says that window %d of era %d has %x taken, and it has no events", what, k, era, told[k])
		}
	}
}

// load compares what Load tells of windows, and notes the runs.
func (a *audit) load(era int, windows []int64) error {
	told := int64(math.MinInt64) // of all before it
	for len(windows) > 0 {
		from := max(told, windows[0]-2) // nothing may be there
		c, err := a.tx.Load(plan.Need{Era: era, From: from, Windows: 1000})
		if err != nil {
			return err
		}
		if c.To <= from {
			return fmt.Errorf("of era %d, Load tells of windows from %d to %d", era, from, c.To)
		}
		told = c.To
		for _, r := range c.Full {
			a.full[era] = a.full[era].Add(r)
		}
		n, _ := slices.BinarySearch(windows, c.To)
		var open []int64
		for _, k := range windows[:n] {
			if runs := plan.Runs(c.Full).From(k); len(runs) == 0 || runs[0].From > k {
				open = append(open, k)
			}
		}
		a.compare("Load", era, open, c.Taken)
		windows = windows[n:]
	}
	return nil
}

// runs looks for a free slot in the runs of full windows.
func (a *audit) runs() error {
	versions := make([]plan.Version, len(a.config.Versions))
	for i, v := range a.config.Versions {
		versions[i] = v.Version
	}
	now := a.tx.Now()
	t, err := plan.New(now, versions...)
	if err != nil {
		return err
	}
	for _, era := range slices.Sorted(maps.Keys(a.full)) {
		for _, r := range joined(a.full[era]) {
			from, _, ok := a.bounds(era, r.From)
			if !ok {
				from = a.earliest(r)
			}
			b, err := t.Book(now, []plan.Request{{At: max(from, now, versions[era].From)}}, a.book)
			if err != nil {
				return err
			}
			if g := b.Grants[0]; g.Refused != plan.Never && g.Era == era && g.Window >= r.From && g.Window < r.To {
				a.faultf("windows %d to %d of era %d are kept as full, and slot %+v is free", r.From, r.To-1, era, g.Slot)
			}
		}
	}
	return nil
}

// earliest returns the instant of the first event in a run.
func (a *audit) earliest(r plan.Run) plan.Ticks {
	at := plan.MaxInstant
	for _, e := range a.report.Events {
		if e.Era == r.Era && e.Window >= r.From && e.Window < r.To {
			at = min(at, e.At)
		}
	}
	return at
}

// allEvents reads all the events of a config, so many at a time.
func allEvents(ctx context.Context, l slots.Ledger, config string, limit int) (all []slots.Event, err error) {
	q := slots.Query{From: plan.MinInstant, Until: plan.MaxInstant + 1, Limit: limit}
	for {
		page, err := l.Events(ctx, config, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < limit {
			return all, nil
		}
		q.After = &page[len(page)-1]
	}
}
