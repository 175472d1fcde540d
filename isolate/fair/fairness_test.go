package fair_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stint-dev/stint/isolate/fair"
)

// house has one plan, whose queues are long enough to keep tenants waiting.
func house(seats int) fair.Config {
	return fair.Config{Seats: seats, Plans: map[string]fair.Plan{
		"default": {Weight: 1, Queue: 50, QueueTimeout: 10 * time.Second},
		"double":  {Weight: 2, Queue: 50, QueueTimeout: 10 * time.Second},
		"fourway": {Weight: 4, Queue: 50, QueueTimeout: 10 * time.Second},
	}}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s: %.3f, want %.3f within %.0f %%", what, got, want, 100*tolerance)
	}
}

func TestSeatsAreSharedMaxMin(t *testing.T) {
	demands := map[string]float64{"one": 1, "nine": 9, "seven": 7, "three": 3, "fifty": 50}
	left := (21.0 - 1 - 3) / 3
	want := map[string]float64{"one": 1, "nine": left, "seven": left, "three": 3, "fifty": left}
	for name, runs := range map[string]func(time.Duration) load{
		"constant":    func(d time.Duration) load { return load{runs: constant(d)} },
		"exponential": func(d time.Duration) load { return load{runs: exponential(d)} },
	} {
		t.Run(name, func(t *testing.T) {
			var loads []load
			for _, tenant := range sortedKeys(demands) {
				l := runs(50 * time.Millisecond)
				l.tenant, l.rate, l.even = tenant, demands[tenant]/0.05, true
				loads = append(loads, l)
			}
			s := simulate(t, house(21), 10*time.Second, 200*time.Second, loads...)
			for tenant, want := range want {
				near(t, tenant, s.held(tenant), want, 0.02)
			}
			t.Log(s)
		})
	}
}

func TestWeightsAreKept(t *testing.T) {
	for name, runs := range map[string][3]time.Duration{
		"of one length":      {50 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond},
		"of unequal lengths": {500 * time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulate(t, house(14), 10*time.Second, 200*time.Second,
				load{tenant: "a", clients: 40, runs: exponential(runs[0])},
				load{tenant: "b", plan: "double", clients: 40, runs: exponential(runs[1])},
				load{tenant: "c", plan: "fourway", clients: 40, runs: exponential(runs[2])})
			near(t, "weight 1", s.held("a"), 2, 0.03)
			near(t, "weight 2", s.held("b"), 4, 0.03)
			near(t, "weight 4", s.held("c"), 8, 0.03)
		})
	}
}

// A tenant that has just had its turn must not compete as if it had had none, though
// it holds no seat at that instant and has nothing waiting.
func TestManyTenantsTakeTurnsOnFewSeats(t *testing.T) {
	for _, clients := range []int{1, 5} {
		var loads []load
		for i := range 100 {
			loads = append(loads, load{tenant: fmt.Sprint(i), clients: clients, runs: exponential(20 * time.Millisecond)})
		}
		s := simulate(t, house(2), 0, 100*time.Second, loads...)
		sum, squares := 0.0, 0.0
		for _, r := range s.results {
			x := r.seatTime.Seconds()
			sum += x
			squares += x * x
		}
		if jain := sum * sum / (100 * squares); jain < 0.99 {
			t.Errorf("%d requests each: Jain's index is %.4f, want at least 0.99", clients, jain)
		} else {
			t.Logf("%d requests each: Jain's index is %.4f", clients, jain)
		}
	}
}

// A tenant with 10 seats' worth of demand beside one with 1: the first must not
// grow in the eyes of the room by having been alone before.
func TestWhoWasAloneOwesNothing(t *testing.T) {
	s := simulate(t, house(10), 60*time.Second, 10*time.Second,
		load{tenant: "early", clients: 40, runs: constant(50 * time.Millisecond)},
		load{tenant: "late", clients: 40, runs: constant(50 * time.Millisecond), from: 60 * time.Second})
	near(t, "early", s.held("early"), 5, 0.04)
	near(t, "late", s.held("late"), 5, 0.04)
}

// And who held one seat all the time has saved up nothing.
func TestWhoWasModestHasSavedNothing(t *testing.T) {
	s := simulate(t, house(10), 60*time.Second, 10*time.Second,
		load{tenant: "greedy", clients: 40, runs: constant(50 * time.Millisecond)},
		load{tenant: "modest", clients: 1, runs: constant(50 * time.Millisecond)},
		load{tenant: "modest", clients: 40, runs: constant(50 * time.Millisecond), from: 60 * time.Second})
	near(t, "greedy", s.held("greedy"), 5, 0.04)
	near(t, "modest", s.held("modest"), 5, 0.04)
}

// Who leaves and comes back is treated as who stays.
func TestLeavingAndComingBackWinsNothing(t *testing.T) {
	loads := []load{{tenant: "stays", clients: 40, runs: constant(50 * time.Millisecond)}}
	for i := range 60 {
		from := time.Duration(i) * time.Second
		loads = append(loads, load{tenant: "comes and goes", clients: 10, runs: constant(50 * time.Millisecond), from: from, to: from + 500*time.Millisecond})
	}
	s := simulate(t, house(10), 0, 60*time.Second, loads...)
	// Half of the seats for half of the time, and a tenth of a second for what it
	// has in the queue then.
	if held := s.held("comes and goes"); held > 3.05 || held < 2.5 {
		t.Errorf("%.2f seats for a tenant that is there for half of the time", held)
	}
}

// Each of them begins at V, and so before the one that owes for its long requests.
func TestNobodyStarvesBehindAnEndlessRowOfNewTenants(t *testing.T) {
	c := house(4)
	c.Plans["default"] = fair.Plan{Weight: 1, Queue: 50, QueueTimeout: 10 * time.Minute}
	c.Plans["hasty"] = fair.Plan{Weight: 1, Queue: 50, QueueTimeout: 50 * time.Millisecond}
	loads := []load{{tenant: "old", clients: 20, runs: constant(time.Second)}}
	for i := range 25_000 {
		from := 2*time.Second + time.Duration(i)*4*time.Millisecond
		loads = append(loads, load{tenant: fmt.Sprint("new", i), plan: "hasty", clients: 1, runs: constant(20 * time.Millisecond), from: from, to: from})
	}
	s := simulate(t, c, 10*time.Second, 92*time.Second, loads...)
	t.Logf("%.2f seats", s.held("old"))
	if n := s.held("old"); n < 0.05 {
		t.Errorf("the tenant that was there before got %.2f seats", n)
	}
}

func TestWideRequestsNeitherStarveNorBlock(t *testing.T) {
	s := simulate(t, house(10), 5*time.Second, 100*time.Second,
		load{tenant: "wide", cost: 10, clients: 2, runs: constant(50 * time.Millisecond)},
		load{tenant: "narrow", clients: 40, runs: exponential(50 * time.Millisecond)})
	wide, narrow := s.results["wide"], s.results["narrow"]
	t.Log(s)
	if wide.quantile(1) > 3*time.Second || wide.finished < 100 {
		t.Errorf("wide: %d in 100s, slowest %s", wide.finished, wide.quantile(1))
	}
	if narrow.refused > 0 || s.utilisation() < 0.7 {
		t.Errorf("narrow: %d refused; utilisation %.2f", narrow.refused, s.utilisation())
	}
}

// A burst that is worked off is no standing queue.
func TestCoDelLetsABurstPass(t *testing.T) {
	c := fair.Config{Seats: 4, Plans: map[string]fair.Plan{"default": {Weight: 1, Queue: 200, QueueTimeout: time.Minute, Target: 20 * time.Millisecond}}}
	var loads []load
	for i := range 20 {
		from := time.Duration(i) * time.Second
		loads = append(loads, load{tenant: "a", clients: 12, runs: constant(50 * time.Millisecond), from: from, to: from + 10*time.Millisecond})
	}
	if s := simulate(t, c, 0, 30*time.Second, loads...); s.results["a"].refused > 0 {
		t.Error(s)
	}
}

func TestCoDelKeepsTheQueueShort(t *testing.T) {
	for _, target := range []time.Duration{0, 20 * time.Millisecond} {
		c := fair.Config{Seats: 4, Plans: map[string]fair.Plan{"default": {Weight: 1, Queue: 200, QueueTimeout: time.Minute, Target: target}}}
		s := simulate(t, c, 5*time.Second, 60*time.Second, load{tenant: "a", rate: 160, runs: constant(50 * time.Millisecond)})
		p99 := s.results["a"].quantile(.99)
		t.Logf("target %s: %s", target, s)
		if short := p99 < 300*time.Millisecond; short != (target > 0) {
			t.Errorf("target %s: p99 %s", target, p99)
		}
		if s.utilisation() < 0.99 {
			t.Errorf("target %s: utilisation %.3f: shedding must leave no seat idle", target, s.utilisation())
		}
	}
}
