package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Swap implements [limit.Swapper], in one trip.
func (s *Store) Swap(ctx context.Context, cells []limit.Cell) (now algo.Ticks, err error) {
	keys := make([]string, len(cells))
	for i := range cells {
		keys[i] = cells[i].Key
	}
	if err := s.enter(ctx, "swap", keys...); err != nil {
		return 0, err
	}
	defer s.inside.RUnlock()
	for {
		err := s.do(ctx, func(c *pgx.Conn) error {
			now, err = s.swap(ctx, c, keys, cells)
			return err
		})
		if !again(err) {
			return now, s.fault("swap", err)
		}
	}
}

// swap writes what is dirty and then looks at everything, in one transaction.
func (s *Store) swap(ctx context.Context, c *pgx.Conn, keys []string, cells []limit.Cell) (now algo.Ticks, err error) {
	var batch pgx.Batch
	written := make(map[string]int64)
	if changed := dirty(cells); len(changed) > 0 {
		batch.Queue(s.sql.swap, columns(changed)...).Query(func(rows pgx.Rows) error {
			var key []byte
			var version int64
			_, err := pgx.ForEachRow(rows, []any{&key, &version}, func() error {
				written[string(key)] = version
				return nil
			})
			return err
		})
	}
	loaded := make([]limit.Cell, 0, len(cells))
	batch.Queue(s.sql.look, binary(keys)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			c := limit.Cell{Key: keys[len(loaded)]}
			if now, err = scan(rows, &c); err != nil {
				return err
			}
			loaded = append(loaded, c)
		}
		return rows.Err()
	})
	if err := c.SendBatch(ctx, &batch).Close(); err != nil {
		return 0, err
	}
	for i := range cells {
		if version, ok := written[cells[i].Key]; ok {
			cells[i].Version = version
		} else {
			cells[i] = loaded[i]
		}
	}
	return now, nil
}
