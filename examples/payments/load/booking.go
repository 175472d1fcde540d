package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/stint-dev/stint/internal/progress"
)

// booking is one run: what has been answered.
type booking struct {
	*options
	api *client

	mu        sync.Mutex
	took      time.Duration // all of it
	calls     []time.Duration
	scheduled []time.Time
	repeated  int
	conflicts int
	refused   map[string]int // by the reason
	failed    error          // the first
}

func (b *booking) answered() int {
	refused := 0
	for _, n := range b.refused {
		refused += n
	}
	return len(b.scheduled) + refused
}

// run books all payments, and shows how far it is.
func (b *booking) run(ctx context.Context, w io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b.refused = make(map[string]int)
	lots := make(chan []eventRequest)
	start := time.Now()
	var callers, watcher sync.WaitGroup
	for range b.callers {
		callers.Go(func() {
			for lot := range lots {
				if err := b.book(ctx, lot); err != nil {
					stop() // nobody goes on
				}
			}
		})
	}
	done := make(chan struct{})
	watcher.Go(func() { b.watch(progress.New(w, "load", "payments"), start, done) })
	for n := 0; n < b.payments && ctx.Err() == nil; n += b.batch {
		var lot []eventRequest
		for i := n; i < min(n+b.batch, b.payments); i++ {
			lot = append(lot, eventRequest{EventID: fmt.Sprintf("salary-%s-%07d", b.at.UTC().Format("20060102T150405"), i+1)})
		}
		lots <- lot
	}
	close(lots)
	callers.Wait()
	b.took = time.Since(start)
	close(done)
	watcher.Wait()
	if b.failed != nil {
		return b.failed
	}
	return ctx.Err()
}

// watch shows the bar until all is done.
func (b *booking) watch(bar *progress.Bar, start time.Time, done <-chan struct{}) {
	defer bar.Clear()
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-done:
			return
		case <-every.C:
		}
		b.mu.Lock()
		n := b.answered()
		b.mu.Unlock()
		bar.Show(int64(n), float64(n)/float64(b.payments), time.Since(start))
	}
}

// book books a lot and notes what became of it.
func (b *booking) book(ctx context.Context, lot []eventRequest) error {
	began := time.Now()
	var results []result
	var err error
	if b.single {
		lot[0].ConfigName, lot[0].RequestedTime = b.config, b.at
		var one result
		one, err = b.api.book(ctx, lot[0])
		results = []result{one}
	} else {
		results, err = b.api.bookAll(ctx, batchRequest{b.config, b.at, lot})
	}
	took := time.Since(began)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		if b.failed == nil {
			b.failed = err
		}
		return err
	}
	b.calls = append(b.calls, took)
	for _, r := range results {
		if r.Status != 200 {
			if r.Reason == "" {
				r.Reason = fmt.Sprint("status ", r.Status)
			}
			b.refused[r.Reason]++
			continue
		}
		b.scheduled = append(b.scheduled, r.ScheduledTime)
		if r.Repeated {
			b.repeated++
		}
		if r.Conflict {
			b.conflicts++
		}
	}
	return nil
}

// report prints what came of the run. The error says that a promise was not kept.
func (b *booking) report(ctx context.Context, w io.Writer, l limitRequest) error {
	window, err := seconds(l.WindowSize)
	if err != nil {
		return err
	}
	slices.SortFunc(b.scheduled, time.Time.Compare)
	slices.Sort(b.calls)
	at := func(percent int) time.Duration { return rounded(b.calls[(len(b.calls)-1)*percent/100]) }
	how := fmt.Sprintf("one by one, by %d callers", b.callers)
	if !b.single {
		how = fmt.Sprintf("in batches of %d, by %d callers", b.batch, b.callers)
	}
	fmt.Fprintf(w, "%d payments for %s, %s\n", b.payments, b.at.UTC().Format(time.RFC3339), how)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer table.Flush()
	fmt.Fprintf(table, "  took\t%v, %.0f payments/s\n", rounded(b.took), float64(b.payments)/b.took.Seconds())
	fmt.Fprintf(table, "  a call\tp50 %v, p99 %v, the longest %v\n", at(50), at(99), at(100))
	fmt.Fprintf(table, "  booked\t%d\n", len(b.scheduled)-b.repeated)
	fmt.Fprintf(table, "  repeated\t%d, which had their times before\n", b.repeated)
	if b.conflicts > 0 {
		fmt.Fprintf(table, "  conflicts\t%d, which had been booked for another time\n", b.conflicts)
	}
	for _, reason := range slices.Sorted(maps.Keys(b.refused)) {
		fmt.Fprintf(table, "  refused\t%d: %s\n", b.refused[reason], reason)
	}
	if len(b.scheduled) == 0 {
		return nil
	}
	first, last := b.scheduled[0], b.scheduled[len(b.scheduled)-1]
	full, partial, err := b.windows(ctx, time.Unix(0, first.UnixNano()/int64(window)*int64(window)), last, window, l.WindowSize)
	if err != nil {
		return err
	}
	fmt.Fprintf(table, "  times\tfrom %s to %s\n", first.UTC().Format(time.TimeOnly), last.UTC().Format(time.TimeOnly))
	fmt.Fprintf(table, "  windows\t%d full, %d with room left\n", full, partial)
	worst := worstSpan(b.scheduled, window)
	fmt.Fprintf(table, "  worst\t%d in any %v; the bank takes %d\n", worst, window, l.MaxPerWindow)
	if worst > l.MaxPerWindow {
		return fmt.Errorf("the limit is not kept: %d payments in %v, and %d are allowed", worst, window, l.MaxPerWindow)
	}
	return nil
}

// windows counts the windows from first to last, by the timeline.
func (b *booking) windows(ctx context.Context, first, last time.Time, window time.Duration, size string) (full, partial int, err error) {
	const most = 10_000 // steps of one answer
	for n := int(last.Sub(first)/window) + 1; n > 0; n -= most {
		steps, err := b.api.timeline(ctx, b.config, first, window, size, min(n, most))
		if err != nil {
			return 0, 0, err
		}
		for _, s := range steps {
			if s.Used >= s.Capacity {
				full++
			} else {
				partial++
			}
		}
		first = first.Add(most * window)
	}
	return full, partial, nil
}

// worstSpan returns how many of times, which are in order, lie in a span at most,
// wherever it begins.
func worstSpan(times []time.Time, span time.Duration) (worst int) {
	from := 0
	for i, at := range times {
		for at.Sub(times[from]) >= span {
			from++
		}
		worst = max(worst, i-from+1)
	}
	return worst
}

// seconds reads a window such as PT4S. Others would need no more than a library.
func seconds(text string) (time.Duration, error) {
	var n time.Duration
	var unit rune
	if _, err := fmt.Sscanf(text, "PT%d%c", &n, &unit); err == nil {
		switch unit {
		case 'S':
			return n * time.Second, nil
		case 'M':
			return n * time.Minute, nil
		case 'H':
			return n * time.Hour, nil
		}
	}
	return 0, fmt.Errorf("window: %s is not understood here; whole seconds, minutes or hours are, such as PT4S", text)
}

func rounded(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
