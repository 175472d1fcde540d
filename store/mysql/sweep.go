package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// sweepAfter is how long a row is kept that has expired or was deleted. If the
// clock is stepped back by less, no state comes up missing.
const sweepAfter = algo.Minute

// sweepLock is held by whoever sweeps a database.
const sweepLock = `CONCAT('stint sweep ', SHA1(DATABASE()))`

// sweepEvery deletes old rows from time to time until the Store ends. Without it
// the table would keep every key ever seen; no answer depends on it.
func (s *Store) sweepEvery() {
	tick := time.NewTicker(s.opts.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ending.Done():
			return
		case <-tick.C:
			if err := s.sweep(s.ending); err != nil && s.ending.Err() == nil {
				s.opts.Logger.Warn("expired rows were not deleted", "store", name, "error", explain(err))
			}
		}
	}
}

// sweep goes once through the table in the order of the keys, page by page, unless
// another node does so at this time.
func (s *Store) sweep(ctx context.Context) error {
	return s.do(ctx, func(c *conn) error {
		alone := false
		err := c.query(ctx, statement("SELECT GET_LOCK("+sweepLock+", 0)"), func(values []driver.Value) {
			alone = values[0] == int64(1)
		})
		if err != nil || !alone {
			return err
		}
		for from := ""; ; {
			if from, err = s.sweepPage(ctx, c, from); err != nil {
				c.discard() // the lock ends with its connection
				return err
			}
			if from == "" {
				break
			}
		}
		return c.exec(ctx, "DO RELEASE_LOCK("+sweepLock+")")
	})
}

// sweepPage deletes what is old among the next rows after a key, and returns the
// last of these rows; none if there are no more. It locks no others.
func (s *Store) sweepPage(ctx context.Context, c *conn, from string) (last string, err error) {
	var next statement
	next.add(" FROM stint_state WHERE stint_state.key > ")
	next.bytes(from)
	next.add(" ORDER BY stint_state.key LIMIT ")
	old := fmt.Sprintf("ABS(expires) <= %s - %d", s.opts.clock, sweepAfter)

	var t statement
	t.add("SELECT p.key, 'old' FROM (SELECT stint_state.key, expires", string(next))
	t.number(pageLen)
	t.add(") AS p WHERE ", old, "; SELECT stint_state.key", string(next), "1 OFFSET ")
	t.number(pageLen - 1)
	var keys []string
	err = c.query(ctx, t, func(values []driver.Value) {
		key := string(values[0].([]byte))
		if len(values) == 1 {
			last = key
		} else {
			keys = append(keys, key)
		}
	})
	if err != nil || len(keys) == 0 {
		return last, err
	}
	t = t[:0]
	t.add("DELETE stint_state FROM stint_state FORCE INDEX (PRIMARY) WHERE ", old, " AND stint_state.key IN ")
	t.list(keys)
	if err = c.exec(ctx, string(t)); again(err) {
		err = nil // the next sweep finds them
	}
	return last, err
}
