package isolate

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/isolate/fair"
)

// What an Isolator is configured by, see package fair.
type (
	Config   = fair.Config
	Plan     = fair.Plan
	Adaptive = fair.Adaptive
	Priority = fair.Priority
	Reason   = fair.Reason
)

// Priorities of a tenant's own requests.
const (
	Low    = fair.Low
	Normal = fair.Normal
	High   = fair.High
)

// Reasons of a Rejection.
const (
	QueueFull = fair.QueueFull
	RoomFull  = fair.RoomFull
	TimedOut  = fair.TimedOut
	Shed      = fair.Shed
	Displaced = fair.Displaced
	TooWide   = fair.TooWide
	Closed    = fair.Closed
)

// MaxTenantLen is the most bytes that a tenant's id may have.
const MaxTenantLen = 256

// OneAtATime is a plan under which each tenant does one thing at a time, 50 more may
// wait, and all have 60 s, waiting and running together.
var OneAtATime = Plan{Weight: 1, MaxSeats: 1, Queue: 50, QueueTimeout: time.Minute, Timeout: time.Minute}

// Request says who wants how much.
type Request struct {
	// Tenant is whose share it comes from, up to MaxTenantLen bytes. All who give
	// none are one tenant, the empty one.
	Tenant string
	// Plan is the tenant's. Another than last time holds from now on. Defaults to
	// Config.Default.
	Plan string
	// Cost is how many seats it takes. Defaults to 1.
	Cost int
	// Priority puts it before or behind others of the same tenant.
	Priority Priority
	// Timeout is how long it may wait, if that is less than its plan says. 0 is
	// what the plan says.
	Timeout time.Duration
}

// Rejection is the error of a request that was refused.
type Rejection struct {
	Tenant string
	Reason Reason
	// RetryAfter is when it would get a seat if it came back then, by what waits
	// now. 0 if it never will.
	RetryAfter time.Duration
}

func (r *Rejection) Error() string {
	if r.RetryAfter == 0 {
		return fmt.Sprintf("no seat for tenant %q: %s", r.Tenant, r.Reason)
	}
	return fmt.Sprintf("no seat for tenant %q: %s; retry after %s", r.Tenant, r.Reason, r.RetryAfter)
}

// Observer is told what happens. Its methods are called by the goroutine that asked,
// outside of any lock, and should be quick.
type Observer interface {
	// Acquired: a seat was given, after a wait.
	Acquired(r Request, waited time.Duration)
	// Rejected: none was.
	Rejected(r Request, why Reason, waited time.Duration)
	// Released: the seats were given back.
	Released(r Request, held time.Duration)
}

// Options of New.
type Options struct {
	// Observer may be nil.
	Observer Observer
	// Logger is told of panics that come after Do has returned. Defaults to
	// slog.Default.
	Logger *slog.Logger
	// Leaser, if set, is where this node and others share the seats of shared plans.
	// Without one each node has all of them for itself.
	Leaser Leaser
}

// Isolator gives out seats. It is safe for concurrent use. It needs no goroutine, and
// a timer only while there is something to wait for or to forget.
type Isolator struct {
	start    time.Time
	observer Observer
	logger   *slog.Logger

	mu   sync.Mutex
	room *fair.Room
	// free holds are used again. There are at most maxFree.
	free  *hold
	frees int
	// timer calls tick at due, if that is not never.
	timer *time.Timer
	due   time.Duration
	// twice counts seats that were released more than once.
	twice uint64
	// drained is closed when nothing runs any more; nil if nobody waits for that.
	drained chan struct{}
	running int
	// shares are nil without a Leaser.
	shares *shares
}

const (
	maxFree = 1024
	never   = time.Duration(1<<63 - 1)
)

// hold is a request on its way, and the seats that it has got.
type hold struct {
	fair.Request
	// gen counts how often the hold was used. A Seat of an earlier use is void.
	gen    uint64
	riders int // requests that share the seats, the first included
	// released says that the first has released them.
	released bool
	decided  chan struct{}
	next     *hold
}

// New returns an Isolator. o may be nil.
func New(c Config, o *Options) (*Isolator, error) {
	i := &Isolator{start: time.Now(), due: never}
	if o != nil {
		i.observer, i.logger = o.Observer, o.Logger
		if o.Leaser != nil {
			i.shares = newShares(o.Leaser)
		}
	}
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("isolate: %w", err)
	}
	if i.shares == nil {
		c = alone(c)
	}
	var err error
	if i.room, err = fair.New(c); err != nil {
		return nil, fmt.Errorf("isolate: %w", err)
	}
	return i, nil
}

// Acquire takes seats for a tenant of the default plan. It is shorthand for
// AcquireFor.
func (i *Isolator) Acquire(ctx context.Context, tenant string, cost int) (Seat, error) {
	return i.AcquireFor(ctx, Request{Tenant: tenant, Cost: cost})
}

// AcquireFor takes seats, waiting for them if need be. The error is a *[Rejection] if
// there are none for it, ctx's if ctx ends before, or says what is wrong with r. If it
// is nil, the seat must be released.
//
// If ctx carries a seat of the same Isolator that has not been released, see
// [Seat.Context], then no other is taken: a request that serves another does not wait
// for what that one holds. The seats go back when both are released.
func (i *Isolator) AcquireFor(ctx context.Context, r Request) (Seat, error) {
	if len(r.Tenant) > MaxTenantLen {
		return Seat{}, fmt.Errorf("isolate: the tenant's id has %d bytes; up to %d are allowed", len(r.Tenant), MaxTenantLen)
	}
	if err := ctx.Err(); err != nil {
		return Seat{}, err
	}
	if s, ok := i.ride(ctx); ok {
		return s, nil
	}
	i.mu.Lock()
	shared := i.shares != nil && i.room.Plan(r.Plan).Shared
	if shared {
		if err := i.enter(r.Tenant); err != nil {
			i.mu.Unlock()
			return Seat{}, fmt.Errorf("isolate: %w", err)
		}
	}
	h := i.newHold(r)
	others, err := i.room.Arrive(i.now(), &h.Request)
	if err != nil {
		i.recycle(h)
		i.mu.Unlock()
		return Seat{}, fmt.Errorf("isolate: %w", err)
	}
	i.wake(others)
	switch h.State {
	case fair.Running:
		s := i.seat(h)
		i.mu.Unlock()
		if i.observer != nil {
			i.observer.Acquired(r, 0)
		}
		return s, nil
	case fair.Refused:
		rejection := i.rejection(h)
		i.mu.Unlock()
		if i.observer != nil {
			i.observer.Rejected(r, rejection.Reason, 0)
		}
		return Seat{}, rejection
	}
	if shared {
		i.lacks(r.Tenant)
	}
	if h.decided == nil {
		h.decided = make(chan struct{}, 1)
	}
	i.mu.Unlock()
	return i.await(ctx, r, h)
}

// await waits until h is decided.
func (i *Isolator) await(ctx context.Context, r Request, h *hold) (Seat, error) {
	gone := false
	select {
	case <-h.decided:
	case <-ctx.Done():
		gone = true
	}
	i.mu.Lock()
	now := i.now()
	if gone {
		if h.State == fair.Waiting {
			i.wake(i.room.Cancel(now, &h.Request))
		} else {
			<-h.decided // it was sent before the lock was let go
		}
	}
	waited := now - h.Arrived
	switch {
	case h.State == fair.Refused:
		rejection := i.rejection(h)
		i.mu.Unlock()
		if i.observer != nil {
			i.observer.Rejected(r, rejection.Reason, waited)
		}
		if gone {
			return Seat{}, ctx.Err()
		}
		return Seat{}, rejection
	case gone:
		if h.State == fair.Running { // too late: nobody is there to use it
			i.wake(i.room.Finish(now, &h.Request))
		}
		i.recycle(h)
		i.mu.Unlock()
		return Seat{}, ctx.Err()
	}
	waited = h.Started - h.Arrived
	s := i.seat(h)
	i.mu.Unlock()
	if i.observer != nil {
		i.observer.Acquired(r, waited)
	}
	return s, nil
}

// Reconfigure changes what holds from now on. Nothing that runs is stopped, and what
// waits goes on waiting, but for requests that cost more than their tenant may now
// have. If the error is not nil, nothing was changed.
func (i *Isolator) Reconfigure(c Config) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := c.Check(); err != nil {
		return fmt.Errorf("isolate: %w", err)
	}
	if i.shares == nil {
		c = alone(c)
	}
	others, err := i.room.Reconfigure(i.now(), c)
	if err != nil {
		return fmt.Errorf("isolate: %w", err)
	}
	i.wake(others)
	if i.shares != nil {
		i.shares.expect(i.now())
	}
	return nil
}

// SetCap gives a tenant a cap of its own, whatever its plan says, at once. 0 lets none
// of its requests start; a negative cap is that of its plan again. At most 65,536
// tenants may have one.
func (i *Isolator) SetCap(tenant string, seats int) error {
	if len(tenant) > MaxTenantLen {
		return fmt.Errorf("isolate: the tenant's id has %d bytes; up to %d are allowed", len(tenant), MaxTenantLen)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	others, err := i.room.SetCap(i.now(), tenant, seats)
	if err != nil {
		return fmt.Errorf("isolate: %w", err)
	}
	i.wake(others)
	return nil
}

// Snapshot is what operators see.
type Snapshot struct {
	fair.Snapshot
	// ReleasedTwice counts seats that were released more than once, which is a
	// fault of who did.
	ReleasedTwice uint64
}

// Snapshot returns what there is, with up to top entries in each list.
func (i *Isolator) Snapshot(top int) Snapshot {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wake(i.room.Tick(i.now()))
	s := Snapshot{i.room.Snapshot(top + 1), i.twice}
	s.BySeatTime = without(s.BySeatTime, top, func(t fair.Tenant) bool { return t.ID == canaryTenant })
	s.ByRefusals = without(s.ByRefusals, top, func(t fair.Tenant) bool { return t.ID == canaryTenant })
	s.Behind = without(s.Behind, top, func(b fair.Behind) bool { return b.Waiter == canaryTenant })
	return s
}

// without returns up to top of all that are not so.
func without[T any](all []T, top int, so func(T) bool) []T {
	all = slices.DeleteFunc(all, so)
	return all[:min(max(0, top), len(all))]
}

// Close refuses all that wait, and all that come, and waits until what runs is done, or
// ctx ends. Then it gives back what it has of the seats of shared plans. It may be
// called more than once.
func (i *Isolator) Close(ctx context.Context) error {
	defer i.leave()
	i.mu.Lock()
	i.wake(i.room.Close(i.now()))
	if i.running == 0 {
		i.mu.Unlock()
		return nil
	}
	if i.drained == nil {
		i.drained = make(chan struct{})
	}
	drained := i.drained
	i.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (i *Isolator) now() time.Duration { return time.Since(i.start) }

// wake tells those that were decided, and sets the timer. It follows every event; the
// lock is held.
func (i *Isolator) wake(decided []*fair.Request) {
	for _, q := range decided {
		q.Owner.(*hold).decided <- struct{}{}
	}
	next, ok := i.room.Next()
	if !ok || next >= i.due {
		return // if the timer is early, tick sets it again
	}
	i.due = next
	if in := max(0, next-i.now()); i.timer == nil {
		i.timer = time.AfterFunc(in, i.tick)
	} else {
		i.timer.Reset(in)
	}
}

func (i *Isolator) tick() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.due = never
	i.wake(i.room.Tick(i.now()))
}

// newHold returns one for r. The lock is held.
func (i *Isolator) newHold(r Request) *hold {
	h := i.free
	if h == nil {
		h = &hold{}
		h.Owner = h
	} else {
		i.free, h.next = h.next, nil
		i.frees--
	}
	h.Tenant, h.Plan, h.Cost, h.Priority, h.Timeout, h.Probe = r.Tenant, r.Plan, r.Cost, r.Priority, r.Timeout, false
	return h
}

// recycle ends a use of h. The lock is held.
func (i *Isolator) recycle(h *hold) {
	h.gen++
	h.State, h.released = fair.Idle, false
	if i.frees < maxFree {
		h.Tenant, h.Plan = "", ""
		h.next, i.free = i.free, h
		i.frees++
	}
}

func (i *Isolator) rejection(h *hold) *Rejection {
	r := &Rejection{Tenant: h.Tenant, Reason: h.Reason, RetryAfter: h.RetryAfter}
	i.recycle(h)
	return r
}
