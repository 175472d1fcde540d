package limit

import (
	"cmp"
	"context"
	"hash/maphash"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// maxTries is how often a round tries a key that others write, too.
const maxTries = 5

func (y *synced) shardOf(key string) *syncShard {
	return &y.shards[maphash.String(y.seed, key)%uint64(len(y.shards))]
}

// loop sees to it that there is a round now and then, as long as there are keys.
func (y *synced) loop() {
	if !y.looping.CompareAndSwap(false, true) {
		return
	}
	started := y.opts.tasks.start(func(ctx context.Context) {
		for pause(ctx, y.opts.every) {
			y.sync(ctx)
			if y.count.Load() == 0 {
				y.looping.Store(false)
				if y.count.Load() == 0 || !y.looping.CompareAndSwap(false, true) {
					return
				}
			}
		}
	})
	if !started {
		y.looping.Store(false)
	}
}

// sync is one round: it tells the store what is pending and learns what the
// others have spent, of every key that is in use.
//
// Keys that others write all the time may have to wait for the next round.
func (y *synced) sync(ctx context.Context) error {
	_, err := y.syncOnce(ctx)
	return err
}

// syncAll is rounds until nothing is pending.
func (y *synced) syncAll(ctx context.Context) error {
	for {
		if left, err := y.syncOnce(ctx); left == 0 || err != nil {
			return err
		}
	}
}

// syncOnce is sync, and returns how many keys have to wait.
func (y *synced) syncOnce(ctx context.Context) (left int, err error) {
	y.round.Lock()
	defer y.round.Unlock()
	r := round{y: y, began: time.Now()}
	talk := y.collect()
	r.keys = len(talk)
	for try := 0; len(talk) > 0 && try < maxTries; try++ {
		var again []*syncCell
		for len(talk) > 0 {
			n := min(len(talk), y.opts.maxBatch)
			again = append(again, r.swap(ctx, talk[:n])...)
			talk = talk[n:]
		}
		talk = again
	}
	y.release(talk)
	y.rounds.Add(1)
	y.sweep()
	if y.opts.observer != nil && r.keys > 0 {
		y.opts.observer.Synced(r.keys, r.calls, r.conflicts, time.Since(r.began), r.err)
	}
	return len(talk), r.err
}

// collect takes along what is pending of the active cells. They are the round's
// until they are released.
func (y *synced) collect() (talk []*syncCell) {
	for i := range y.shards {
		shard := &y.shards[i]
		shard.mu.Lock()
		kept := shard.active[:0]
		for _, c := range shard.active {
			if c.gone || len(c.pending) == 0 && !c.flying && y.rounds.Load()-c.round > lively {
				c.active = false
				continue
			}
			kept = append(kept, c)
			if !c.flying {
				c.takeAlong()
				talk = append(talk, c)
			}
		}
		clear(shard.active[len(kept):])
		shard.active = kept
		shard.mu.Unlock()
	}
	return talk
}

// release makes pending again what cells could not tell in this round.
func (y *synced) release(cells []*syncCell) {
	for _, c := range cells {
		shard := y.shardOf(c.key)
		shard.mu.Lock()
		c.putBack()
		shard.mu.Unlock()
	}
}

// putBack ends the round for c, which has not told what is away. The shard is
// locked.
func (c *syncCell) putBack() {
	c.comeBack()
	close(c.landed)
}

// round is one round, and what is told of it.
type round struct {
	y                      *synced
	began                  time.Time
	keys, calls, conflicts int
	err                    error
}

// swap talks to the store about cells and returns those that others have written
// meanwhile.
func (r *round) swap(ctx context.Context, cells []*syncCell) (again []*syncCell) {
	asked := make([]Cell, len(cells))
	now := r.y.clock.now()
	for i, c := range cells {
		shard := r.y.shardOf(c.key)
		shard.mu.Lock()
		asked[i] = c.tell(now)
		shard.mu.Unlock()
	}
	told := append([]Cell(nil), asked...)
	r.calls++
	err := r.y.call(ctx, told)
	r.err = cmp.Or(r.err, err)
	for i, c := range cells {
		shard := r.y.shardOf(c.key)
		shard.mu.Lock()
		if err != nil {
			if asked[i].Dirty && wasSent(err) {
				c.wrote, c.sealed = &asked[i].State, len(c.away)
			}
			c.putBack()
		} else if !r.heard(c, asked[i], told[i]) {
			again = append(again, c)
		}
		shard.mu.Unlock()
	}
	return again
}

// tell returns c's cell with what is away, to be written if nobody has written
// since; without, to be loaded, if there is nothing to tell or what became of an
// earlier write is to be found out first. The shard is locked.
func (c *syncCell) tell(now algo.Ticks) Cell {
	cell := Cell{Key: c.key, Version: c.version}
	if c.wrote == nil && len(c.away) > 0 {
		cell.State = charge(c.policy, c.global, c.away)
		_, v := c.policy.Decide(cell.State, now, 0)
		cell.TTL, cell.Dirty = v.ResetAfter, !cell.State.Equal(c.global)
	}
	return cell
}

// heard takes in what the store has answered about c, and reports whether that
// was all for this round. The shard is locked.
func (r *round) heard(c *syncCell, asked, told Cell) bool {
	t := talk{away: c.away, wrote: c.wrote, sealed: c.sealed}
	doubtful := t.wrote != nil
	t.learn(told, told.Dirty)
	before := c.global
	c.away, c.wrote, c.sealed = t.away, nil, 0
	switch {
	case asked.Dirty && !told.Dirty:
		r.conflicts++
		c.learn(told.State, told.Version)
		return false
	case doubtful && len(c.away) > 0:
		c.learn(told.State, told.Version)
		return false
	}
	if told.Dirty {
		r.overshot(c, before, told.State)
	}
	c.away = nil
	c.learn(told.State, told.Version)
	close(c.landed)
	return true
}

// overshot reports by how much a write has gone above the limit.
func (r *round) overshot(c *syncCell, before, written algo.State) {
	if r.y.opts.observer == nil {
		return
	}
	now := max(written.At, before.At)
	above := func(s algo.State) float64 {
		l := c.policy.Limit()
		return max(0, c.policy.algorithm().Used(l, s, now)-float64(c.policy.Capacity()))
	}
	if units := int64(above(written) - above(before)); units > 0 {
		r.y.opts.observer.Overshot(c.policy.Name, units)
	}
}

// sweep forgets the keys of some shards that nobody has used for a while, and
// gives back the memory that they took.
func (y *synced) sweep() {
	const perRound = 8
	idle := max(2, int64(y.opts.idle/y.opts.every))
	for range perRound {
		shard := &y.shards[y.swept%len(y.shards)]
		y.swept++
		shard.mu.Lock()
		for _, c := range shard.cells {
			if c.arrival == nil && !c.active && !c.flying && y.rounds.Load()-c.round > idle {
				y.drop(shard, c)
			}
		}
		if len(shard.cells) < shard.peak/4 {
			smaller := make(map[string]*syncCell, len(shard.cells))
			for key, c := range shard.cells {
				smaller[key] = c
			}
			shard.cells, shard.peak = smaller, len(smaller)
			shard.active = append([]*syncCell(nil), shard.active...)
		}
		shard.mu.Unlock()
	}
}
