package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// booker returns a Scheduler over a new database, and an instant an hour ahead.
func booker(b *testing.B, server string) (s *slots.Scheduler, at plan.Ticks) {
	ledger := open(b, tables(b, server), nil).Ledger()
	s = slots.New(ledger, &slots.Options{Timeout: time.Minute})
	b.Cleanup(func() { s.Close() })
	if _, err := s.Configure(b.Context(), "bench", slots.Version{Version: plan.Version{Max: 100, Window: 4 * plan.Second}}); err != nil {
		b.Fatal(err)
	}
	_, now, err := ledger.Config(b.Context(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	return s, now + plan.Hour
}

// book books the events numbered by n, which callers count up to until.
func book(b *testing.B, s *slots.Scheduler, callers int, n *atomic.Int64, until int64, at func(n int64) plan.Ticks) (took []time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			var own []time.Duration
			for i := n.Add(1); i <= until; i = n.Add(1) {
				began := time.Now()
				if _, err := s.Book(b.Context(), "bench", slots.Request{ID: fmt.Sprintf("payment-%08d", i), At: at(i)}); err != nil {
					b.Error(err)
					return
				}
				own = append(own, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	wg.Wait()
	return took
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "events/s")
	for _, p := range []int{50, 99} {
		b.ReportMetric(took[len(took)*p/100].Seconds()*1000, fmt.Sprintf("p%d-ms", p))
	}
}

// BenchmarkBook books events for one instant, one at a time by so many callers;
// a thousand at a time by one caller; and for random instants of the next hour.
//
//	go test -run - -bench Book -benchtime 100000x ./store/postgres
func BenchmarkBook(b *testing.B) {
	server := server(b)
	for _, callers := range []int{1, 32, 512} {
		b.Run(fmt.Sprintf("instant/callers=%d", callers), func(b *testing.B) {
			s, at := booker(b, server)
			var n atomic.Int64
			execute(b, server, "CHECKPOINT")
			b.ResetTimer()
			report(b, book(b, s, callers, &n, int64(b.N), func(int64) plan.Ticks { return at }))
		})
	}
	b.Run("batch", func(b *testing.B) {
		s, at := booker(b, server)
		execute(b, server, "CHECKPOINT")
		b.ResetTimer()
		for from := 0; from < b.N; from += 1000 {
			rs := make([]slots.Request, min(1000, b.N-from))
			for i := range rs {
				rs[i] = slots.Request{ID: fmt.Sprintf("payment-%08d", from+i), At: at}
			}
			results, err := s.BookAll(b.Context(), "bench", rs)
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range results {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("hour/callers=%d", callers), func(b *testing.B) {
			s, at := booker(b, server)
			var n atomic.Int64
			b.ResetTimer()
			report(b, book(b, s, callers, &n, int64(b.N), func(int64) plan.Ticks { return at + rand.N(plan.Hour) }))
		})
	}
}

// BenchmarkSteady books 3,000 events a second for now, each when it is due.
func BenchmarkSteady(b *testing.B) {
	s, _ := booker(b, server(b))
	if _, err := s.Configure(b.Context(), "bench", slots.Version{Version: plan.Version{Max: 20_000, Window: 4 * plan.Second}}); err != nil {
		b.Fatal(err)
	}
	const each = time.Second / 3000
	took := make([]time.Duration, b.N)
	var wg sync.WaitGroup
	b.ResetTimer()
	start := time.Now()
	for i := range took {
		due := start.Add(time.Duration(i) * each)
		time.Sleep(time.Until(due))
		wg.Go(func() {
			if _, err := s.Book(context.WithoutCancel(b.Context()), "bench", slots.Request{ID: fmt.Sprintf("payment-%08d", i)}); err != nil {
				b.Error(err)
			}
			took[i] = time.Since(due)
		})
	}
	wg.Wait()
	report(b, took)
}
