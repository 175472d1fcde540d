package fair

import "time"

// State is where a Request stands.
type State uint8

const (
	// Idle has not arrived, or is done: finished, or gone from its queue.
	Idle State = iota
	Waiting
	Running
	// Refused did not start and never will. Its Reason says why.
	Refused
)

// Priority orders the requests of one tenant. The zero Priority is Normal.
type Priority int8

const (
	Low Priority = iota - 1
	Normal
	High
)

// Reason says why a request was refused.
type Reason uint8

const (
	// None was not refused.
	None Reason = iota
	// QueueFull means that the queue of its tenant was full.
	QueueFull
	// RoomFull means that MaxWaiting requests waited, of all tenants together.
	RoomFull
	// TimedOut has waited for as long as it may.
	TimedOut
	// Shed was refused by CoDel, to keep its tenant's queue short.
	Shed
	// Displaced gave its place in a full queue to one of higher priority.
	Displaced
	// TooWide costs more seats than its tenant may hold at once. It will never
	// start.
	TooWide
	// Closed came when the room was closed, or waited then.
	Closed
)

func (r Reason) String() string {
	return [...]string{"", "queue full", "room full", "timed out", "shed", "displaced", "too wide", "closed"}[r]
}

// Request asks for seats. The caller makes it and keeps it until it is done; it may be
// used again then. Owner, Tenant, Plan, Cost and Priority are the caller's, and must
// not change meanwhile.
type Request struct {
	// Owner is whatever the caller wants to find here again.
	Owner any
	// Tenant is whose request it is. The empty one is a tenant like any other.
	Tenant string
	// Plan is the tenant's from now on. Empty is Config.Default.
	Plan string
	// Cost is how many seats it takes. 0 is 1.
	Cost int
	// Timeout is how long it may wait, if that is less than its plan's
	// QueueTimeout. 0 is what the plan says.
	Timeout  time.Duration
	Priority Priority
	// Probe asks when the request would start, and takes no seats: when it is its
	// turn, it is Idle again, with Started.
	Probe bool

	// State is the room's, and so is the rest.
	State  State
	Reason Reason
	// RetryAfter is when a refused request would get seats if it came back then,
	// by what is in the queue now. 0 if it never will.
	RetryAfter time.Duration
	// Arrived and Started are when it did, on the caller's clock.
	Arrived, Started time.Duration

	tenant     *tenant
	cost       int
	prev, next *Request
	stamp      int64  // V at its arrival
	seq        uint64 // how many arrived before it
	charged    int64  // of v, at its start
	deadline   time.Duration
	first      time.Duration // when it stood first and did not fit; never is -1
	at         int           // in Room.deadlines
}

func (q *Request) before(o *Request) bool { return q.deadline < o.deadline }
func (q *Request) index() *int            { return &q.at }

// lane is a queue of requests of one priority.
type lane struct{ first, last *Request }

func (l *lane) push(q *Request) {
	if q.prev = l.last; q.prev == nil {
		l.first = q
	} else {
		q.prev.next = q
	}
	l.last = q
}

func (l *lane) remove(q *Request) {
	if q.prev == nil {
		l.first = q.next
	} else {
		q.prev.next = q.next
	}
	if q.next == nil {
		l.last = q.prev
	} else {
		q.next.prev = q.prev
	}
	q.prev, q.next = nil, nil
}
