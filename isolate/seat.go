package isolate

import (
	"context"
	"time"

	"github.com/stint-dev/stint/isolate/fair"
)

// Seat is what Acquire gives. It is a small value; copies are the same seat. The zero
// Seat is none, and releasing it does nothing.
type Seat struct {
	i   *Isolator
	h   *hold
	gen uint64
	// rides says that it shares the seats of the request that it serves.
	rides *ride
}

// ride makes the Release of a seat that shares another's count once.
type ride struct{ released bool }

// seat returns that of h, which runs. The lock is held.
func (i *Isolator) seat(h *hold) Seat {
	h.riders = 1
	i.running++
	return Seat{i: i, h: h, gen: h.gen}
}

// Release gives the seats back. Only the first call does; later ones do nothing, are
// counted in the Snapshot, and return false.
func (s Seat) Release() bool {
	i, h := s.i, s.h
	if i == nil {
		return false
	}
	i.mu.Lock()
	if h.gen != s.gen || s.rides != nil && s.rides.released || s.rides == nil && h.released {
		i.twice++
		i.mu.Unlock()
		return false
	}
	if s.rides != nil {
		s.rides.released = true
	} else {
		h.released = true
	}
	if h.riders--; h.riders > 0 {
		i.mu.Unlock()
		return true
	}
	now := i.now()
	var r Request
	var held time.Duration
	if i.observer != nil {
		r = Request{Tenant: h.Tenant, Plan: h.Plan, Cost: h.Cost, Priority: h.Priority, Timeout: h.Timeout}
		held = now - h.Started
	}
	i.wake(i.room.Finish(now, &h.Request))
	i.recycle(h)
	if i.running--; i.running == 0 && i.drained != nil {
		close(i.drained)
		i.drained = nil
	}
	i.mu.Unlock()
	if i.observer != nil {
		i.observer.Released(r, held)
	}
	return true
}

// Waited is how long it took to get the seat. It is 0 once the seat is released.
func (s Seat) Waited() time.Duration {
	if s.i == nil {
		return 0
	}
	s.i.mu.Lock()
	defer s.i.mu.Unlock()
	if s.h.gen != s.gen || s.h.State != fair.Running {
		return 0
	}
	return s.h.Started - s.h.Arrived
}

type seatKey struct{}

// Context returns a copy of ctx that carries the seat. Acquire with it, or with one
// made from it, shares the seat as long as it is not released.
func (s Seat) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, seatKey{}, s)
}

// ride returns a seat that shares the one in ctx, if there is one.
func (i *Isolator) ride(ctx context.Context) (Seat, bool) {
	s, ok := ctx.Value(seatKey{}).(Seat)
	if !ok || s.i != i {
		return Seat{}, false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if s.h.gen != s.gen || s.rides != nil && s.rides.released || s.rides == nil && s.h.released {
		return Seat{}, false
	}
	s.h.riders++
	s.rides = &ride{}
	return s, true
}
