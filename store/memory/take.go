package memory

import (
	"context"
	"hash/maphash"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Take decides one spend: see [limit.Taker]. p must have passed its Check. It
// never waits for anything but a shard's lock and does not look at ctx.
func (s *Store) Take(_ context.Context, p *limit.Policy, key string, cost int64) (algo.Verdict, error) {
	// Joined on the stack: only a key that is new gets memory of its own.
	var space [128]byte
	joined := limit.AppendStoreKey(space[:0], p, key)
	if len(joined) > limit.MaxKeyLen || len(p.Name) > limit.MaxNameLen {
		return algo.Verdict{}, fault("take", limit.ErrKeyLen)
	}
	if s.closed.Load() {
		return algo.Verdict{}, fault("take", limit.ErrClosed)
	}
	h := maphash.Bytes(s.seed, joined)
	sh := s.shard(h)

	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	i := sh.find(h, joined)
	before := sh.read(i, now)
	after, v := p.Decide(before, now, cost)
	if after != before {
		sh.write(i, h, joined, after, now, v.ResetAfter)
	}
	return v, nil
}
