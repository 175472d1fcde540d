package sqlite

import (
	"bytes"
	"context"
	"iter"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// pageLen is how many rows are read, or swept, at a time.
const pageLen = 500

// List implements [limit.Lister]. It reads in pages, so it holds nobody up and
// the loop may call the store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[limit.Cell, error] {
	return func(yield func(limit.Cell, error) bool) {
		now := s.opts.Now()
		for from := prefix; ; {
			page, err := s.page(ctx, from, prefix)
			if err != nil {
				yield(limit.Cell{}, err)
				return
			}
			for _, r := range page {
				if r.expires > now && !yield(limit.Cell{Key: r.key, State: r.state, TTL: r.expires - now}, nil) {
					return
				}
			}
			if len(page) < pageLen {
				return
			}
			from = page[len(page)-1].key + "\x00" // the next key that there can be
		}
	}
}

type row struct {
	key     string
	state   algo.State
	expires algo.Ticks
}

// page reads the first rows from key on that begin with prefix.
func (s *Store) page(ctx context.Context, from, prefix string) (page []row, err error) {
	if err := s.enter(ctx, "list", nil); err != nil {
		return nil, err
	}
	defer s.inside.RUnlock()
	rows, err := s.db.QueryContext(ctx, "SELECT key, at, a, b, log, expires FROM stint_state WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
		[]byte(from), after(prefix), pageLen)
	if err != nil {
		return nil, fault("list", false, err)
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		var key, log []byte
		if err := rows.Scan(&key, &r.state.At, &r.state.A, &r.state.B, &log, &r.expires); err != nil {
			return nil, fault("list", false, err)
		}
		r.key, r.state = string(key), r.state.WithEntries(string(log))
		page = append(page, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fault("list", false, err)
	}
	return page, nil
}

// after returns what comes after every key that begins with prefix.
func after(prefix string) []byte {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return bytes.Repeat([]byte{0xff}, limit.MaxKeyLen+1)
	}
	b[len(b)-1]++
	return b
}
