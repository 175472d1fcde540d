package plan_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stint-dev/stint/slots/plan"
)

// ledger keeps in memory what one on a database keeps in tables.
type ledger struct {
	slots   map[place]plan.Ticks
	windows map[place]plan.Bits // by window: phase is 0
	full    map[int]plan.Runs   // by era
	byTime  []plan.Slot         // nil if out of date
	atMost  int                 // windows in a chunk; 0 is any
	loads   int
}

// place is the primary key of a slot.
type place struct {
	era    int
	window int64
	phase  int
}

func newLedger() *ledger {
	return &ledger{slots: map[place]plan.Ticks{}, windows: map[place]plan.Bits{}, full: map[int]plan.Runs{}}
}

func (l *ledger) Load(n plan.Need) (plan.Chunk, error) {
	l.loads++
	c := plan.Chunk{To: n.From}
	left := n.Windows
	if l.atMost > 0 {
		left = min(left, l.atMost)
	}
	runs := l.full[n.Era].From(n.From)
	for ; left > 0; left-- {
		for ; len(runs) > 0 && runs[0].From <= c.To; runs = runs[1:] {
			c.Full = append(c.Full, runs[0])
			c.To = runs[0].To
		}
		if taken := l.windows[place{era: n.Era, window: c.To}]; taken != nil {
			c.Taken = append(c.Taken, plan.Window{Era: n.Era, Index: c.To, Taken: taken})
		}
		c.To++
	}
	return c, nil
}

func (l *ledger) Strays(era, phase int, from, to plan.Ticks) ([]plan.Slot, error) {
	var strays []plan.Slot
	events := l.events()
	i, _ := slices.BinarySearchFunc(events, from, func(s plan.Slot, at plan.Ticks) int { return cmp.Compare(s.At, at) })
	for _, s := range events[i:] {
		if s.At >= to {
			break
		}
		if s.Era != era || s.Phase >= phase {
			strays = append(strays, s)
		}
	}
	return strays, nil
}

// events returns all slots in the order of time.
func (l *ledger) events() []plan.Slot {
	if l.byTime == nil {
		for p, at := range l.slots {
			l.byTime = append(l.byTime, plan.Slot{Era: p.era, Window: p.window, Phase: p.phase, At: at})
		}
		slices.SortFunc(l.byTime, func(a, b plan.Slot) int {
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Era, b.Era))
		})
	}
	return l.byTime
}

// keep keeps a booking. It fails where a database would: a primary key that is
// there already.
func (l *ledger) keep(b *plan.Booking) error {
	for _, g := range b.Grants {
		if g.Refused != "" {
			continue
		}
		p := place{g.Era, g.Window, g.Phase}
		if _, taken := l.slots[p]; taken {
			return fmt.Errorf("%+v is taken twice", p)
		}
		l.slots[p] = g.At
	}
	for _, w := range b.Windows {
		l.windows[place{era: w.Era, window: w.Index}] = w.Taken
	}
	for _, r := range b.Full {
		l.full[r.Era] = l.full[r.Era].Add(r)
	}
	l.byTime = nil
	return nil
}

// book books on t and keeps what it gets.
func (l *ledger) book(t *plan.Timeline, now plan.Ticks, requests ...plan.Request) ([]plan.Grant, error) {
	b, err := t.Book(now, requests, l)
	if err != nil {
		return nil, err
	}
	return b.Grants, l.keep(b)
}

// cancel gives s back.
func (l *ledger) cancel(t *plan.Timeline, s plan.Slot) {
	delete(l.slots, place{s.Era, s.Window, s.Phase})
	w := place{era: s.Era, window: s.Window}
	l.windows[w] = l.windows[w].Without(s.Phase)
	for _, r := range t.Reopened(s) {
		l.full[r.Era] = l.full[r.Era].Cut(r)
	}
	l.byTime = nil
}

// shuffled returns requests in another order.
func shuffled(seed uint64, requests []plan.Request) []plan.Request {
	requests = slices.Clone(requests)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(requests), func(i, j int) {
		requests[i], requests[j] = requests[j], requests[i]
	})
	return requests
}
