package fair

import (
	"fmt"
	"strings"
	"time"
)

const (
	maxIdle  = 4096    // tenants that are remembered while they are not active
	maxCaps  = 1 << 16 // tenants with a cap of their own
	looked   = 31      // tenants among whom one is looked for that fits
	rebaseAt = 1 << 61
	// never is the instant of what does not happen.
	never = time.Duration(1<<63 - 1)
)

// Room has seats, and a queue for each tenant. It is not safe for concurrent use.
//
// Every method is told the present time, counted from an instant of the caller's
// choosing; one before that of an earlier call is taken for that. Those that may
// decide on requests other than the one they are called with return them: each is
// Running, or Refused, or a Probe that is Idle. The slice is valid until the next call.
type Room struct {
	config Config
	plans  map[string]*plan
	z      float64
	closed bool

	now     time.Duration
	seats   int // that are given out now
	busy    int
	waiting int
	seq     uint64

	v, vMax int64
	rebase  int64
	weight  int64 // of the active tenants

	tenants     map[string]*tenant
	all         []*tenant
	under, over heap[*tenant] // those that may start as far as their caps go: within their share, and beyond
	deadlines   heap[*Request]
	few, much   idlers // not active, with little demand lately, and with more
	caps        map[string]int
	leases      map[string]*lease
	runs        time.Duration // of all tenants' requests, as tenant.runs

	swept                time.Duration
	level                float64 // of the last sweep
	needs, most, spreads float64 // sums over the tenants: need, what they hold of most, spread²
	byDemand             []*tenant
	behind               behind
	gradient             gradient

	started, refused uint64
	decided          []*Request
}

// New returns an empty Room.
func New(c Config) (*Room, error) {
	r := &Room{
		tenants: map[string]*tenant{},
		caps:    map[string]int{},
		leases:  map[string]*lease{},
		rebase:  rebaseAt,
	}
	if _, err := r.Reconfigure(0, c); err != nil {
		return nil, err
	}
	return r, nil
}

// Arrive is the event that q comes. q is then Running, Waiting or Refused, or
// Idle if it is a Probe whose turn is now. The error
// says what is wrong with q, which is left as it was.
func (r *Room) Arrive(now time.Duration, q *Request) ([]*Request, error) {
	if err := r.check(q); err != nil {
		return nil, err
	}
	r.advance(now)
	q.cost = orDefault(q.Cost, 1)
	q.Arrived, q.Reason, q.RetryAfter, q.first, q.at = r.now, None, 0, -1, -1
	t := r.tenant(q)
	q.tenant = t
	t.observe(r.now, r.config.Memory)
	t.recent += float64(q.cost)
	switch {
	case r.closed:
		r.refuse(q, Closed)
		return r.decided, nil
	case q.cost > r.widest(t):
		r.refuse(q, TooWide)
		return r.decided, nil
	}
	if len(r.under)+len(r.over) == 0 && t.waiting == 0 && r.mayStart(t, q.cost) {
		q.stamp = r.v
		r.start(t, q, max(t.v, r.v))
		return r.decided, nil
	}
	var displaced *Request
	if t.waiting > 0 && t.waiting >= t.plan.Queue {
		if displaced = t.below(q.Priority); displaced == nil {
			r.refuse(q, QueueFull)
			return r.decided, nil
		}
		r.refuse(displaced, Displaced)
		r.decided = append(r.decided, displaced)
	}
	r.enqueue(t, q)
	r.dispatch()
	if q.State == Waiting {
		switch {
		case t.waiting > t.plan.Queue && displaced == nil:
			r.refuse(q, QueueFull)
		case r.waiting > r.config.MaxWaiting:
			r.refuse(q, RoomFull)
		}
	}
	return r.others(q), nil
}

// Finish is the event that q, which is Running, gives its seats back.
func (r *Room) Finish(now time.Duration, q *Request) []*Request {
	if q.State != Running {
		panic("fair: Finish of a request that is not running")
	}
	r.advance(now)
	t := q.tenant
	t.observe(r.now, r.config.Memory)
	ran := r.now - q.Started
	t.v += t.charge(q.cost, ran) - q.charged
	r.vMax = max(r.vMax, t.v)
	r.unhold(t)
	t.use -= q.cost
	r.hold(t)
	r.busy -= q.cost
	if r.config.Adaptive != nil {
		r.adapt(t, ran)
	}
	t.runs = average(t.runs, ran)
	r.runs = average(r.runs, ran)
	q.State, q.tenant = Idle, nil
	r.settle(t)
	r.dispatch()
	return r.decided
}

func average(mean, next time.Duration) time.Duration {
	if mean == 0 {
		return max(1, next)
	}
	return max(1, mean+(next-mean)/8)
}

// Cancel is the event that q, which is Waiting, is not wanted any more.
func (r *Room) Cancel(now time.Duration, q *Request) []*Request {
	if q.State != Waiting {
		panic("fair: Cancel of a request that does not wait")
	}
	r.advance(now)
	if q.State == Waiting { // it did not time out by now
		t := q.tenant
		r.dequeue(q)
		q.State, q.tenant = Idle, nil
		r.settle(t)
		r.dispatch() // it may have been wide, and in the way of others
	}
	return r.others(q)
}

// Tick is the event that time has passed. It is due at Next.
func (r *Room) Tick(now time.Duration) []*Request {
	r.advance(now)
	r.dispatch()
	return r.decided
}

// Next returns when Tick is due, if nothing happens before. ok is false if it is not.
func (r *Room) Next() (at time.Duration, ok bool) {
	at = never
	if q := r.deadlines.top(); q != nil {
		at = q.deadline
	}
	if len(r.all) > 0 {
		pause := r.pause()
		if len(r.over) == 0 {
			pause = max(pause, time.Second) // only to forget
		}
		at = min(at, r.swept+pause)
	}
	return at, at != never
}

// SetCap gives a tenant a cap of its own, whatever its plan says; one above the number
// of seats is as good as that. 0 lets none of its requests start. Nothing that runs is
// stopped. A negative cap is that of its plan again.
func (r *Room) SetCap(now time.Duration, tenant string, seats int) ([]*Request, error) {
	if _, known := r.caps[tenant]; !known && seats >= 0 && len(r.caps) >= maxCaps {
		return nil, fmt.Errorf("there are %d tenants with a cap of their own; no more are allowed", maxCaps)
	}
	r.advance(now)
	if seats < 0 {
		delete(r.caps, tenant)
	} else {
		r.caps[strings.Clone(tenant)] = seats
	}
	r.recap(tenant)
	return r.decided, nil
}

// recap makes a change of a tenant's cap hold.
func (r *Room) recap(tenant string) {
	if t := r.tenants[tenant]; t != nil {
		t.observe(r.now, r.config.Memory)
		t.cap = r.capOf(t)
		r.refuseTooWide(t)
		r.settle(t)
	}
	r.dispatch()
}

// Reconfigure changes what holds from now on. Nothing that runs is stopped, and what
// waits goes on waiting, in its old place and until its old deadline, unless it costs
// more than its tenant may now have. A tenant whose plan is gone is of Config.Default.
func (r *Room) Reconfigure(now time.Duration, c Config) ([]*Request, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	r.advance(now)
	r.config = c.withDefaults()
	r.z = quantile(c.Guarantee)
	r.seats = c.Seats
	r.gradient = gradient{limit: float64(c.Seats)}
	r.plans = make(map[string]*plan, len(r.config.Plans))
	for name, p := range r.config.Plans {
		r.plans[name] = &plan{Plan: p, name: name, cap: min(orDefault(p.MaxSeats, c.Seats), c.Seats)}
	}
	for _, t := range r.all {
		t.observe(r.now, r.config.Memory)
		p := r.plans[t.plan.name]
		if p == nil {
			p = r.plans[r.config.Default]
		}
		r.setPlan(t, p)
		r.refuseTooWide(t)
	}
	r.sweep()
	r.dispatch()
	return r.decided, nil
}

// Close refuses all that wait, and all that come. What runs goes on.
func (r *Room) Close(now time.Duration) []*Request {
	r.advance(now)
	r.closed = true
	for r.waiting > 0 {
		q := r.deadlines.top()
		r.refuse(q, Closed)
		r.decided = append(r.decided, q)
	}
	return r.decided
}

// Plan returns the plan of that name, or of Config.Default if it is empty. It is the
// zero Plan if there is none.
func (r *Room) Plan(name string) Plan {
	if p := r.plans[orDefault(name, r.config.Default)]; p != nil {
		return p.Plan
	}
	return Plan{}
}

func (r *Room) check(q *Request) error {
	switch {
	case q.State == Waiting || q.State == Running:
		return fmt.Errorf("the request has arrived before and is not done")
	case q.Cost < 0:
		return fmt.Errorf("cost: %d; 1 to %d seats are allowed", q.Cost, r.config.Seats)
	case q.Priority < Low || q.Priority > High:
		return outOfBounds("priority", q.Priority, Low, High)
	case q.Timeout < 0 || q.Timeout > MaxTimeout:
		return outOfBounds("timeout", q.Timeout, 0, MaxTimeout)
	}
	if q.Plan != "" && r.plans[q.Plan] == nil {
		return fmt.Errorf("plan: there is no %.40q; %s", q.Plan, known(r.plans))
	}
	return nil
}

// tenant returns that of q, with q's plan.
func (r *Room) tenant(q *Request) *tenant {
	name := orDefault(q.Plan, r.config.Default)
	t := r.tenants[q.Tenant]
	if t == nil {
		t = &tenant{id: strings.Clone(q.Tenant), v: r.v, seen: r.now, number: len(r.all), at: -1, plan: r.plans[name]}
		t.cap = r.capOf(t)
		t.share = t.shareAt(r.level)
		r.tenants[t.id] = t
		r.all = append(r.all, t)
		r.retire(t)
	}
	if t.plan.name != name {
		t.observe(r.now, r.config.Memory)
		r.setPlan(t, r.plans[name])
	}
	return t
}

func (r *Room) setPlan(t *tenant, p *plan) {
	if t.active() {
		r.weight += int64(p.Weight - t.plan.Weight)
	}
	if p.Weight != t.plan.Weight {
		// What it is ahead by was seat-time over the old weight.
		t.v = r.v + int64(float64(t.v-r.v)*float64(t.plan.Weight)/float64(p.Weight))
		r.vMax = max(r.vMax, t.v)
	}
	t.plan = p
	t.cap = r.capOf(t)
}

// capOf is the most seats that t may hold now.
func (r *Room) capOf(t *tenant) int {
	if !t.plan.Shared {
		return r.ownCap(t)
	}
	return min(r.ownCap(t), r.leased(t.id))
}

// ownCap is the most seats that t may hold, whatever it has leased.
func (r *Room) ownCap(t *tenant) int {
	if seats, ok := r.caps[t.id]; ok {
		return min(seats, r.config.Seats)
	}
	return t.plan.cap
}

// widest is the most that a request of t may cost. A cap of 0 is a pause, and says
// nothing about that.
func (r *Room) widest(t *tenant) int {
	widest := r.config.Seats
	if most := r.ownCap(t); most > 0 {
		widest = most
	}
	if a := r.config.Adaptive; a != nil {
		widest = min(widest, a.Min)
	}
	return widest
}

// refuseTooWide refuses what of t waits and could not start any more.
func (r *Room) refuseTooWide(t *tenant) {
	widest := r.widest(t)
	for p := range t.lanes {
		for q := t.lanes[p].first; q != nil; {
			next := q.next
			if q.cost > widest {
				r.refuse(q, TooWide)
				r.decided = append(r.decided, q)
			}
			q = next
		}
	}
}

// advance is the beginning of every event: it moves the clock.
func (r *Room) advance(now time.Duration) {
	clear(r.decided)
	r.decided = r.decided[:0]
	if dt := now - r.now; dt > 0 {
		r.now = now
		// Beyond maxCharged it would overflow, and by then all is forgiven.
		by := int64(min(dt, maxCharged))
		if len(r.under)+len(r.over) == 0 {
			by *= int64(r.seats)
		} else {
			by = by * int64(r.busy) / max(1, 2*r.weight)
		}
		r.v = max(r.v, min(r.vMax, r.v+by))
		if r.v > r.rebase {
			r.shift()
		}
	}
	for q := r.deadlines.top(); q != nil && q.deadline <= r.now; q = r.deadlines.top() {
		r.refuse(q, TimedOut)
		r.decided = append(r.decided, q)
	}
	if len(r.all) > 0 && r.now-r.swept >= r.pause() {
		r.sweep()
	}
}

// shift subtracts V from all virtual times.
func (r *Room) shift() {
	by := r.v
	less := func(v *int64) { *v = max(*v-by, -rebaseAt/2) }
	less(&r.v)
	less(&r.vMax)
	for _, t := range r.all {
		less(&t.v)
		less(&t.key)
		for _, l := range t.lanes {
			for q := l.first; q != nil; q = q.next {
				less(&q.stamp)
			}
		}
	}
}

// enqueue lets q wait.
func (r *Room) enqueue(t *tenant, q *Request) {
	r.activate(t)
	t.observe(r.now, r.config.Memory)
	r.seq++
	q.State, q.stamp, q.seq = Waiting, r.v, r.seq
	q.deadline = r.now + MaxTimeout
	for _, d := range []time.Duration{t.plan.QueueTimeout, t.plan.Timeout, q.Timeout} {
		if d > 0 {
			q.deadline = min(q.deadline, r.now+d)
		}
	}
	t.lanes[q.Priority-Low].push(q)
	t.waiting++
	t.waitingSeats += q.cost
	r.waiting++
	r.wants(t)
	r.deadlines.push(q)
	r.place(t)
}

// dequeue is the opposite of enqueue. The tenant is to be settled after it.
func (r *Room) dequeue(q *Request) {
	t := q.tenant
	t.observe(r.now, r.config.Memory)
	t.lanes[q.Priority-Low].remove(q)
	t.waiting--
	t.waitingSeats -= q.cost
	r.waiting--
	r.deadlines.remove(q)
}

// refuse ends q, which waits or has just come.
func (r *Room) refuse(q *Request, why Reason) {
	t := q.tenant
	if q.State == Waiting {
		r.dequeue(q)
	}
	q.State, q.Reason, q.tenant = Refused, why, nil
	if why != TooWide && why != Closed {
		q.RetryAfter = r.wait(t, q.cost)
	}
	if !q.Probe {
		t.refused++
		r.refused++
	}
	r.settle(t)
}

// wait estimates how long it takes until one more request of t would start.
func (r *Room) wait(t *tenant, cost int) time.Duration {
	each := orDefault(t.runs, orDefault(r.runs, firstEstimate))
	wait := float64(each) * float64(t.waitingSeats+cost) / float64(max(1, t.use))
	if t.use == 0 {
		wait += float64(r.runs) / float64(max(1, r.busy))
	}
	return time.Duration(min(max(wait, 1), float64(MaxTimeout)))
}

// start gives q, which has come or waits, its seats.
func (r *Room) start(t *tenant, q *Request, key int64) {
	if q.Probe {
		if q.State == Waiting {
			r.dequeue(q)
		}
		q.State, q.Started, q.tenant = Idle, r.now, nil
		r.settle(t)
		return
	}
	if q.State == Waiting {
		r.dequeue(q)
	} else {
		r.activate(t)
		t.observe(r.now, r.config.Memory)
		t.least = 0
	}
	r.v = max(r.v, key)
	q.charged = t.charge(q.cost, orDefault(t.runs, orDefault(r.runs, firstEstimate)))
	t.v = key + q.charged
	r.vMax = max(r.vMax, t.v)
	r.unhold(t)
	t.use += q.cost
	r.wants(t)
	r.hold(t)
	r.busy += q.cost
	q.State, q.Started = Running, r.now
	r.started++
	if t.waiting > 0 || t.in != nil {
		r.place(t)
	}
}

// hold and unhold keep the sum of what tenants hold of what they need.
func (r *Room) hold(t *tenant)   { r.most += min(float64(t.use), t.most) }
func (r *Room) unhold(t *tenant) { r.most -= min(float64(t.use), t.most) }

// activate is called before t gets something to do.
func (r *Room) activate(t *tenant) {
	if t.idle != nil {
		t.idle.remove(t)
		r.weight += int64(t.plan.Weight)
	}
}

// settle is called after what t does has become less.
func (r *Room) settle(t *tenant) {
	if t.waiting > 0 || t.in != nil {
		r.place(t)
	}
	if t.idle == nil && !t.active() {
		r.weight -= int64(t.plan.Weight)
		r.retire(t)
	}
}

// retire remembers t, which is not active, for a while.
func (r *Room) retire(t *tenant) {
	t.left = r.now
	list := &r.much
	if t.mean < littleDemand {
		list = &r.few
	}
	list.push(t)
	if r.few.n+r.much.n > maxIdle {
		oldest := r.few.oldest
		if oldest == nil || oldest == t {
			oldest = r.much.oldest
		}
		r.forget(oldest)
	}
}

func (r *Room) forget(t *tenant) {
	r.unhold(t)
	r.needs -= t.need
	r.spreads -= t.spread * t.spread
	t.idle.remove(t)
	delete(r.tenants, t.id)
	last := r.all[len(r.all)-1]
	r.all[t.number], last.number = last, t.number
	r.all[len(r.all)-1] = nil
	r.all = r.all[:len(r.all)-1]
}

// place puts t, of which something has changed, into the heap where it belongs.
func (r *Room) place(t *tenant) {
	var in *heap[*tenant]
	// Who could have all seats waits for a free one, not for its cap.
	if q := t.head(); q != nil && (t.use+q.cost <= t.cap || t.cap >= r.seats) {
		t.key, t.seq = max(t.v, q.stamp), q.seq
		t.ratio = t.use * MaxWeight / t.plan.Weight
		in = &r.over
		if t.withinShare(q.cost) {
			in = &r.under
		}
	}
	if t.in == in {
		if in != nil {
			in.fix(t)
		}
		return
	}
	if t.in != nil {
		t.in.remove(t)
	}
	if t.in = in; in != nil {
		in.push(t)
	}
}

func (t *tenant) withinShare(cost int) bool { return t.use == 0 || t.use+cost <= t.share }

// mayStart reports whether a request of t may, if it is its turn.
func (r *Room) mayStart(t *tenant, cost int) bool {
	free := r.seats - r.busy
	if cost > free || t.use+cost > t.cap {
		return false
	}
	return t.withinShare(cost) || float64(free-cost) >= r.needed(t)
}

// dispatch starts what may start.
func (r *Room) dispatch() {
	for r.busy < r.seats && len(r.under)+len(r.over) > 0 {
		t := r.pick()
		if t == nil {
			return
		}
		q := t.head()
		if t.late(q, r.now) {
			r.refuse(q, Shed)
		} else {
			r.start(t, q, t.key)
		}
		r.decided = append(r.decided, q)
	}
}

// pick returns the tenant whose request starts next, or nil.
func (r *Room) pick() *tenant {
	best := r.under.top()
	if best != nil && !r.mayStart(best, best.head().cost) {
		q := best.head()
		if q.first < 0 {
			q.first = r.now
		}
		if r.now-q.first >= r.config.Patience {
			return nil
		}
		best = r.look(r.under)
	}
	if beyond := r.look(r.over); beyond != nil && (best == nil || beyond.before(best)) {
		best = beyond
	}
	return best
}

// look returns the first of h that may start now.
func (r *Room) look(h heap[*tenant]) (best *tenant) {
	for i, t := range h[:min(len(h), looked)] {
		if (best == nil || t.before(best)) && r.mayStart(t, t.head().cost) {
			if best = t; i == 0 {
				return best
			}
		}
	}
	return best
}

// others returns those decided, without q.
func (r *Room) others(q *Request) []*Request {
	for i, o := range r.decided {
		if o == q {
			copy(r.decided[i:], r.decided[i+1:])
			r.decided = r.decided[:len(r.decided)-1]
			break
		}
	}
	return r.decided
}
