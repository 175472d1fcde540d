package slotstest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// Bench measures the ledgers of h, each under a Scheduler: an operation is one
// event, which is new and gets a slot. 100 events lie in each 4s.
//
//	go test -run - -bench Ledger -benchtime 100000x ./store/...
func Bench(b *testing.B, h Harness) {
	for _, size := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("batches=%d", size), func(b *testing.B) { benchBatches(b, h, size) })
	}
	for _, callers := range []int{1, 16, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			benchCallers(b, h, callers, func(int64) plan.Ticks { return 0 })
		})
	}
	b.Run("callers=16/within an hour", func(b *testing.B) {
		benchCallers(b, h, 16, func(n int64) plan.Ticks { return plan.Ticks(n*7919%3600) * plan.Second })
	})
}

// benchBatches books so many events at a time for one instant.
func benchBatches(b *testing.B, h Harness, size int) {
	_, booking, at := schedulers(b, h, fourSeconds(100))
	b.ResetTimer()
	for from := 0; from < b.N; from += size {
		rs := make([]slots.Request, min(size, b.N-from))
		for i := range rs {
			rs[i] = slots.Request{ID: fmt.Sprintf("payment-%08d", from+i), At: at}
		}
		results, err := booking[0].BookAll(context.Background(), "payments", rs)
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
}

// benchCallers has callers book one event at a time for some instant.
func benchCallers(b *testing.B, h Harness, callers int, after func(n int64) plan.Ticks) {
	_, booking, at := schedulers(b, h, fourSeconds(100))
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for {
				n := next.Add(1) - 1
				if n >= int64(b.N) {
					return
				}
				began := time.Now()
				if _, err := booking[0].Book(context.Background(), "payments", slots.Request{ID: fmt.Sprintf("payment-%08d", n), At: at + after(n)}); err != nil {
					b.Error(err)
					return
				}
				took[n] = time.Since(began)
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
