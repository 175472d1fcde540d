package limit

import (
	"context"
	"slices"
	"sync"
	"time"

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
	taker   Taker
	apart   Scattered // nil if the store can change any keys together
	lanes   []*combiner
	denials *denials
	epochs  *epochs
	breaker *breaker
	observe Observer // nil if nobody is told

	passengers passengers
}

func newBackend(s Store, o Options, tasks *tasks) *backend {
	b := &backend{store: s, observe: o.Observer}
	if t, ok := s.(Taker); ok {
		b.taker = t
		return b
	}
	b.apart, _ = s.(Scattered)
	b.denials = newDenials(o.MaxDenials)
	b.breaker = &breaker{store: s, timeout: o.Timeout, tasks: tasks}
	b.breaker.observer, _ = o.Observer.(BreakerObserver)
	b.epochs = &epochs{store: s, denials: b.denials, breaker: b.breaker, timeout: o.Timeout, observe: o.Observer, tasks: tasks}
	lanes := 1
	if p, ok := s.(Parallel); ok {
		lanes = max(1, p.Parallel())
	}
	bulk, _ := s.(BulkTaker)
	for range lanes {
		b.lanes = append(b.lanes, &combiner{
			flight:     flight{store: s, bulk: bulk, apart: b.apart, observer: o.Observer},
			denials:    b.denials,
			epochs:     b.epochs,
			breaker:    b.breaker,
			timeout:    o.Timeout,
			maxBatch:   o.MaxBatch,
			maxWaiting: (o.MaxWaiting + lanes - 1) / lanes,
		})
	}
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
	p := b.passengers.get()
	p.set(spends, verb)
	denied, suspected := b.denials.ask(&p.job)
	var err error
	switch {
	case denied:
		if b.observe != nil {
			b.observe.Remembered()
		}
	case verb == take && b.apart != nil && len(spends) > 1 && !b.apart.Together(p.enlist(nil, nil)):
		err = b.oneByOne(ctx, &p.job, suspected)
	default:
		err = b.ride(ctx, p)
	}
	if err != nil {
		return dst, err // p may still be on its way
	}
	dst = append(dst, p.verdicts...)
	b.passengers.put(p)
	return dst, nil
}

// one is do for taking one spend.
func (b *backend) one(ctx context.Context, s Spend) (v algo.Verdict, err error) {
	spends, verdicts := [1]Spend{s}, [1]algo.Verdict{}
	_, err = b.do(ctx, verdicts[:0], spends[:], take)
	return verdicts[0], err
}

// ride does p in one of the next flights of its lane. Those of one key have
// one lane; one of several keys takes that of its first. After an error p may
// still be on its way.
func (b *backend) ride(ctx context.Context, p *passenger) error {
	lane := b.lanes[0]
	if len(b.lanes) > 1 {
		lane = b.lanes[shardOf(p.keys[0])%len(b.lanes)]
	}
	return lane.do(ctx, p)
}

// jobs are those that doNow uses again.
var jobs = sync.Pool{New: func() any { return new(job) }}

// doNow goes to the store without waiting for others to come along.
func (b *backend) doNow(ctx context.Context, dst []algo.Verdict, spends []Spend, verb verb) ([]algo.Verdict, error) {
	j := jobs.Get().(*job)
	j.set(spends, verb)
	var index map[string]int
	if len(spends) > fewKeys {
		if j.index == nil {
			j.index = make(map[string]int)
		}
		index = j.index
	}
	j.distinct = j.enlist(j.distinct[:0], index)
	err := b.store.Update(ctx, j.distinct, func(now algo.Ticks, cells []Cell) error {
		j.run(now, cells)
		return nil
	})
	dst = append(dst, j.verdicts...)
	j.clear()
	jobs.Put(j)
	return dst, err
}

// givesBack reports whether j makes units available to others.
func (j *job) givesBack() bool {
	return j.verb == reset || j.verb == take && slices.ContainsFunc(j.spends, func(s Spend) bool { return s.Cost < 0 })
}

// wait reports whether j was denied, and for how long.
func (j *job) wait() (longest time.Duration, denied bool) {
	if j.verb == reset {
		return 0, false
	}
	for _, v := range j.verdicts {
		if !v.OK {
			longest, denied = max(longest, duration(v.RetryAfter)), true
		}
	}
	return longest, denied
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
	distinct []string       // of keys, if the job has an update of its own
	index    map[string]int // of distinct, if they are many
}

// fewKeys are faster compared with each other than looked up.
const fewKeys = 16

// set makes j about spends, which it copies: the caller may be gone before j is
// done.
func (j *job) set(spends []Spend, verb verb) {
	n := len(spends)
	j.spends, j.verb = append(j.spends[:0], spends...), verb
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
	clear(j.spends)
	clear(j.keys)
	clear(j.before)
	clear(j.distinct)
	clear(j.index)
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
