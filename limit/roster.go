package limit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

const (
	// rosterKey is the store key of the roster. No algorithm's ID is 'n'.
	rosterKey = "nodes"
	// beatEvery is how often a node says that it lives.
	beatEvery = 2 * time.Second
	// beatsMissed is how many beats a node may miss.
	beatsMissed = 5
	// maxNodes bounds the roster.
	maxNodes = 4096
)

// NodesObserver is an Observer that is also told how many nodes share the store.
type NodesObserver interface {
	// Nodes: so many nodes, this one included, live.
	Nodes(n int)
}

// roster counts the nodes that share a store. Each writes its name and the
// store's time into one cell, again and again, and strikes out those that have
// not done so for a while. It begins with the first question; before the first
// answer, and from a store that fails, a node knows what it knew: at first, of
// itself.
type roster struct {
	store   Store
	breaker *breaker // nil if the store is not guarded by one
	timeout time.Duration
	tasks   *tasks
	observe NodesObserver // nil if nobody is told
	alone   bool          // the store is this process's own

	once    sync.Once
	name    uint64
	count   atomic.Int64
	settled atomic.Bool // all who were there before this node know it
}

// begin makes the roster get to know the nodes.
func (r *roster) begin() {
	r.once.Do(func() {
		if r.alone {
			r.settled.Store(true)
			return
		}
		var b [8]byte
		rand.Read(b[:])
		r.name = binary.BigEndian.Uint64(b[:])
		r.tasks.start(r.beatAll)
	})
}

// nodes returns how many nodes live, 1 or more.
func (r *roster) nodes() int {
	r.begin()
	return int(max(1, r.count.Load()))
}

// share returns this node's share of units that are for all nodes: none until
// the others know that they share them with this one.
func (r *roster) share(units int64) int64 {
	n := r.nodes()
	if !r.settled.Load() {
		return 0
	}
	return units / int64(n)
}

func (r *roster) beatAll(ctx context.Context) {
	for beats := 0; ; beats++ {
		r.settled.Store(beats > 1 && r.count.Load() > 0)
		if r.breaker == nil || r.breaker.allows() {
			r.beat(ctx, time.Now().Add(r.timeout))
		}
		if !pause(ctx, beatEvery) {
			r.leave()
			return
		}
	}
}

// beat writes this node's name into the roster.
func (r *roster) beat(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	living := 0
	err := r.update(ctx, func(now algo.Ticks, nodes map[uint64]algo.Ticks) {
		nodes[r.name] = now
		living = len(nodes)
	})
	if r.breaker != nil && ctx.Err() != context.Canceled {
		r.breaker.report(err)
	}
	if err == nil && r.count.Swap(int64(living)) != int64(living) && r.observe != nil {
		r.observe.Nodes(living)
	}
}

// leave strikes this node out, so that the others need not find out. It is
// tried once: they will find out.
func (r *roster) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	r.update(ctx, func(_ algo.Ticks, nodes map[uint64]algo.Ticks) { delete(nodes, r.name) })
}

// update changes the nodes of the roster that live.
func (r *roster) update(ctx context.Context, change func(now algo.Ticks, nodes map[uint64]algo.Ticks)) error {
	const patience = beatsMissed * algo.Ticks(beatEvery/time.Microsecond)
	return r.store.Update(ctx, []string{rosterKey}, func(now algo.Ticks, cells []Cell) error {
		nodes := make(map[uint64]algo.Ticks)
		for log := cells[0].State.Entries(); len(log) >= 16 && len(nodes) < maxNodes; log = log[16:] {
			name := binary.BigEndian.Uint64([]byte(log[:8]))
			if seen := algo.Ticks(binary.BigEndian.Uint64([]byte(log[8:16]))); now-seen < patience {
				nodes[name] = seen
			}
		}
		change(now, nodes)
		entries := make([]byte, 0, 16*len(nodes))
		for name, seen := range nodes {
			entries = binary.BigEndian.AppendUint64(entries, name)
			entries = binary.BigEndian.AppendUint64(entries, uint64(seen))
		}
		cells[0].State = algo.State{At: max(now, cells[0].State.At)}.WithEntries(string(entries))
		cells[0].TTL, cells[0].Dirty = 2*patience, true
		return nil
	})
}
