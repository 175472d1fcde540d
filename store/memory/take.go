package memory

import (
	"context"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Take decides one spend: see [limit.Taker]. p must have passed its Check. It
// never waits for anything but a shard's lock and does not look at ctx.
func (s *Store) Take(_ context.Context, p *limit.Policy, key string, cost int64) (algo.Verdict, error) {
	a := p.Algorithm
	if a == nil {
		a = algo.GCRA
	}
	var k storeKey // its fields set one by one: a literal would be built elsewhere and copied
	k.algorithm, k.policy, k.rest = a.ID, p.Name, key
	if k.len() > limit.MaxKeyLen || len(p.Name) > limit.MaxNameLen {
		return algo.Verdict{}, fault("take", limit.ErrKeyLen)
	}
	if s.closed.Load() {
		return algo.Verdict{}, fault("take", limit.ErrClosed)
	}
	l := p.Limit()
	h := k.hash(s.seed)
	sh := s.shard(h)

	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	i := sh.find(h, &k)
	before := sh.read(i, now)
	after, v := a.Decide(l, before, now, cost)
	if after != before {
		sh.write(i, h, &k, after, now, v.ResetAfter)
	}
	return v, nil
}
