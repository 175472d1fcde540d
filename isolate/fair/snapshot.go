package fair

import (
	"slices"
	"time"
)

// Snapshot is what operators see of a Room.
type Snapshot struct {
	// Seats are given out at present, of which Busy are held. Held are those that
	// are idle though somebody waits who may have more by its cap: they are kept
	// for others.
	Seats, Busy, Held int
	// Waiting counts requests, Tenants those that are known: active, or lately.
	Waiting, Tenants int
	// Started and Refused count requests since the Room was made.
	Started, Refused uint64
	// BySeatTime and ByRefusals are the first few tenants of either order.
	BySeatTime, ByRefusals []Tenant
	// Behind is who waited longest behind whom.
	Behind []Behind
}

// Tenant is what operators see of one. What it counts begins when it became known.
type Tenant struct {
	ID, Plan string
	// Busy counts the seats that it holds, Waiting its requests in the queue. Share
	// is how many seats it may hold whatever the others need; all of them without
	// guarantees.
	Busy, Waiting, Cap, Share int
	// Demand is how many seats it lately wanted at once, in the mean.
	Demand float64
	// SeatTime is what it has had, Waited how long its requests waited.
	SeatTime, Waited time.Duration
	Refused          uint64
}

// Snapshot returns what there is, with up to top entries in each list. It is not an
// event: nothing is decided, and the clock does not move.
func (r *Room) Snapshot(top int) Snapshot {
	top = max(0, top)
	s := Snapshot{
		Seats: r.seats, Busy: r.busy, Waiting: r.waiting, Tenants: len(r.all),
		Started: r.started, Refused: r.refused,
	}
	if len(r.under)+len(r.over) > 0 {
		s.Held = max(0, r.seats-r.busy)
	}
	var bySeatTime, byRefusals ranking
	bySeatTime.reset(top)
	byRefusals.reset(top)
	if top > 0 {
		for _, t := range r.all {
			bySeatTime.add(t, int64(t.seatTime(r.now)))
			byRefusals.add(t, int64(t.refused))
		}
	}
	s.BySeatTime, s.ByRefusals = r.describe(bySeatTime), r.describe(byRefusals)
	s.Behind = slices.Clone(r.behind.pairs)
	slices.SortFunc(s.Behind, func(a, b Behind) int { return int(b.Waited - a.Waited) })
	s.Behind = s.Behind[:min(top, len(s.Behind))]
	return s
}

// Typical is how long a request of a typical tenant runs: the median over the tenants
// that are known, each of which counts once, however much it asks for. It is 0 if no
// request has finished lately.
func (r *Room) Typical() time.Duration {
	var all []time.Duration
	for _, t := range r.all {
		if t.runs > 0 {
			all = append(all, t.runs)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (r *Room) describe(best ranking) []Tenant {
	all := make([]Tenant, len(best.best))
	for i, b := range best.best {
		t := b.t
		all[i] = Tenant{
			ID: t.id, Plan: t.plan.name, Busy: t.use, Waiting: t.waiting, Cap: t.cap, Share: min(t.share, t.cap),
			Demand: t.mean, SeatTime: t.seatTime(r.now), Refused: t.refused,
			Waited: t.waited + (r.now-t.seen)*time.Duration(t.waiting),
		}
	}
	return all
}

func (t *tenant) seatTime(now time.Duration) time.Duration {
	return t.held + (now-t.seen)*time.Duration(t.use)
}
