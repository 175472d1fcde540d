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
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

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

const (
	// callTime is the longest that a booking may take.
	callTime = 30 * time.Second
	// schema is where a measurement has its tables.
	schema = "stint_bench_slots"
)

// Run measures both ways with each number of callers, round by round, so that a
// server that gets slower does so for both. A server that can't be reached, or
// that refuses, is an error; events that can't be booked are part of the report.
func Run(ctx context.Context, o *Options) (*Report, error) {
	b := bench{o.withDefaults()}
	subjects := []subject{byCounters}
	if b.OpenLedger != nil {
		subjects = append(subjects, stint(b.OpenLedger))
	}
	report := newReport(&b.Options, subjects)
	for round := range b.Rounds {
		for c, callers := range b.Callers {
			for n, s := range subjects {
				b.tell("round %d of %d: %d callers: %s", round+1, b.Rounds, callers, s.name)
				result, err := b.run(ctx, s, callers)
				if err != nil {
					return nil, fmt.Errorf("%d callers: %s: %w", callers, s.name, err)
				}
				report.Crowds[c].Subjects[n].Rounds = append(report.Crowds[c].Subjects[n].Rounds, *result)
			}
		}
	}
	report.takeMedians()
	return report, nil
}

// bench is one Run.
type bench struct{ Options }

func (b *bench) tell(format string, args ...any) {
	if b.Progress != nil {
		fmt.Fprintf(b.Progress, format+"\n", args...)
	}
}

// run makes a schema, has callers book in it by s, and drops it.
func (b *bench) run(ctx context.Context, s subject, callers int) (result *Result, err error) {
	if err := b.exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE", "CREATE SCHEMA "+schema, "SET search_path = "+schema, s.schema); err != nil {
		return nil, err
	}
	defer func() {
		dropped := b.exec(context.WithoutCancel(ctx), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		err = errors.Join(err, dropped)
	}()
	at, err := inSchema(b.URL)
	if err != nil {
		return nil, err
	}
	by, err := s.open(ctx, at, &b.Options)
	if err != nil {
		return nil, err
	}
	defer by.close()
	m := b.crowd(ctx, by, callers)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return m.result(b.Max, plan.Ticks(b.Window.Microseconds())), nil
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

// inSchema returns url with the schema of a measurement as its search path.
func inSchema(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New("the store is not a URL such as postgres://USER@HOST/DATABASE")
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// exec runs statements on a connection of their own.
func (b *bench) exec(ctx context.Context, statements ...string) error {
	c, err := pgx.Connect(ctx, b.URL)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
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
