package fair_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/isolate/fair"
)

// model is the package comment written down as simply as possible, for requests of
// one seat, without guarantees, and for tenants that are never idle.
type model struct {
	now, seats, busy int64
	v, vMax, seq     int64
	runs             int64
	tenants          []*modelTenant
}

type modelTenant struct {
	weight, cap, use, v, runs int64
	queue                     []modelRequest
}

type modelRequest struct {
	q          *fair.Request
	stamp, seq int64
}

func (m *model) pass(now int64) {
	contended, weights := false, int64(0)
	for _, t := range m.tenants {
		contended = contended || len(t.queue) > 0 && (t.use < t.cap || t.cap == m.seats)
		if t.use > 0 || len(t.queue) > 0 {
			weights += t.weight
		}
	}
	by := (now - m.now) * m.seats
	if contended {
		by = (now - m.now) * m.busy / (2 * weights)
	}
	m.v = max(m.v, min(m.vMax, m.v+by))
	m.now = now
}

func (t *modelTenant) key() int64 { return max(t.v, t.queue[0].stamp) }

// start starts what may start and returns it, in order.
func (m *model) start() (started []*fair.Request) {
	for m.busy < m.seats {
		var best *modelTenant
		for _, t := range m.tenants {
			if len(t.queue) == 0 || t.use >= t.cap {
				continue
			}
			if best == nil || slices.Compare(
				[]int64{t.key(), t.use * fair.MaxWeight / t.weight, t.queue[0].seq},
				[]int64{best.key(), best.use * fair.MaxWeight / best.weight, best.queue[0].seq}) < 0 {
				best = t
			}
		}
		if best == nil {
			break
		}
		r := best.queue[0]
		m.v = max(m.v, best.key())
		charged := best.estimate(m) / best.weight
		best.v, best.queue = best.key()+charged, best.queue[1:]
		m.vMax = max(m.vMax, best.v)
		best.use++
		m.busy++
		r.q.Owner = charged
		started = append(started, r.q)
	}
	return started
}

func (t *modelTenant) estimate(m *model) int64 {
	for _, e := range []int64{t.runs, m.runs} {
		if e > 0 {
			return e
		}
	}
	return int64(time.Millisecond)
}

func (m *model) finish(t *modelTenant, q *fair.Request) {
	ran := m.now - int64(q.Started)
	t.v += ran/t.weight - q.Owner.(int64)
	m.vMax = max(m.vMax, t.v)
	t.use--
	m.busy--
	for _, mean := range []*int64{&t.runs, &m.runs} {
		if *mean == 0 {
			*mean = max(1, ran)
		} else {
			*mean = max(1, *mean+(ran-*mean)/8)
		}
	}
}

func TestStartsWhatTheModelStarts(t *testing.T) { rapid.Check(t, startsWhatTheModelStarts) }

func FuzzStartsWhatTheModelStarts(f *testing.F) { f.Fuzz(rapid.MakeFuzz(startsWhatTheModelStarts)) }

func startsWhatTheModelStarts(t *rapid.T) {
	n := rapid.IntRange(1, 5).Draw(t, "tenants")
	seats := n + rapid.IntRange(0, 6).Draw(t, "more seats")
	c := fair.Config{Seats: seats, Plans: map[string]fair.Plan{"default": {Weight: 1}}}
	m := &model{seats: int64(seats)}
	for i := range n {
		mt := &modelTenant{weight: rapid.SampledFrom([]int64{1, 2, 3, 1000}).Draw(t, "weight"), cap: int64(rapid.IntRange(2, seats+1).Draw(t, "cap"))}
		mt.cap = min(mt.cap, int64(seats))
		m.tenants = append(m.tenants, mt)
		c.Plans[fmt.Sprint(i)] = fair.Plan{Weight: int(mt.weight), MaxSeats: int(mt.cap), Queue: 1000, QueueTimeout: 24 * time.Hour}
	}
	room, err := fair.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "rebase") {
		room.RebaseAt(int64(rapid.IntRange(1, int(time.Second)).Draw(t, "at")))
	}
	now := time.Duration(0)
	var running, waiting []*fair.Request
	owner := func(q *fair.Request) *modelTenant {
		i := 0
		fmt.Sscan(q.Tenant, &i)
		return m.tenants[i]
	}
	follow := func(want []*fair.Request, got ...*fair.Request) {
		if !slices.Equal(want, got) {
			t.Fatalf("at %s: started %v, the model %v", now, names(got), names(want))
		}
		for _, q := range got {
			if q.State != fair.Running {
				t.Fatalf("%s was decided: %v", q.Tenant, q.Reason)
			}
			waiting = slices.DeleteFunc(waiting, func(w *fair.Request) bool { return w == q })
			running = append(running, q)
		}
	}
	arrive := func(i int) {
		q := &fair.Request{Tenant: fmt.Sprint(i), Plan: fmt.Sprint(i)}
		others, err := room.Arrive(now, q)
		if err != nil || len(others) > 0 {
			t.Fatal(err, names(others))
		}
		waiting = append(waiting, q)
		m.seq++
		owner(q).queue = append(owner(q).queue, modelRequest{q: q, stamp: m.v, seq: m.seq})
		var got []*fair.Request
		if q.State == fair.Running {
			got = append(got, q)
		}
		follow(m.start(), got...)
	}
	for i := range n {
		arrive(i) // holds its seat for good
	}
	running = nil
	pass := func() {
		now += time.Duration(rapid.SampledFrom([]int64{0, 1, 1000, 1_000_000, 77_777_777}).Draw(t, "dt"))
		m.pass(int64(now))
	}
	for range rapid.IntRange(1, 300).Draw(t, "events") {
		switch pass(); rapid.SampledFrom([]string{"arrive", "arrive", "arrive", "finish", "finish", "cancel", "tick"}).Draw(t, "event") {
		case "arrive":
			arrive(rapid.IntRange(0, n-1).Draw(t, "tenant"))
		case "finish":
			if len(running) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
			q := running[i]
			running = slices.Delete(running, i, i+1)
			m.finish(owner(q), q)
			got := slices.Clone(room.Finish(now, q))
			follow(m.start(), got...)
		case "cancel":
			if len(waiting) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
			q := waiting[i]
			waiting = slices.Delete(waiting, i, i+1)
			mt := owner(q)
			mt.queue = slices.DeleteFunc(mt.queue, func(r modelRequest) bool { return r.q == q })
			follow(m.start(), slices.Clone(room.Cancel(now, q))...)
		case "tick":
			follow(m.start(), slices.Clone(room.Tick(now))...)
		}
	}
}

func names(requests []*fair.Request) (all []string) {
	for _, q := range requests {
		all = append(all, q.Tenant)
	}
	return all
}

func TestWhateverHappens(t *testing.T) { rapid.Check(t, whateverHappens) }

func FuzzWhateverHappens(f *testing.F) { f.Fuzz(rapid.MakeFuzz(whateverHappens)) }

// whateverHappens checks what must hold after any event, with all that a Room can do.
func whateverHappens(t *rapid.T) {
	drawPlan := func(seats int) fair.Plan {
		return fair.Plan{
			Weight:       rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "weight"),
			MaxSeats:     rapid.IntRange(0, seats).Draw(t, "max seats"),
			Queue:        rapid.IntRange(0, 5).Draw(t, "queue"),
			QueueTimeout: rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Hour}).Draw(t, "timeout"),
			Target:       rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond}).Draw(t, "target"),
		}
	}
	drawConfig := func() fair.Config {
		seats := rapid.IntRange(1, 12).Draw(t, "seats")
		c := fair.Config{
			Seats:      seats,
			Guarantee:  rapid.SampledFrom([]float64{0, 0, 0.3, 0.5, 0.99}).Draw(t, "guarantee"),
			Memory:     rapid.SampledFrom([]time.Duration{100 * time.Millisecond, time.Minute}).Draw(t, "memory"),
			MaxWaiting: rapid.SampledFrom([]int{0, 7}).Draw(t, "max waiting"),
			Plans:      map[string]fair.Plan{"default": drawPlan(seats)},
		}
		if rapid.Bool().Draw(t, "gold") {
			c.Plans["gold"] = drawPlan(seats)
		}
		if rapid.IntRange(0, 3).Draw(t, "adaptive") == 0 {
			c.Adaptive = &fair.Adaptive{Min: rapid.IntRange(1, seats).Draw(t, "min")}
		}
		return c
	}
	c := drawConfig()
	room, err := fair.New(c)
	if err != nil {
		t.Fatal(err)
	}
	now, arrived := time.Duration(0), 0
	var live []*fair.Request // waiting and running
	number := map[*fair.Request]int{}
	lastStart := map[string]int{} // by tenant and priority: the latest that was started
	caps, plans := map[string]int{}, map[string]string{}
	capOf := func(q *fair.Request) int {
		limit := c.Plans[plans[q.Tenant]].MaxSeats
		if own, ok := caps[q.Tenant]; ok {
			return min(own, c.Seats)
		}
		if limit == 0 {
			limit = c.Seats
		}
		return limit
	}
	use := func(tenant string) (n int) {
		for _, q := range live {
			if q.Tenant == tenant && q.State == fair.Running {
				n += max(1, q.Cost)
			}
		}
		return n
	}
	decided := func(requests ...*fair.Request) {
		for _, q := range requests {
			switch q.State {
			case fair.Running:
				if q.Started != now || q.Started < q.Arrived {
					t.Fatalf("started at %s, arrived at %s, now %s", q.Started, q.Arrived, now)
				}
				if u := use(q.Tenant); u > capOf(q) {
					t.Fatalf("%s holds %d of at most %d", q.Tenant, u, capOf(q))
				}
				if s := room.Snapshot(0); s.Busy > s.Seats {
					t.Fatalf("started, with %d of %d seats held", s.Busy, s.Seats)
				}
				lane := fmt.Sprint(q.Tenant, q.Priority)
				if number[q] < lastStart[lane] {
					t.Fatalf("%s: %d started after %d", lane, number[q], lastStart[lane])
				}
				lastStart[lane] = number[q]
			case fair.Refused:
				if q.Reason == fair.None || (q.RetryAfter <= 0) != (q.Reason == fair.TooWide || q.Reason == fair.Closed) {
					t.Fatalf("refused: %s, retry after %s", q.Reason, q.RetryAfter)
				}
				live = slices.DeleteFunc(live, func(l *fair.Request) bool { return l == q })
			default:
				t.Fatalf("decided, and %d", q.State)
			}
		}
	}
	pass := func(t *rapid.T) {
		now += time.Duration(rapid.SampledFrom([]int64{0, 1, 1e6, 3e7, 1.5e8, 2e9, 1e11}).Draw(t, "dt"))
	}
	t.Repeat(map[string]func(*rapid.T){
		"arrive": func(t *rapid.T) {
			pass(t)
			q := &fair.Request{
				Tenant:   rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"}).Draw(t, "tenant"),
				Cost:     rapid.SampledFrom([]int{0, 1, 1, 1, 2, 5, 12}).Draw(t, "cost"),
				Priority: rapid.SampledFrom([]fair.Priority{fair.Low, fair.Normal, fair.High}).Draw(t, "priority"),
			}
			if _, gold := c.Plans["gold"]; gold && q.Tenant > "b" {
				q.Plan = "gold"
			}
			plans[q.Tenant] = "default"
			if q.Plan != "" {
				plans[q.Tenant] = q.Plan
			}
			arrived++
			number[q] = arrived
			live = append(live, q)
			others, err := room.Arrive(now, q)
			if err != nil {
				t.Fatal(err)
			}
			decided(slices.Clone(others)...)
			if q.State != fair.Waiting {
				decided(q)
			}
		},
		"finish": func(t *rapid.T) {
			i := slices.IndexFunc(live, func(q *fair.Request) bool { return q.State == fair.Running })
			if i < 0 {
				t.Skip()
			}
			pass(t)
			q := live[i]
			live = slices.Delete(live, i, i+1)
			decided(slices.Clone(room.Finish(now, q))...)
		},
		"cancel": func(t *rapid.T) {
			var waiting []*fair.Request
			for _, q := range live {
				if q.State == fair.Waiting {
					waiting = append(waiting, q)
				}
			}
			if len(waiting) == 0 {
				t.Skip()
			}
			pass(t)
			q := rapid.SampledFrom(waiting).Draw(t, "which")
			live = slices.DeleteFunc(live, func(l *fair.Request) bool { return l == q })
			decided(slices.Clone(room.Cancel(now, q))...)
		},
		"tick": func(t *rapid.T) {
			if at, ok := room.Next(); ok {
				now = max(now, at)
			}
			decided(slices.Clone(room.Tick(now))...)
		},
		"reconfigure": func(t *rapid.T) {
			pass(t)
			c = drawConfig()
			for tenant, plan := range plans {
				if _, ok := c.Plans[plan]; !ok {
					plans[tenant] = "default"
				}
			}
			others, err := room.Reconfigure(now, c)
			if err != nil {
				t.Fatal(err)
			}
			decided(slices.Clone(others)...)
		},
		"set cap": func(t *rapid.T) {
			pass(t)
			tenant, limit := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"), rapid.IntRange(-1, 6).Draw(t, "cap")
			if caps[tenant] = limit; limit < 0 {
				delete(caps, tenant)
			}
			others, err := room.SetCap(now, tenant, limit)
			if err != nil {
				t.Fatal(err)
			}
			decided(slices.Clone(others)...)
		},
		"": func(t *rapid.T) {
			s := room.Snapshot(10)
			busy, waiting := 0, 0
			heads := map[string]*fair.Request{}
			for _, q := range live {
				if q.State == fair.Running {
					busy += max(1, q.Cost)
					continue
				}
				waiting++
				if h := heads[q.Tenant]; h == nil || q.Priority > h.Priority {
					heads[q.Tenant] = q
				}
			}
			if s.Busy != busy || s.Waiting != waiting {
				t.Fatalf("%d are held and %d wait, want %d and %d", s.Busy, s.Waiting, busy, waiting)
			}
			free := s.Seats - busy
			wide := false // somebody who holds nothing waits for more seats than are free
			for _, q := range heads {
				cost := max(1, q.Cost)
				wide = wide || cost > free && use(q.Tenant)+cost <= capOf(q)
			}
			for _, q := range heads {
				cost, u := max(1, q.Cost), use(q.Tenant)
				if cost > free || u+cost > capOf(q) || wide {
					continue
				}
				if u == 0 || c.Guarantee == 0 {
					t.Fatalf("%d of %d seats are free, and a request of %q for %d waits, which holds %d of %d", free, s.Seats, q.Tenant, cost, u, capOf(q))
				}
			}
			for _, tenant := range s.BySeatTime {
				if tenant.Demand < 0 || math.IsNaN(tenant.Demand) {
					t.Fatalf("%+v", tenant)
				}
			}
		},
	})
	// In the end all is given back, and after a while forgotten.
	decided(slices.Clone(room.Close(now))...)
	for slices.ContainsFunc(live, func(q *fair.Request) bool { return q.State == fair.Running }) {
		i := slices.IndexFunc(live, func(q *fair.Request) bool { return q.State == fair.Running })
		q := live[i]
		live = slices.Delete(live, i, i+1)
		decided(slices.Clone(room.Finish(now, q))...)
	}
	for range 1000 {
		at, ok := room.Next()
		if !ok {
			break
		}
		now = at + time.Minute
		room.Tick(now)
	}
	if s := room.Snapshot(0); len(live) > 0 || s.Busy != 0 || s.Waiting != 0 || s.Tenants != 0 {
		t.Fatalf("in the end: %+v, %d requests", s, len(live))
	}
}

// The bound of the package comment, for two tenants that wait all the time.
func TestSeatTimesStayTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 100 * time.Millisecond
		seats := rapid.IntRange(1, 8).Draw(t, "seats")
		weights := []int{rapid.SampledFrom([]int{1, 2, 7}).Draw(t, "weight"), rapid.SampledFrom([]int{1, 3, 10}).Draw(t, "weight")}
		c := fair.Config{Seats: seats, Plans: map[string]fair.Plan{"default": {Weight: 1}}}
		for i, w := range weights {
			c.Plans[fmt.Sprint(i)] = fair.Plan{Weight: w, Queue: 1000, QueueTimeout: time.Hour}
		}
		room, err := fair.New(c)
		if err != nil {
			t.Fatal(err)
		}
		now, had := time.Duration(0), []float64{0, 0}
		ends := map[*fair.Request]time.Duration{}
		length := func() time.Duration {
			return time.Duration(rapid.IntRange(1, int(most)).Draw(t, "runs"))
		}
		begin := func(requests []*fair.Request) {
			for _, q := range requests {
				ends[q] = now + length()
			}
		}
		for range 100 {
			for i := range weights {
				q := &fair.Request{Tenant: fmt.Sprint(i), Plan: fmt.Sprint(i)}
				room.Arrive(now, q)
				if q.State == fair.Running {
					begin([]*fair.Request{q})
				}
			}
		}
		for range 60 {
			var next *fair.Request
			for q, at := range ends {
				if next == nil || at < ends[next] || at == ends[next] && q.Started < next.Started {
					next = q
				}
			}
			now = ends[next]
			delete(ends, next)
			i := 0
			fmt.Sscan(next.Tenant, &i)
			had[i] += float64(now - next.Started)
			began := slices.Clone(room.Finish(now, next))
			begin(began)
			x := []float64{had[0], had[1]}
			for q := range ends {
				fmt.Sscan(q.Tenant, &i)
				x[i] += float64(now - q.Started)
			}
			apart := math.Abs(x[0]/float64(weights[0]) - x[1]/float64(weights[1]))
			if bound := 2 * float64(seats) * float64(most) * (1/float64(weights[0]) + 1/float64(weights[1])); apart > bound {
				t.Fatalf("%s apart, the bound is %s", time.Duration(apart), time.Duration(bound))
			}
		}
	})
}
