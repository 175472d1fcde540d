package mongodb

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// ErrApart: an Update has changed several keys. MongoDB changes one document
// at a time. Nothing was changed.
var ErrApart = errors.New("several keys cannot be changed together; change one at a time")

// Store is a [limit.Store] in a collection. It is safe for simultaneous use.
type Store struct {
	address string // the URL without user, password and parameters
	opts    Options
	client  *mongo.Client
	states  *mongo.Collection

	// turns are what updates of one key wait for, so that only those of other
	// nodes can be in their way. Some keys share one.
	turns [64]chan struct{}
	seed  maphash.Seed

	// inside is held for reading by every call that is under way, and for
	// writing to change closed.
	inside sync.RWMutex
	closed bool
}

var (
	_ limit.Store     = (*Store)(nil)
	_ limit.Scattered = (*Store)(nil)
	_ limit.Parallel  = (*Store)(nil)
	_ limit.Lister    = (*Store)(nil)
)

// Update implements [limit.Store]. It reads any number of keys, each as it is
// at some instant of the call, and can change one: with a second one Dirty it
// returns an error that is ErrApart.
//
// now is at least the time of the last change of each key, also where another
// server has become the primary whose clock is behind.
func (s *Store) Update(ctx context.Context, keys []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	if err := s.enter(ctx, "update", keys...); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	if len(keys) == 1 {
		turn := s.turns[maphash.String(s.seed, keys[0])%uint64(len(s.turns))]
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return fault("update", false, ctx.Err())
		}
	}
	for try := 0; ; try++ {
		done, err := s.tryUpdate(ctx, keys, fn)
		if done || err != nil {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return fault("update", false, fmt.Errorf("others have changed the key all the time: %w", err))
		}
	}
}

// tryUpdate is not done if somebody else has changed the key meanwhile.
func (s *Store) tryUpdate(ctx context.Context, keys []string, fn func(algo.Ticks, []limit.Cell) error) (done bool, err error) {
	found, err := s.look(ctx, keys)
	if err != nil {
		return false, fault("update", false, err)
	}
	now := found.clock
	for _, d := range found.documents {
		now = max(now, d.Changed)
	}
	cells := found.cells(keys, now)
	versions := make([]int64, len(cells))
	for i, c := range cells {
		versions[i] = c.Version
	}
	if err := fn(now, cells); err != nil {
		return false, err
	}
	var dirty []*limit.Cell
	for i := range cells {
		if cells[i].Dirty {
			cells[i].Version = versions[i] // fn may have left anything in it
			dirty = append(dirty, &cells[i])
		}
	}
	switch {
	case len(dirty) == 0:
		return true, nil
	case len(dirty) > 1:
		return false, fault("update", false, ErrApart)
	case ctx.Err() != nil:
		return false, fault("update", false, ctx.Err())
	}
	if err := s.commit(ctx, now, dirty); err != nil {
		return false, fault("update", !unsent(err), err)
	}
	return dirty[0].Dirty, nil
}

// pause waits longer with each try, and by chance, so that those who are in
// each other's way part.
func pause(ctx context.Context, try int) error {
	longest := time.Millisecond << min(try, 5)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(longest)):
		return nil
	}
}

// Together implements [limit.Scattered].
func (s *Store) Together(keys []string) bool { return len(keys) <= 1 }

// Parallel implements [limit.Parallel].
func (s *Store) Parallel() int { return s.opts.Parallel }

// Delete implements [limit.Store]. Each key is forgotten on its own.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.enter(ctx, "delete", keys...); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	sent := false
	for some := range slices.Chunk(keys, batchLen) {
		ids := make([]bson.Binary, len(some))
		for i, k := range some {
			ids[i] = id(k)
		}
		if _, err := s.states.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}); err != nil {
			return fault("delete", sent || !unsent(err), err)
		}
		sent = true
	}
	return nil
}

// Ping implements [limit.Store]. It asks the primary.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx, "ping"); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	if _, err := s.look(ctx, nil); err != nil {
		return fault("ping", false, err)
	}
	return nil
}

// Close implements [limit.Store]. It waits for what is under way.
func (s *Store) Close() error {
	s.inside.Lock()
	defer s.inside.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.client.Disconnect(context.Background())
}

// enter holds s.inside for op with keys, or returns why op cannot be done.
func (s *Store) enter(ctx context.Context, op string, keys ...string) error {
	for _, k := range keys {
		if len(k) == 0 || len(k) > limit.MaxKeyLen {
			return fault(op, false, limit.ErrKeyLen)
		}
	}
	s.inside.RLock()
	err := ctx.Err()
	if s.closed {
		err = limit.ErrClosed
	}
	if err != nil {
		s.inside.RUnlock()
		return fault(op, false, err)
	}
	return nil
}
