package postgres

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// take spends under GCRA, see algo.GCRA. It looks at the rows without a lock,
// works out what they become, and updates, where they lie, those that admit
// something and have the same version still. A row that denies is left alone.
// owed is what is missing from the bucket, in units times the window, and n how
// often the cost fits.
//
// The keys come in order, because the rows are locked as they come; to sort them
// here would cost a lone take a tenth of its time.
//
// It returns the states that it has updated, as they were, those that deny, and
// the keys that it has made rows of. What it does not return is left to Update:
// rows that somebody else was faster to change or to make, and states that GCRA
// first puts in bounds.
const take = `
WITH looked AS MATERIALIZED (
	SELECT w.*, s.at AS at0, s.a AS a0, s.b AS b0, s.expires, s.version, s.ctid AS place, {now} AS now
	FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
		WITH ORDINALITY AS w (key, quota, span, burst, cost, times, i)
	LEFT JOIN stint_state AS s ON s.key = w.key
), live AS (
	SELECT *, CASE WHEN expires > now THEN at0 ELSE 0 END AS at,
		CASE WHEN expires > now THEN a0 ELSE 0 END AS a, CASE WHEN expires > now THEN b0 ELSE 0 END AS b
	FROM looked
), refilled AS (
	SELECT *, greatest(at, now) AS t, greatest(0, a * span + b - quota * least(greatest(at, now) - at, (a * span + b) / quota + 1)) AS owed
	FROM live
	WHERE at <= 1::bigint << 61 AND a BETWEEN 0 AND burst AND b BETWEEN 0 AND span - 1
), fitting AS MATERIALIZED (
	SELECT *, least(times, (burst - (owed + span - 1) / span) / cost) AS n FROM refilled
), taken AS (
	UPDATE stint_state AS s SET at = t, a = owed / span + n * cost, b = owed % span,
		expires = t + (owed + n * cost * span + quota - 1) / quota, version = s.version + 1
	FROM fitting AS f WHERE n > 0 AND s.ctid = place AND s.version = f.version
	RETURNING i, now, f.at, f.a, f.b
), made AS (
	INSERT INTO stint_state AS s (key, at, a, b, expires, version, log)
	SELECT key, now, n * cost, 0, now + (n * cost * span + quota - 1) / quota, now, '' FROM fitting
	WHERE n > 0 AND place IS NULL
	ON CONFLICT (key) DO NOTHING
	RETURNING key, s.at
)
SELECT i, now, at, a, b, NULL::bytea FROM taken UNION ALL SELECT i, now, at, a, b, NULL::bytea FROM fitting WHERE n <= 0
UNION ALL SELECT 0, at, 0, 0, 0, key FROM made`

// TakesBulk implements [limit.BulkTaker]. The arithmetic of sql.take must fit a
// bigint.
func (s *Store) TakesBulk(p *limit.Policy, cost int64) bool {
	l := p.Limit()
	const most = math.MaxInt64 / 4
	return (p.Algorithm == nil || p.Algorithm == algo.GCRA) &&
		l.Quota > 0 && l.Quota <= most && cost > 0 && cost <= l.Burst && l.Burst < most/int64(l.Window)
}

// TakeBulk implements [limit.BulkTaker].
func (s *Store) TakeBulk(ctx context.Context, takes []limit.Take) error {
	keys := make([]string, len(takes))
	for i := range takes {
		keys[i] = takes[i].Key
	}
	if err := s.enter(ctx, "take", keys...); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	settled := make([]bool, len(takes))
	err := s.do(ctx, func(c *pgx.Conn) error { return s.take(ctx, c, takes, settled) })
	if again(err) {
		clear(settled)
	} else if err != nil {
		return s.fault("take", err)
	}
	err = limit.TakeByUpdate(takes, settled, func(keys []string, fn func(algo.Ticks, []limit.Cell) error) error {
		return s.update(ctx, "take", keys, fn)
	})
	if fault, ok := errors.AsType[*limit.StoreError](err); ok && slices.Contains(settled, true) {
		fault.Sent = true // the others have been
	}
	return err
}

// take runs sql.take and says which of takes it has settled.
func (s *Store) take(ctx context.Context, c *pgx.Conn, takes []limit.Take, settled []bool) error {
	n := len(takes)
	order, keys := make([]int, n), make([][]byte, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return strings.Compare(takes[i].Key, takes[j].Key) })
	numbers := make([]int64, 5*n)
	quota, span, burst, cost, times := numbers[:n], numbers[n:2*n], numbers[2*n:3*n], numbers[3*n:4*n], numbers[4*n:]
	for i, at := range order {
		t := &takes[at]
		l := t.Policy.Limit()
		keys[i] = []byte(t.Key)
		quota[i], span[i], burst[i], cost[i], times[i] = l.Quota, int64(l.Window), l.Burst, t.Cost, int64(t.Times)
	}
	rows, err := c.Query(ctx, s.sql.take, keys, quota, span, burst, cost, times)
	if err != nil {
		return err
	}
	var i int
	var now algo.Ticks
	var before algo.State
	var made []byte
	_, err = pgx.ForEachRow(rows, []any{&i, &now, &before.At, &before.A, &before.B, &made}, func() error {
		if made != nil {
			i, _ = slices.BinarySearchFunc(keys, made, bytes.Compare)
			i++
		}
		at := order[i-1]
		takes[at].Now, takes[at].Before, settled[at] = now, before, true
		return nil
	})
	return err
}
