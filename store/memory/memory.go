// Package memory keeps rate limit states in this process. It needs no server,
// survives no restart, and decides in the time of a hash, a lock and one look
// at the clock.
//
// Keys are spread over shards, each a mutex and a table of its own. A state is
// dropped once it equals that of a key never seen, so expiry changes no answer
// and memory follows the keys in use; no goroutine runs for it. Only a store
// that is full may have to forget a live state, and counts that in [Stats].
package memory

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Options configure a Store. The zero value is ready to use.
type Options struct {
	// MaxKeys is the most keys that are kept, at most 1<<30. The shards have
	// equal parts of it, so a store that is almost full may already forget. A
	// key takes about 80 bytes and its own length; under the log algorithm a
	// few bytes more for each spend. Defaults to 1<<20.
	MaxKeys int
	// Now is the store's clock. It must not go back; it is called with locks
	// held and must not call the store. Defaults to the system's time when
	// the store was made plus the monotonic time since, so that a system
	// clock that is set changes nothing.
	Now func() algo.Ticks
}

const (
	defaultMaxKeys = 1 << 20
	mostKeys       = 1 << 30
	mostShards     = 256
	// With fewer keys to a shard the bound would cut unevenly: the keys of a
	// shard vary by about the square root of their number.
	leastKeysPerShard = 1 << 10
)

// Store is a [limit.Store] in the memory of this process. It is safe for
// simultaneous use. Its Taker is the fast way: Take does not allocate for a
// known key of up to 128 bytes, its policy's name included.
type Store struct {
	shards []shard
	seed   maphash.Seed
	now    func() algo.Ticks
	closed atomic.Bool

	updates sync.Pool // of *update
}

var (
	_ limit.Store  = (*Store)(nil)
	_ limit.Taker  = (*Store)(nil)
	_ limit.Lister = (*Store)(nil)
)

// New returns an empty Store. A nil o is the zero Options.
func New(o *Options) *Store {
	if o == nil {
		o = &Options{}
	}
	keys := min(o.MaxKeys, mostKeys)
	if keys <= 0 {
		keys = defaultMaxKeys
	}
	s := &Store{
		shards: make([]shard, shardsFor(keys)),
		seed:   maphash.MakeSeed(),
		now:    o.Now,
	}
	if s.now == nil {
		s.now = monotonic(time.Now())
	}
	for i := range s.shards {
		most := keys / len(s.shards)
		if i < keys%len(s.shards) {
			most++
		}
		s.shards[i].init(most)
	}
	return s
}

// shardsFor returns a power of two.
func shardsFor(keys int) int {
	n := min(max(keys/leastKeysPerShard, 1), mostShards)
	return 1 << (bits.Len(uint(n)) - 1)
}

// monotonic returns a clock that reads start's wall time at start and is never
// set. It reads one system clock where time.Now reads two.
func monotonic(start time.Time) func() algo.Ticks {
	began := algo.Ticks(start.UnixMicro())
	return func() algo.Ticks { return began + algo.Ticks(time.Since(start)/time.Microsecond) }
}

// Delete forgets keys: see [limit.Store]. Keys are forgotten one by one.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.ready(ctx, "delete", keys); err != nil {
		return err
	}
	for _, k := range keys {
		key := []byte(k)
		h := maphash.Bytes(s.seed, key)
		sh := s.shard(h)
		sh.mu.Lock()
		if i := sh.find(h, key); i >= 0 {
			sh.remove(i)
		}
		sh.mu.Unlock()
	}
	return nil
}

// Ping fails only after Close or if ctx is done.
func (s *Store) Ping(ctx context.Context) error { return s.ready(ctx, "ping", nil) }

// Close forgets everything and gives the memory back.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.table = newTable()
		sh.mu.Unlock()
	}
	return nil
}

// Stats says what a Store holds and what it has dropped.
type Stats struct {
	// Keys is the number of keys kept now. Some of them may have expired and
	// wait to be dropped.
	Keys int
	// Expired counts the states that were dropped because they had expired.
	Expired uint64
	// Forgotten counts the live states that were dropped for want of room:
	// each is a key that may have got more than its limit. If it grows, raise
	// MaxKeys.
	Forgotten uint64
}

// Stats returns what the store holds at this moment. It locks one shard after
// the other.
func (s *Store) Stats() Stats {
	var all Stats
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		all.Keys += sh.n
		all.Expired += sh.expired
		all.Forgotten += sh.forgotten
		sh.mu.Unlock()
	}
	return all
}

// shard returns the shard of the key whose hash is h. The table inside goes by
// other bits of the hash.
func (s *Store) shard(h uint64) *shard { return &s.shards[s.shardIndex(h)] }

func (s *Store) shardIndex(h uint64) int { return int(h>>8) & (len(s.shards) - 1) }

// ready returns why op cannot be done with keys, if so.
func (s *Store) ready(ctx context.Context, op string, keys []string) error {
	if s.closed.Load() {
		return fault(op, limit.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return fault(op, err)
	}
	for _, k := range keys {
		if len(k) == 0 || len(k) > limit.MaxKeyLen {
			return fault(op, limit.ErrKeyLen)
		}
	}
	return nil
}

func fault(op string, err error) error {
	return &limit.StoreError{Store: "memory", Op: op, Err: err}
}
