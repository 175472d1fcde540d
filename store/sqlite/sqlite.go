// Package sqlite keeps rate limit states, booked slots and rules in one SQLite file. It
// needs no server, survives a restart, and is shared by the processes of one
// machine that open the same file.
//
// The file is in WAL mode. A commit survives the end of its process, kill -9
// included. If the machine loses power the newest states may be lost, unless
// Options.Full is set; callers may then spend again what they spent last. Slots
// that were booked are not lost.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Store is a [limit.Store] in a file. It is safe for simultaneous use.
type Store struct {
	path string
	opts Options
	// db has one connection: SQLite has one writer at a time, and whoever
	// waits for it can be called off.
	db             *sql.DB
	get, put, drop *sql.Stmt
	ledger         ledgerStatements

	// inside is held for reading by every call that is under way, and for
	// writing to change closed.
	inside       sync.RWMutex
	closed       bool
	stopSweeping context.CancelFunc
	sweeping     sync.WaitGroup
}

var (
	_ limit.Store  = (*Store)(nil)
	_ limit.Lister = (*Store)(nil)
)

// Update implements [limit.Store].
func (s *Store) Update(ctx context.Context, keys []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	if err := s.enter(ctx, "update", keys); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	tx, err := s.begin(ctx)
	if err != nil {
		return fault("update", false, err)
	}
	defer tx.Rollback()
	now := s.opts.Now()
	cells, err := s.load(ctx, tx, now, keys)
	if err != nil {
		return fault("update", false, err)
	}
	if err := fn(now, cells); err != nil {
		return err
	}
	changed, err := s.save(ctx, tx, now, cells)
	if err != nil {
		return fault("update", false, err)
	}
	if !changed {
		return nil
	}
	if err := tx.Commit(); err != nil {
		return fault("update", true, err)
	}
	return nil
}

func (s *Store) load(ctx context.Context, tx *sql.Tx, now algo.Ticks, keys []string) ([]limit.Cell, error) {
	get := tx.StmtContext(ctx, s.get)
	cells := make([]limit.Cell, len(keys))
	for i, key := range keys {
		c := &cells[i]
		c.Key = key
		var log []byte
		var expires algo.Ticks
		err := get.QueryRowContext(ctx, []byte(key)).Scan(&c.State.At, &c.State.A, &c.State.B, &log, &expires)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return nil, err
		case expires <= now:
			c.State = algo.State{}
		default:
			c.State = c.State.WithEntries(string(log))
		}
	}
	return cells, nil
}

func (s *Store) save(ctx context.Context, tx *sql.Tx, now algo.Ticks, cells []limit.Cell) (changed bool, err error) {
	put, drop := tx.StmtContext(ctx, s.put), tx.StmtContext(ctx, s.drop)
	for i := range cells {
		c := &cells[i]
		switch {
		case !c.Dirty:
			continue
		case c.TTL <= 0:
			_, err = drop.ExecContext(ctx, []byte(c.Key))
		default:
			expires := now + min(c.TTL, 1<<63-1-now)
			_, err = put.ExecContext(ctx, []byte(c.Key), c.State.At, c.State.A, c.State.B, []byte(c.State.Entries()), expires)
		}
		if err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

// Delete implements [limit.Store]. The keys are forgotten together.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.enter(ctx, "delete", keys); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	tx, err := s.begin(ctx)
	if err != nil {
		return fault("delete", false, err)
	}
	defer tx.Rollback()
	drop := tx.StmtContext(ctx, s.drop)
	for _, key := range keys {
		if _, err := drop.ExecContext(ctx, []byte(key)); err != nil {
			return fault("delete", false, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fault("delete", true, err)
	}
	return nil
}

// Ping implements [limit.Store].
func (s *Store) Ping(ctx context.Context) error {
	if err := s.enter(ctx, "ping", nil); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	err := s.retry(ctx, func() error {
		_, err := s.db.ExecContext(ctx, "SELECT 1 FROM stint_state LIMIT 1")
		return err
	})
	if err != nil {
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
	s.stopSweeping()
	s.sweeping.Wait()
	return s.db.Close()
}

// enter holds s.inside for op with keys, or returns why op cannot be done.
func (s *Store) enter(ctx context.Context, op string, keys []string) error {
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

// begin begins a transaction that may write. It waits for other processes as
// long as ctx allows.
func (s *Store) begin(ctx context.Context) (tx *sql.Tx, err error) {
	err = s.retry(ctx, func() error {
		tx, err = s.db.BeginTx(ctx, nil)
		return err
	})
	return tx, err
}

// retry calls do again while another process is writing. SQLite's own way of
// waiting could not be called off.
func (s *Store) retry(ctx context.Context, do func() error) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		err := do()
		if e, ok := errors.AsType[*driver.Error](err); !ok || e.Code()&0xff != codes.SQLITE_BUSY {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("another process is writing: %w", ctx.Err())
		}
	}
}

func fault(op string, sent bool, err error) error {
	return &limit.StoreError{Store: "sqlite", Op: op, Sent: sent, Err: err}
}
