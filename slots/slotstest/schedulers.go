package slotstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// schedulers returns Schedulers over two clients with one config, payments, and
// the beginning of a window in an hour.
func schedulers(t testing.TB, h Harness, v slots.Version) (clients [2]slots.Ledger, booking [2]*slots.Scheduler, at plan.Ticks) {
	t.Helper()
	clients = h.clients(t)
	for i, l := range clients {
		s := slots.New(l, &slots.Options{Timeout: patience})
		t.Cleanup(func() { s.Close() })
		booking[i] = s
	}
	if _, err := booking[0].Configure(timeout(t), "payments", v); err != nil {
		t.Fatalf("configure: %v", err)
	}
	_, now, err := clients[0].Config(timeout(t), "payments")
	if err != nil {
		t.Fatal(err)
	}
	return clients, booking, (now/v.Window+1)*v.Window + (plan.Hour+v.Window-1)/v.Window*v.Window
}

// bookNew books one event that is new and must get a slot.
func bookNew(ctx context.Context, s *slots.Scheduler, id string, at plan.Ticks) (slots.Event, error) {
	r, err := s.Book(ctx, "payments", slots.Request{ID: id, At: at})
	if err == nil && (r.Repeated || r.Conflict || r.ID != id || r.Requested != at || r.At < at) {
		err = fmt.Errorf("event %q, which is new, was booked for %d as %+v", id, at, r)
	}
	return r.Event, err
}

// audited returns the report of payments, which must be without fault.
func audited(t testing.TB, l slots.Ledger) *Report {
	t.Helper()
	r, err := Audit(timeout(t), l, "payments")
	if err != nil {
		t.Errorf("audit: %v", err)
	}
	if r == nil {
		t.FailNow()
	}
	return r
}

// first returns the instants of the first n slots from at on, if nothing is taken.
func first(t testing.TB, v slots.Version, at plan.Ticks, n int) []plan.Ticks {
	t.Helper()
	line, err := plan.New(at, v.Version)
	if err != nil {
		t.Fatal(err)
	}
	b, err := line.Book(at, slices.Repeat([]plan.Request{{At: at}}, n), newBook(""))
	if err != nil {
		t.Fatal(err)
	}
	instants := make([]plan.Ticks, n)
	for i, g := range b.Grants {
		instants[i] = g.At
	}
	slices.Sort(instants)
	return instants
}

func instants(events []slots.Event) []plan.Ticks {
	instants := make([]plan.Ticks, len(events))
	for i, e := range events {
		instants[i] = e.At
	}
	return instants
}

// oneInstant has 16 callers of each client book for one instant, one event or
// ten at a time.
func oneInstant(t *testing.T, h Harness) {
	const callers, most, n = 32, 50, 1600
	v := fourSeconds(most)
	clients, booking, at := schedulers(t, h, v)
	ids := numbered(n)
	var wg sync.WaitGroup
	for g, own := range slices.Collect(slices.Chunk(ids, n/callers)) {
		wg.Go(func() {
			if g%4 < 2 {
				for _, id := range own {
					if _, err := bookNew(timeout(t), booking[g%2], id, at); err != nil {
						t.Error(err)
					}
				}
				return
			}
			for some := range slices.Chunk(own, 10) {
				var rs []slots.Request
				for _, id := range some {
					rs = append(rs, slots.Request{ID: id, At: at})
				}
				results, err := booking[g%2].BookAll(timeout(t), "payments", rs)
				if err != nil {
					t.Error(err)
				}
				for i, r := range results {
					if r.Err != nil || r.Repeated || r.ID != some[i] {
						t.Errorf("event %q was booked as %+v", some[i], r)
					}
				}
			}
		})
	}
	wg.Wait()
	r := audited(t, clients[1])
	same(t, "instants that are booked", first(t, v, at, n), instants(r.Events))
	if r.Full != n/most || r.Partial != 0 || r.Worst != most {
		t.Errorf("%d windows are full and %d in part, and some interval holds %d; want %d full ones, and %d in the worst interval", r.Full, r.Partial, r.Worst, n/most, most)
	}
}

// optimal books for many instants, and compares with one caller in another order
// over a Memory.
func optimal(t *testing.T, h Harness) {
	const callers, n = 16, 640
	v := slots.Version{Version: plan.Version{Max: 5, Window: plan.Second, Seed: 12345}}
	clients, booking, at := schedulers(t, h, v)
	random := rand.New(rand.NewPCG(1, 2))
	requests := make([]slots.Request, n)
	for i, id := range numbered(n) {
		requests[i] = slots.Request{ID: id, At: at + plan.Ticks(random.Int64N(int64(plan.Minute)))}
		if i%3 > 0 {
			requests[i].At = requests[i-1].At
		}
	}
	var wg sync.WaitGroup
	for g, own := range slices.Collect(slices.Chunk(requests, n/callers)) {
		wg.Go(func() {
			for _, r := range own {
				if _, err := bookNew(timeout(t), booking[g%2], r.ID, r.At); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()

	alone := NewMemory(func() plan.Ticks { return at - plan.Minute })
	s := slots.New(alone, nil)
	t.Cleanup(func() { s.Close() })
	if _, err := s.Configure(timeout(t), "payments", v); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(requests)
	if _, err := s.BookAll(timeout(t), "payments", requests); err != nil {
		t.Fatal(err)
	}
	same(t, "instants that are booked", instants(list(t, alone, "payments")), instants(audited(t, clients[0]).Events))
}

// raced has ten callers of each client book the same events for different
// instants.
func raced(t *testing.T, h Harness) {
	const callers, events = 20, 10
	clients, booking, at := schedulers(t, h, fourSeconds(3))
	for _, id := range numbered(events) {
		answers := make([]slots.Result, callers)
		var wg sync.WaitGroup
		for g := range callers {
			wg.Go(func() {
				var err error
				if answers[g], err = booking[g%2].Book(timeout(t), "payments", slots.Request{ID: id, At: at + plan.Ticks(g)*plan.Minute}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		firsts := 0
		for g, a := range answers {
			if a.Event != answers[0].Event {
				t.Errorf("event %q was booked as %+v, and as %+v", id, answers[0].Event, a.Event)
			}
			if conflict := a.Requested != at+plan.Ticks(g)*plan.Minute; a.Conflict != conflict {
				t.Errorf("event %q, of caller %d, was booked as %+v; want a conflict to be told: %v", id, g, a, conflict)
			}
			if !a.Repeated {
				firsts++
			}
		}
		if firsts != 1 {
			t.Errorf("%d callers were told that they were the first to book event %q", firsts, id)
		}
		same(t, "what is kept", answers[0].Event, lookUp(t, clients[1], "payments", id))
	}
	if n := len(audited(t, clients[0]).Events); n != events {
		t.Errorf("%d events are booked, want %d", n, events)
	}
}

// churn cancels half of the events, twice each, while others move to another
// hour and back; and then books as many again.
func churn(t *testing.T, h Harness) {
	const n = 400
	v := fourSeconds(10)
	clients, booking, at := schedulers(t, h, v)
	ids := numbered(n)
	var rs []slots.Request
	for _, id := range ids {
		rs = append(rs, slots.Request{ID: id, At: at})
	}
	if _, err := booking[0].BookAll(timeout(t), "payments", rs); err != nil {
		t.Fatal(err)
	}
	rand.New(rand.NewPCG(3, 4)).Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var answers sync.Map
	var wg sync.WaitGroup
	for i, own := range slices.Collect(slices.Chunk(ids[:n/2], n/8)) {
		for g := range booking {
			wg.Go(func() {
				for _, id := range own {
					e, err := booking[g].Cancel(timeout(t), "payments", id)
					if err != nil || e.Cancelled == 0 {
						t.Errorf("cancel: %+v, %v", e, err)
					}
					if first, both := answers.LoadOrStore(id, e); both && first != e {
						t.Errorf("event %q was cancelled as %+v, and as %+v", id, first, e)
					}
				}
			})
		}
		wg.Go(func() {
			for _, id := range ids[n/2+i*n/16 : n/2+(i+1)*n/16] {
				for _, to := range []plan.Ticks{at + plan.Hour, at} {
					if e, err := booking[i%2].Reschedule(timeout(t), "payments", slots.Request{ID: id, At: to}); err != nil || e.Requested != to || e.At < to {
						t.Errorf("reschedule to %d: %+v, %v", to, e, err)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := len(audited(t, clients[1]).Events); n != len(ids)/2 {
		t.Errorf("%d events are left, want %d", n, len(ids)/2)
	}
	for _, id := range ids[:n/2] {
		if _, err := booking[0].Book(timeout(t), "payments", slots.Request{ID: id, At: at}); !errors.Is(err, slots.ErrCancelled) {
			t.Errorf("event %q, which was cancelled, is booked anew: %v", id, err)
		}
		if _, err := bookNew(timeout(t), booking[1], "another "+id, at); err != nil {
			t.Error(err)
		}
	}
	// All that was given back is used again.
	r := audited(t, clients[0])
	if len(r.Events) != n || r.Worst != 10 || r.Events[n-1].At >= at+plan.Hour {
		t.Errorf("%d events are booked until %d, %d in the worst interval; want %d before %d, 10 in the worst", len(r.Events), r.Events[len(r.Events)-1].At, r.Worst, n, at+plan.Hour)
	}
}

// reconfigured changes a config, and pauses it, while both clients book.
func reconfigured(t *testing.T, h Harness) {
	clients, booking, at := schedulers(t, h, fourSeconds(10))
	var stop atomic.Bool
	var n atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for !stop.Load() {
				if _, err := bookNew(timeout(t), booking[g%2], fmt.Sprint("event ", n.Add(1)), at); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i, most := range []int{20, 5, 15, 12, 40, 1} {
		want, err := booking[i%2].Configure(timeout(t), "payments", fourSeconds(most))
		if err != nil {
			t.Fatal(err)
		}
		readConfig(t, "a config by another client", clients[1-i%2], want)
		for range 10 {
			e, err := bookNew(timeout(t), booking[1-i%2], fmt.Sprint("event ", n.Add(1)), at)
			if err != nil {
				t.Fatal(err)
			}
			if e.Phase >= most {
				t.Errorf("after Max was made %d, another client books %+v", most, e)
			}
		}
	}
	until := at + plan.Hour
	if _, err := booking[0].Pause(timeout(t), "payments", until); err != nil {
		t.Fatal(err)
	}
	if e, err := bookNew(timeout(t), booking[1], "after the pause", at); err != nil || e.At < until {
		t.Errorf("paused until %d, another client books %+v, %v", until, e, err)
	}
	stop.Store(true)
	wg.Wait()
	if r := audited(t, clients[1]); len(r.Events) != int(n.Load())+1 {
		t.Errorf("%d events are booked, want %d", len(r.Events), n.Load()+1)
	}
}
