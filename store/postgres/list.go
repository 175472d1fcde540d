package postgres

import (
	"bytes"
	"context"
	"iter"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// pageLen is how many rows a list reads at a time.
const pageLen = 500

// page reads the first rows that are alive from one key on and before another.
const page = `
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT s.key, at, a, b, log, version, expires - now
FROM stint_state AS s, clock
WHERE key >= $1 AND key < $2 AND expires > now
ORDER BY key LIMIT $3`

// List implements [limit.Lister]. It reads in pages, so it holds no connection
// while the loop runs.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[limit.Cell, error] {
	return func(yield func(limit.Cell, error) bool) {
		for from := prefix; ; {
			cells, err := s.page(ctx, from, prefix)
			if err != nil {
				yield(limit.Cell{}, err)
				return
			}
			for _, c := range cells {
				if !yield(c, nil) {
					return
				}
			}
			if len(cells) < pageLen {
				return
			}
			from = cells[len(cells)-1].Key + "\x00" // the next key that there can be
		}
	}
}

func (s *Store) page(ctx context.Context, from, prefix string) (cells []limit.Cell, err error) {
	if err := s.enter(ctx, "list"); err != nil {
		return nil, err
	}
	defer s.inside.RUnlock()
	err = s.do(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, s.sql.page, []byte(from), after(prefix), pageLen)
		if err != nil {
			return err
		}
		var key, log []byte
		var state algo.State
		var ttl algo.Ticks
		var version int64
		_, err = pgx.ForEachRow(rows, []any{&key, &state.At, &state.A, &state.B, &log, &version, &ttl}, func() error {
			cells = append(cells, limit.Cell{Key: string(key), State: state.WithEntries(string(log)), TTL: ttl, Version: version})
			return nil
		})
		return err
	})
	return cells, s.fault("list", err)
}

// after returns what comes after every key that begins with prefix.
func after(prefix string) []byte {
	b := bytes.TrimRight([]byte(prefix), "\xff")
	if len(b) == 0 {
		return bytes.Repeat([]byte{math.MaxUint8}, limit.MaxKeyLen+1)
	}
	b[len(b)-1]++
	return b
}
