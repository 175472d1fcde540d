package limit

import (
	"context"
	"slices"
	"sync"

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

// do applies verb to spends and appends a verdict for each to dst.
func (b *backend) do(ctx context.Context, dst []algo.Verdict, spends []Spend, verb verb) ([]algo.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	if b.taker != nil {
		return b.doNow(ctx, dst, spends, verb)
	}
	j := new(job)
	j.set(slices.Clone(spends), verb) // the caller may be gone before the job is done
	if b.denials.ask(j) {
		if b.combiner.observer != nil {
			b.combiner.observer.Remembered()
		}
		return append(dst, j.verdicts...), nil
	}
	if err := b.combiner.do(ctx, j); err != nil {
		return dst, err // j may still be on its way
	}
	return append(dst, j.verdicts...), nil
}

// jobs are those that doNow uses again.
var jobs = sync.Pool{New: func() any { return new(job) }}

// doNow goes to the store without waiting for others to come along.
func (b *backend) doNow(ctx context.Context, dst []algo.Verdict, spends []Spend, verb verb) ([]algo.Verdict, error) {
	j := jobs.Get().(*job)
	j.set(spends, verb)
	j.distinct = j.enlist(j.distinct[:0], nil)
	err := b.store.Update(ctx, j.distinct, func(now algo.Ticks, cells []Cell) error {
		j.run(now, cells)
		return nil
	})
	dst = append(dst, j.verdicts...)
	j.clear()
	jobs.Put(j)
	return dst, err
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
	distinct []string // of keys, if the job has an update of its own
}

func (j *job) set(spends []Spend, verb verb) {
	n := len(spends)
	j.spends, j.verb = spends, verb
	j.keys = slices.Grow(j.keys[:0], n)
	for _, s := range spends {
		j.keys = append(j.keys, StoreKey(s.Policy, s.Key))
	}
	j.cells = slices.Grow(j.cells[:0], n)[:n]
	j.verdicts = slices.Grow(j.verdicts[:0], n)[:n]
	j.before = slices.Grow(j.before[:0], n)[:n]
}

// clear lets go of what j refers to.
func (j *job) clear() {
	j.spends = nil
	clear(j.keys)
	clear(j.before)
	clear(j.distinct)
}

// enlist appends to keys those of j that are not among them yet. index knows
// where each key is; without one, keys are few and are compared.
func (j *job) enlist(keys []string, index map[string]int) []string {
	for i, k := range j.keys {
		at, known := index[k]
		if index == nil {
			at = slices.Index(keys, k)
			known = at >= 0
		}
		if !known {
			at = len(keys)
			keys = append(keys, k)
			if index != nil {
				index[k] = at
			}
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
