package limit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

const (
	// shards is how many parts the keys are divided into; each has an epoch.
	shards = 16
	// listenEvery is how often the epochs are read while denials are remembered.
	listenEvery = 500 * time.Millisecond
	// listenAnyway is how often they are read where the store tells of changes
	// by itself: a message may be lost.
	listenAnyway = 5 * time.Second
	// epochTTL is how long an epoch is kept.
	epochTTL = algo.Day
)

// message is what clients of a Notifier call out when an epoch has changed.
const message = "epoch"

// epochs make the nodes that share a store doubt the denials that they
// remember when units are given back, by a refund or a reset, on any of them.
//
// The keys are divided into shards, and the store keeps a number for each: its
// epoch, which grows with everything that is given back in the shard. An epoch
// is a cell like any other, so every store has them. A node that remembers
// denials looks at the epochs from time to time, or when it is called through
// a Notifier, and trusts the denials of a shard no more whose epoch has changed.
type epochs struct {
	store   Store
	denials *denials
	breaker *breaker
	timeout time.Duration
	observe Observer // nil if nobody is told
	tasks   *tasks

	mu        sync.Mutex
	bumping   bool
	due       map[int]bool // shards whose epoch is to grow
	listening bool
	called    bool // through a Notifier that still listens
	known     [shards]int64
	ever      bool // known has been read
}

// shardOf divides keys. It must be the same on every node, so maphash would
// not do: this is FNV-1a.
func shardOf(key string) int {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return int((h ^ h>>32) % shards)
}

// epochKey is the store key of a shard's epoch. No algorithm's ID is 'e'.
func epochKey(shard int) string { return fmt.Sprintf("epoch:%02d", shard) }

// bump makes the epochs of keys grow, in the background: many refunds are one
// update.
func (e *epochs) bump(keys []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.due == nil {
		e.due = make(map[int]bool)
	}
	for _, k := range keys {
		e.due[shardOf(k)] = true
	}
	if !e.bumping {
		e.bumping = e.tasks.start(e.bumpAll)
	}
}

// bumpAll makes epochs grow until none is due.
func (e *epochs) bumpAll(ctx context.Context) {
	for {
		e.mu.Lock()
		due := e.due
		e.due = nil
		e.bumping = len(due) > 0
		e.mu.Unlock()
		if len(due) == 0 {
			return
		}
		for shard := range due {
			if err := e.grow(ctx, shard); err != nil {
				e.mu.Lock()
				if e.due == nil {
					e.due = make(map[int]bool)
				}
				e.due[shard] = true
				e.mu.Unlock()
			}
		}
		if n, ok := e.store.(Notifier); ok {
			e.call(ctx, func(ctx context.Context) error { return n.Notify(ctx, message) })
		}
		e.mu.Lock()
		failed := len(e.due) > 0
		e.mu.Unlock()
		if failed && !pause(ctx, time.Second) {
			return
		}
	}
}

// grow makes the epoch of a shard grow. It is the store's time, so that one
// that was dropped does not come back smaller. What was given back here has
// been forgotten here, so here the new epoch is no news.
func (e *epochs) grow(ctx context.Context, shard int) error {
	var before, after int64
	err := e.call(ctx, func(ctx context.Context) error {
		return e.store.Update(ctx, []string{epochKey(shard)}, func(now algo.Ticks, cells []Cell) error {
			c := &cells[0]
			before, after = c.State.A, max(int64(now), c.State.A+1)
			c.State = algo.State{At: max(now, c.State.At), A: after}
			c.TTL, c.Dirty = epochTTL, true
			return nil
		})
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && e.known[shard] == before {
		e.known[shard] = after
	}
	return err
}

// call calls the store unless its breaker is open.
func (e *epochs) call(ctx context.Context, do func(ctx context.Context) error) error {
	if !e.breaker.allows() {
		return ErrOpen
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	began := time.Now()
	err := do(ctx)
	if ctx.Err() != context.Canceled {
		e.breaker.report(err)
	}
	if e.observe != nil {
		e.observe.Updated(0, time.Since(began), err)
	}
	return err
}

// listen sees to it that the epochs are looked at as long as denials are
// remembered.
func (e *epochs) listen() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listening {
		return
	}
	e.listening = e.tasks.start(func(ctx context.Context) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		wake := make(chan struct{}, 1)
		var hearing sync.WaitGroup
		defer hearing.Wait()
		defer stop()
		if n, ok := e.store.(Notifier); ok {
			hearing.Go(func() { e.hear(ctx, n, wake) })
		}
		e.look(ctx, wake)
	})
}

// look reads the epochs, now and then and when woken, until no denial is
// remembered.
func (e *epochs) look(ctx context.Context, wake <-chan struct{}) {
	for {
		now, err := e.read(ctx)
		if err == nil {
			e.compare(now)
		} else {
			e.denials.age() // they are not many more, and each ends by itself
		}
		e.mu.Lock()
		every := listenEvery
		if e.called {
			every = listenAnyway
		}
		if e.denials.empty() || ctx.Err() != nil {
			e.listening = false
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		timer := time.NewTimer(every)
		select {
		case <-timer.C:
		case <-wake:
		case <-ctx.Done():
		}
		timer.Stop()
		e.denials.age()
	}
}

// read returns the store's epochs.
func (e *epochs) read(ctx context.Context) (now [shards]int64, err error) {
	cells := make([]Cell, shards)
	keys := make([]string, shards)
	for i := range cells {
		keys[i] = epochKey(i)
		cells[i].Key = keys[i]
	}
	err = e.call(ctx, func(ctx context.Context) error {
		if s, ok := e.store.(Swapper); ok {
			_, err := s.Swap(ctx, cells)
			return err
		}
		return e.store.Update(ctx, keys, func(_ algo.Ticks, found []Cell) error {
			copy(cells, found)
			return nil
		})
	})
	for i, c := range cells {
		now[i] = c.State.A
	}
	return now, err
}

// compare doubts the denials of the shards whose epoch is another than it
// was. So are those that were remembered before the epochs were first known:
// something may have been given back in between.
func (e *epochs) compare(now [shards]int64) {
	e.mu.Lock()
	before, ever := e.known, e.ever
	e.known, e.ever = now, true
	e.mu.Unlock()
	for i := range now {
		if !ever || now[i] != before[i] {
			e.denials.doubt(i)
		}
	}
}

// hear wakes the one who looks when somebody calls out.
func (e *epochs) hear(ctx context.Context, n Notifier, wake chan<- struct{}) {
	called := func(on bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.called = on
	}
	defer called(false)
	for ctx.Err() == nil {
		n.Listen(ctx, func(string) {
			called(true)
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		called(false) // until it listens again the epochs are read often
		pause(ctx, time.Second)
	}
}
