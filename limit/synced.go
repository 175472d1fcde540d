package limit

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// SyncObserver is an Observer that is also told how Synced mode gets on.
type SyncObserver interface {
	// Synced: a round for so many keys took so many calls of the store and so
	// long, and met so many keys that another node had changed meanwhile.
	Synced(keys, calls, conflicts int, took time.Duration, err error)
	// Overshot: so many units were admitted above the limit of a policy.
	Overshot(policy string, units int64)
}

// synced decides for Synced mode: by what the store has said of a key and what
// this node has spent since. It tells the store in the background, round by
// round, in bulk.
//
// What was spent is kept with its instant, and charged to it on whatever the
// store has by then. So a hit counts in the window that it fell into, and two
// nodes that write one key lose nothing: the slower one charges its own to what
// the faster has written.
//
// The overshoot. Let N nodes share a key. Between two rounds a node does not see
// what the others admit, and each admits at most the capacity: so together at
// most N times that. Under Policy.MaxOvershoot, M, no node has more than M/N units
// that the store does not know. A node stops admitting when the store's count
// and its own reach the limit; by then the store may lack M/N units of each node
// and no more, so at most M above the limit were ever admitted.
type synced struct {
	store    Swapper
	exact    *backend // resets, and decides what there is no room for here
	opts     syncOptions
	clock    storeClock
	seed     maphash.Seed
	shards   [64]syncShard
	count    atomic.Int64 // of keys
	round    sync.Mutex   // held by who syncs
	rounds   atomic.Int64
	swept    int // shards, by rounds
	arrivals arrivals
	looping  atomic.Bool
}

type syncOptions struct {
	every    time.Duration
	idle     time.Duration // after which a key is forgotten here
	maxKeys  int
	maxBatch int
	timeout  time.Duration
	share    func(units int64) int64 // this node's, of what all nodes may do
	observer SyncObserver            // nil if nobody is told
	tasks    *tasks
}

// lively is for how many rounds after its last use a key is kept up to date. One
// that is used again later is asked for again, as if it were new.
const lively = 5

// syncShard is a part of the keys.
type syncShard struct {
	mu     sync.Mutex
	cells  map[string]*syncCell
	active []*syncCell // those that every round is about
	peak   int         // the most that cells has held: a map does not shrink
}

// syncCell is one key. Its shard's mutex guards it. What every decision needs
// comes first, for the processor's cache.
type syncCell struct {
	state   algo.State // global with all that is away and pending
	policy  *Policy    // that was decided by last
	arrival *arrival   // nil unless the store is being asked for the key
	pending []hit      // that the store is to be told
	round   int64      // in which it was last used
	known   bool       // the store has told of it
	active  bool       // among its shard's: what is known is kept up to date
	gone    bool       // reset or forgotten: not in the map any more
	reset   bool       // while the store was being asked: what it says may be from before
	flying  bool       // somebody decides for its line
	sealed  int        // of pending, see wrote

	key     string
	global  algo.State // as the store has said
	version int64
	away    []hit         // that the store is being told
	landed  chan struct{} // closed when that has ended
	// wrote is what a write of unknown outcome has written, if it did: it told of
	// the first sealed of what is pending now.
	wrote *algo.State
	line  []*standing // who wait for a decision with the store, see stand
	first [1]hit      // room for what is most often pending
}

// hit is units that were spent at an instant, or given back if negative.
type hit struct {
	at    algo.Ticks
	units int64
}

// storeClock is the store's clock as far as a node can know it without asking.
// It is never ahead of the truth, so that nobody is admitted too early.
type storeClock struct{ told atomic.Pointer[told] }

// told is a time that the store has told. It had read its clock before that.
type told struct {
	at       algo.Ticks
	answered time.Time
}

func (c *storeClock) set(at algo.Ticks) { c.told.Store(&told{at, time.Now()}) }

// now returns the store's time, which has been told before.
func (c *storeClock) now() algo.Ticks {
	t := c.told.Load()
	return t.at + ticks(time.Since(t.answered))
}

func newSynced(exact *backend, o syncOptions) *synced {
	y := &synced{store: swapperOver(exact.store), exact: exact, opts: o, seed: maphash.MakeSeed()}
	for i := range y.shards {
		y.shards[i].cells = make(map[string]*syncCell)
	}
	return y
}

// do applies verb to spends and appends a verdict for each to dst. It takes them
// one after another and gives back those before a denial: that is in memory, and
// costs nobody a trip.
func (y *synced) do(ctx context.Context, dst []algo.Verdict, spends []Spend, verb verb) ([]algo.Verdict, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	from, denied := len(dst), false
	for i, s := range spends {
		v, err := y.one(ctx, s, verb)
		if err == nil && (v.OK || verb != take) {
			dst = append(dst, v)
			continue
		}
		for j, taken := range spends[:i] {
			if denied {
				break // given back already
			}
			back, failed := y.one(context.WithoutCancel(ctx), Spend{taken.Policy, taken.Key, -taken.Cost}, take)
			if failed == nil {
				dst[from+j] = back
			}
		}
		if err != nil {
			return dst[:from], err
		}
		dst = append(dst, v)
		denied, verb = true, peek
	}
	return dst, nil
}

// one applies verb to s.
func (y *synced) one(ctx context.Context, s Spend, verb verb) (v algo.Verdict, err error) {
	var room [MaxKeyLen]byte
	key := AppendStoreKey(room[:0], s.Policy, s.Key)
	shard := &y.shards[maphash.Bytes(y.seed, key)%uint64(len(y.shards))]
	if verb == reset {
		return v, y.forget(ctx, shard, string(key), s)
	}
	shard.mu.Lock()
	c := shard.cells[string(key)]
	if c == nil || !c.active {
		shard.mu.Unlock()
		return y.arrive(ctx, shard, string(key), s, verb)
	}
	v, decided := y.decide(c, s, verb)
	if decided {
		shard.mu.Unlock()
		return v, nil
	}
	w := c.stand(s)
	fly := !c.flying
	c.flying = true
	shard.mu.Unlock()
	if fly {
		go y.fly(shard, c)
	}
	return w.wait(ctx, y.opts.timeout)
}

// decide applies verb to s on what is known here, and reports whether it could:
// an admission that would leave more pending than MaxOvershoot allows needs the
// store. The shard is locked.
func (y *synced) decide(c *syncCell, s Spend, verb verb) (algo.Verdict, bool) {
	now := y.clock.now()
	c.policy, c.round = s.Policy, y.rounds.Load()
	state, v := s.Policy.Decide(c.state, now, s.Cost)
	switch {
	case verb == peek && v.OK:
		_, v = s.Policy.Decide(c.state, now, 0) // what remains without this spend
		return v, true
	case verb == peek || !v.OK || s.Cost == 0:
		return v, true
	case s.Cost > 0 && s.Policy.MaxOvershoot > 0 && (c.flying || c.unknown()+s.Cost > y.opts.share(s.Policy.MaxOvershoot)):
		return v, false
	}
	c.state = state
	c.spend(now, s.Cost)
	return v, true
}

// unknown returns how many units the store has not been told of.
func (c *syncCell) unknown() (units int64) {
	for _, hits := range [][]hit{c.pending, c.away} {
		for _, h := range hits {
			units += max(0, h.units)
		}
	}
	return units
}

// spend adds to what is pending. Hits of a small part of one frame are one hit,
// but for the log, which keeps instants.
func (c *syncCell) spend(at algo.Ticks, units int64) {
	window := ticks(c.policy.Window)
	if n := len(c.pending); n > c.sealed {
		last := &c.pending[n-1]
		near := last.at/window == at/window && at-last.at <= window/256 && c.policy.algorithm() != algo.Log
		if (near || last.at == at) && (last.units < 0) == (units < 0) {
			last.at = at
			last.units += units
			return
		}
	}
	switch {
	case c.pending == nil:
		c.pending = c.first[:0]
	case len(c.pending) >= maxPending+c.sealed:
		c.condense(at)
	}
	c.pending = append(c.pending, hit{at, units})
}

// maxPending bounds the hits that a node keeps of a key while it cannot tell the
// store.
const maxPending = 1024

// condense makes room: hits of windows that count no more are dropped, and those
// of one frame become one, at the instant of the latest.
func (c *syncCell) condense(now algo.Ticks) {
	window := ticks(c.policy.Window)
	kept := c.pending[:c.sealed]
	for _, h := range c.pending[c.sealed:] {
		last := len(kept) - 1
		switch {
		case c.policy.algorithm() != algo.GCRA && h.at < now-2*window:
		case last >= c.sealed && kept[last].at/window == h.at/window && (kept[last].units < 0) == (h.units < 0):
			kept[last] = hit{h.at, kept[last].units + h.units}
		default:
			kept = append(kept, h)
		}
	}
	c.pending = kept
}

// charge returns s with hits under p.
func charge(p *Policy, s algo.State, hits []hit) algo.State {
	limit, a := p.Limit(), p.algorithm()
	for _, h := range hits {
		if h.units >= 0 {
			s = a.Charge(limit, s, h.at, h.units)
		} else {
			s, _ = a.Decide(limit, s, h.at, h.units)
		}
	}
	return s
}

// activate makes c one of those that are kept up to date. The shard is locked.
func (s *syncShard) activate(c *syncCell) {
	if !c.active && !c.gone {
		c.active = true
		s.active = append(s.active, c)
	}
}

// learn takes in what the store has, which is without what is away and pending.
func (c *syncCell) learn(state algo.State, version int64) {
	c.global, c.version, c.known = state, version, true
	c.state = charge(c.policy, charge(c.policy, state, c.away), c.pending)
}

// takeAlong makes what is pending away, and c busy until it has landed. c.away is
// then not nil, even if there is nothing in it.
func (c *syncCell) takeAlong() {
	c.away = append(make([]hit, 0, len(c.pending)), c.pending...)
	c.pending = c.pending[:0]
	c.landed = make(chan struct{})
}

// comeBack makes what is away pending again: the store did not take it.
func (c *syncCell) comeBack() {
	c.pending = append(c.away, c.pending...)
	c.away = nil
}
