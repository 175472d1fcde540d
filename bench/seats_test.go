package bench

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/stint-dev/stint/isolate"
)

// seats is how many there are. Twice as many goroutines as processors never use them up.
const seats = 32

// seatSubjects hold seats for tenants: Stint, and less. The floor is a semaphore that
// knows of no tenants; beside it stands one for each tenant, in a map, with no limit over
// all, no fairness, and no end to the map.
var seatSubjects = []struct {
	name string
	open func(testing.TB) func(tenant string) error
}{
	{"stint", func(tb testing.TB) func(string) error {
		i, err := isolate.New(isolate.Config{Seats: seats}, nil)
		if err != nil {
			tb.Fatal(err)
		}
		ctx := context.Background()
		return func(tenant string) error {
			s, err := i.Acquire(ctx, tenant, 1)
			if err == nil {
				s.Release()
			}
			return err
		}
	}},
	{"x-sync-semaphore", func(testing.TB) func(string) error {
		sem, ctx := semaphore.NewWeighted(seats), context.Background()
		return func(string) error {
			err := sem.Acquire(ctx, 1)
			if err == nil {
				sem.Release(1)
			}
			return err
		}
	}},
	{"x-sync-semaphores-in-a-map", func(testing.TB) func(string) error {
		var mu sync.Mutex
		all, ctx := map[string]*semaphore.Weighted{}, context.Background()
		return func(tenant string) error {
			mu.Lock()
			sem := all[tenant]
			if sem == nil {
				sem = semaphore.NewWeighted(seats)
				all[tenant] = sem
			}
			mu.Unlock()
			err := sem.Acquire(ctx, 1)
			if err == nil {
				sem.Release(1)
			}
			return err
		}
	}},
}

// BenchmarkSeats acquires and releases a seat that is free, each goroutine for another
// tenant.
func BenchmarkSeats(b *testing.B) {
	for _, s := range seatSubjects {
		b.Run(s.name, func(b *testing.B) {
			use := s.open(b)
			var tenants atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				tenant := strconv.FormatInt(tenants.Add(1), 10)
				for pb.Next() {
					if err := use(tenant); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
