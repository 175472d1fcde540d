package mysql_test

import (
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

// BenchmarkBook books events for one instant, one at a time by so many callers; a
// thousand at a time by one caller; and for random instants of the next hour.
//
//	go test -run - -bench Book -benchtime 100000x ./store/mysql
func BenchmarkBook(b *testing.B) {
	server := server(b)
	for _, callers := range []int{1, 32, 512} {
		b.Run(fmt.Sprintf("instant/callers=%d", callers), func(b *testing.B) {
			benchBook(b, server, callers, func(at plan.Ticks) plan.Ticks { return at })
		})
	}
	b.Run("batch", func(b *testing.B) {
		s, at := booker(b, server)
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
	b.Run("hour/callers=32", func(b *testing.B) {
		benchBook(b, server, 32, func(at plan.Ticks) plan.Ticks { return at + rand.N(plan.Hour) })
	})
}

func benchBook(b *testing.B, server string, callers int, instant func(at plan.Ticks) plan.Ticks) {
	s, at := booker(b, server)
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				began := time.Now()
				if _, err := s.Book(b.Context(), "bench", slots.Request{ID: fmt.Sprintf("payment-%08d", i), At: instant(at)}); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(began)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(took[b.N*p/100].Seconds()*1000, fmt.Sprintf("p%d-ms", p))
	}
}
