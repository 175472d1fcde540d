package slots

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/stint-dev/stint/slots/plan"
)

// groupTx is one transaction for a group.
type groupTx struct {
	line  *line
	group []*job
	tx    Tx

	config   *Config
	timeline *plan.Timeline
	known    map[string]Event
	// mine are the events that it books, and tried those that the try before may
	// have booked.
	mine, tried map[string]Event
	// current is the version in force, and outbox what is to be delivered of what is
	// altered.
	current Version
	outbox  map[string]Delivery

	changed  bool // the config, which has been written
	changes  Changes
	released []plan.Slot           // that nobody has after the changes
	windows  map[place]plan.Window // of the changes
	done     Group                 // for the observer
}

func newGroupTx(l *line, group []*job, tried map[string]Event) *groupTx {
	return &groupTx{line: l, group: group, tried: tried, mine: make(map[string]Event), windows: make(map[place]plan.Window)}
}

// place names a window.
type place struct {
	era   int
	index int64
}

func (g *groupTx) run(ctx context.Context, ledger Ledger) error {
	var ids []string
	for _, j := range g.group {
		ids = append(ids, j.ids()...)
	}
	// Nothing is remembered of a transaction that fails.
	cached, timeline := g.line.cached, g.line.timeline
	g.line.cached, g.line.timeline = nil, nil
	tx, err := ledger.Begin(ctx, g.line.config, ids, cached)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	g.tx, g.known, g.config = tx, tx.Known(), tx.Config()
	if cached != nil && cached.Revision == g.config.Revision {
		g.timeline = timeline
	}
	for _, step := range []func() error{g.reconfigure, g.readOutbox, g.book, g.cancel, g.release} {
		if err := step(); err != nil {
			return err
		}
	}
	if g.changed || len(g.mine) > 0 || len(g.changes.Freed) > 0 {
		if err := tx.Commit(&g.changes); err != nil {
			return err
		}
	}
	g.line.cached, g.line.timeline = g.config, g.timeline
	return nil
}

// reconfigure makes the changes of the config, one after another, and leaves out
// those that are not allowed. It sees to it that there is a timeline.
func (g *groupTx) reconfigure() error {
	now, versions := g.tx.Now(), len(g.config.Versions)
	for _, j := range g.group {
		if j.change != nil {
			g.apply(now, j.change)
		}
	}
	if len(g.config.Versions) == 0 {
		return ErrNoConfig
	}
	if g.changed {
		changes := Changes{Config: g.config}
		if len(g.config.Versions) > versions {
			changes.Reopened = everything(g.config)
		}
		if err := g.tx.Write(&changes); err != nil {
			return err
		}
	}
	g.current = inForce(now, g.config)
	if g.timeline != nil {
		return nil
	}
	t, err := newTimeline(now, g.config)
	g.timeline = t
	return err
}

// apply makes one change of the config, if it is allowed and is one.
func (g *groupTx) apply(now plan.Ticks, c *change) {
	next := *g.config
	if c.err = c.apply(now, &next); c.err != nil {
		return
	}
	made := len(next.Versions) > len(g.config.Versions)
	if !made && next.PausedUntil == g.config.PausedUntil {
		c.config = *g.config
		return
	}
	if made {
		t, err := newTimeline(now, &next)
		if err != nil {
			c.err = err
			return
		}
		g.timeline = t
	}
	next.Revision++
	g.config, g.changed, c.config = &next, true, next
}

// everything is all windows that c has ever had. A run of full windows is none any
// more under another version, or may not be.
func everything(c *Config) []plan.Run {
	runs := make([]plan.Run, len(c.Versions))
	for era := range runs {
		runs[era] = plan.Run{Era: era, From: math.MinInt64, To: math.MaxInt64}
	}
	return runs
}

// wish is a Request that needs a slot: that of a booking, or of an alteration.
type wish struct {
	Request
	booking *booking
	move    *alteration

	// planned is the request as the planner understands it.
	planned plan.Request
	now     plan.Ticks
	from    plan.Ticks // what delays are counted from
	late    plan.Ticks // the last instant that the maximum delay allows
	// How long after from, and after now, a slot may lie; 0 is any time.
	maxDelay, horizon plan.Ticks
}

func newWish(now plan.Ticks, c *Config, r Request) *wish {
	v := inForce(now, c)
	w := &wish{Request: r, now: now, from: max(r.At, now), maxDelay: cmp.Or(r.MaxDelay, v.MaxDelay), horizon: v.Horizon}
	w.late = later(w.from, w.maxDelay)
	w.planned = plan.Request{At: max(w.from, c.PausedUntil), Horizon: min(w.late, later(now, w.horizon))}
	return w
}

// inForce returns the version that holds now; the first if none does yet.
func inForce(now plan.Ticks, c *Config) Version {
	v, ok := c.Current(now)
	if !ok {
		v = c.Versions[0]
	}
	return v
}

// newMove returns the wish of an alteration; nil if the event stays where it is.
func (g *groupTx) newMove(a *alteration) *wish {
	if a.to == nil || !a.finds(g.known) {
		return nil
	}
	w := newWish(g.tx.Now(), g.config, *a.to)
	w.move = a
	if a.postponed == nil {
		if a.event.Requested == a.to.At {
			return nil
		}
		return w
	}
	if !g.holds(a) {
		return nil
	}
	w.maxDelay, w.horizon, w.late = 0, 0, plan.MaxInstant
	w.planned.Horizon = plan.MaxInstant
	return w
}

// later returns the instant d after at, the last there is if d is 0.
func later(at, d plan.Ticks) plan.Ticks {
	if d == 0 || d > plan.MaxInstant-at {
		return plan.MaxInstant
	}
	return at + d
}

// reason says why the slot at an instant was refused.
func (w *wish) reason(r plan.Refusal, at plan.Ticks) plan.Refusal {
	if r != plan.Never && at > w.late {
		return plan.TooLate
	}
	return r
}

func (w *wish) refused(c *Config, grant plan.Grant) *Refused {
	r := &Refused{Reason: w.reason(grant.Refused, grant.At)}
	if v, ok := c.Current(grant.At); ok && r.Reason != plan.Never {
		r.At, r.Windows, r.Wait = grant.At, int64((grant.At-w.from)/v.Window), w.wait(grant.At)
	}
	return r
}

// wait returns how long it takes until the slot at an instant is within the bounds.
func (w *wish) wait(at plan.Ticks) (wait plan.Ticks) {
	for _, bound := range []plan.Ticks{w.maxDelay, w.horizon} {
		if bound > 0 {
			wait = max(wait, at-bound-w.now)
		}
	}
	return wait
}

// book books what is not known yet, and the new slots of what moves.
func (g *groupTx) book() error {
	var wishes []*wish
	for _, j := range g.group {
		for _, b := range j.bookings {
			if e, known := g.known[b.ID]; known {
				g.repeat(b, e)
				continue
			}
			w := newWish(g.tx.Now(), g.config, b.Request)
			w.booking = b
			wishes = append(wishes, w)
		}
		for _, a := range j.alterations {
			if w := g.newMove(a); w != nil {
				wishes = append(wishes, w)
			}
		}
	}
	for len(wishes) > 0 {
		again, err := g.grant(wishes)
		if err != nil {
			return err
		}
		if wishes = again; len(wishes) > 0 {
			if err := g.write(); err != nil {
				return err
			}
		}
	}
	return nil
}

// grant asks the planner for each id's first wish. It returns wishes that are
// still to be granted: of ids whose first was refused, on other terms.
func (g *groupTx) grant(wishes []*wish) (again []*wish, err error) {
	first := make(map[string]*wish)
	var asked, same []*wish
	var requests []plan.Request
	for _, w := range wishes {
		if first[w.ID] != nil {
			same = append(same, w)
			continue
		}
		first[w.ID] = w
		asked, requests = append(asked, w), append(requests, w.planned)
	}
	g.tx.Expect(g.timeline.Expected(g.tx.Now(), requests))
	booking, err := g.timeline.Book(g.tx.Now(), requests, g.tx)
	if err != nil {
		return nil, err
	}
	for _, w := range booking.Windows {
		g.windows[place{w.Era, w.Index}] = w
	}
	g.changes.Full = booking.Full
	for i, grant := range booking.Grants {
		g.settle(asked[i], grant)
	}
	for _, w := range same {
		was := first[w.ID]
		if e, booked := g.mine[w.ID]; booked {
			g.repeat(w.booking, e)
		} else if w.Request == was.Request {
			*w.booking.result = *was.booking.result
			g.done.Refused++
		} else {
			again = append(again, w)
		}
	}
	return again, nil
}

// settle answers a wish, and notes what is to be changed.
func (g *groupTx) settle(w *wish, grant plan.Grant) {
	slot, granted := grant.Slot, grant.Refused == ""
	if w.move != nil {
		// An event may keep its slot, which the planner has not offered.
		old := w.move.event.Slot
		if old.At >= w.planned.At && old.At <= w.planned.Horizon && (!granted || old.At <= slot.At) {
			if granted {
				g.released = append(g.released, slot)
			}
			slot, granted = old, true
		} else if granted {
			g.released = append(g.released, old)
		}
	}
	if !granted {
		g.done.Refused++
		refused := w.refused(g.config, grant)
		if w.move != nil {
			w.move.err = refused
		} else {
			*w.booking.result = Result{Err: refused}
		}
		return
	}
	e := Event{ID: w.ID, Requested: w.At, Slot: slot, Booked: g.tx.Now()}
	if w.move != nil && w.move.postponed != nil {
		e.Requested = w.move.event.Requested
	}
	g.deliver(w, e)
	g.mine[e.ID] = e
	g.changes.Booked = append(g.changes.Booked, e)
	g.done.Last = max(g.done.Last, e.At)
	if w.move != nil {
		g.done.Moved++
		g.changes.Freed = append(g.changes.Freed, w.move.event)
		w.move.event = e
	} else {
		g.done.Booked++
		*w.booking.result = Result{Event: e}
	}
}

// repeat answers b by an event that is known.
func (g *groupTx) repeat(b *booking, e Event) {
	if tried, ok := g.tried[b.ID]; ok && tried == e {
		delete(g.tried, b.ID) // nobody but b has booked it
		*b.result = Result{Event: e}
		g.done.Booked++
		return
	}
	*b.result = Result{Event: e, Repeated: true, Conflict: e.Requested != b.At}
	if e.Cancelled != 0 {
		b.result.Err = ErrCancelled
	}
	g.done.Repeated++
}

// finds looks up the event that a is about. If it is not known, or was cancelled
// and is to move, a has its answer.
func (a *alteration) finds(known map[string]Event) bool {
	e, ok := known[a.id]
	switch {
	case !ok:
		a.err = ErrNoEvent
	case e.Cancelled != 0 && a.to != nil:
		a.err = ErrCancelled
	default:
		a.event, a.err = e, nil
		return true
	}
	return false
}

// cancel gives back the slots of what is cancelled.
func (g *groupTx) cancel() error {
	for _, j := range g.group {
		for _, a := range j.alterations {
			if a.to != nil || !a.finds(g.known) || a.event.Cancelled != 0 {
				continue
			}
			g.released = append(g.released, a.event.Slot)
			a.event.Cancelled = g.tx.Now()
			g.done.Cancelled++
			g.changes.Freed = append(g.changes.Freed, a.event)
			if _, has := g.outbox[a.id]; has {
				g.changes.Removed = append(g.changes.Removed, a.id)
			}
		}
	}
	return nil
}

// write writes the changes, so that the planner sees them.
func (g *groupTx) write() error {
	if err := g.release(); err != nil {
		return err
	}
	if err := g.tx.Write(&g.changes); err != nil {
		return err
	}
	g.changes, g.released = Changes{}, nil
	clear(g.windows)
	return nil
}

// release completes the changes: what is taken in their windows, without what is
// released.
func (g *groupTx) release() error {
	if err := g.readReleased(); err != nil {
		return err
	}
	for _, s := range g.released {
		p := place{s.Era, s.Window}
		w := g.windows[p]
		w.Taken = w.Taken.Without(s.Phase)
		g.windows[p] = w
		g.changes.Reopened = append(g.changes.Reopened, g.timeline.Reopened(s)...)
	}
	g.changes.Full = without(g.changes.Full, g.changes.Reopened)
	g.changes.Windows = slices.SortedFunc(maps.Values(g.windows), func(a, b plan.Window) int {
		return cmp.Or(cmp.Compare(a.Era, b.Era), cmp.Compare(a.Index, b.Index))
	})
	return nil
}

// readReleased reads those windows of released slots in which nothing was booked.
func (g *groupTx) readReleased() error {
	missing := make(map[int][]int64)
	for _, s := range g.released {
		p := place{s.Era, s.Window}
		if _, has := g.windows[p]; !has {
			g.windows[p] = plan.Window{Era: s.Era, Index: s.Window}
			missing[s.Era] = append(missing[s.Era], s.Window)
		}
	}
	for era, windows := range missing {
		taken, err := g.tx.Taken(era, windows)
		if err != nil {
			return err
		}
		for _, w := range taken {
			g.windows[place{w.Era, w.Index}] = w
		}
	}
	return nil
}

// without returns runs without what is in cuts.
func without(runs, cuts []plan.Run) []plan.Run {
	if len(runs) == 0 || len(cuts) == 0 {
		return runs
	}
	var eras = make(map[int]plan.Runs)
	for _, r := range runs {
		eras[r.Era] = eras[r.Era].Add(r)
	}
	for _, c := range cuts {
		eras[c.Era] = eras[c.Era].Cut(c)
	}
	var left []plan.Run
	for _, rs := range eras {
		left = append(left, rs...)
	}
	return left
}
