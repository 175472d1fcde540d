// Package postgres keeps rate limit states, booked slots and rules in a PostgreSQL
// database, version 14 or newer, for all the nodes that share it. See Store for
// the states, Store.Ledger for the slots and Store.Rules for the rules.
//
// An Update reads its keys without a lock, and commits what changed by one
// statement that fails as a whole if somebody else was faster. Only then does it
// lock the rows, in the order of their keys, and start anew. What changes nothing
// is one read. The clock is the server's.
//
// A commit is as durable as the server's synchronous_commit makes it. With off,
// which can be set in the URL, a crash of the server may forget the last moments,
// and callers may then spend again what they spent in them.
package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/limit"
)

// Store is a [limit.Store] in a database. It is safe for simultaneous use.
type Store struct {
	opts Options
	pool *pgxpool.Pool
	sql  statements
	// channel is where the clients of the same table notify each other.
	channel string

	// inside is held for reading by every call that is under way, and for
	// writing to change closed.
	inside sync.RWMutex
	closed bool
	// ending ends with the Store, and with it what runs in the background.
	ending     context.Context
	end        context.CancelFunc
	background sync.WaitGroup
}

var (
	_ limit.Store     = (*Store)(nil)
	_ limit.BulkTaker = (*Store)(nil)
	_ limit.Swapper   = (*Store)(nil)
	_ limit.Parallel  = (*Store)(nil)
	_ limit.Notifier  = (*Store)(nil)
	_ limit.Lister    = (*Store)(nil)
)

// Parallel implements [limit.Parallel]. While one update waits for the disk
// another one works; with more than these, each would only carry less.
func (s *Store) Parallel() int { return min(2, s.opts.PoolSize) }

// Ping implements [limit.Store].
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx, "ping"); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	_, err := s.pool.Exec(ctx, "SELECT FROM stint_state LIMIT 1")
	return s.fault("ping", err)
}

// Close implements [limit.Store]. It waits for what is under way.
func (s *Store) Close() error {
	s.inside.Lock()
	defer s.inside.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.end()
	s.background.Wait()
	s.pool.Close()
	return nil
}

// enter holds s.inside for op with keys, or returns why op cannot be done.
func (s *Store) enter(ctx context.Context, op string, keys ...string) error {
	for _, k := range keys {
		if len(k) == 0 || len(k) > limit.MaxKeyLen {
			return &limit.StoreError{Store: name, Op: op, Err: limit.ErrKeyLen}
		}
	}
	s.inside.RLock()
	err := ctx.Err()
	if s.closed {
		err = limit.ErrClosed
	}
	if err != nil {
		s.inside.RUnlock()
		return &limit.StoreError{Store: name, Op: op, Err: err}
	}
	return nil
}
