package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/memory"
)

// minute is a limit that the tests below share.
func minute(quota int64, change func(p *limit.Policy)) *limit.Policy {
	p := &limit.Policy{Name: "synced", Algorithm: algo.Sliding, Quota: quota, Window: time.Minute, Mode: limit.Synced}
	if change != nil {
		change(p)
	}
	return p
}

// rarely makes rounds happen only when a test wants one.
var rarely = &limit.Options{SyncEvery: 1000 * time.Hour}

func take(t testing.TB, l *limit.Limiter, p *limit.Policy, key string, cost int64) limit.Decision {
	t.Helper()
	d, err := l.Take(t.Context(), p, key, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSyncedDecidesWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		l := open(t, db, rarely)
		p := minute(100, nil)
		take(t, l, p, "alex", 1)
		before := db.updates.Load()
		for i := range 150 {
			if d := take(t, l, p, "alex", 1); d.Allowed != (i < 99) || d.Allowed && d.Remaining != int64(98-i) {
				t.Fatalf("take %d: %+v", i+2, d)
			}
		}
		if n := db.updates.Load() - before; n != 0 {
			t.Errorf("%d calls of the store on the way of requests, want none", n)
		}
	})
}

func TestSyncedVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		here, there := open(t, db, rarely), open(t, db, rarely)
		p := minute(10, nil)
		take(t, here, p, "alex", 7)
		for range 100 {
			if d, err := here.Peek(t.Context(), p, "alex", 3); err != nil || !d.Allowed || d.Remaining != 3 {
				t.Fatalf("peek: %+v, %v", d, err)
			}
		}
		if d, err := here.Refund(t.Context(), p, "alex", 2); err != nil || d.Remaining != 5 {
			t.Errorf("refund: %+v, %v; want 5 remaining", d, err)
		}
		if err := here.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := take(t, there, p, "alex", 6); d.Allowed || d.Remaining != 5 {
			t.Errorf("on another node: %+v; want denied with 5 remaining", d)
		}
		other := &limit.Policy{Name: "exact", Quota: 1, Window: time.Hour}
		both := []limit.Spend{{Policy: p, Key: "alex", Cost: 2}, {Policy: other, Key: "alex", Cost: 1}}
		for i := range 3 {
			ds, err := here.TakeAll(t.Context(), both)
			if err != nil || !ds[0].Allowed || ds[0].Remaining != 3 || ds[1].Allowed != (i == 0) {
				t.Errorf("synced and exact together, %d: %+v, %v", i, ds, err)
			}
		}
		if err := there.Reset(t.Context(), p, "alex"); err != nil {
			t.Fatal(err)
		}
		if d := take(t, there, p, "alex", 10); !d.Allowed {
			t.Errorf("after a reset: %+v; want allowed", d)
		}
		raised := minute(20, nil)
		if d := take(t, there, raised, "alex", 10); !d.Allowed {
			t.Errorf("with a raised quota: %+v; want allowed at once", d)
		}
	})
}

// rounds is a SyncObserver.
type rounds struct {
	breakers
	conflicts, overshot, calls atomic.Int64
}

func (r *rounds) Synced(_, calls, conflicts int, _ time.Duration, _ error) {
	r.calls.Add(int64(calls))
	r.conflicts.Add(int64(conflicts))
}
func (r *rounds) Overshot(_ string, units int64) { r.overshot.Add(units) }

func TestSyncedWritersLoseNothing(t *testing.T) {
	for name, algorithm := range map[string]*algo.Algorithm{"sliding": algo.Sliding, "gcra": algo.GCRA, "fixed": algo.Fixed} {
		inBubble(t, name, func(t *testing.T) {
			db := &scattered{database: newDatabase()}
			db.latency = time.Millisecond
			p := minute(10_000, func(p *limit.Policy) { p.Algorithm, p.Window = algorithm, 365*24*time.Hour })
			seen := new(rounds)
			const writers, each = 8, 1000
			nodes := make([]*limit.Limiter, writers)
			var wg sync.WaitGroup
			for i := range nodes {
				nodes[i] = limit.New(db, &limit.Options{SyncEvery: 20 * time.Millisecond, Observer: seen})
				wg.Go(func() {
					for range each {
						take(t, nodes[i], p, "hot", 1)
						time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
					}
				})
			}
			wg.Wait()
			for _, l := range nodes {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
			if seen.conflicts.Load() == 0 {
				t.Error("the writers were never in each other's way")
			}
			if d := used(t, db, p, "hot"); d < writers*each-1 || d > writers*each {
				t.Errorf("the store counts %v, want %d", d, writers*each)
			}
		})
	}
}

// used returns the units in use by what the store has.
func used(t testing.TB, s limit.Store, p *limit.Policy, key string) (units float64) {
	t.Helper()
	err := s.Update(t.Context(), []string{limit.StoreKey(p, key)}, func(now algo.Ticks, cells []limit.Cell) error {
		units = p.Algorithm.Used(p.Limit(), cells[0].State, now)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return units
}

// TestSyncedFollowsTheLimit is ten nodes, a limit of 50 a second, and 500 a
// second that ask: evenly, and all on one node. The bucket and the sliding
// window are steady after their first window. What overshoots at the end of a
// sliding window's frame is not paid back, so rounds must be short beside it.
func TestSyncedFollowsTheLimit(t *testing.T) {
	const seconds = 60
	for name, node := range map[string]func(i int) int{
		"evenly":      func(i int) int { return i % 10 },
		"on one node": func(int) int { return 3 },
	} {
		for p, every := range map[*limit.Policy]time.Duration{
			minute(50, func(p *limit.Policy) { p.Algorithm, p.Window = algo.GCRA, time.Second }): 200 * time.Millisecond,
			minute(3000, func(p *limit.Policy) { p.Algorithm = algo.Sliding }):                   100 * time.Millisecond,
		} {
			inBubble(t, name+"/"+p.Algorithm.Name, func(t *testing.T) {
				db := &scattered{database: newDatabase()}
				db.latency = time.Millisecond
				seen := new(rounds)
				nodes := make([]*limit.Limiter, 10)
				for i := range nodes {
					nodes[i] = open(t, db, &limit.Options{SyncEvery: every, Observer: seen})
				}
				first := int(p.Window / time.Second)
				admitted := make([]int, first+seconds)
				for i := range 500 * len(admitted) {
					if take(t, nodes[node(i)], p, "hot", 1).Allowed {
						admitted[i/500]++
					}
					time.Sleep(2 * time.Millisecond)
				}
				total := 0
				for _, n := range admitted[first:] {
					total += n
				}
				t.Logf("%d admitted in %d s of steady state, %v in the first ten; %d units overshot in all", total, seconds, admitted[:10], seen.overshot.Load())
				if total < 50*seconds*98/100 || total > 50*seconds*102/100 {
					t.Errorf("%d admitted in %d s of steady state, want %d within 2 %%", total, seconds, 50*seconds)
				}
			})
		}
	}
}

// TestMaxOvershoot runs nodes that spend and sync in any order, and counts what
// was admitted of a quota that does not come back meanwhile.
func TestMaxOvershoot(t *testing.T) {
	for _, algorithm := range algo.All {
		if algorithm == algo.Proportional {
			continue // whose frames admit any number at their start
		}
		t.Run(algorithm.Name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				n := rapid.IntRange(1, 5).Draw(r, "nodes")
				quota := rapid.Int64Range(1, 200).Draw(r, "quota")
				most := rapid.Int64Range(1, 100).Draw(r, "max overshoot")
				seed := rapid.Uint64().Draw(r, "seed")
				synctest.Test(t, func(t *testing.T) {
					if got := overshoot(t, algorithm, n, quota, most, rand.New(rand.NewPCG(seed, 1))); got > most {
						r.Fatalf("%d units above the limit", got)
					}
				})
			})
		})
	}
}

// overshoot returns how many units n nodes admit above quota.
func overshoot(t *testing.T, a *algo.Algorithm, n int, quota, most int64, random *rand.Rand) int64 {
	db := &scattered{database: newDatabase()}
	db.latency = time.Millisecond
	p := minute(quota, func(p *limit.Policy) { p.Algorithm, p.Window, p.MaxOvershoot = a, 365*24*time.Hour, most })
	nodes := make([]*limit.Limiter, n)
	for i := range nodes {
		nodes[i] = limit.New(db, rarely)
		defer nodes[i].Close()
		take(t, nodes[i], p, "another", 0)
	}
	time.Sleep(10 * time.Second) // they know each other
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i, l := range nodes {
		order := rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
		wg.Go(func() {
			for range 2 * quota {
				if order.IntN(10) == 0 {
					l.Sync(t.Context())
				}
				cost := min(1+order.Int64N(3), quota)
				if take(t, l, p, "hot", cost).Allowed {
					admitted.Add(cost)
				}
				time.Sleep(time.Duration(order.IntN(3)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	return admitted.Load() - quota
}

func TestSyncedKeepsCountingWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		p := minute(100_000, func(p *limit.Policy) { p.Window = 24 * time.Hour })
		l := open(t, db, nil)
		take(t, l, p, "alex", 1)
		time.Sleep(time.Second)
		db.fail(errors.New("down"))
		for range 600 { // a minute
			if d := take(t, l, p, "alex", 10); !d.Allowed || d.Degraded {
				t.Fatalf("%+v; want allowed by what is known", d)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if _, err := l.Take(t.Context(), p, "never seen", 1); err == nil {
			t.Error("a key that was never seen is decided without the store")
		}
		allow := minute(5, func(p *limit.Policy) { p.Name, p.OnStoreError = "allow", limit.FailAllow })
		if d := take(t, l, allow, "never seen", 1); !d.Allowed || !d.Degraded {
			t.Errorf("%+v; want allowed and degraded", d)
		}
		db.fail(nil)
		time.Sleep(2 * time.Second)
		if n := used(t, db, p, "alex"); n != 6001 {
			t.Errorf("the store counts %v after its return, want 6001", n)
		}
	})
}

func TestSyncedPendingIsBounded(t *testing.T) {
	for _, algorithm := range algo.All {
		inBubble(t, algorithm.Name, func(t *testing.T) {
			db := newDatabase()
			l := open(t, db, nil)
			p := minute(50, func(p *limit.Policy) { p.Algorithm, p.Window = algorithm, 100*time.Millisecond })
			take(t, l, p, "alex", 1)
			db.fail(errors.New("down"))
			admitted := 0
			for range 20_000 {
				if take(t, l, p, "alex", 1).Allowed {
					admitted++
				}
				time.Sleep(time.Millisecond)
			}
			if n := l.Pending(p, "alex"); n > 1024 {
				t.Errorf("%d hits are kept of %d that were admitted", n, admitted)
			}
			db.fail(nil)
			time.Sleep(2 * time.Second)
			if n := l.Pending(p, "alex"); n != 0 {
				t.Errorf("%d hits are kept after the store's return", n)
			}
		})
	}
}

func TestSyncedCrashLosesOneInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		p := minute(100_000, func(p *limit.Policy) { p.Window = 24 * time.Hour })
		crashing := open(t, db, rarely)
		take(t, crashing, p, "alex", 40)
		crashing.Sync(t.Context())
		take(t, crashing, p, "alex", 2)
		if n := used(t, db, p, "alex"); n != 40 { // and the node is gone
			t.Errorf("%v are left, want the 40 of the last round", n)
		}
	})
}

// lossy is a Swapper whose answers get lost.
type lossy struct {
	*scattered
	lose atomic.Bool
}

func (l *lossy) Swap(ctx context.Context, cells []limit.Cell) (algo.Ticks, error) {
	now, err := l.scattered.Swap(ctx, cells)
	if l.lose.Load() {
		return 0, &limit.StoreError{Store: "lossy", Op: "swap", Sent: true, Err: errors.New("connection reset")}
	}
	return now, err
}

func TestSyncedAfterALostAnswer(t *testing.T) {
	for name, bound := range map[string]int64{"rounds": 0, "with the store": 1} {
		inBubble(t, name, func(t *testing.T) {
			db := &lossy{scattered: &scattered{database: newDatabase()}}
			p := minute(100, func(p *limit.Policy) { p.Window, p.MaxOvershoot = 24*time.Hour, bound })
			l := open(t, db, rarely)
			take(t, l, p, "alex", 5)
			db.lose.Store(true)
			l.Sync(t.Context())
			if bound == 0 {
				take(t, l, p, "alex", 3)
			}
			db.lose.Store(false)
			take(t, l, p, "alex", 2)
			l.Sync(t.Context())
			want := 10.0
			if bound > 0 {
				want = 7
			}
			if n := used(t, db, p, "alex"); n != want {
				t.Errorf("the store counts %v, want %v", n, want)
			}
		})
	}
}

// held is a Swapper whose answers wait until they are let go.
type held struct {
	*scattered
	read, letGo chan struct{}
}

func (h *held) Swap(ctx context.Context, cells []limit.Cell) (algo.Ticks, error) {
	now, err := h.scattered.Swap(ctx, cells)
	h.read <- struct{}{}
	<-h.letGo
	return now, err
}

func TestSyncedResetWhileTheStoreIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &held{&scattered{database: newDatabase()}, make(chan struct{}, 10), make(chan struct{})}
		p := minute(100, nil)
		spent := open(t, db.scattered, rarely)
		take(t, spent, p, "alex", 100)
		spent.Sync(t.Context())

		l := open(t, db, rarely)
		var d limit.Decision
		var taking sync.WaitGroup
		taking.Go(func() { d = take(t, l, p, "alex", 1) })
		<-db.read // what was spent
		if err := l.Reset(t.Context(), p, "alex"); err != nil {
			t.Fatal(err)
		}
		close(db.letGo)
		taking.Wait()
		if !d.Allowed || d.Remaining != 99 {
			t.Errorf("after a reset: %+v", d)
		}
	})
}

func TestSyncedForgetsIdleKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 50_000
		l := open(t, forgetful{memory.New(nil)}, nil)
		p := minute(10, nil)
		before := heap()
		for i := range keys {
			take(t, l, p, fmt.Sprint("user ", i), 1)
		}
		full := heap()
		if n := l.Keys(); n != keys {
			t.Errorf("%d keys are kept, want %d", n, keys)
		}
		time.Sleep(5 * time.Minute)
		if n := l.Keys(); n != 0 {
			t.Errorf("%d keys are kept though none was used for minutes", n)
		}
		if after := heap(); after > before+(full-before)/10 {
			t.Errorf("the heap went from %d to %d KiB and back to %d only", before>>10, full>>10, after>>10)
		}
	})
}

// forgetful is a store that keeps nothing, so that only the node's own memory
// is measured.
type forgetful struct{ limit.Store }

func (forgetful) Update(_ context.Context, keys []string, fn func(algo.Ticks, []limit.Cell) error) error {
	cells := make([]limit.Cell, len(keys))
	for i, k := range keys {
		cells[i].Key = k
	}
	return fn(algo.Ticks(time.Now().UnixMicro()), cells)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestSyncedRoomIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		l := open(t, db, &limit.Options{MaxSynced: 10})
		p := minute(2, nil)
		for i := range 100 {
			for n := range 3 {
				if d := take(t, l, p, fmt.Sprint("user ", i), 1); d.Allowed != (n < 2) {
					t.Fatalf("user %d, take %d: %+v", i, n, d)
				}
			}
		}
		if n := l.Keys(); n != 10 {
			t.Errorf("%d keys are kept, want at most 10", n)
		}
	})
}

func TestSyncedRoundsAreInBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 10_000
		db := &scattered{database: newDatabase()}
		l := open(t, db, rarely)
		p := minute(10, nil)
		var wg sync.WaitGroup
		for i := range keys {
			wg.Go(func() { take(t, l, p, fmt.Sprint("user ", i), 1) })
		}
		wg.Wait()
		arrived := db.swaps.Load()
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d calls for the arrival of %d keys, %d for a round", arrived, keys, db.swaps.Load()-arrived)
		if n := db.swaps.Load() - arrived; n != keys/1000 {
			t.Errorf("%d calls for a round of %d keys, want %d", n, keys, keys/1000)
		}
	})
}

// BenchmarkSynced compares a decision in Synced mode with one in Local mode,
// whose states are in this process. There is no round meanwhile: see
// BenchmarkSyncRound for what that costs.
func BenchmarkSynced(b *testing.B) {
	for _, keys := range []int{1, 10_000, 1_000_000} {
		names := make([]string, keys)
		for i := range names {
			names[i] = fmt.Sprint("user-", i)
		}
		for _, mode := range []limit.Mode{limit.Local, limit.Synced} {
			b.Run(fmt.Sprintf("keys=%d/mode=%s", keys, map[limit.Mode]string{limit.Local: "local", limit.Synced: "synced"}[mode]), func(b *testing.B) {
				l := limit.New(newDatabase(), &limit.Options{Local: memory.New(&memory.Options{MaxKeys: 2_000_000}), MaxSynced: 2_000_000, SyncEvery: time.Hour})
				defer l.Close()
				p := *unlimited
				p.Mode = mode
				var filling sync.WaitGroup
				for i := range 64 {
					filling.Go(func() {
						for k := i; k < keys; k += 64 {
							l.Take(b.Context(), &p, names[k], 1)
						}
					})
				}
				filling.Wait()
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for i := rand.IntN(keys); pb.Next(); i += 7919 {
						if d, err := l.Take(b.Context(), &p, names[i%keys], 1); err != nil || !d.Allowed {
							b.Fatal(d, err)
						}
					}
				})
				b.StopTimer()
			})
		}
	}
}

// BenchmarkSyncRound is a round of 10,000 keys, with a store that costs next to
// nothing.
func BenchmarkSyncRound(b *testing.B) {
	const keys = 10_000
	l := limit.New(memory.New(nil), rarely)
	defer l.Close()
	p := *unlimited
	p.Mode = limit.Synced
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("user-", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, name := range names {
			l.Take(b.Context(), &p, name, 1)
		}
		if err := l.Sync(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}
