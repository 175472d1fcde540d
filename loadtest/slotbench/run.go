// Package slotbench measures two ways to book slots in PostgreSQL side by
// side: by a counter for each window, which one caller at a time may lock, and by
// the rows of Stint's ledger.
// Both book the same events for one instant, on the same server, in turn.
package slotbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/loadtest/sidebyside"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// Options say what to measure.
type Options struct {
	// URL leads to a PostgreSQL database in which schemas may be made. Each
	// measurement has one of its own, which is gone afterwards. Required.
	URL string
	// OpenLedger makes the tables of Stint's store at a URL and opens its
	// ledger. What it returns besides closes the store. Without it Stint is not
	// measured.
	OpenLedger func(ctx context.Context, url string) (l slots.Ledger, close func() error, err error)
	// Events is how many are booked in one measurement. Defaults to 20,000.
	Events int
	// Callers is how many book them, each one after another. Defaults to 32
	// and then 512.
	Callers []int
	// Max and Window say how many events may lie in how long a time. They
	// default to 100 and 4s. Window is in whole microseconds.
	Max    int
	Window time.Duration
	// Rounds is how often everything is measured; medians are reported.
	// Defaults to 3.
	Rounds int
	// Progress, if set, is told what is being measured.
	Progress io.Writer
}

func (o Options) withDefaults() Options {
	if o.Events <= 0 {
		o.Events = 20_000
	}
	if len(o.Callers) == 0 {
		o.Callers = []int{32, 512}
	}
	if o.Max <= 0 {
		o.Max = 100
	}
	if o.Window <= 0 {
		o.Window = 4 * time.Second
	}
	if o.Rounds <= 0 {
		o.Rounds = 3
	}
	return o
}

// callTime is the longest that a booking may take.
const callTime = 30 * time.Second

// Run measures both ways with each number of callers, round by round, so that a
// server that gets slower does so for both. A server that can't be reached, or
// that refuses, is an error; events that can't be booked are part of the report.
func Run(ctx context.Context, o *Options) (*Report, error) {
	b := bench{o.withDefaults()}
	subjects := []subject{byCounters}
	if b.OpenLedger != nil {
		subjects = append(subjects, stint(b.OpenLedger))
	}
	var names []string
	for _, s := range subjects {
		names = append(names, s.name)
	}
	report := newReport(&b.Options, names...)
	err := report.Measure(ctx, b.Progress, func(ctx context.Context, group, way int) (*Result, error) {
		return b.run(ctx, subjects[way], b.Callers[group])
	})
	if err != nil {
		return nil, err
	}
	return report, nil
}

// bench is one Run.
type bench struct{ Options }

// tables is where a measurement has them.
func (b *bench) tables() sidebyside.Schema {
	return sidebyside.Schema{URL: b.URL, Name: "stint_bench_slots"}
}

// run has callers book by s, in a schema that is gone afterwards.
func (b *bench) run(ctx context.Context, s subject, callers int) (result *Result, err error) {
	err = b.tables().Within(ctx, func() error {
		at, err := b.tables().Path(b.URL)
		if err != nil {
			return err
		}
		by, err := s.open(ctx, at.String(), &b.Options)
		if err != nil {
			return err
		}
		defer by.close()
		m := b.crowd(ctx, by, callers)
		result = m.result(b.Max, plan.Ticks(b.Window.Microseconds()))
		return ctx.Err()
	}, s.schema)
	return result, err
}

// crowd has callers book b.Events events for the beginning of a window tomorrow.
// The first event of all, for an earlier time, is not measured: it makes the
// connection. For a later time, the way by counters would put all events there
// that don't fit in the window asked for.
func (b *bench) crowd(ctx context.Context, by booker, callers int) *meter {
	window := plan.Ticks(b.Window.Microseconds())
	instant := (plan.At(time.Now()) + plan.Day) / window * window
	by.book(ctx, "warm up", instant-plan.Day/2)
	m := new(meter)
	var last atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for n := last.Add(1); n <= int64(b.Events) && ctx.Err() == nil; n = last.Add(1) {
				call, cancel := context.WithTimeout(ctx, callTime)
				began := time.Now()
				at, err := by.book(call, fmt.Sprintf("payment-%08d", n), instant)
				m.add(at, err, time.Since(began))
				cancel()
			}
		})
	}
	wg.Wait()
	m.took = time.Since(start)
	return m
}

// meter adds up answers. It is safe for simultaneous use.
type meter struct {
	took time.Duration // all of it

	mu      sync.Mutex
	calls   []time.Duration // those that were answered
	booked  []plan.Ticks
	refused int64
	errors  int64
	first   error
}

func (m *meter) add(at plan.Ticks, err error, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.booked = append(m.booked, at)
	case errors.Is(err, errRefused):
		m.refused++
	default:
		if m.errors++; m.first == nil {
			m.first = err
		}
		return
	}
	m.calls = append(m.calls, took)
}

// result judges what was booked by the instants alone.
func (m *meter) result(most int, window plan.Ticks) *Result {
	r := &Result{Booked: int64(len(m.booked)), Refused: m.refused, Errors: m.errors}
	if m.first != nil {
		r.FirstError = m.first.Error()
	}
	r.PerSecond = float64(r.Booked) / m.took.Seconds()
	if slices.Sort(m.calls); len(m.calls) > 0 {
		r.P50, r.P99, r.Longest = m.calls[len(m.calls)/2], m.calls[len(m.calls)*99/100], m.calls[len(m.calls)-1]
	}
	slices.Sort(m.booked)
	from := 0
	for i, at := range m.booked {
		for at-m.booked[from] >= window {
			from++
		}
		r.WorstWindow = max(r.WorstWindow, int64(i-from+1))
	}
	if n := len(m.booked); n > 0 {
		last := m.booked[n-1] / window
		inLast := int64(0)
		for _, at := range m.booked {
			if at/window == last {
				inLast++
			}
		}
		r.Windows = int64(last - m.booked[0]/window + 1)
		r.Holes = (r.Windows-1)*int64(most) - (r.Booked - inLast)
	}
	return r
}
