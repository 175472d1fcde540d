package limit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// Options configure a Limiter. The zero value is ready to use.
type Options struct {
	// Local is the store for policies in Local mode and for FailLocal; it
	// should keep its states in this process. Defaults to the limiter's store.
	Local Store
	// Timeout bounds what one decision waits for the store, whatever the
	// caller's context allows. Defaults to 1s.
	Timeout time.Duration
	// MaxBatch is the most spends that go to the store in one update.
	// Defaults to 1000.
	MaxBatch int
	// MaxWaiting is the most decisions that wait for the store at one time;
	// one more is answered as if the store had failed. Defaults to 10000.
	MaxWaiting int
	// MaxDenials is the number of keys whose denial is remembered.
	// Defaults to 10000; -1 remembers none.
	MaxDenials int
	// SyncEvery is how often the policies in Synced mode are told to the store
	// and learnt from it. Defaults to 200ms.
	SyncEvery time.Duration
	// MaxSynced is the number of keys that Synced mode keeps in this process.
	// Defaults to 1000000.
	MaxSynced int
	// Observer, if set, is told what the limiter does. It may also be a
	// BreakerObserver, a NodesObserver and a SyncObserver.
	Observer Observer
}

// Observer is told what a Limiter does. Its methods are called on the way of
// a request and must not block.
type Observer interface {
	// Updated: one call of the store, for so many spends, took so long. The
	// limiter's own affairs are calls for 0 spends.
	Updated(spends int, took time.Duration, err error)
	// Remembered: a spend was denied from memory, without the store.
	Remembered()
}

// Spend is one cost to be charged to one key of one policy.
type Spend struct {
	Policy *Policy
	Key    string
	Cost   int64
}

// Limiter decides by the states in a Store. It is safe for simultaneous use.
//
// Over a store that is not a [Taker], the decisions that are asked for while
// a call of the store is under way go to it together in the next one; and a key
// that the store has denied is denied from memory until the moment at which
// the answer could change, since until then units are only spent. A refund or
// a reset ends that memory, on this node at once and on the others as soon as
// they hear of it: at once if the store is a [Notifier], and within half a
// second otherwise.
//
// A store that fails several times in a row is not asked again until it answers
// a ping; meanwhile Policy.OnStoreError decides.
type Limiter struct {
	exact, local *backend
	synced       *synced
	roster       *roster
	tasks        *tasks
	timeout      time.Duration
	waits        Queue
}

// New returns a Limiter over s. A nil o is the zero Options.
func New(s Store, o *Options) *Limiter {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Timeout = orDefault(opts.Timeout, time.Second)
	opts.MaxBatch = orDefault(opts.MaxBatch, 1000)
	opts.MaxWaiting = orDefault(opts.MaxWaiting, 10_000)
	opts.MaxDenials = orDefault(opts.MaxDenials, 10_000)

	l := &Limiter{tasks: newTasks(), timeout: opts.Timeout}
	l.exact = newBackend(s, opts, l.tasks)
	l.local = l.exact
	if opts.Local != nil && opts.Local != s {
		l.local = newBackend(opts.Local, opts, l.tasks)
	}
	l.roster = &roster{store: s, alone: l.exact.taker != nil, breaker: l.exact.breaker, timeout: opts.Timeout, tasks: l.tasks}
	l.roster.observe, _ = opts.Observer.(NodesObserver)
	l.synced = newSynced(l.exact, syncOptions{
		every:    orDefault(opts.SyncEvery, 200*time.Millisecond),
		idle:     time.Minute,
		maxKeys:  orDefault(opts.MaxSynced, 1_000_000),
		maxBatch: opts.MaxBatch,
		timeout:  opts.Timeout,
		share:    l.roster.share,
		tasks:    l.tasks,
	})
	l.synced.opts.observer, _ = opts.Observer.(SyncObserver)
	return l
}

// Close tells the store what Synced mode has not told it yet and ends what the
// limiter does in the background. It does not close the store. A Limiter that
// is never closed does no harm, but for that.
func (l *Limiter) Close() error {
	l.tasks.close()
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	return l.synced.syncAll(ctx)
}

// Sync is one round of Synced mode now, without waiting for the next: it tells
// the store what this node has spent, and learns what the others have.
func (l *Limiter) Sync(ctx context.Context) error { return l.synced.sync(ctx) }

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Take spends cost from key under p, if it is admitted.
//
// The error is ErrCost if it never can be, a *StoreError if the store could
// not answer and p.OnStoreError is FailError, or ctx's.
func (l *Limiter) Take(ctx context.Context, p *Policy, key string, cost int64) (d Decision, err error) {
	if err := p.checkSpend(key, cost); err != nil {
		return d, err
	}
	var v algo.Verdict
	by := l.decider(p)
	switch by := by.(type) {
	case *synced:
		v, err = by.one(ctx, Spend{p, key, cost}, take)
	case *backend:
		if by.taker != nil {
			v, err = by.taker.Take(ctx, p, key, cost)
		} else {
			v, err = by.one(ctx, Spend{p, key, cost})
		}
	}
	if err != nil {
		var ds [1]Decision
		_, err = l.without(ctx, part{by: by, spends: []Spend{{p, key, cost}}}, take, ds[:], err)
		return ds[0], err
	}
	d.set(p, &v)
	return d, nil
}

// TakeAll spends every one of spends, or none of them. A denial by one policy
// spends nothing under the others: their decisions are Allowed and report what
// remains without this spend.
//
// Spends of several modes are made one mode after another, those of the store
// last, and given back if a later one is denied; so are spends whose keys the
// store cannot change together (see Scattered).
// Errors are those of Take; if there is one, nothing was spent that is known of.
func (l *Limiter) TakeAll(ctx context.Context, spends []Spend) ([]Decision, error) {
	for _, s := range spends {
		if err := s.Policy.checkSpend(s.Key, s.Cost); err != nil {
			return nil, err
		}
	}
	return l.decide(ctx, spends, take)
}

// Peek is Take without spending: it decides whether cost would be admitted
// now. Remaining and ResetAfter are those before the spend.
func (l *Limiter) Peek(ctx context.Context, p *Policy, key string, cost int64) (Decision, error) {
	return l.one(l.PeekAll(ctx, []Spend{{p, key, cost}}))
}

// PeekAll is TakeAll without spending.
func (l *Limiter) PeekAll(ctx context.Context, spends []Spend) ([]Decision, error) {
	for _, s := range spends {
		if err := s.Policy.checkSpend(s.Key, s.Cost); err != nil {
			return nil, err
		}
	}
	return l.decide(ctx, spends, peek)
}

// Refund gives cost units back to key, at most as many as are in use, and
// reports what remains. A refund of what was spent so long ago that it is in
// use no more does nothing.
func (l *Limiter) Refund(ctx context.Context, p *Policy, key string, cost int64) (Decision, error) {
	if err := p.checkSpend(key, 0); err != nil {
		return Decision{}, err
	}
	if cost < 0 {
		return Decision{}, fmt.Errorf("limit: policy %q: %w: refund of %d is negative", p.Name, ErrCost, cost)
	}
	return l.one(l.decide(ctx, []Spend{{p, key, -cost}}, take))
}

// Reset makes key as if it had never been seen under p.
func (l *Limiter) Reset(ctx context.Context, p *Policy, key string) error {
	if err := p.checkSpend(key, 0); err != nil {
		return err
	}
	_, err := l.decider(p).do(ctx, nil, []Spend{{p, key, 0}}, reset)
	return err
}

// Wait takes cost from key under p, after waiting until it is admitted. Those
// who wait in this process for the same key are served first come, first
// served. If ctx is to end before cost could be admitted, Wait returns at once
// with an error that wraps context.DeadlineExceeded.
func (l *Limiter) Wait(ctx context.Context, p *Policy, key string, cost int64) (Decision, error) {
	if err := p.checkSpend(key, cost); err != nil {
		return Decision{}, err
	}
	if p.Quota == 0 && cost > 0 {
		return Decision{}, fmt.Errorf("limit: policy %q: %w: the quota is 0", p.Name, ErrCost)
	}
	turn := Turn{MaxWait: math.MaxInt64, MaxQueue: math.MaxInt, Pace: p.Pace(cost)}
	if end, ok := ctx.Deadline(); ok {
		turn.MaxWait = time.Until(end)
	}
	var d Decision
	passage, err := l.waits.Wait(ctx, StoreKey(p, key), turn, func() (time.Duration, bool, error) {
		var err error
		d, err = l.Take(ctx, p, key, cost)
		return d.RetryAfter, d.Allowed, err
	})
	if err == nil && !passage.Admitted {
		err = fmt.Errorf("limit: policy %q: %w: the next turn is in %v, after the deadline", p.Name, context.DeadlineExceeded, passage.RetryAfter)
	}
	return d, err
}

// decider is what decides for one mode.
type decider interface {
	// do applies verb to spends and appends a verdict for each to dst.
	do(ctx context.Context, dst []algo.Verdict, spends []Spend, verb verb) ([]algo.Verdict, error)
}

func (l *Limiter) decider(p *Policy) decider {
	switch p.Mode {
	case Local:
		return l.local
	case Synced:
		return l.synced
	}
	if p.OnStoreError == FailLocal {
		l.roster.begin() // it takes a while to know them
	}
	return l.exact
}

func (l *Limiter) one(ds []Decision, err error) (Decision, error) {
	if err != nil {
		return Decision{}, err
	}
	return ds[0], nil
}

// decide decides spends, all or nothing. Those of different modes are decided
// one mode after another, the store's own last, and what the first ones have
// taken is given back if a later one denies.
func (l *Limiter) decide(ctx context.Context, spends []Spend, verb verb) ([]Decision, error) {
	ds := make([]Decision, len(spends))
	var room [3]part
	parts := l.split(room[:0], spends)
	for i, p := range parts {
		admitted, err := l.decideOn(ctx, p, verb, ds)
		if err == nil && (admitted || verb != take) {
			continue
		}
		if back := l.giveBack(ctx, parts[:i], ds); err == nil {
			err = back
		}
		if err != nil {
			return nil, err
		}
		verb = peek // what remains under the others
	}
	return ds, nil
}

// decideOn decides p, with its decider or without, and writes the decisions to
// their places in ds. It reports whether all of p is allowed.
func (l *Limiter) decideOn(ctx context.Context, p part, verb verb, ds []Decision) (bool, error) {
	var space [4]algo.Verdict
	var verdicts []algo.Verdict
	var err error
	switch by := p.by.(type) { // calls that the compiler can see through keep space off the heap
	case *backend:
		verdicts, err = by.do(ctx, space[:0], p.spends, verb)
	case *synced:
		verdicts, err = by.do(ctx, space[:0], p.spends, verb)
	}
	if err != nil {
		return l.without(ctx, p, verb, ds, err)
	}
	return p.put(ds, verdicts), nil
}

// giveBack undoes the takes of parts and corrects what their decisions in ds
// report. What was decided without a store is left as it is.
func (l *Limiter) giveBack(ctx context.Context, parts []part, ds []Decision) error {
	var failed error
	for _, p := range parts {
		if ds[p.place(0)].Degraded {
			continue
		}
		back := make([]Spend, len(p.spends))
		for i, s := range p.spends {
			back[i] = Spend{s.Policy, s.Key, -s.Cost}
		}
		verdicts, err := p.by.do(context.WithoutCancel(ctx), nil, back, take)
		if err != nil {
			failed = err
			continue
		}
		p.put(ds, verdicts)
	}
	return failed
}

// part is those of a decision's spends that have one decider, and where their
// decisions belong: nil for all of them in their order.
type part struct {
	by     decider
	spends []Spend
	at     []int
}

func (p part) place(i int) int {
	if p.at == nil {
		return i
	}
	return p.at[i]
}

// split appends to parts spends divided by their deciders, the exact one last.
func (l *Limiter) split(parts []part, spends []Spend) []part {
	if len(spends) == 0 {
		return parts
	}
	by := l.decider(spends[0].Policy)
	if !slices.ContainsFunc(spends, func(s Spend) bool { return l.decider(s.Policy) != by }) {
		return append(parts, part{by: by, spends: spends})
	}
	for _, by := range []decider{l.local, l.synced, l.exact} {
		p := part{by: by}
		for i, s := range spends {
			if l.decider(s.Policy) == by {
				p.spends = append(p.spends, s)
				p.at = append(p.at, i)
			}
		}
		if len(p.spends) > 0 && !slices.ContainsFunc(parts, func(o part) bool { return o.by == by }) {
			parts = append(parts, p)
		}
	}
	return parts
}

// put writes what verdicts say to p's places in ds and reports whether all are OK.
func (p part) put(ds []Decision, verdicts []algo.Verdict) bool {
	ok := true
	for i, v := range verdicts {
		ds[p.place(i)].set(p.spends[i].Policy, &v)
		ok = ok && v.OK
	}
	return ok
}
