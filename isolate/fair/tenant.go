package fair

import "time"

const (
	// maxCharged bounds what one request is charged for.
	maxCharged = 4 * time.Hour
	// firstEstimate is how long a request is taken to run when none has finished.
	firstEstimate = time.Millisecond
	// interval is that of CoDel.
	interval = 100 * time.Millisecond
	// littleDemand is the mean demand, in seats, below which it is not worth
	// remembering.
	littleDemand = 0.01
)

// plan is a Plan in use.
type plan struct {
	Plan
	name string
	cap  int
}

// tenant is one that is active, or was lately.
type tenant struct {
	id     string
	plan   *plan
	cap    int
	number int // in Room.all

	v            int64
	use          int // seats that it holds
	waiting      int // requests
	waitingSeats int
	lanes        [High - Low + 1]lane

	key   int64  // see the package comment
	ratio int    // of the seats that it holds to its weight, for equal keys
	seq   uint64 // of its first request, for equal ratios
	in    *heap[*tenant]
	at    int // there

	runs time.Duration // estimate; 0 if none has finished
	long longRun

	// What it wanted lately.
	seen         time.Duration // up to when what follows is counted
	recent       float64       // seats for what came within the time that a request runs
	mean, square float64       // of the demand
	share        int           // seats that it gets whatever others need
	need, spread float64       // m', s'
	most         float64       // m' + z·s'
	usual        float64       // the most that it usually wants, for a unit of weight

	// CoDel.
	until      time.Duration // the end of the interval
	least      time.Duration // delay in it
	overloaded bool

	// For operators.
	held, waited   time.Duration // seat-time and waiting time since it is known
	heldAt, waitAt time.Duration // what they were at the last sweep
	refused        uint64

	idle         *idlers // the list that it is on while it is not active
	left         time.Duration
	newer, older *tenant
}

func (t *tenant) before(o *tenant) bool {
	if t.key != o.key {
		return t.key < o.key
	}
	return t.ratio < o.ratio || t.ratio == o.ratio && t.seq < o.seq
}
func (t *tenant) index() *int  { return &t.at }
func (t *tenant) active() bool { return t.use > 0 || t.waiting > 0 }

// head is the request that starts next, or nil.
func (t *tenant) head() *Request {
	for p := High; p >= Low; p-- {
		if q := t.lanes[p-Low].first; q != nil {
			return q
		}
	}
	return nil
}

// below is the last request of the lowest priority, if that is lower than p.
func (t *tenant) below(p Priority) *Request {
	for low := Low; low < p; low++ {
		if q := t.lanes[low-Low].last; q != nil {
			return q
		}
	}
	return nil
}

// observe counts the time up to now. It is called before use or waiting change.
func (t *tenant) observe(now, memory time.Duration) {
	dt := now - t.seen
	if dt <= 0 {
		return
	}
	t.seen = now
	t.held += dt * time.Duration(t.use)
	t.waited += dt * time.Duration(t.waiting)
	runs := float64(orDefault(t.runs, firstEstimate))
	t.recent *= runs / (runs + float64(dt))
	d := min(float64(t.use)+min(float64(t.waitingSeats), t.recent), float64(t.cap))
	// The implicit step of exponential forgetting: stable however long dt is.
	a := float64(dt) / float64(memory+dt)
	t.mean += a * (d - t.mean)
	t.square += a * (d*d - t.square)
}

// shareAt returns the whole seats of t's share. Who has just come has that of the last
// sweep, so that nobody fills the room before the next.
func (t *tenant) shareAt(level float64) int {
	return int(min(max(1, level*float64(t.plan.Weight)), float64(t.cap)))
}

func (t *tenant) variance() float64 { return max(0, t.square-t.mean*t.mean) }

// charge is what t's virtual time grows by for a request of that cost and length.
func (t *tenant) charge(cost int, length time.Duration) int64 {
	return int64(cost) * int64(min(length, maxCharged)) / int64(t.plan.Weight)
}

// late is CoDel: it reports whether q, which is about to start, is shed instead.
func (t *tenant) late(q *Request, now time.Duration) bool {
	target := t.plan.Target
	if target == 0 {
		return false
	}
	delay := now - q.Arrived
	if now < t.until {
		t.least = min(t.least, delay)
	} else {
		// What came later than that says nothing of the interval.
		t.overloaded = t.least > target && q.Arrived <= t.until
		t.least, t.until = delay, now+interval
	}
	return t.overloaded && delay > 2*target && t.waiting > 1
}

// idlers are tenants that are not active, in the order in which they became so.
type idlers struct {
	newest, oldest *tenant
	n              int
}

func (l *idlers) push(t *tenant) {
	t.idle, t.older = l, l.newest
	if t.older == nil {
		l.oldest = t
	} else {
		t.older.newer = t
	}
	l.newest = t
	l.n++
}

func (l *idlers) remove(t *tenant) {
	if t.older == nil {
		l.oldest = t.newer
	} else {
		t.older.newer = t.newer
	}
	if t.newer == nil {
		l.newest = t.older
	} else {
		t.newer.older = t.older
	}
	t.idle, t.newer, t.older = nil, nil, nil
	l.n--
}
