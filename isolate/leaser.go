package isolate

import (
	"context"
	"time"
)

// MaxHolders is the most nodes that hold seats of one tenant. More of them wait until
// one has left.
const MaxHolders = 1024

// Leaser keeps, where every node sees it, who holds which part of a tenant's seats.
//
// It is safe for simultaneous use. An error means that it could not answer: then each
// change was made or not, or is yet to be made if nobody makes another before.
// leasetest.Run is the definition of what a Leaser must do.
type Leaser interface {
	// Lease calls settle with the number of each of tenants, which are distinct, and
	// those who hold its seats; it keeps those whom settle returns in their place if
	// keep says so. Each tenant is settled on its own, and all of them in few trips.
	//
	// now is the clock of who keeps them, never the caller's. settle is pure and may
	// run more than once for a tenant: only its last run counts. It must not change
	// holders, and is not called any more once Lease has returned. What is kept is there for an hour at least after it was changed; no
	// holders at all are forgotten at once.
	Lease(ctx context.Context, tenants []string, settle func(n int, now time.Time, holders []Holder) (next []Holder, keep bool)) error
}

// Holder is a node that holds seats of a tenant, or stands in line for them.
type Holder struct {
	// Node is its name.
	Node uint64
	// Seats are what it holds, Want what it wants to hold, and First what the request
	// costs that waits first there, 0 if none waits. Cap is what it takes the most to
	// be that all nodes together may hold.
	Seats, Want, First, Cap uint32
	// Turn is when it last got seats for a request that waited, or when it came.
	Turn time.Time
	// Seen is when it had its last word, and TTL after what time it holds nothing more.
	Seen time.Time
	TTL  time.Duration
}

func (h *Holder) lapsed(now time.Time) bool { return now.Sub(h.Seen) >= h.TTL }
