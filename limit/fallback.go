package limit

import (
	"context"
	"errors"

	"github.com/stint-dev/stint/limit/algo"
)

// without decides p after the store has failed with failure, as the policies'
// OnStoreError says.
func (l *Limiter) without(ctx context.Context, p part, verb verb, ds []Decision, failure error) (bool, error) {
	if _, ok := errors.AsType[*StoreError](failure); !ok {
		return false, failure // the caller's own doing
	}
	for i, s := range p.spends {
		switch fail := s.Policy.OnStoreError; {
		case fail == FailError, fail == FailLocal && p.by == l.local:
			return false, failure
		}
		ds[p.place(i)] = Decision{Policy: s.Policy.Name, Allowed: true, Limit: s.Policy.Quota}
	}
	allowed, err := l.shares(ctx, p, verb, ds)
	for i := range p.spends {
		ds[p.place(i)].Degraded = true
	}
	return allowed, err
}

// shares decides those of p that are FailLocal by this node's share of their
// limits.
func (l *Limiter) shares(ctx context.Context, p part, verb verb, ds []Decision) (bool, error) {
	var here part
	for i, s := range p.spends {
		if s.Policy.OnStoreError == FailLocal {
			s.Policy = share(s.Policy, int64(l.roster.nodes()), s.Cost)
			here.spends = append(here.spends, s)
			here.at = append(here.at, p.place(i))
		}
	}
	if len(here.spends) == 0 {
		return true, nil
	}
	var space [4]algo.Verdict
	verdicts, err := l.local.do(ctx, space[:0], here.spends, verb)
	if err != nil {
		return false, err
	}
	return here.put(ds, verdicts), nil
}

// share returns what is left of p for one of n nodes that do not know of each
// other. It is rounded up, so that a limit of 1 does not become one of 0, and
// admits at least cost.
func share(p *Policy, n, cost int64) *Policy {
	if n == 1 {
		return p
	}
	each := func(units int64) int64 { return (units-1)/n + 1 }
	s := *p
	if p.Quota == 0 {
		return p
	}
	limit := p.Limit()
	s.Quota = each(limit.Quota)
	if p.algorithm().Bursts {
		s.Burst = max(cost, each(limit.Burst))
	} else {
		s.Quota = max(cost, s.Quota)
	}
	return &s
}
