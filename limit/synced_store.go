package limit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// call swaps cells, unless the store's breaker is open.
func (y *synced) call(ctx context.Context, cells []Cell) error {
	breaker := y.exact.breaker
	if breaker != nil && !breaker.allows() {
		return &StoreError{Store: "limiter", Op: "sync", Err: ErrOpen}
	}
	ctx, cancel := context.WithTimeout(ctx, y.opts.timeout)
	defer cancel()
	now, err := y.store.Swap(ctx, cells)
	if err == nil {
		y.clock.set(now)
	}
	if breaker != nil && ctx.Err() != context.Canceled {
		breaker.report(err)
	}
	return err
}

// arrivals are the keys that this node sees for the first time, or again after a
// while. Those that arrive while some are being asked for are asked for together
// next.
type arrivals struct {
	mu     sync.Mutex
	next   *arrival
	asking bool
}

type arrival struct {
	keys []string
	done chan struct{}
	err  error
}

// arrive waits until the store has told of key, and then decides. If the store
// does not answer, what was known of the key before has to do.
func (y *synced) arrive(ctx context.Context, shard *syncShard, key string, s Spend, verb verb) (v algo.Verdict, err error) {
	shard.mu.Lock()
	c := shard.cells[key]
	if c == nil && y.count.Load() >= int64(y.opts.maxKeys) {
		shard.mu.Unlock()
		vs, err := y.exact.do(ctx, nil, []Spend{s}, verb)
		if err != nil {
			return v, err
		}
		return vs[0], nil
	}
	if c == nil {
		c = &syncCell{key: key, policy: s.Policy}
		shard.cells[key] = c
		shard.peak = max(shard.peak, len(shard.cells))
		y.count.Add(1)
	}
	if !c.active && c.arrival == nil {
		c.arrival = y.announce(key)
	}
	c.round = y.rounds.Load()
	a := c.arrival
	shard.mu.Unlock()
	if a != nil {
		patience := time.NewTimer(y.opts.timeout)
		defer patience.Stop()
		select {
		case <-a.done:
		case <-ctx.Done():
			return v, ctx.Err()
		case <-patience.C:
			return v, &StoreError{Store: "limiter", Op: "sync", Err: context.DeadlineExceeded}
		}
		if a.err != nil && !y.knows(shard, key) {
			return v, a.err
		}
	}
	return y.one(ctx, s, verb)
}

func (y *synced) knows(shard *syncShard, key string) bool {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	c := shard.cells[key]
	return c != nil && c.known
}

// announce sees to it that the store is asked for key.
func (y *synced) announce(key string) *arrival {
	y.arrivals.mu.Lock()
	defer y.arrivals.mu.Unlock()
	a := y.arrivals.next
	if a == nil || len(a.keys) >= y.opts.maxBatch {
		before := a
		a = &arrival{done: make(chan struct{})}
		y.arrivals.next = a
		if before != nil {
			go y.ask(before) // it is full
		}
	}
	a.keys = append(a.keys, key)
	if !y.arrivals.asking {
		y.arrivals.asking = true
		go y.askAll()
	}
	return a
}

// askAll asks for those who arrive until nobody does.
func (y *synced) askAll() {
	for {
		y.arrivals.mu.Lock()
		a := y.arrivals.next
		y.arrivals.next = nil
		y.arrivals.asking = a != nil
		y.arrivals.mu.Unlock()
		if a == nil {
			return
		}
		y.ask(a)
	}
}

// ask loads the keys of a.
func (y *synced) ask(a *arrival) {
	cells := make([]Cell, len(a.keys))
	for i, k := range a.keys {
		cells[i].Key = k
	}
	a.err = y.call(context.Background(), cells)
	for _, loaded := range cells {
		y.welcome(a, loaded)
	}
	close(a.done)
	if a.err == nil {
		y.loop()
	}
}

// welcome takes in what the store has said of a key, if it has.
func (y *synced) welcome(a *arrival, loaded Cell) {
	shard := y.shardOf(loaded.Key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	c := shard.cells[loaded.Key]
	if c == nil || c.arrival != a {
		return
	}
	c.arrival = nil
	switch {
	case a.err == nil && c.reset:
		c.reset = false
		c.arrival = y.announce(c.key)
	case a.err == nil:
		c.learn(loaded.State, loaded.Version)
		shard.activate(c)
	case c.known:
		shard.activate(c)
	default:
		y.drop(shard, c)
	}
}

// drop forgets c here. The shard is locked.
func (y *synced) drop(shard *syncShard, c *syncCell) {
	c.gone = true
	delete(shard.cells, c.key)
	y.count.Add(-1)
}

// forget resets s's key in the store, and here everything that is known of it.
func (y *synced) forget(ctx context.Context, shard *syncShard, key string, s Spend) error {
	if _, err := y.exact.do(ctx, nil, []Spend{s}, reset); err != nil {
		return err
	}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if c := shard.cells[key]; c != nil && c.arrival != nil {
		c.known, c.reset = false, true
	} else if c != nil {
		y.drop(shard, c)
	}
	return nil
}

// standing is a spend in line for a decision with the store.
type standing struct {
	spend   Spend
	verdict algo.Verdict
	err     error
	done    chan struct{}
}

// stand puts s in c's line. The shard is locked.
func (c *syncCell) stand(s Spend) *standing {
	w := &standing{spend: s, done: make(chan struct{})}
	c.line = append(c.line, w)
	return w
}

func (w *standing) wait(ctx context.Context, timeout time.Duration) (algo.Verdict, error) {
	patience := time.NewTimer(timeout)
	defer patience.Stop()
	select {
	case <-w.done:
		return w.verdict, w.err
	case <-ctx.Done():
		return algo.Verdict{}, ctx.Err()
	case <-patience.C:
		return algo.Verdict{}, &StoreError{Store: "limiter", Op: "sync", Sent: true, Err: context.DeadlineExceeded}
	}
}

// fly decides for c's line, all that stand in it at a time, together with the
// store: what is pending and what is admitted are written if nobody else has
// written meanwhile.
func (y *synced) fly(shard *syncShard, c *syncCell) {
	for {
		shard.mu.Lock()
		if c.away != nil { // a round is about it
			landed := c.landed
			shard.mu.Unlock()
			<-landed
			continue
		}
		line := c.line
		c.line = nil
		if c.flying = len(line) > 0; !c.flying {
			shard.mu.Unlock()
			return
		}
		c.takeAlong()
		t := talk{cell: Cell{Key: c.key, State: c.global, Version: c.version}, away: c.away, wrote: c.wrote, sealed: c.sealed}
		if c.gone { // by a reset: what was known of it holds no more
			t = talk{cell: Cell{Key: c.key}}
		}
		shard.mu.Unlock()
		err := y.decideLine(line, &t)

		shard.mu.Lock()
		if err == nil {
			c.away = nil
		} else {
			c.comeBack()
		}
		c.wrote, c.sealed = t.wrote, t.sealed
		c.learn(t.cell.State, t.cell.Version)
		close(c.landed)
		shard.mu.Unlock()
		for _, w := range line {
			w.err = err
			close(w.done)
		}
	}
}

// talk is what is known of a cell while the store is talked to about it.
type talk struct {
	cell   Cell
	away   []hit
	wrote  *algo.State
	sealed int
}

// decideLine decides for everyone in line, one after another, on top of what is
// away, and writes that.
func (y *synced) decideLine(line []*standing, t *talk) error {
	for {
		now := y.clock.now()
		state := charge(line[0].spend.Policy, t.cell.State, t.away)
		var ttl algo.Ticks
		for _, w := range line {
			state, w.verdict = w.spend.Policy.Decide(state, now, w.spend.Cost)
			ttl = w.verdict.ResetAfter
		}
		if t.wrote == nil && state.Equal(t.cell.State) {
			return nil // nothing to write
		}
		cells := []Cell{{Key: t.cell.Key, State: state, TTL: ttl, Dirty: true, Version: t.cell.Version}}
		if err := y.call(context.Background(), cells); err != nil {
			if wasSent(err) {
				t.wrote, t.sealed = &state, len(t.away)
			}
			return err
		}
		written := cells[0].Dirty
		t.learn(cells[0], written)
		if written {
			return nil
		}
	}
}

// learn takes in the cell as the store has it. If an earlier write of unknown
// outcome wrote just that, it was made. If it was made and another node has built
// on it since, that cannot be told, and it is made again: rather twice than never.
func (t *talk) learn(c Cell, written bool) {
	if !written && t.wrote != nil && t.wrote.Equal(c.State) {
		t.away = t.away[t.sealed:]
	}
	t.cell, t.wrote, t.sealed = c, nil, 0
	t.cell.Dirty = false
}

func wasSent(err error) bool {
	fault, ok := errors.AsType[*StoreError](err)
	return !ok || fault.Sent
}
