package fair_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/isolate/fair"
)

// load is what one tenant does in a simulation.
type load struct {
	tenant, plan string
	cost         int
	// rate is how many requests come in a second, whatever becomes of them, at
	// random or, if even, at equal distances. Or clients have one request at a time
	// each and ask again when it is done.
	rate    float64
	even    bool
	clients int
	runs    func(*rand.Rand) time.Duration
	// from and to are when it begins and ends; to = 0 is the end of the simulation.
	from, to time.Duration
	// again sends what is refused once more, at once: a retry storm.
	again bool
}

// randSource is what a load draws from.
type randSource = rand.Rand

func constant(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}

func exponential(d time.Duration) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return time.Duration(float64(d) * r.ExpFloat64()) }
}

// result is what became of one tenant's requests that arrived after the warm-up.
type result struct {
	took                    []time.Duration // from arrival to finish, in order
	finished, refused, asks int
	seatTime                time.Duration // after the warm-up
	waited                  time.Duration
}

func (r result) quantile(p float64) time.Duration {
	if len(r.took) == 0 {
		return 0
	}
	return r.took[min(len(r.took)-1, int(p*float64(len(r.took))))]
}

// sim plays loads against a Room in virtual time.
type sim struct {
	t       testing.TB
	room    *fair.Room
	seats   int
	rand    *rand.Rand
	now     time.Duration
	events  eventHeap
	n       int
	warm    time.Duration
	end     time.Duration
	busy    int
	served  time.Duration // seat-time after the warm-up
	results map[string]*result
	// each is called after every event.
	each func(now time.Duration)
	// refused is called for every refusal.
	refused func(*fair.Request)
	// oneQueue makes one tenant of all.
	oneQueue bool
}

type event struct {
	at  time.Duration
	n   int
	run func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].n < h[j].n
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// one is a request in the simulation.
type one struct {
	fair.Request
	load *load
}

// simulate plays loads for so long, after a warm-up that does not count.
func simulate(t testing.TB, c fair.Config, warm, length time.Duration, loads ...load) *sim {
	t.Helper()
	room, err := fair.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &sim{t: t, room: room, seats: c.Seats, rand: rand.New(rand.NewPCG(1, 2)), warm: warm, end: warm + length, results: map[string]*result{}}
	s.play(loads...)
	return s
}

func (s *sim) play(loads ...load) {
	for i := range loads {
		l := &loads[i]
		if l.to == 0 {
			l.to = s.end
		}
		if s.results[l.tenant] == nil {
			s.results[l.tenant] = &result{}
		}
		for range l.clients {
			s.at(l.from, func() { s.ask(l) })
		}
		if l.rate > 0 {
			s.at(l.from+s.gap(l), func() { s.arrivals(l) })
		}
	}
	for len(s.events) > 0 && s.events[0].at <= s.end {
		at := s.events[0].at
		if next, ok := s.room.Next(); ok && next < at {
			s.pass(max(next, s.now))
			s.decided(s.room.Tick(s.now))
		} else {
			e := heap.Pop(&s.events).(event)
			s.pass(e.at)
			e.run()
		}
		if s.each != nil {
			s.each(s.now)
		}
	}
	s.pass(s.end)
	for _, r := range s.results {
		slices.Sort(r.took)
	}
}

func (s *sim) pass(now time.Duration) {
	if now > s.warm {
		s.served += time.Duration(s.busy) * (now - max(s.now, s.warm))
	}
	s.now = now
}

func (s *sim) at(at time.Duration, run func()) {
	s.n++
	heap.Push(&s.events, event{at, s.n, run})
}

func (s *sim) gap(l *load) time.Duration {
	mean := float64(time.Second) / l.rate
	if l.even {
		return time.Duration(mean)
	}
	return time.Duration(mean * s.rand.ExpFloat64())
}

func (s *sim) arrivals(l *load) {
	if s.now > l.to {
		return
	}
	s.ask(l)
	s.at(s.now+s.gap(l), func() { s.arrivals(l) })
}

func (s *sim) ask(l *load) {
	if s.now > l.to {
		return
	}
	o := &one{load: l}
	o.Owner, o.Tenant, o.Plan, o.Cost = o, l.tenant, l.plan, l.cost
	if s.oneQueue {
		o.Tenant = "all"
	}
	others, err := s.room.Arrive(s.now, &o.Request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.decided(others)
	if o.State != fair.Waiting {
		s.decided([]*fair.Request{&o.Request})
	}
}

// decided follows up what the room has said.
func (s *sim) decided(requests []*fair.Request) {
	for _, q := range slices.Clone(requests) {
		o := q.Owner.(*one)
		r := s.results[o.load.tenant]
		if o.State == fair.Refused {
			if o.Arrived >= s.warm {
				r.asks++
				r.refused++
			}
			if s.refused != nil {
				s.refused(q)
			}
			if o.load.again {
				s.at(s.now+time.Millisecond, func() { s.ask(o.load) })
			} else if o.load.clients > 0 {
				s.at(s.now+o.RetryAfter, func() { s.ask(o.load) })
			}
			continue
		}
		cost := max(1, o.Cost)
		s.busy += cost
		ran := o.load.runs(s.rand)
		s.at(s.now+ran, func() {
			s.busy -= cost
			if s.now > s.warm {
				r.seatTime += time.Duration(cost) * (s.now - max(o.Started, s.warm))
			}
			if o.Arrived >= s.warm {
				r.asks++
				r.finished++
				r.took = append(r.took, s.now-o.Arrived)
				r.waited += o.Started - o.Arrived
			}
			s.decided(s.room.Finish(s.now, q))
			if o.load.clients > 0 {
				s.ask(o.load)
			}
		})
	}
}

func (s *sim) utilisation() float64 {
	return float64(s.served) / float64(s.end-s.warm) / float64(s.seats)
}

// held is how many seats a tenant held, in the mean.
func (s *sim) held(tenant string) float64 {
	return float64(s.results[tenant].seatTime) / float64(s.end-s.warm)
}

func (s *sim) String() string {
	text := fmt.Sprintf("utilisation %.1f %%", 100*s.utilisation())
	for _, name := range sortedKeys(s.results) {
		r := s.results[name]
		text += fmt.Sprintf("; %s: %.2f seats, %d finished, %d refused, p50 %s, p99 %s", name, s.held(name), r.finished, r.refused, r.quantile(.5), r.quantile(.99))
	}
	return text
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// around is between half and one and a half of d.
func around(d time.Duration) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return d/2 + time.Duration(r.Int64N(int64(d))) }
}
