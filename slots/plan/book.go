package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// Slot is a place in time that one event may have: phase Phase of window Window,
// counted in era Era. The instant follows from these three, but is to be kept
// with them: a calendar may come to be read otherwise.
type Slot struct {
	Era    int
	Window int64
	Phase  int
	At     Ticks
}

// Request asks for the earliest free slot.
type Request struct {
	// At is the instant that the slot must not lie before.
	At Ticks
	// MaxDelay is how long after At, or after now if that is later, the slot
	// may lie at most. 0 is any time.
	MaxDelay Ticks
	// Horizon is the last instant at which the slot may lie. 0 is any.
	Horizon Ticks
}

// Refusal is why a request gets no slot; "" means that it does.
type Refusal string

const (
	// TooLate is a slot that lies more than MaxDelay after it was asked for.
	TooLate Refusal = "max delay"
	// TooFar is a slot that lies after the Horizon.
	TooFar Refusal = "horizon"
	// Never is no slot at all, until the end of the year 9999 or of what is
	// worked out of a calendar.
	Never Refusal = "never"
)

// Grant answers a Request.
type Grant struct {
	// Slot is the earliest that was free. If Refused is not "", it still is;
	// if it is Never, the Slot is the zero Slot.
	Slot
	// Delay is how long after Request.At, or after now if that is later, the
	// Slot lies.
	Delay   Ticks
	Refused Refusal
}

// Booking is what a ledger has to keep of a Book.
type Booking struct {
	// Grants are in the order of the requests.
	Grants []Grant
	// Windows are those in which slots were taken, with all that is taken in
	// them now. They are in the order of time, none is there twice.
	Windows []Window
	// Full are runs of full windows. They take the place of what they overlap
	// of the runs that the ledger has.
	Full []Run
}

// Book gives each request the earliest slot that is free and neither before its
// own instant nor before now. The requests are served in the order of their
// instants; those of one instant in the order given. Which slots are taken, and
// so the sum of the delays, depends on neither that order nor on how requests are
// put together in batches, as long as none is refused: it is what an optimal
// assignment gives.
//
// An instant outside of MinInstant and MaxInstant is an error, as is one from o.
// Nothing is booked then. now is taken for New's if it is earlier.
func (t *Timeline) Book(now Ticks, requests []Request, o Occupancy) (*Booking, error) {
	if err := checkInstant("now", now); err != nil {
		return nil, err
	}
	order := make([]int, len(requests))
	for i, r := range requests {
		order[i] = i
		if err := checkInstant("requested instant", r.At); err != nil {
			return nil, fmt.Errorf("request %d: %w", i, err)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(requests[a].At, requests[b].At) })

	s := t.sweep(now, o)
	b := &Booking{Grants: make([]Grant, len(requests))}
	due := 0 // how many requests ask for an instant that the sweep has come to
	for n, i := range order {
		for due < len(order) && (due <= n || requests[order[due]].At <= max(requests[i].At, s.now, s.slot.At)) {
			due++
		}
		grant, err := s.offer(requests[i], due-n)
		if err != nil {
			return nil, err
		}
		if grant.Refused == "" {
			s.take()
		}
		b.Grants[i] = grant
	}
	s.leave()
	b.Windows, b.Full = s.changed, s.newlyFull()
	return b, nil
}

// Expected returns the windows in which Book begins to look for slots for requests, as
// what it will ask an Occupancy for, in the order in which it will. It asks for others,
// too, when these are full, and not for those that lie in a run that it knows already.
func (t *Timeline) Expected(now Ticks, requests []Request) []Need {
	now = max(now, t.now)
	type place struct {
		era    int
		window int64
	}
	wanted := make(map[place]int)
	most := make(map[int]int)
	for _, r := range requests {
		for _, p := range t.spans {
			if at := max(r.At, now, p.opens(now)); at < p.until {
				wanted[place{p.era, max(p.lo, p.grid.window(at))}]++
				most[p.era] = p.Max
				break
			}
		}
	}
	needs := make([]Need, 0, len(wanted))
	for at, n := range wanted {
		needs = append(needs, Need{Era: at.era, From: at.window, Windows: (n-1)/most[at.era] + 1})
	}
	slices.SortFunc(needs, func(a, b Need) int { return cmp.Or(cmp.Compare(a.Era, b.Era), cmp.Compare(a.From, b.From)) })
	return needs
}

// Quote says what requests would get.
type Quote struct {
	// Granted is how many of them would get a slot, and First, Last and Median
	// are the delays of those; 0 if there is none. Of an even number of delays
	// the Median is the lower of the two in the middle.
	Granted             int
	First, Last, Median Ticks
	// Refused is why the others would get none, and Next what is left for them
	// as Book would give it.
	Refused Refusal
	Next    Slot
}

// Quote says what n requests like r would get from Book, and books nothing.
func (t *Timeline) Quote(now Ticks, r Request, n int, o Occupancy) (Quote, error) {
	if err := cmp.Or(checkInstant("now", now), checkInstant("requested instant", r.At)); err != nil {
		return Quote{}, err
	}
	var q Quote
	var delays []Ticks
	s := t.sweep(now, o)
	for left := n; left > 0; left-- {
		grant, err := s.offer(r, left)
		if err != nil {
			return Quote{}, err
		}
		if grant.Refused != "" {
			q.Refused, q.Next = grant.Refused, grant.Slot
			break
		}
		s.take()
		delays = append(delays, grant.Delay)
	}
	if q.Granted = len(delays); q.Granted > 0 {
		q.First, q.Last, q.Median = delays[0], delays[q.Granted-1], delays[(q.Granted-1)/2]
	}
	return q, nil
}

// Reopened returns the windows that may have a free slot, under the versions in
// force, once s is given back: its own, and those near it that make room for slots of
// other eras. A ledger that frees s cuts them out of its runs of full windows.
func (t *Timeline) Reopened(s Slot) []Run {
	reopened := []Run{{Era: s.Era, From: s.Window, To: s.Window + 1}}
	for _, p := range t.spans {
		from := max(p.lo, p.grid.window(s.At-p.Window))
		to := min(p.hi, p.grid.window(s.At+p.Window)+1)
		if p.others && from < to {
			reopened = append(reopened, Run{Era: p.era, From: from, To: to})
		}
	}
	return reopened
}
