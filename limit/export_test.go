package limit

// Known returns what this node knows of key in Synced mode: the units in use
// by what the store last said, and those that it has spent since.
func (l *Limiter) Known(p *Policy, key string) (global, own int64) {
	k := StoreKey(p, key)
	shard := l.synced.shardOf(k)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	c := shard.cells[k]
	if c == nil || !c.known {
		return 0, 0
	}
	global = int64(p.algorithm().Used(p.Limit(), c.global, max(c.global.At, l.synced.clock.now())))
	return global, c.unknown()
}

// Keys returns how many keys Synced mode keeps.
func (l *Limiter) Keys() int64 { return l.synced.count.Load() }

// Pending returns how many hits of key this node keeps to tell the store.
func (l *Limiter) Pending(p *Policy, key string) int {
	k := StoreKey(p, key)
	shard := l.synced.shardOf(k)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	c := shard.cells[k]
	return len(c.pending) + len(c.away)
}
