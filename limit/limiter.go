package limit

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	// Observer, if set, is told what the limiter does.
	Observer Observer
}

// Observer is told what a Limiter does. Its methods are called on the way of
// a request and must not block.
type Observer interface {
	// Updated: one update of the store, for so many spends, took so long.
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
// an update is under way go to the store together in the next one; and a key
// that the store has denied is denied from memory until the moment at which
// the answer could change, since until then units are only spent.
type Limiter struct {
	exact, local *backend
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

	l := &Limiter{exact: newBackend(s, opts), timeout: opts.Timeout}
	l.local = l.exact
	if opts.Local != nil && opts.Local != s {
		l.local = newBackend(opts.Local, opts)
	}
	return l
}

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
	b := l.backend(p)
	if b.taker == nil {
		return l.one(l.decide(ctx, []Spend{{p, key, cost}}, take))
	}
	v, err := b.taker.Take(ctx, p, key, cost)
	if err != nil {
		return l.takeWithout(ctx, b, Spend{p, key, cost}, err)
	}
	d.set(p, &v)
	return d, nil
}

// TakeAll spends every one of spends, or none of them. A denial by one policy
// spends nothing under the others: their decisions are Allowed and report what
// remains without this spend.
//
// Spends under Local and under Exact policies lie in two stores; the local
// ones are then spent first and given back if the store denies the rest.
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
	_, err := l.backend(p).do(ctx, nil, []Spend{{p, key, 0}}, reset)
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

// takeWithout is the way out of Take's fast path when b has failed.
func (l *Limiter) takeWithout(ctx context.Context, b *backend, s Spend, failure error) (Decision, error) {
	var ds [1]Decision
	_, err := l.decideWithout(ctx, b, part{spends: []Spend{s}}, take, ds[:], failure)
	return ds[0], err
}

func (l *Limiter) backend(p *Policy) *backend {
	if p.Mode == Local {
		return l.local
	}
	return l.exact
}

func (l *Limiter) one(ds []Decision, err error) (Decision, error) {
	if err != nil {
		return Decision{}, err
	}
	return ds[0], nil
}

// decide decides spends, all or nothing.
func (l *Limiter) decide(ctx context.Context, spends []Spend, verb verb) ([]Decision, error) {
	ds := make([]Decision, len(spends))
	if b := l.only(spends); b != nil {
		_, err := l.decideOn(ctx, b, part{spends: spends}, verb, ds)
		return ds, err
	}
	here, there := split(spends, func(p *Policy) bool { return l.backend(p) == l.local })
	admitted, err := l.decideOn(ctx, l.local, here, verb, ds)
	if err != nil {
		return nil, err
	}
	rest := verb
	if !admitted && verb == take {
		rest = peek
	}
	all, err := l.decideOn(ctx, l.exact, there, rest, ds)
	if verb == take && admitted && (err != nil || !all) {
		if err := l.giveBack(ctx, here, ds); err != nil {
			return nil, err
		}
	}
	return ds, err
}

// only returns the backend of all spends, or nil if they have several.
func (l *Limiter) only(spends []Spend) *backend {
	b := l.exact
	for i, s := range spends {
		if i > 0 && l.backend(s.Policy) != b {
			return nil
		}
		b = l.backend(s.Policy)
	}
	return b
}

// decideOn decides p on b, or without b if b fails, and writes the decisions
// to their places in ds. It reports whether all of p is allowed.
func (l *Limiter) decideOn(ctx context.Context, b *backend, p part, verb verb, ds []Decision) (bool, error) {
	var space [4]algo.Verdict
	verdicts, err := b.do(ctx, space[:0], p.spends, verb)
	if err != nil {
		return l.decideWithout(ctx, b, p, verb, ds, err)
	}
	return p.put(ds, verdicts), nil
}

// decideWithout decides p after b has failed with failure, as the policies'
// OnStoreError says.
func (l *Limiter) decideWithout(ctx context.Context, b *backend, p part, verb verb, ds []Decision, failure error) (bool, error) {
	if _, ok := errors.AsType[*StoreError](failure); !ok {
		return false, failure // the caller's own doing
	}
	for i, s := range p.spends {
		switch fail := s.Policy.OnStoreError; {
		case fail == FailError, fail == FailLocal && b == l.local:
			return false, failure
		}
		ds[p.place(i)] = Decision{Policy: s.Policy.Name, Allowed: true, Limit: s.Policy.Quota}
	}
	allowed := true
	here, _ := split(p.spends, func(p *Policy) bool { return p.OnStoreError == FailLocal })
	if len(here.spends) > 0 {
		for i, at := range here.at {
			here.at[i] = p.place(at)
		}
		verdicts, err := l.local.do(ctx, nil, here.spends, verb)
		if err != nil {
			return false, err
		}
		allowed = here.put(ds, verdicts)
	}
	for i := range p.spends {
		ds[p.place(i)].Degraded = true
	}
	return allowed, nil
}

// giveBack undoes the take of p on the local store and corrects what its
// decisions in ds report.
func (l *Limiter) giveBack(ctx context.Context, p part, ds []Decision) error {
	back := make([]Spend, len(p.spends))
	for i, s := range p.spends {
		back[i] = Spend{s.Policy, s.Key, -s.Cost}
	}
	verdicts, err := l.local.do(context.WithoutCancel(ctx), nil, back, take)
	if err == nil {
		p.put(ds, verdicts)
	}
	return err
}

// part is some of a decision's spends, and where their decisions belong: nil
// for all of them in their order.
type part struct {
	spends []Spend
	at     []int
}

func (p part) place(i int) int {
	if p.at == nil {
		return i
	}
	return p.at[i]
}

func split(spends []Spend, local func(*Policy) bool) (here, there part) {
	for i, s := range spends {
		to := &there
		if local(s.Policy) {
			to = &here
		}
		to.spends = append(to.spends, s)
		to.at = append(to.at, i)
	}
	return here, there
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
