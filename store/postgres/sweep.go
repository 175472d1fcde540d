package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// sweepPages is how many pages of the table a sweep looks through at a time.
const sweepPages = 32

// sweep deletes the rows between two places that expired a minute ago: if the
// clock is stepped back by less, no state comes up missing. It waits for nobody.
const sweep = `
DELETE FROM stint_state WHERE ctid = ANY (ARRAY(
	SELECT ctid FROM stint_state WHERE ctid >= $1 AND ctid < $2 AND expires <= {now} - 60000000 FOR UPDATE SKIP LOCKED
))`

// The lock of a sweep is the table's: its number, below letters of stint.
const (
	sweepLock  = `((x'7374696e'::bigint << 32) + 'stint_state'::regclass::oid::bigint)`
	sweepBegin = `SELECT pg_try_advisory_lock` + sweepLock + `, pg_relation_size('stint_state') / current_setting('block_size')::bigint`
	sweepEnd   = `SELECT pg_advisory_unlock` + sweepLock
)

// sweepEvery deletes expired rows from time to time until the Store ends. Without
// it the table would keep every key ever seen; no answer depends on it.
func (s *Store) sweepEvery() {
	tick := time.NewTicker(s.opts.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ending.Done():
			return
		case <-tick.C:
			if err := s.sweepOnce(s.ending); err != nil && s.ending.Err() == nil {
				s.opts.Logger.Warn("expired rows were not deleted", "store", name, "error", explain(err))
			}
		}
	}
}

// sweepOnce goes once through the table, in the order in which it lies on the
// disk, unless another node does so at this time.
func (s *Store) sweepOnce(ctx context.Context) error {
	return s.do(ctx, func(c *pgx.Conn) error {
		var alone bool
		var pages uint32
		if err := c.QueryRow(ctx, sweepBegin).Scan(&alone, &pages); err != nil || !alone {
			return err
		}
		for from := uint32(0); from < pages; from += sweepPages {
			if _, err := c.Exec(ctx, s.sql.sweep, place(from), place(from+sweepPages)); err != nil {
				c.Close(ctx) // the lock ends with its connection
				return err
			}
		}
		_, err := c.Exec(ctx, sweepEnd)
		return err
	})
}

func place(page uint32) pgtype.TID { return pgtype.TID{BlockNumber: page, Valid: true} }
