package limit

import (
	"context"
	"slices"

	"github.com/stint-dev/stint/limit/algo"
)

// A verb is what is done with the cells of some spends.
type verb uint8

const (
	take  verb = iota // spend all, or nothing
	peek              // decide and spend nothing
	reset             // forget
)

// backend is a store and the way it is called.
type backend struct {
	store Store
	// taker is the store itself if it decides by itself; then nothing below is used.
	taker    Taker
	combiner *combiner
	denials  *denials
}

func newBackend(s Store, o Options) *backend {
	b := &backend{store: s}
	if t, ok := s.(Taker); ok {
		b.taker = t
		return b
	}
	b.denials = newDenials(o.MaxDenials)
	b.combiner = &combiner{store: s, denials: b.denials, timeout: o.Timeout, maxBatch: o.MaxBatch, maxWaiting: o.MaxWaiting, observer: o.Observer}
	return b
}

// do applies verb to spends and returns a verdict for each.
func (b *backend) do(ctx context.Context, spends []Spend, verb verb) ([]algo.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j := newJob(spends, verb)
	if b.taker != nil {
		keys := j.enlist(nil, map[string]int{})
		err := b.store.Update(ctx, keys, func(now algo.Ticks, cells []Cell) error {
			j.run(now, cells)
			return nil
		})
		return j.verdicts, err
	}
	if b.denials.ask(j) {
		if b.combiner.observer != nil {
			b.combiner.observer.Remembered()
		}
		return j.verdicts, nil
	}
	err := b.combiner.do(ctx, j)
	return j.verdicts, err
}

// job is one decision on its way through a store.
type job struct {
	spends   []Spend
	verb     verb
	keys     []string // store keys, one for each spend
	cells    []int    // where each spend's cell is among those of the update
	verdicts []algo.Verdict
	before   []Cell // what each spend found in its cell
	now      algo.Ticks
}

func newJob(spends []Spend, verb verb) *job {
	j := &job{
		spends:   spends,
		verb:     verb,
		keys:     make([]string, len(spends)),
		cells:    make([]int, len(spends)),
		verdicts: make([]algo.Verdict, len(spends)),
		before:   make([]Cell, len(spends)),
	}
	for i, s := range spends {
		j.keys[i] = StoreKey(s.Policy, s.Key)
	}
	return j
}

// enlist appends to keys those of j that are not among them yet. index knows
// where each key is.
func (j *job) enlist(keys []string, index map[string]int) []string {
	for i, k := range j.keys {
		at, known := index[k]
		if !known {
			at = len(keys)
			index[k] = at
			keys = append(keys, k)
		}
		j.cells[i] = at
	}
	return keys
}

// run decides j on the cells of an update, all or nothing. A store may call it
// again with fresh cells.
func (j *job) run(now algo.Ticks, cells []Cell) {
	j.now = now
	ok := true
	for i, s := range j.spends {
		c := &cells[j.cells[i]]
		j.before[i] = *c
		if j.verb == reset {
			c.State, c.TTL, c.Dirty = algo.State{}, 0, true
			continue
		}
		state, v := s.Policy.Decide(c.State, now, s.Cost)
		j.verdicts[i] = v
		if !v.OK {
			ok = false
		} else if state != c.State {
			c.State, c.TTL, c.Dirty = state, v.ResetAfter, true
		}
	}
	if j.verb == reset || j.verb == take && ok {
		return
	}
	for i, s := range slices.Backward(j.spends) {
		cells[j.cells[i]] = j.before[i]
		if j.verdicts[i].OK {
			_, j.verdicts[i] = s.Policy.Decide(j.before[i].State, now, 0)
		}
	}
}
