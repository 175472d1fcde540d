package fair_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/isolate/fair"
)

// The incident: a room of 32 seats, a victim that needs 30 % of them at 50 ms a
// request, and a noisy tenant that sends 50 times what it should, 15 times what the
// room could do. ratio is the victim's p50 and p99 against what they are alone.
type incident struct {
	p50, p99, utilisation, goodput float64
	sim                            *sim
}

const (
	incidentSeats  = 32
	incidentLength = 60 * time.Second
)

func replay(t testing.TB, guarantee float64, seed uint64, victims []load, noisy ...load) incident {
	t.Helper()
	c := fair.Config{Seats: incidentSeats, Guarantee: guarantee, Plans: map[string]fair.Plan{
		"default": {Weight: 1, Queue: 100, QueueTimeout: 30 * time.Second},
	}}
	run := func(loads []load) *sim {
		room, err := fair.New(c)
		if err != nil {
			t.Fatal(err)
		}
		s := &sim{t: t, room: room, seats: c.Seats, rand: newRand(seed), warm: 20 * time.Second, end: 20*time.Second + incidentLength, results: map[string]*result{}}
		s.play(loads...)
		return s
	}
	alone, beside := run(victims), run(append(slices.Clone(victims), noisy...))
	a, b := alone.together(victims), beside.together(victims)
	return incident{
		p50:         float64(b.quantile(.5)) / float64(a.quantile(.5)),
		p99:         float64(b.quantile(.99)) / float64(a.quantile(.99)),
		utilisation: beside.utilisation(),
		goodput:     float64(b.finished) / float64(max(1, b.asks)),
		sim:         beside,
	}
}

// together is what became of the requests of all tenants of loads.
func (s *sim) together(loads []load) (all result) {
	for _, l := range loads {
		r := s.results[l.tenant]
		all.took = append(all.took, r.took...)
		all.finished += r.finished
		all.asks += r.asks
	}
	slices.Sort(all.took)
	return all
}

// median plays it five times and returns the median of each figure.
func median(t testing.TB, guarantee float64, victims []load, noisy ...load) incident {
	var all []incident
	for seed := range uint64(5) {
		all = append(all, replay(t, guarantee, seed, victims, noisy...))
	}
	middle := func(of func(incident) float64) float64 {
		var x []float64
		for _, i := range all {
			x = append(x, of(i))
		}
		slices.Sort(x)
		return x[2]
	}
	return incident{
		p50:         middle(func(i incident) float64 { return i.p50 }),
		p99:         middle(func(i incident) float64 { return i.p99 }),
		utilisation: middle(func(i incident) float64 { return i.utilisation }),
		goodput:     middle(func(i incident) float64 { return i.goodput }),
	}
}

func (i incident) String() string {
	return fmt.Sprintf("p50 %.2f, p99 %.2f, utilisation %.1f %%, goodput %.2f %%", i.p50, i.p99, 100*i.utilisation, 100*i.goodput)
}

// oneVictim has 192 requests a second of 50 ms with some spread: 9.6 seats.
var oneVictim = []load{{tenant: "victim", rate: 192, runs: exponential(50 * time.Millisecond)}}

// manyVictims are 19 that have as many together.
func manyVictims() (victims []load) {
	for i := range 19 {
		victims = append(victims, load{tenant: fmt.Sprint("victim", i), rate: 192. / 19, runs: exponential(50 * time.Millisecond)})
	}
	return victims
}

func noisy(runs time.Duration) load {
	return load{tenant: "noisy", rate: 15 * incidentSeats / runs.Seconds(), runs: constant(runs)}
}

// fleet is 19 tenants with 24 devices each, which poll every 30 s: 3 seats together at
// 200 ms a request. The 20th has devices that poll 50 times a second.
func fleet() (victims []load) {
	for i := range 19 {
		victims = append(victims, load{tenant: fmt.Sprint("victim", i), rate: 24. / 30, runs: around(200 * time.Millisecond)})
	}
	return victims
}

func TestNeighboursDoNotNotice(t *testing.T) {
	for _, test := range []struct {
		name             string
		guarantee        float64
		victims          []load
		noisy            load
		p99, utilisation float64
	}{
		{"requests as short as the victim's, fair", 0, oneVictim, noisy(50 * time.Millisecond), 1.15, 0.99},
		{"requests of 5s, guarantee of 0.35", 0.35, oneVictim, noisy(5 * time.Second), 1.25, 0.95},
		{"requests of 5s, strict", 0.85, oneVictim, noisy(5 * time.Second), 1.05, 0.85},
		{"a fleet of devices, fair", 0, fleet(), load{tenant: "noisy", rate: 1200, runs: constant(200 * time.Millisecond)}, 1.15, 0.99},
		{"many victims, requests of 5s, guarantee of 0.35", 0.35, manyVictims(), noisy(5 * time.Second), 1.25, 0.95},
		{"many victims, requests of 5s, strict", 0.85, manyVictims(), noisy(5 * time.Second), 1.05, 0.85},
		{"a fleet of devices, requests of 5s", 0.9, fleet(), load{tenant: "noisy", rate: 1200, runs: constant(5 * time.Second)}, 1.25, 0.9},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			i := median(t, test.guarantee, test.victims, test.noisy)
			t.Log(i)
			if i.p99 > test.p99 || i.utilisation < test.utilisation || i.goodput < 1 {
				t.Errorf("%s; want p99 of at most %.2f, utilisation of at least %.0f %%, nothing refused", i, test.p99, 100*test.utilisation)
			}
		})
	}
}

// Without isolation, which is one tenant for all, the same load ruins the victim. If it
// did not, the test above would prove nothing.
func TestOneQueueForAllCollapses(t *testing.T) {
	t.Parallel()
	for _, runs := range []time.Duration{50 * time.Millisecond, 5 * time.Second} {
		alone, c := 0.0, house(incidentSeats)
		for _, loads := range [][]load{oneVictim, {oneVictim[0], noisy(runs)}} {
			loads = slices.Clone(loads) // oneVictim is others' too
			for i := range loads {
				loads[i].plan = "default"
			}
			s := &sim{t: t, seats: incidentSeats, rand: newRand(1), warm: 20 * time.Second, end: 80 * time.Second, results: map[string]*result{}, oneQueue: true}
			s.room, _ = fair.New(c)
			s.play(loads...)
			r := s.results["victim"]
			if p99 := r.quantile(.99).Seconds(); alone == 0 {
				alone = p99
			} else if goodput := float64(r.finished) / float64(r.asks); p99 < 1.15*alone || goodput > 0.5 {
				t.Errorf("%s: p99 is %.2f times that alone, goodput %.2f", runs, p99/alone, goodput)
			} else {
				t.Logf("%s: p99 is %.2f times that alone, goodput %.2f", runs, p99/alone, goodput)
			}
		}
	}
}

// A victim that comes back waits for a request of the other to finish, or for two if
// the other had less than it was charged for, and not for a clock.
func TestSeatsGoToWhoComesBackAtTheNextFinish(t *testing.T) {
	for name, test := range map[string]struct {
		noisy load
		most  time.Duration
	}{
		"uniform":     {load{tenant: "noisy", clients: 40, runs: around(200 * time.Millisecond)}, 30 * time.Millisecond},
		"exponential": {load{tenant: "noisy", clients: 40, runs: exponential(200 * time.Millisecond)}, 40 * time.Millisecond},
	} {
		s := simulate(t, house(10), 10*time.Second, 600*time.Second, test.noisy,
			load{tenant: "victim", rate: 1, runs: constant(50 * time.Millisecond)})
		v := s.results["victim"]
		mean := v.waited / time.Duration(v.finished)
		t.Logf("%s: the victim waited %s in the mean; utilisation %.4f", name, mean, s.utilisation())
		if mean > test.most || s.utilisation() < 0.999 {
			t.Errorf("%s: the victim waited %s in the mean, want at most %s; utilisation %.4f", name, mean, test.most, s.utilisation())
		}
	}
}

// With the victim gone, what was held for it goes to the others.
func TestGuaranteesOfTheIdleDecay(t *testing.T) {
	t.Parallel()
	c := house(incidentSeats)
	c.Guarantee = 0.9
	victim := oneVictim[0]
	victim.to = 30 * time.Second
	s := simulate(t, c, 60*time.Second, 30*time.Second, victim, noisy(50*time.Millisecond))
	if s.utilisation() < 0.999 {
		t.Errorf("utilisation %.4f half a minute later", s.utilisation())
	}
}

// What a refused request is told is when its seats would really have come.
func TestRetryAfterIsWhenSeatsCome(t *testing.T) {
	for _, queue := range []int{3, 20, 50} {
		c := fair.Config{Seats: 8, Plans: map[string]fair.Plan{"default": {Weight: 1, Queue: queue, QueueTimeout: time.Hour}}}
		s := simulate(t, c, 0, 0)
		s.end = 60 * time.Second
		var told, took float64
		n := 0
		s.refused = func(q *fair.Request) {
			if s.now > 20*time.Second {
				told += q.RetryAfter.Seconds()
				n++
			}
		}
		s.play(load{tenant: "a", rate: 400, runs: around(50 * time.Millisecond)},
			load{tenant: "b", rate: 400, runs: around(50 * time.Millisecond)})
		for _, r := range s.results {
			// Those let in came as soon as there was a place: the last of the queue. One
			// that is refused would have been behind that.
			took += r.waited.Seconds() / float64(r.finished) * float64(queue+1) / float64(queue) / 2
		}
		near(t, fmt.Sprintf("queue of %d", queue), told/float64(n), took, 0.2)
	}
}

// BenchmarkCurve measures what docs/isolation.md says of the dial: the victim's latency
// against what it is alone, and how much of the seats is used.
func BenchmarkCurve(b *testing.B) {
	for _, runs := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second} {
		for _, g := range []float64{0, 0.2, 0.3, 0.35, 0.5, 0.7, 0.85, 0.95} {
			b.Run(fmt.Sprintf("noisy=%s/guarantee=%v", runs, g), func(b *testing.B) {
				var i incident
				for b.Loop() {
					i = median(b, g, oneVictim, noisy(runs))
				}
				b.ReportMetric(i.p50, "p50-ratio")
				b.ReportMetric(i.p99, "p99-ratio")
				b.ReportMetric(100*i.utilisation, "%used")
				b.ReportMetric(100*i.goodput, "%goodput")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// When all want more than their shares, and those are no whole numbers of seats, what is
// left over is not kept for anybody.
func TestNoSeatIsKeptThatNobodyMayTake(t *testing.T) {
	for _, tenants := range []int{3, 20, 25, 31, 40} {
		room, err := fair.New(fair.Config{Seats: 32, Guarantee: 0.9, Plans: map[string]fair.Plan{
			"default": {Weight: 1, Queue: 1000, QueueTimeout: time.Hour},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var all []*fair.Request
		for range 400 {
			for n := range tenants {
				q := &fair.Request{Tenant: fmt.Sprint(n)}
				if _, err := room.Arrive(0, q); err != nil {
					t.Fatal(err)
				}
				all = append(all, q)
			}
		}
		for now := 50 * time.Millisecond; now < 4*time.Second; now += 50 * time.Millisecond {
			for _, q := range all {
				if q.State == fair.Running && q.Started < now {
					room.Finish(now, q)
				}
			}
			if s := room.Snapshot(0); s.Busy != 32 && now > time.Second && s.Waiting > 32 {
				t.Fatalf("%d tenants, all of them with a queue: %d of 32 seats are used", tenants, s.Busy)
			}
		}
	}
}

// A tenant that nobody knows yet has no more than the share that a known one would have:
// between two sweeps it could fill the room otherwise, for as long as its requests take.
func TestNewcomerLeavesWhatIsKept(t *testing.T) {
	room, err := fair.New(fair.Config{Seats: 32, Guarantee: 0.9, Plans: map[string]fair.Plan{
		"default": {Weight: 1, Queue: 1000, QueueTimeout: time.Minute},
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Duration(0)
	for range 2000 { // 4 others, which hold a seat each for half of the time
		var held []*fair.Request
		for _, tenant := range []string{"a", "b", "c", "d"} {
			q := &fair.Request{Tenant: tenant}
			if _, err := room.Arrive(now, q); err != nil {
				t.Fatal(err)
			}
			held = append(held, q)
		}
		now += 5 * time.Millisecond
		for _, q := range held {
			room.Finish(now, q)
		}
		now += 5 * time.Millisecond
	}
	for range 200 {
		if _, err := room.Arrive(now, &fair.Request{Tenant: "new"}); err != nil {
			t.Fatal(err)
		}
	}
	if s := room.Snapshot(1); s.Busy > 30 || s.Busy < 24 || s.Held != 32-s.Busy {
		t.Errorf("the newcomer holds %d of 32 seats, %d are kept; about 28 are its share", s.Busy, s.Held)
	}
}
