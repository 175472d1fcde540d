package isolate_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/isolate"
)

func BenchmarkAcquireRelease(b *testing.B) {
	for _, guarantee := range []float64{0, 0.5} {
		b.Run(fmt.Sprintf("guarantee=%v", guarantee), func(b *testing.B) {
			i := mustNew(b, isolate.Config{Seats: 32, Guarantee: guarantee}, nil)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				s, err := i.Acquire(ctx, "tenant", 1)
				if err != nil {
					b.Fatal(err)
				}
				s.Release()
			}
		})
	}
}

// BenchmarkAcquireShared is BenchmarkAcquireRelease for a tenant whose seats are shared,
// once this node has its part.
func BenchmarkAcquireShared(b *testing.B) {
	plan := isolate.Plan{Weight: 1, MaxSeats: 16, Queue: 100, QueueTimeout: time.Minute}
	for _, plan.Shared = range []bool{false, true} {
		b.Run(fmt.Sprintf("shared=%v", plan.Shared), func(b *testing.B) {
			i := mustNew(b, one(32, plan), &isolate.Options{Leaser: &link{ledger: newLedger(), random: rand.New(rand.NewPCG(1, 1))}})
			defer i.Close(b.Context())
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				s, err := i.Acquire(ctx, "tenant", 1)
				if err != nil {
					b.Fatal(err)
				}
				s.Release()
			}
		})
	}
}

// BenchmarkContended has 8 goroutines, each of another tenant, on 32 seats, where they
// meet in the lock only, and on 4, where they wait for each other.
func BenchmarkContended(b *testing.B) {
	for _, seats := range []int{32, 4} {
		b.Run(fmt.Sprintf("seats=%d", seats), func(b *testing.B) {
			i := mustNew(b, one(seats, isolate.Plan{Weight: 1, Queue: 100, QueueTimeout: time.Minute}), nil)
			ctx := b.Context()
			b.SetParallelism(max(1, 8/max(1, parallel())))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				tenant := nextTenant()
				for pb.Next() {
					s, err := i.Acquire(ctx, tenant, 1)
					if err != nil {
						b.Error(err)
						return
					}
					s.Release()
				}
			})
		})
	}
}

func BenchmarkRefusal(b *testing.B) {
	for name, p := range map[string]isolate.Plan{
		"without a queue": {Weight: 1, MaxSeats: 1},
		"queue full":      {Weight: 1, MaxSeats: 1, Queue: 1, QueueTimeout: time.Hour},
	} {
		b.Run(name, func(b *testing.B) {
			i := mustNew(b, one(32, p), nil)
			ctx := b.Context()
			s := mustAcquire(b, i, "tenant")
			for range p.Queue {
				go i.Acquire(ctx, "tenant", 1)
			}
			for i.Snapshot(0).Waiting < p.Queue {
				time.Sleep(time.Millisecond)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := i.Acquire(ctx, "tenant", 1); err == nil {
					b.Fatal("not refused")
				}
			}
			s.Release()
		})
	}
}

var tenants atomic.Int64

func nextTenant() string { return fmt.Sprint("tenant", tenants.Add(1)) }

func parallel() int { return runtime.GOMAXPROCS(0) }

func TestAllocAcquireRelease(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	i := mustNew(t, isolate.Config{Seats: 32, Guarantee: 0.5}, nil)
	if n := testing.AllocsPerRun(1000, func() { mustAcquire(t, i, "tenant").Release() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
