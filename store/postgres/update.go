package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Update implements [limit.Store].
func (s *Store) Update(ctx context.Context, keys []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	if err := s.enter(ctx, "update", keys...); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	return s.update(ctx, "update", keys, fn)
}

func (s *Store) update(ctx context.Context, op string, keys []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	var now algo.Ticks
	var cells []limit.Cell
	err := s.do(ctx, func(c *pgx.Conn) (err error) {
		now, cells, err = s.look(ctx, c, keys)
		return err
	})
	if err != nil {
		return s.faultBefore(op, err)
	}
	if err := fn(now, cells); err != nil {
		return err
	}
	changed := dirty(cells)
	if len(changed) == 0 {
		return nil
	}
	err = s.do(ctx, func(c *pgx.Conn) error { return s.commit(ctx, c, changed) })
	if again(err) {
		return s.updateLocked(ctx, op, keys, fn)
	}
	return s.fault(op, err)
}

// updateLocked runs fn while it holds the rows of keys.
func (s *Store) updateLocked(ctx context.Context, op string, keys []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	for {
		var refused error
		committing := false
		err := s.do(ctx, func(c *pgx.Conn) error {
			tx, err := c.Begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(ctx)
			if _, err := tx.Exec(ctx, s.sql.lock, binary(keys)); err != nil {
				return err
			}
			now, cells, err := s.look(ctx, c, keys)
			if err != nil {
				return err
			}
			if refused = fn(now, cells); refused != nil {
				return nil
			}
			changed := dirty(cells)
			if len(changed) == 0 {
				return nil
			}
			if err := s.commit(ctx, c, changed); err != nil {
				return err
			}
			committing = true
			return tx.Commit(ctx)
		})
		switch {
		case refused != nil:
			return refused
		case again(err):
		case committing:
			return s.fault(op, err)
		default:
			return s.faultBefore(op, err)
		}
	}
}

// look reads the cells of keys as they are at one moment.
func (s *Store) look(ctx context.Context, c *pgx.Conn, keys []string) (now algo.Ticks, cells []limit.Cell, err error) {
	rows, err := c.Query(ctx, s.sql.look, binary(keys))
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close()
	cells = make([]limit.Cell, 0, len(keys))
	for rows.Next() {
		c := limit.Cell{Key: keys[len(cells)]}
		if now, err = scan(rows, &c); err != nil {
			return 0, nil, err
		}
		cells = append(cells, c)
	}
	return now, cells, rows.Err()
}

// scan sets c to what a row of sql.look says.
func scan(rows pgx.Rows, c *limit.Cell) (now algo.Ticks, err error) {
	var state algo.State
	var expires algo.Ticks
	var log []byte
	var version int64
	err = rows.Scan(&now, &state.At, &state.A, &state.B, &expires, &version, &log)
	if expires > now {
		c.State, c.Version = state.WithEntries(string(log)), version
	}
	return now, err
}

// commit writes cells, which are as they were looked at but for what is new in
// them, or nothing.
func (s *Store) commit(ctx context.Context, c *pgx.Conn, cells []*limit.Cell) error {
	if len(cells) > 1 {
		_, err := c.Exec(ctx, s.sql.commit, columns(cells)...)
		return err
	}
	// One cell is written or not without an error, of which a server keeps a log.
	tag, err := c.Exec(ctx, s.sql.swap, columns(cells)...)
	if err == nil && tag.RowsAffected() == 0 {
		return errOvertaken
	}
	return err
}

// dirty returns those of cells that are.
func dirty(cells []limit.Cell) (changed []*limit.Cell) {
	for i := range cells {
		if cells[i].Dirty {
			changed = append(changed, &cells[i])
		}
	}
	return changed
}

// columns returns the arguments of sql.commit and sql.swap.
func columns(cells []*limit.Cell) []any {
	n := len(cells)
	keys, logs := make([][]byte, n), make([][]byte, n)
	numbers := make([]int64, 5*n)
	at, a, b, ttl, version := numbers[:n], numbers[n:2*n], numbers[2*n:3*n], numbers[3*n:4*n], numbers[4*n:]
	for i, c := range cells {
		keys[i], logs[i] = []byte(c.Key), []byte(c.State.Entries())
		at[i], a[i], b[i] = int64(c.State.At), c.State.A, c.State.B
		ttl[i], version[i] = int64(min(max(0, c.TTL), math.MaxInt64)), c.Version
	}
	return []any{keys, at, a, b, ttl, version, logs}
}

// Delete implements [limit.Store]. The keys are forgotten together.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.enter(ctx, "delete", keys...); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	for {
		err := s.do(ctx, func(c *pgx.Conn) error {
			_, err := c.Exec(ctx, s.sql.forget, binary(keys))
			return err
		})
		if !again(err) {
			return s.fault("delete", err)
		}
	}
}

// do calls f with a connection of the pool.
func (s *Store) do(ctx context.Context, f func(c *pgx.Conn) error) error {
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	return f(c.Conn())
}

// acquire returns a connection of the pool, which its caller releases.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	c, err := s.pool.Acquire(ctx)
	if err == nil {
		return c, nil
	}
	busy := 0
	if n := s.pool.Stat(); n.AcquiredConns() == n.MaxConns() {
		busy = s.opts.PoolSize
	}
	return nil, &noConnection{err, busy}
}

func binary(keys []string) [][]byte {
	b := make([][]byte, len(keys))
	for i, k := range keys {
		b[i] = []byte(k)
	}
	return b
}
