package plan

import (
	"fmt"
	"slices"
)

// sweep walks from free slot to free slot, forwards only. Requests in the order
// of their instants need no more: what lies before the slot that the last one
// was offered is taken, or before the next one's instant.
type sweep struct {
	t   *Timeline
	now Ticks
	o   Occupancy

	// It stands on slot, which is free, if found. next is the index of its span
	// in t.spans, or of the first that may still have one.
	next  int
	slot  Slot
	found bool

	// The window that it stands in, if inside.
	inside bool
	span   *span
	window Window
	rank   int  // of the first phase that has not been looked at
	limit  int  // phases from limit on are not to be taken
	free   int  // how many of the others are free
	took   bool // something, since it came in

	chunk  Chunk // what is ahead of the sweep
	loaded *span // whose windows they are
	from   int64 // the first of them
	near   vicinity

	changed []Window
	runs    []run
}

// run is a Run that the ledger has, or, if fresh, has not.
type run struct {
	Run
	fresh bool
}

func (t *Timeline) sweep(now Ticks, o Occupancy) *sweep {
	return &sweep{t: t, now: max(now, t.now), o: o}
}

// offer returns the slot that r gets, or would get. want is how many slots will
// be taken, at least if none is refused.
func (s *sweep) offer(r Request, want int) (Grant, error) {
	from := max(r.At, s.now)
	if err := s.seek(from, want); err != nil {
		return Grant{}, err
	}
	if !s.found {
		return Grant{Refused: Never}, nil
	}
	g := Grant{Slot: s.slot, Delay: s.slot.At - from}
	switch {
	case r.MaxDelay != 0 && g.Delay > r.MaxDelay:
		g.Refused = TooLate
	case r.Horizon != 0 && g.At > r.Horizon:
		g.Refused = TooFar
	}
	return g, nil
}

// take takes the slot that the sweep stands on.
func (s *sweep) take() {
	if !s.took {
		s.window.Taken = slices.Clone(s.window.Taken)
	}
	s.window.Taken = s.window.Taken.With(s.slot.Phase)
	s.took, s.found = true, false
	s.rank++
	s.free--
}

// seek moves to the first free slot that lies at from or later.
func (s *sweep) seek(from Ticks, want int) error {
	if s.found && s.slot.At >= from {
		return nil
	}
	for s.found = false; s.next < len(s.t.spans); s.next++ {
		p := s.t.spans[s.next]
		at := max(from, p.opens(s.now))
		if at >= p.until {
			continue
		}
		if err := s.search(p, at, want); err != nil || s.found {
			return err
		}
	}
	return nil
}

// search looks for a free slot of the span at the instant at or later.
func (s *sweep) search(p *span, at Ticks, want int) error {
	k, rank := s.window.Index, s.rank
	if !s.inside || s.span != p || at > s.slot.At {
		k = p.grid.window(at)
		rank = p.phases.rank(p.grid.offset(k, at))
	}
	if k < p.lo {
		k, rank = p.lo, 0
	}
	for k < p.hi {
		full, err := s.enter(p, k, want)
		if err != nil {
			return err
		}
		if full > k {
			k, rank = full, 0
			continue
		}
		for s.rank = rank; s.free > 0 && s.rank < p.Max; s.rank++ {
			j := p.phases.at(s.rank)
			if j >= s.limit || s.window.Taken.Has(j) {
				continue
			}
			at := p.grid.instant(k, p.phases.offset(j))
			s.slot = Slot{Era: p.era, Window: k, Phase: j, At: at}
			s.found = at < p.until
			return nil
		}
		k, rank = k+1, 0
	}
	return nil
}

// enter comes into window k, or returns the window after the run of full ones
// that k lies in.
func (s *sweep) enter(p *span, k int64, want int) (full int64, err error) {
	if s.inside && s.span == p && s.window.Index == k {
		return k, nil
	}
	s.leave()
	if s.loaded != p || k < s.from || k >= s.chunk.To {
		if err := s.load(p, k, want); err != nil {
			return 0, err
		}
	}
	c := &s.chunk
	for len(c.Full) > 0 && c.Full[0].To <= k {
		c.Full = c.Full[1:]
	}
	if len(c.Full) > 0 && c.Full[0].From <= k {
		s.addFull(run{Run: c.Full[0]})
		return min(c.Full[0].To, p.hi), nil
	}
	for len(c.Taken) > 0 && c.Taken[0].Index < k {
		c.Taken = c.Taken[1:]
	}
	w := Window{Era: p.era, Index: k}
	if len(c.Taken) > 0 && c.Taken[0].Index == k {
		w.Taken = c.Taken[0].Taken
	}
	limit, err := s.limitOf(p, w, want)
	if err != nil {
		return 0, err
	}
	s.inside, s.span, s.window, s.took = true, p, w, false
	s.limit, s.free = limit, limit-w.Taken.Count(limit)
	return k, nil
}

// load asks for the windows from k on.
func (s *sweep) load(p *span, k int64, want int) error {
	need := Need{Era: p.era, From: k, Windows: int(min(int64((want-1)/p.Max+1), p.hi-k))}
	chunk, err := s.o.Load(need)
	if err != nil {
		return err
	}
	if chunk.To <= k {
		return fmt.Errorf("plan: the occupancy was asked for %+v and answered to %d only", need, chunk.To)
	}
	for _, r := range chunk.Full {
		if r.Era != p.era {
			return fmt.Errorf("plan: the occupancy was asked for %+v and answered %+v", need, r)
		}
	}
	s.chunk, s.loaded, s.from = chunk, p, k
	return nil
}

// leave notes what has become of the window that the sweep stands in.
func (s *sweep) leave() {
	if !s.inside {
		return
	}
	if s.took {
		s.changed = append(s.changed, s.window)
	}
	if s.free == 0 {
		k := s.window.Index
		s.addFull(run{Run{Era: s.span.era, From: k, To: k + 1}, true})
	}
	s.inside = false
}

// addFull joins r to the run before, if there is nothing between them.
func (s *sweep) addFull(r run) {
	if n := len(s.runs); n > 0 {
		if last := &s.runs[n-1]; last.Era == r.Era && last.To >= r.From {
			last.To = max(last.To, r.To)
			last.fresh = last.fresh || r.fresh
			return
		}
	}
	s.runs = append(s.runs, r)
}

func (s *sweep) newlyFull() []Run {
	var runs []Run
	for _, r := range s.runs {
		if r.fresh {
			runs = append(runs, r.Run)
		}
	}
	return runs
}
