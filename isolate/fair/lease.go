package fair

import (
	"fmt"
	"strings"
	"time"
)

// lease is what a tenant of a Shared plan may hold in this room.
type lease struct {
	seats int
	peak  int // the most that it wanted since Demand was called
}

// Demand is what a tenant with a lease wants in this room, in seats.
type Demand struct {
	// Cap is the most that all rooms together may give it, 0 if its plan is not
	// Shared, and Most what this one may. They are unknown if Known is false, as it
	// has not come for a while.
	Known     bool
	Cap, Most int
	// Leased is what SetLease has given it, of which it holds Use.
	Leased, Use int
	// Peak is the most that it held and waited for, since Demand was called before.
	Peak int
	// First is what the request costs that waits first, 0 if none waits.
	First int
}

// SetLease gives a tenant seats in this room, as far as its plan is Shared. Nothing
// that runs is stopped. A negative number is no lease, as if it had never had one.
func (r *Room) SetLease(now time.Duration, tenant string, seats int) ([]*Request, error) {
	l := r.leases[tenant]
	if l == nil && seats >= 0 && len(r.leases) >= maxCaps {
		return nil, fmt.Errorf("there are %d tenants with a lease; no more are allowed", maxCaps)
	}
	r.advance(now)
	switch {
	case seats < 0:
		delete(r.leases, tenant)
	case l == nil:
		r.leases[strings.Clone(tenant)] = &lease{seats: seats}
	default:
		l.seats = seats
	}
	r.recap(tenant)
	return r.decided, nil
}

// Demand returns what a tenant wants, and begins to look for its next Peak. It is not
// an event: nothing is decided, and the clock does not move.
func (r *Room) Demand(tenant string) (d Demand) {
	l := r.leases[tenant]
	if l == nil {
		return d
	}
	d.Leased, d.Peak = l.seats, l.peak
	l.peak = 0
	if t := r.tenants[tenant]; t != nil {
		d.Known, d.Use = true, t.use
		if t.plan.Shared {
			d.Cap, d.Most = t.plan.MaxSeats, r.ownCap(t)
		}
		if q := t.head(); q != nil {
			d.First = q.cost
		}
		l.peak = t.use + t.waitingSeats
	}
	d.Peak = max(d.Peak, l.peak)
	return d
}

// Short reports whether a tenant's next request waits for more than SetLease has given
// it, rather than for a seat that is free.
func (r *Room) Short(tenant string) bool {
	t := r.tenants[tenant]
	if t == nil || !t.plan.Shared {
		return false
	}
	q := t.head()
	return q != nil && t.use+q.cost > r.leased(tenant)
}

// Use is how many seats a tenant holds.
func (r *Room) Use(tenant string) int {
	if t := r.tenants[tenant]; t != nil {
		return t.use
	}
	return 0
}

// LeaseTime is that of the Config.
func (r *Room) LeaseTime() time.Duration { return r.config.LeaseTime }

func (r *Room) leased(tenant string) int {
	if l := r.leases[tenant]; l != nil {
		return l.seats
	}
	return 0
}

// wants takes note of what t holds and waits for.
func (r *Room) wants(t *tenant) {
	if !t.plan.Shared {
		return
	}
	if l := r.leases[t.id]; l != nil {
		l.peak = max(l.peak, t.use+t.waitingSeats)
	}
}
