// Package leasetest is the definition of what an isolate.Leaser must do, as tests.
package leasetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/isolate"
)

// Harness is how the suite handles one kind of Leaser.
type Harness struct {
	// Open returns two clients of one Leaser that is empty and shares nothing with
	// others. They may be the same.
	Open func(t testing.TB) [2]isolate.Leaser
	// Break cuts the connection of the last Open's clients until repair is called.
	// nil: there is no connection.
	Break func(t testing.TB) (repair func())
}

// patience bounds everything that a test waits for.
const patience = 30 * time.Second

// Run holds the Leasers of h against every property of the contract.
func Run(t *testing.T, h Harness) {
	for _, property := range []struct {
		name  string
		check func(t *testing.T, h Harness)
	}{
		{"a tenant that is new has no holders", absent},
		{"holders come back as they were", roundTrip},
		{"what is not to be kept is not", notKept},
		{"tenants are told apart byte by byte", hostileTenants},
		{"many tenants are settled in one call", manyTenants},
		{"no change is lost", noneLost},
		{"an end of the context ends a call", cancellation},
		{"nodes never hold more than the cap", neverMore},
		{"what a node held that is gone is free after its time", nodeGone},
		{"without its Leaser a node goes on with its share", broken},
	} {
		t.Run(property.name, func(t *testing.T) { property.check(t, h) })
	}
}

func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// look returns the holders of tenant, and the Leaser's time.
func look(t testing.TB, l isolate.Leaser, tenant string) (found []isolate.Holder, at time.Time) {
	t.Helper()
	err := l.Lease(timeout(t), []string{tenant}, func(_ int, now time.Time, holders []isolate.Holder) ([]isolate.Holder, bool) {
		found, at = holders, now
		return nil, false
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, at
}

// put keeps holders in the place of those of tenant.
func put(t testing.TB, l isolate.Leaser, tenant string, holders ...isolate.Holder) {
	t.Helper()
	err := l.Lease(timeout(t), []string{tenant}, func(int, time.Time, []isolate.Holder) ([]isolate.Holder, bool) { return holders, true })
	if err != nil {
		t.Fatal(err)
	}
}

func absent(t *testing.T, h Harness) {
	clients := h.Open(t)
	found, first := look(t, clients[0], "acme")
	if len(found) != 0 {
		t.Errorf("a tenant that is new has the holders %v", found)
	}
	if err := clients[0].Lease(timeout(t), nil, nil); err != nil {
		t.Errorf("no tenants: %v", err)
	}
	time.Sleep(20 * time.Millisecond)
	if _, second := look(t, clients[1], "acme"); second.Sub(first) < 10*time.Millisecond || second.Sub(first) > patience {
		t.Errorf("20ms later its clock has gone from %v to %v", first, second)
	}
}

func roundTrip(t *testing.T, h Harness) {
	clients := h.Open(t)
	at := time.UnixMicro(1_800_000_000_000_001)
	few := []isolate.Holder{
		{Node: 1, Seats: 1, Want: 2, First: 3, Cap: 4, Turn: at, Seen: at.Add(time.Microsecond), TTL: 10 * time.Second},
		{Node: math.MaxUint64, Seats: math.MaxUint32, Want: math.MaxUint32, First: math.MaxUint32, Cap: math.MaxUint32, Turn: at, Seen: at, TTL: 5 * time.Minute},
	}
	var most []isolate.Holder
	for n := range isolate.MaxHolders {
		holder := few[0]
		holder.Node += uint64(n)
		most = append(most, holder)
	}
	for _, want := range [][]isolate.Holder{few, most, few[:1], nil, few} {
		put(t, clients[0], "acme", want...)
		for n, l := range clients {
			got, _ := look(t, l, "acme")
			if diff := cmp.Diff(want, got, cmp.Comparer(sameHolders)); diff != "" {
				t.Errorf("client %d: %d holders came back as %d (-want +got):\n%.500s", n, len(want), len(got), diff)
			}
		}
	}
}

func sameHolders(a, b []isolate.Holder) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if !x.Turn.Equal(y.Turn) || !x.Seen.Equal(y.Seen) {
			return false
		}
		x.Turn, x.Seen, y.Turn, y.Seen = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if x != y {
			return false
		}
	}
	return true
}

func notKept(t *testing.T, h Harness) {
	clients := h.Open(t)
	put(t, clients[0], "acme", isolate.Holder{Node: 1, TTL: time.Second})
	err := clients[1].Lease(timeout(t), []string{"acme", "globex"}, func(int, time.Time, []isolate.Holder) ([]isolate.Holder, bool) {
		return []isolate.Holder{{Node: 2}, {Node: 3}}, false
	})
	if err != nil {
		t.Fatal(err)
	}
	for tenant, want := range map[string]int{"acme": 1, "globex": 0} {
		if got, _ := look(t, clients[0], tenant); len(got) != want {
			t.Errorf("%s: %d holders, want %d", tenant, len(got), want)
		}
	}
}

func hostileTenants(t *testing.T, h Harness) {
	clients := h.Open(t)
	tenants := []string{"", "a", "A", "a ", "a\x00", "\x00", "\u00e1", "a\u0301", "%", "'", ":", "\xff\xfe", strings.Repeat("x", isolate.MaxTenantLen), strings.Repeat("\xff", isolate.MaxTenantLen)}
	for n, tenant := range tenants {
		put(t, clients[0], tenant, isolate.Holder{Node: uint64(n + 1)})
	}
	for n, tenant := range tenants {
		if got, _ := look(t, clients[1], tenant); len(got) != 1 || got[0].Node != uint64(n+1) {
			t.Errorf("%.20q: got %v, want node %d", tenant, got, n+1)
		}
	}
}

func manyTenants(t *testing.T, h Harness) {
	clients := h.Open(t)
	tenants := make([]string, 256)
	for n := range tenants {
		tenants[n] = fmt.Sprint("tenant ", n)
	}
	for round := range 3 {
		// Every other one is changed, and each as it should be.
		err := clients[round%2].Lease(timeout(t), tenants, func(n int, _ time.Time, holders []isolate.Holder) ([]isolate.Holder, bool) {
			return append(holders[:len(holders):len(holders)], isolate.Holder{Node: uint64(n)}), n%2 == 0
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := clients[0].Lease(timeout(t), tenants, func(n int, _ time.Time, holders []isolate.Holder) ([]isolate.Holder, bool) {
		if want := 3 * (1 - n%2); len(holders) != want || want > 0 && holders[2].Node != uint64(n) {
			t.Errorf("tenant %d: got %v, want %d of node %d", n, holders, want, n)
		}
		return nil, false
	})
	if err != nil {
		t.Fatal(err)
	}
}

func noneLost(t *testing.T, h Harness) {
	clients := h.Open(t)
	const times, goroutines = 25, 3
	tenants := []string{"a", "b", "c", "d"}
	var working sync.WaitGroup
	var done atomic.Int64
	for k := range 2 * goroutines {
		working.Go(func() {
			for range times {
				err := clients[k%2].Lease(timeout(t), tenants, func(_ int, _ time.Time, holders []isolate.Holder) ([]isolate.Holder, bool) {
					if len(holders) == 0 {
						return []isolate.Holder{{Node: 1, Seats: 1}}, true
					}
					one := holders[0]
					one.Seats++
					return []isolate.Holder{one}, true
				})
				if err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	working.Wait()
	for _, tenant := range tenants {
		if got, _ := look(t, clients[0], tenant); len(got) != 1 || int64(got[0].Seats) != done.Load() {
			t.Errorf("%s: counted %v in %d calls", tenant, got, done.Load())
		}
	}
}

func cancellation(t *testing.T, h Harness) {
	clients := h.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := clients[0].Lease(ctx, []string{"acme"}, func(int, time.Time, []isolate.Holder) ([]isolate.Holder, bool) {
		return []isolate.Holder{{Node: 1}}, true
	})
	if err == nil {
		t.Error("a call whose context had ended was no error")
	}
}

// node is an Isolator that shares the seats of its tenants.
func node(t testing.TB, l isolate.Leaser, cap int, ttl time.Duration) *isolate.Isolator {
	t.Helper()
	seats, err := isolate.New(isolate.Config{
		Seats: 1000, LeaseTime: ttl,
		Plans: map[string]isolate.Plan{"default": {Weight: 1, MaxSeats: cap, Shared: true, Queue: 1000, QueueTimeout: time.Minute}},
	}, &isolate.Options{Leaser: l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := seats.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return seats
}

// load sends requests until the test ends, and counts what runs.
type load struct {
	running [3]atomic.Int64
	most    [3]atomic.Int64
	started [2]atomic.Int64 // on each node
}

func (l *load) on(ctx context.Context, working *sync.WaitGroup, which int, seats *isolate.Isolator, workers int, long time.Duration) {
	for k := range workers {
		working.Go(func() {
			for ctx.Err() == nil {
				tenant := k % len(l.running)
				seat, err := seats.Acquire(ctx, fmt.Sprint(tenant), 1)
				if err != nil {
					return
				}
				running := l.running[tenant].Add(1)
				for most := l.most[tenant].Load(); running > most && !l.most[tenant].CompareAndSwap(most, running); most = l.most[tenant].Load() {
				}
				l.started[which].Add(1)
				time.Sleep(long)
				l.running[tenant].Add(-1)
				seat.Release()
			}
		})
	}
}

func neverMore(t *testing.T, h Harness) {
	clients := h.Open(t)
	const cap = 4
	nodes := []*isolate.Isolator{node(t, clients[0], cap, 10*time.Second), node(t, clients[1], cap, 10*time.Second)}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	var working sync.WaitGroup
	var l load
	for n := range nodes {
		l.on(ctx, &working, n, nodes[n], 18, 5*time.Millisecond)
	}
	working.Wait()
	for tenant := range l.most {
		if got := l.most[tenant].Load(); got != cap {
			t.Errorf("tenant %d: %d ran at once, want %d and never more", tenant, got, cap)
		}
	}
	for n := range nodes {
		if l.started[n].Load() < 10 {
			t.Errorf("on node %d only %d requests ran", n, l.started[n].Load())
		}
	}
	t.Logf("%d and %d requests in 3s", l.started[0].Load(), l.started[1].Load())
}

func nodeGone(t *testing.T, h Harness) {
	clients := h.Open(t)
	// A node held all four seats, and is gone.
	_, now := look(t, clients[0], "acme")
	put(t, clients[0], "acme", isolate.Holder{Node: 1, Seats: 4, Want: 4, Cap: 4, Turn: now, Seen: now, TTL: 2 * time.Second})
	seats := node(t, clients[1], 4, 2*time.Second)
	began := time.Now()
	for range 4 {
		seat, err := seats.Acquire(timeout(t), "acme", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer seat.Release()
	}
	if took := time.Since(began); took < 1500*time.Millisecond || took > 10*time.Second {
		t.Errorf("the last of its seats were free after %v, want 2s or a little more", took)
	} else {
		t.Logf("free after %v", took)
	}
}

func broken(t *testing.T, h Harness) {
	if h.Break == nil {
		t.Skip("there is no connection")
	}
	clients := h.Open(t)
	seats := node(t, clients[0], 4, 2*time.Second)
	var held []isolate.Seat
	for range 4 {
		seat, err := seats.Acquire(timeout(t), "acme", 1)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, seat)
	}
	repair := h.Break(t)
	until := time.Now().Add(4 * time.Second)
	for time.Now().Before(until) || !seats.Shared().Away {
		if time.Now().After(until.Add(patience)) {
			t.Fatal("it has not noticed")
		}
		held[0].Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		seat, err := seats.Acquire(ctx, "acme", 1)
		cancel()
		if err != nil {
			t.Fatalf("while the connection is cut: %v", err)
		}
		held[0] = seat
		time.Sleep(20 * time.Millisecond)
	}
	repair()
	for seats.Shared().Away {
		if time.Now().After(until.Add(patience)) {
			t.Fatal("it has not come back")
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, seat := range held {
		seat.Release()
	}
}
