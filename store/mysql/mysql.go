// Package mysql keeps rate limit states, booked slots and rules in a database of MariaDB
// 10.5 or newer, or of MySQL 5.7 or newer, for all the nodes that share it. See
// Store for the states, Store.Ledger for the slots and Store.Rules for the rules.
//
// An Update reads its keys without a lock, and commits what changed by one
// statement that fails as a whole if somebody else was faster. Only then does it
// lock the rows, in the order of their keys, and start anew. What changes nothing
// is one read. The clock is the server's.
//
// A commit is as durable as the server's innodb_flush_log_at_trx_commit makes it.
// With 0 or 2 a crash may forget the last second, and callers may then spend again
// what they spent in it.
package mysql

import (
	"context"
	"database/sql"
	"sync"

	"github.com/stint-dev/stint/limit"
)

// Store is a [limit.Store] in a database. It is safe for simultaneous use.
type Store struct {
	opts Options
	db   *sql.DB
	// returning says that the server has RETURNING, which takes need.
	returning bool

	// inside is held for reading by every call that is under way, and for
	// writing to change closed.
	inside sync.RWMutex
	closed bool
	// ending ends with the Store, and with it what runs in the background. The
	// transactions of ledgers count among that until they end by themselves.
	ending     context.Context
	end        context.CancelFunc
	background sync.WaitGroup
}

var (
	_ limit.Store     = (*Store)(nil)
	_ limit.BulkTaker = (*Store)(nil)
	_ limit.Swapper   = (*Store)(nil)
	_ limit.Parallel  = (*Store)(nil)
	_ limit.Lister    = (*Store)(nil)
)

// Parallel implements [limit.Parallel].
func (s *Store) Parallel() int { return min(2, s.opts.PoolSize) }

// Ping implements [limit.Store].
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx, "ping"); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	err := s.do(ctx, func(c *conn) error { return c.exec(ctx, "SELECT 1 FROM stint_state LIMIT 1") })
	return s.fault("ping", false, err)
}

// Close implements [limit.Store]. It waits for what is under way.
func (s *Store) Close() error {
	s.inside.Lock()
	s.closed = true
	s.inside.Unlock()
	s.end()
	s.background.Wait()
	return s.db.Close()
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
