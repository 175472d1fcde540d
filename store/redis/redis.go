// Package redis keeps rate limit states in Redis 6.2 or newer, or in a Redis
// Cluster, and shares them between all nodes that use the same one.
//
// Redis answers from memory. What it has not written to disk is lost when it
// ends, and what it has not yet told a replica is lost when that takes over:
// callers may then spend again what they spent last. Nothing is counted twice.
//
// Every state has an expiry, so each maxmemory-policy but noeviction lets Redis
// forget states when it runs out of memory; Open warns of it.
package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Store is a [limit.Store] in Redis. It is safe for simultaneous use.
type Store struct {
	client  rueidis.Client
	prefix  string
	channel string // of notes
	// apart says that keys lie in different slots: that this is a cluster, and
	// no hash tag in the prefix puts all of them in one.
	apart bool
	clock string        // the key that holds the instant; empty: the server's clock
	slack time.Duration // how long Redis keeps a state beyond its end

	closed atomic.Bool
	ending chan struct{} // closed by Close
	// inside is held for reading by every call that is under way.
	inside sync.RWMutex
}

var (
	_ limit.Store     = (*Store)(nil)
	_ limit.Lister    = (*Store)(nil)
	_ limit.BulkTaker = (*Store)(nil)
	_ limit.Scattered = (*Store)(nil)
	_ limit.Parallel  = (*Store)(nil)
	_ limit.Notifier  = (*Store)(nil)
)

// errApart: an Update of keys that are not Together.
var errApart = errors.New("the keys lie in several slots of the cluster, which cannot change together")

// Update implements [limit.Store]. It takes one trip if fn changes nothing,
// another to write what it has changed, and another whenever somebody else was
// faster. Keys that are not Together are an error.
func (s *Store) Update(ctx context.Context, keys []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	if err := s.enter(ctx, "update", keys); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	if !s.Together(keys) {
		return s.fault("update", false, errApart)
	}
	return s.update(ctx, keys, s.names(keys), fn)
}

func (s *Store) update(ctx context.Context, keys, names []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	seen, err := s.look(ctx, names)
	if err != nil {
		return s.fault("update", false, err)
	}
	cells := make([]limit.Cell, len(keys))
	for try := 0; ; try++ {
		for i, value := range seen.values {
			cells[i] = limit.Cell{Key: keys[i], State: value.state()}
		}
		if err := fn(seen.now, cells); err != nil {
			return err
		}
		if !slices.ContainsFunc(cells, func(c limit.Cell) bool { return c.Dirty }) {
			return nil
		}
		now, err := s.commit(ctx, names, seen, cells)
		if err != nil {
			return s.fault("update", maySent(err), err)
		}
		if now == nil {
			return nil
		}
		seen = now
		if err := pause(ctx, try); err != nil {
			return s.fault("update", false, fmt.Errorf("others keep changing the keys: %w", err))
		}
	}
}

// pause waits before the next try after a conflict: not at all at first, then
// longer each time, and not as long as the others who wait.
func pause(ctx context.Context, try int) error {
	most := min(50*time.Microsecond<<min(try, 10), 10*time.Millisecond)
	if try == 0 {
		most = 1
	}
	select {
	case <-time.After(rand.N(most)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Delete implements [limit.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.enter(ctx, "delete", keys); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	names := s.names(keys)
	var commands []rueidis.Completed
	for _, group := range groups(len(names), func(i int) string { return s.place(names[i]) }) {
		commands = append(commands, s.client.B().Del().Key(pick(names, group)...).Build())
	}
	if sent, err := outcome(s.client.DoMulti(ctx, commands...)); err != nil {
		return s.fault("delete", sent, err)
	}
	return nil
}

// Ping implements [limit.Store]. A cluster can answer if each of its masters does.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx, "ping", nil); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	masters, err := s.masters(ctx)
	for _, m := range masters {
		if err == nil {
			err = m.Do(ctx, m.B().Ping().Build()).Error()
		}
	}
	if err != nil {
		return s.fault("ping", false, err)
	}
	return nil
}

// Together implements [limit.Scattered]. On a single server all keys are
// together. On a cluster the keys of one caller are: those of [limit.StoreKey]
// that differ in their policy only.
func (s *Store) Together(keys []string) bool {
	if !s.apart {
		return true
	}
	for _, key := range keys {
		if tag(key) != tag(keys[0]) {
			return false
		}
	}
	return true
}

// Parallel implements [limit.Parallel]. A server does one thing at a time: while
// it works on one batch, the next is on its way.
func (s *Store) Parallel() int { return 2 }

// Close implements [limit.Store]. It waits for what is under way.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	close(s.ending)
	s.client.Close()
	s.inside.Lock()
	defer s.inside.Unlock()
	return nil
}

// enter holds s.inside for op with keys, or returns why op cannot be done.
func (s *Store) enter(ctx context.Context, op string, keys []string) error {
	for _, k := range keys {
		if len(k) == 0 || len(k) > limit.MaxKeyLen {
			return s.fault(op, false, limit.ErrKeyLen)
		}
	}
	if err := ctx.Err(); err != nil {
		return s.fault(op, false, err)
	}
	s.inside.RLock()
	if s.closed.Load() {
		s.inside.RUnlock()
		return s.fault(op, false, limit.ErrClosed)
	}
	return nil
}
