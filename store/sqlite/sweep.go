package sqlite

import (
	"context"
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
// Reading keeps no writer waiting, and a page is deleted in one short
// transaction; rows that another process has renewed meanwhile stay.
func (s *Store) sweep(ctx context.Context) error {
	for from := ""; ; {
		page, err := s.page(ctx, from, "")
		if err != nil {
			return err
		}
		now := s.opts.Now()
		if err := s.deleteExpired(ctx, page, now); err != nil {
			return err
		}
		if len(page) < pageLen {
			return nil
		}
		from = page[len(page)-1].key + "\x00"
	}
}

func (s *Store) deleteExpired(ctx context.Context, page []row, now algo.Ticks) error {
	var expired []string
	for _, r := range page {
		if r.expires <= now {
			expired = append(expired, r.key)
		}
	}
	if expired == nil {
		return nil
	}
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, key := range expired {
		if _, err := tx.ExecContext(ctx, "DELETE FROM stint_state WHERE key = ? AND expires <= ?", []byte(key), now); err != nil {
			return err
		}
	}
	return tx.Commit()
}
