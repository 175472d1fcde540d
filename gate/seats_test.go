package gate_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/lease"
	"github.com/stint-dev/stint/store/memory"
)

func to[T any](v T) *T { return &v }

// seated is a gate with two seats, of which a user may have one, and two more requests
// in the queue for 10 seconds.
func seated(t testing.TB, change func(s *rules.Spec)) *gate.Gate {
	spec := rules.Spec{Isolation: &rules.IsolationSpec{
		Seats: 2, Tenant: "user", Guarantee: to(0),
		Plans: map[string]rules.SeatPlanSpec{"default": {MaxSeats: to(1), Queue: to(2)}},
	}}
	if change != nil {
		change(&spec)
	}
	set, problems := rules.Compile(spec)
	if set == nil {
		t.Fatal(problems)
	}
	return gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: set, Identity: byHeader{}}, nil)
}

func enter(ctx context.Context, g *gate.Gate, path, user string) (gate.Pass, *gate.Outcome) {
	var out gate.Outcome
	r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	r.Header.Set("X-User", user)
	return g.Enter(r, &out), &out
}

func TestEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := seated(t, nil)
		first, out := enter(t.Context(), g, "/", "ann")
		if !out.Allowed || !first.Held() || !first.Until.IsZero() {
			t.Fatalf("the first: %+v %+v", first, out)
		}
		waited := make(chan time.Duration, 2)
		for range 2 {
			go func() {
				p, out := enter(t.Context(), g, "/", "ann")
				waited <- out.SeatWaited
				p.Release()
			}()
		}
		synctest.Wait()
		if p, out := enter(t.Context(), g, "/", "ann"); out.Allowed || p.Held() || out.Status != 503 || out.Refused == nil || out.Refused.Reason != isolate.QueueFull || out.RetryAfter <= 0 {
			t.Errorf("one more than the queue holds: %+v", out)
		}
		if p, out := enter(t.Context(), g, "/", "bob"); !out.Allowed {
			t.Errorf("another tenant: %+v", out)
		} else {
			p.Release()
		}
		time.Sleep(3 * time.Second)
		first.Release()
		for range 2 {
			if got := <-waited; got != 3*time.Second {
				t.Errorf("one that waited did for %v", got)
			}
		}
		if s := g.Seats().Snapshot(0); s.Busy != 0 || s.Waiting != 0 || s.ReleasedTwice != 0 {
			t.Errorf("at the end: %+v", s)
		}
		g.Seats().Close(t.Context())
	})
}

// Whoever goes away leaves the queue, and whoever has waited for too long is told.
func TestEnterEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := seated(t, nil)
		p, _ := enter(t.Context(), g, "/", "ann")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, out := enter(ctx, g, "/", "ann"); out.Allowed || out.Err == nil || out.SeatWaited != time.Second {
			t.Errorf("one whose caller went away: %+v", out)
		}
		if _, out := enter(t.Context(), g, "/", "ann"); out.Allowed || out.Refused == nil || out.Refused.Reason != isolate.TimedOut || out.SeatWaited != 10*time.Second {
			t.Errorf("one that waited for too long: %+v", out)
		}
		p.Release()
		if p, out := enter(t.Context(), g, "/", "ann"); !out.Allowed {
			t.Errorf("after that: %+v", out)
		} else {
			p.Release()
		}
		g.Seats().Close(t.Context())
	})
}

// What a rule denies holds no seat, and what gets no seat is charged nothing.
func TestSeatsAndLimitsAreHadTogetherOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := seated(t, func(s *rules.Spec) { s.Rules = []rules.RuleSpec{rule("all", 2, time.Hour)} })
		p, _ := enter(t.Context(), g, "/", "ann")
		var out gate.Outcome
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			enter(ctx, g, "/", "ann")
			cancel()
		}
		p.Release()
		p, second := enter(t.Context(), g, "/", "ann")
		if !second.Allowed || second.Decisions[0].Remaining != 0 {
			t.Errorf("after one that ran and five that did not: %+v", second)
		}
		p.Release()
		if p, out := enter(t.Context(), g, "/", "ann"); out.Allowed || p.Held() || out.Refused != nil || out.Status != 429 {
			t.Errorf("over the quota: %+v", out)
		}
		if busy := g.Seats().Snapshot(0).Busy; busy != 0 {
			t.Errorf("%d seats are held at the end", busy)
		}
		// Where nothing runs, no seat is needed.
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-User", "bob")
		if g.HTTP(r, &out); !out.Allowed || g.Seats().Snapshot(0).Started != 3 {
			t.Errorf("a decision alone: %+v", out)
		}
		g.Seats().Close(t.Context())
	})
}

func TestRoutesOfSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := seated(t, func(s *rules.Spec) {
			s.Isolation.Status = http.StatusTooManyRequests
			s.Isolation.Plans["default"] = rules.SeatPlanSpec{Queue: to(0), Timeout: to(rules.Duration(time.Minute))}
			s.Isolation.Routes = []rules.RouteSpec{
				{Match: rules.MatchSpec{Path: "/report"}, Cost: to(2), Timeout: to(rules.Duration(5 * time.Second))},
				{Match: rules.MatchSpec{Path: "/health"}, Enabled: to(false)},
			}
		})
		now := time.Now()
		p, out := enter(t.Context(), g, "/report", "ann")
		if !out.Allowed || p.Until != now.Add(5*time.Second) || g.Seats().Snapshot(0).Busy != 2 {
			t.Errorf("a report: %+v %+v", p, out)
		}
		if _, out := enter(t.Context(), g, "/", "bob"); out.Allowed || out.Status != 429 {
			t.Errorf("with all seats taken: %+v", out)
		}
		if p, out := enter(t.Context(), g, "/health", "bob"); !out.Allowed || p.Held() {
			t.Errorf("what needs no seat: %+v", out)
		}
		p.Release()
		if p, _ := enter(t.Context(), g, "/", "bob"); p.Until != now.Add(time.Minute) {
			t.Errorf("the plan's time ends at %v", p.Until)
		} else {
			p.Release()
		}
		g.Seats().Close(t.Context())
	})
}

// Another configuration holds at once: for who waits, and without stopping who runs.
func TestSeatsFollowTheRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := seated(t, nil)
		running, _ := enter(t.Context(), g, "/", "ann")
		admitted := make(chan gate.Pass)
		go func() {
			p, _ := enter(t.Context(), g, "/", "ann")
			admitted <- p
		}()
		synctest.Wait()
		wider := seated(t, func(s *rules.Spec) { s.Isolation.Plans = nil })
		g.Swap(wider.Snapshot())
		waited := <-admitted
		if busy := g.Seats().Snapshot(0).Busy; busy != 2 {
			t.Errorf("%d seats are held under the new rules", busy)
		}
		none := newSet(t)
		g.Swap(&gate.Snapshot{Rules: none, Identity: byHeader{}})
		if p, out := enter(t.Context(), g, "/", "ann"); !out.Allowed || p.Held() {
			t.Errorf("without isolation: %+v", out)
		}
		running.Release()
		waited.Release()
		if busy := g.Seats().Snapshot(0).Busy; busy != 0 {
			t.Errorf("%d seats are held at the end", busy)
		}
		g.Seats().Close(t.Context())
	})
}

// Two processes of one store share the seats of a tenant.
func TestSharedSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(nil)
		shared := func(seats int) *gate.Snapshot {
			return seated(t, func(s *rules.Spec) {
				s.Isolation.Plans["default"] = rules.SeatPlanSpec{MaxSeats: to(seats), Shared: true}
			}).Snapshot()
		}
		var gates [2]*gate.Gate
		for n := range gates {
			gates[n] = gate.New(limit.New(store, nil), shared(1), &gate.Options{Leaser: lease.New(store)})
		}
		first, out := enter(t.Context(), gates[0], "/", "ann")
		if !out.Allowed || !first.Held() {
			t.Fatalf("the first: %+v", out)
		}
		second := make(chan gate.Pass)
		go func() {
			p, _ := enter(t.Context(), gates[1], "/", "ann")
			second <- p
		}()
		time.Sleep(3 * time.Second)
		select {
		case <-second:
			t.Error("the other process gave a second seat, of one")
		default:
		}
		first.Release()
		released := time.Now()
		p := <-second
		if waited := time.Since(released); !p.Held() || waited > 3*time.Second {
			t.Errorf("the other process has had the seat for %v, held: %v", waited, p.Held())
		}
		for _, g := range gates {
			g.Swap(shared(2))
		}
		if again, out := enter(t.Context(), gates[0], "/", "ann"); !out.Allowed {
			t.Errorf("with one more: %+v", out)
		} else {
			again.Release()
		}
		p.Release()
		for _, g := range gates {
			g.Seats().Close(t.Context())
		}
	})
}
