package mysql

import (
	"bytes"
	"context"
	"database/sql/driver"
	"iter"
	"math"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// pageLen is how many rows are listed, or swept, at a time.
const pageLen = 500

// List implements [limit.Lister]. It reads in pages, so it holds no connection
// while the loop runs.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[limit.Cell, error] {
	return func(yield func(limit.Cell, error) bool) {
		for from, more := prefix, true; more; {
			now, cells, err := s.page(ctx, from, after(prefix))
			if err != nil {
				yield(limit.Cell{}, err)
				return
			}
			for _, c := range cells {
				// c.TTL is an instant yet.
				if c.TTL -= now; c.TTL > 0 && !yield(c, nil) {
					return
				}
			}
			if more = len(cells) == pageLen; more {
				from = cells[pageLen-1].Key + "\x00" // the next key that there can be
			}
		}
	}
}

// page reads the first rows from one key on and before another. The TTL of a cell
// is when it expires.
func (s *Store) page(ctx context.Context, from, end string) (now algo.Ticks, cells []limit.Cell, err error) {
	if err := s.enter(ctx, "list"); err != nil {
		return 0, nil, err
	}
	defer s.inside.RUnlock()
	var t statement
	t.add("SELECT ", columns, " FROM stint_state WHERE stint_state.key >= ")
	t.bytes(from)
	t.add(" AND stint_state.key < ")
	t.bytes(end)
	t.add(" ORDER BY stint_state.key LIMIT ")
	t.number(pageLen)
	t.add("; SELECT ", s.opts.clock)
	err = s.do(ctx, func(c *conn) error {
		cells = nil
		return c.query(ctx, t, func(values []driver.Value) {
			if len(values) == 1 {
				now = algo.Ticks(values[0].(int64))
				return
			}
			state, r := scan(values)
			cells = append(cells, limit.Cell{Key: string(values[0].([]byte)), State: state, TTL: r.expires, Version: r.version})
		})
	})
	return now, cells, s.fault("list", false, err)
}

// after returns what comes after every key that begins with prefix.
func after(prefix string) string {
	b := bytes.TrimRight([]byte(prefix), "\xff")
	if len(b) == 0 {
		b = bytes.Repeat([]byte{math.MaxUint8}, limit.MaxKeyLen+1)
	} else {
		b[len(b)-1]++
	}
	return string(b)
}
