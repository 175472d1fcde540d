package limittest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Subject is something that decides, and so can be put to a Script. A policy
// may come again with another limit and then applies to what was spent before.
type Subject interface {
	// At sets the clock by which the calls that follow are decided.
	At(now algo.Ticks)
	Take(p *limit.Policy, key string, cost int64) (limit.Decision, error)
	Peek(p *limit.Policy, key string, cost int64) (limit.Decision, error)
	Refund(p *limit.Policy, key string, cost int64) (limit.Decision, error)
	Reset(p *limit.Policy, key string) error
}

// Gauge is a Subject that can say how much of a quota is in use. Lines with
// used are checked against a Gauge and left out with others.
type Gauge interface {
	Used(p *limit.Policy, key string) float64
}

// Coarse is a Subject that tells spans rounded up to a multiple of Grain, as a
// protocol may.
type Coarse interface {
	Grain() time.Duration
}

// Pure returns a Subject that is the algorithms alone, over a map. It is a Gauge.
func Pure() Subject { return &cellSubject{cells: mapCells{}} }

// OverStore returns a Subject that decides on s through Update. advance moves
// the clock of s, which stands still otherwise, from one instant to the next;
// nil: decisions are made by the script's instants instead of the clock of s.
// Failures to set the clock are errors of t. It is a Gauge.
//
// At the first At the clock of s is moved on until it is a multiple of 365 days
// from the script's: then the frames of all windows that divide 365 days lie
// alike on both. It cannot be stepped back.
func OverStore(t testing.TB, s limit.Store, advance func(t testing.TB, d time.Duration)) Subject {
	cells := &storeCells{ctx: t.Context(), store: s}
	if advance != nil {
		cells.clock = &clock{t: t, store: s, advance: advance}
	}
	return &cellSubject{cells: cells}
}

// LimiterOver returns a Subject that is a Limiter on s, by whichever fast path s
// has. advance moves the clock of s, as in OverStore, and cannot be nil. The
// Limiter remembers no denials, since it would do so by the clock on the wall.
func LimiterOver(t testing.TB, s limit.Store, advance func(t testing.TB, d time.Duration)) Subject {
	l := limit.New(s, &limit.Options{MaxDenials: -1, Timeout: patience})
	t.Cleanup(func() { l.Close() })
	return OverLimiter(t.Context(), l, (&clock{t: t, store: s, advance: advance}).set)
}

// OverLimiter returns a Subject that is l. set sets the clock of its store.
func OverLimiter(ctx context.Context, l *limit.Limiter, set func(now algo.Ticks)) Subject {
	return &limiterSubject{ctx: ctx, limiter: l, set: set}
}

// cells is where a cellSubject keeps States, and its clock.
type cells interface {
	set(now algo.Ticks)
	// update calls change with the State of key and keeps what it returns, if
	// that is another, for ttl.
	update(key string, change func(now algo.Ticks, s algo.State) (after algo.State, ttl algo.Ticks)) error
}

type cellSubject struct{ cells cells }

func (s *cellSubject) At(now algo.Ticks) { s.cells.set(now) }

func (s *cellSubject) Take(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	return s.decide(p, key, cost, true)
}

func (s *cellSubject) Peek(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	return s.decide(p, key, cost, false)
}

func (s *cellSubject) Refund(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	return s.decide(p, key, -cost, true)
}

func (s *cellSubject) decide(p *limit.Policy, key string, cost int64, keep bool) (limit.Decision, error) {
	var v algo.Verdict
	err := s.cells.update(limit.StoreKey(p, key), func(now algo.Ticks, before algo.State) (algo.State, algo.Ticks) {
		var after algo.State
		after, v = p.Decide(before, now, cost)
		if keep {
			return after, v.ResetAfter
		}
		if v.OK {
			_, v = p.Decide(before, now, 0) // what remains without this spend
		}
		return before, 0
	})
	return decision(p, v), err
}

func (s *cellSubject) Reset(p *limit.Policy, key string) error {
	return s.cells.update(limit.StoreKey(p, key), func(algo.Ticks, algo.State) (algo.State, algo.Ticks) {
		return algo.State{}, 0
	})
}

func (s *cellSubject) Used(p *limit.Policy, key string) (used float64) {
	err := s.cells.update(limit.StoreKey(p, key), func(now algo.Ticks, state algo.State) (algo.State, algo.Ticks) {
		used = p.Algorithm.Used(p.Limit(), state, now)
		return state, 0
	})
	if err != nil {
		return math.NaN()
	}
	return used
}

func decision(p *limit.Policy, v algo.Verdict) limit.Decision {
	return limit.Decision{
		Policy:     p.Name,
		Allowed:    v.OK,
		Limit:      p.Quota,
		Remaining:  v.Remaining,
		RetryAfter: time.Duration(v.RetryAfter) * time.Microsecond,
		ResetAfter: time.Duration(v.ResetAfter) * time.Microsecond,
	}
}

type limiterSubject struct {
	ctx     context.Context
	limiter *limit.Limiter
	set     func(now algo.Ticks)
}

func (s *limiterSubject) At(now algo.Ticks) { s.set(now) }

func (s *limiterSubject) Take(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	return s.limiter.Take(s.ctx, p, key, cost)
}

func (s *limiterSubject) Peek(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	return s.limiter.Peek(s.ctx, p, key, cost)
}

func (s *limiterSubject) Refund(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	return s.limiter.Refund(s.ctx, p, key, cost)
}

func (s *limiterSubject) Reset(p *limit.Policy, key string) error {
	return s.limiter.Reset(s.ctx, p, key)
}
