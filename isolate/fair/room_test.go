package fair_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/isolate/fair"
)

func mustNew(t testing.TB, c fair.Config) *fair.Room {
	t.Helper()
	room, err := fair.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return room
}

// come lets a request arrive and returns it with those that were decided besides.
func come(t testing.TB, room *fair.Room, now time.Duration, q fair.Request) (*fair.Request, []*fair.Request) {
	t.Helper()
	others, err := room.Arrive(now, &q)
	if err != nil {
		t.Fatal(err)
	}
	return &q, slices.Clone(others)
}

func TestPriorityOrdersTheRequestsOfOneTenant(t *testing.T) {
	room := mustNew(t, fair.Config{Seats: 1, Plans: map[string]fair.Plan{"default": {Weight: 1, Queue: 3, QueueTimeout: time.Minute}}})
	first, _ := come(t, room, 0, fair.Request{Tenant: "a"})
	low, _ := come(t, room, 0, fair.Request{Tenant: "a", Priority: fair.Low})
	normal, _ := come(t, room, 0, fair.Request{Tenant: "a"})
	later, _ := come(t, room, 0, fair.Request{Tenant: "a"})
	refused, _ := come(t, room, 0, fair.Request{Tenant: "a", Priority: fair.Low})
	if refused.Reason != fair.QueueFull {
		t.Errorf("the fourth to wait: %s", refused.Reason)
	}
	high, others := come(t, room, 0, fair.Request{Tenant: "a", Priority: fair.High})
	if len(others) != 1 || others[0] != low || low.Reason != fair.Displaced {
		t.Errorf("a request of high priority displaces that of low priority: %v, %s", others, low.Reason)
	}
	next := first
	for _, want := range []*fair.Request{high, normal, later} {
		if got := room.Finish(time.Second, next); len(got) != 1 || got[0] != want {
			t.Fatalf("started %v, want priority %d", got, want.Priority)
		}
		next = want
	}
}

func TestSmallestTimeoutHolds(t *testing.T) {
	for _, test := range []struct{ queue, whole, own, want time.Duration }{
		{time.Second, 0, 0, time.Second},
		{time.Second, 500 * time.Millisecond, 0, 500 * time.Millisecond},
		{time.Second, 500 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond},
		{time.Second, time.Minute, time.Hour, time.Second},
	} {
		room := mustNew(t, fair.Config{Seats: 1, Plans: map[string]fair.Plan{"default": {Weight: 1, Queue: 1, QueueTimeout: test.queue, Timeout: test.whole}}})
		come(t, room, 0, fair.Request{Tenant: "a"})
		q, _ := come(t, room, 0, fair.Request{Tenant: "a", Timeout: test.own})
		room.Tick(test.want - 1)
		if q.State != fair.Waiting {
			t.Errorf("%v: gone before", test)
		}
		if got := room.Tick(test.want); len(got) != 1 || q.Reason != fair.TimedOut {
			t.Errorf("%v: %s", test, q.Reason)
		}
	}
}

// Two tenants hold the seats, one twice as many as the other, and a third waits.
func TestWhoWaitedBehindWhom(t *testing.T) {
	room := mustNew(t, house(6))
	var running []*fair.Request
	for _, tenant := range []string{"big", "big", "big", "big", "small", "small"} {
		q, _ := come(t, room, 0, fair.Request{Tenant: tenant})
		running = append(running, q)
	}
	come(t, room, 0, fair.Request{Tenant: "victim"})
	for now := time.Duration(0); now < 9*time.Second; now += 100 * time.Millisecond {
		room.Tick(now)
	}
	room.Finish(9*time.Second, running[0])
	s := room.Snapshot(3)
	want := map[string]time.Duration{"big": 6 * time.Second, "small": 3 * time.Second}
	if len(s.Behind) != 2 {
		t.Fatalf("%+v", s.Behind)
	}
	for _, b := range s.Behind {
		// What is 9 s old has faded by a tenth; half of that is the mean.
		if got := b.Waited; b.Waiter != "victim" || math.Abs(float64(got-want[b.Holder])) > 0.07*float64(want[b.Holder]) {
			t.Errorf("%+v, want about %s", b, want[b.Holder])
		}
	}
	if len(s.BySeatTime) != 2 || s.BySeatTime[0].ID != "big" || s.BySeatTime[0].SeatTime != 36*time.Second {
		t.Errorf("%+v", s.BySeatTime)
	}
}

// However many tenants wait, as much is kept as the greatest need.
func TestBehindIsBounded(t *testing.T) {
	room := mustNew(t, fair.Config{Seats: 4, Plans: map[string]fair.Plan{"default": {Weight: 1, Queue: 4, QueueTimeout: time.Second}}})
	s := &sim{t: t, room: room, seats: 4, rand: newRand(1), end: 60 * time.Second, results: map[string]*result{}}
	loads := []load{{tenant: "noisy", clients: 4, runs: constant(time.Second)}}
	for i := range 500 {
		loads = append(loads, load{tenant: string(rune('A' + i)), rate: 0.2, runs: constant(10 * time.Millisecond)})
	}
	s.play(loads...)
	snapshot := room.Snapshot(1000)
	if n := len(snapshot.Behind); n != 128 || snapshot.Behind[0].Holder != "noisy" {
		t.Errorf("%d pairs, the first is %+v", n, snapshot.Behind[0])
	}
	for _, b := range snapshot.Behind {
		if b.Error > b.Waited {
			t.Errorf("%+v", b)
		}
	}
}

// A back end that is slower, for half a minute, the more it has to do at once: the
// adaptive total gives out fewer seats, and all of them when it is fast again.
func TestAdaptiveTotalFollowsLatency(t *testing.T) {
	c := house(64)
	c.Adaptive = &fair.Adaptive{Min: 4}
	room := mustNew(t, c)
	slowFrom, slowTo := 30*time.Second, 60*time.Second
	s := &sim{t: t, room: room, seats: 64, rand: newRand(1), end: 200 * time.Second, results: map[string]*result{}}
	seats := map[string]int{}
	s.each = func(now time.Duration) {
		switch {
		case now > 25*time.Second && now < slowFrom:
			seats["before"] = room.Snapshot(0).Seats
		case now > slowFrom && now < slowTo:
			if n := room.Snapshot(0).Seats; seats["during"] == 0 || n < seats["during"] {
				seats["during"] = n
			}
		case now > 190*time.Second:
			seats["after"] = room.Snapshot(0).Seats
		}
	}
	spread := around(50 * time.Millisecond)
	s.play(load{tenant: "a", clients: 60, runs: func(r *randSource) time.Duration {
		d := spread(r)
		if s.now > slowFrom && s.now < slowTo {
			d *= time.Duration(max(1, s.busy/4))
		}
		return d
	}})
	t.Log(seats)
	if seats["before"] < 60 || seats["during"] > 40 || seats["after"] < 60 {
		t.Errorf("seats %v; want all before and after, at most 40 while it is slow", seats)
	}
}

func TestEventsOutOfPlacePanic(t *testing.T) {
	room := mustNew(t, house(1))
	for name, event := range map[string]func(*fair.Request){
		"finish": func(q *fair.Request) { room.Finish(0, q) },
		"cancel": func(q *fair.Request) { room.Cancel(0, q) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a request that has not arrived", name)
				}
			}()
			event(&fair.Request{})
		}()
	}
	q, _ := come(t, room, 0, fair.Request{})
	if _, err := room.Arrive(0, q); err == nil {
		t.Error("a request that runs has arrived again")
	}
}

func BenchmarkArriveFinish(b *testing.B) {
	for _, tenants := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(tenants, " tenants wait"), func(b *testing.B) {
			c := house(8)
			c.Plans["default"] = fair.Plan{Weight: 1, Queue: 50, QueueTimeout: 24 * time.Hour}
			room := mustNew(b, c)
			var running []*fair.Request
			now := time.Duration(0)
			for i := range tenants {
				for range 10 {
					q, _ := come(b, room, now, fair.Request{Tenant: string(rune('A' + i))})
					if q.State == fair.Running {
						running = append(running, q)
					}
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				now += 10 * time.Microsecond
				q := running[0]
				running = running[1:]
				running = append(running, room.Finish(now, q)...)
				others, err := room.Arrive(now, q)
				if err != nil {
					b.Fatal(err)
				}
				running = append(running, others...)
				if q.State == fair.Running {
					running = append(running, q)
				}
			}
		})
	}
}
