package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// sweepEvery deletes expired rows from time to time until ctx ends. Without it
// the file would keep every key ever seen; no answer depends on it.
func (s *Store) sweepEvery(ctx context.Context) {
	tick := time.NewTicker(s.opts.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				s.opts.Logger.Warn("expired rows were not deleted", "store", "sqlite", "file", s.path, "error", err)
			}
		}
	}
}

// sweep goes once through the rows, page by page, and deletes what has expired.
// Others have their turn between two pages, and a page where nothing has expired
// locks nobody out.
func (s *Store) sweep(ctx context.Context) error {
	const page = "SELECT count(*), max(key), min(expires) FROM (SELECT key, expires FROM stint_state WHERE key >= ? ORDER BY key LIMIT ?)"
	for from := []byte{}; ; {
		var n int
		var last []byte
		var earliest sql.Null[algo.Ticks]
		err := s.db.QueryRowContext(ctx, page, from, pageLen).Scan(&n, &last, &earliest)
		if now := s.opts.Now(); err == nil && earliest.Valid && earliest.V <= now {
			err = s.deleteExpired(ctx, from, last, now)
		}
		if err != nil || n < pageLen {
			return err
		}
		from = append(last, 0) // the next key that there can be
	}
}

func (s *Store) deleteExpired(ctx context.Context, from, last []byte, now algo.Ticks) error {
	return s.retry(ctx, func() error {
		_, err := s.db.ExecContext(ctx, "DELETE FROM stint_state WHERE key BETWEEN ? AND ? AND expires <= ?", from, last, now)
		return err
	})
}
