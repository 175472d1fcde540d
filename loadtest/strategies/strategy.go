package strategies

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// taker decides whether a key may pass now. It is safe for simultaneous use.
type taker interface {
	take(ctx context.Context, key string) (bool, error)
	close()
}

// strategy is one way to allow each key one request in every period.
type strategy struct {
	name string
	// schema makes its tables, in the first schema of the search path.
	schema string
	open   func(ctx context.Context, url string, period time.Duration) (taker, error)
}

// published are the strategies that teams on PostgreSQL write themselves. They
// decide by the server's clock.
var published = []strategy{nowait, ranges, upsert}

// SQLSTATE codes that the strategies expect.
const (
	lockNotAvailable   = "55P03"
	uniqueViolation    = "23505"
	exclusionViolation = "23P01"
	deadlockDetected   = "40P01"
)

// failedWith reports whether err is the server's, with that code.
func failedWith(err error, code string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == code
}

// nowait locks the row of a key and answers no to whoever comes meanwhile:
// SELECT FOR UPDATE NOWAIT and an UPDATE, in a transaction.
var nowait = strategy{
	name:   "nowait",
	schema: `CREATE TABLE bench_nowait (user_name text PRIMARY KEY, request_dt timestamptz NOT NULL)`,
	open: openPool(map[string]string{
		"look":   `SELECT clock_timestamp() - $2::interval > request_dt FROM bench_nowait WHERE user_name = $1 FOR UPDATE NOWAIT`,
		"insert": `INSERT INTO bench_nowait VALUES ($1, clock_timestamp())`,
		"update": `UPDATE bench_nowait SET request_dt = clock_timestamp() WHERE user_name = $1`,
	}, takeNowait),
}

func takeNowait(ctx context.Context, db *pgxpool.Pool, key string, period time.Duration) (ok bool, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "look", key, period).Scan(&ok)
		if errors.Is(err, pgx.ErrNoRows) {
			_, err = tx.Exec(ctx, "insert", key)
			ok = err == nil
			return err
		}
		if err == nil && ok {
			_, err = tx.Exec(ctx, "update", key)
		}
		return err
	})
	if failedWith(err, lockNotAvailable) || failedWith(err, uniqueViolation) {
		return false, nil
	}
	return ok && err == nil, err
}

// ranges keeps each grant as a range of time and has the server refuse those
// that overlap, by an exclusion constraint. It never deletes them here; in
// service a job would have to.
var ranges = strategy{
	name: "range",
	schema: `CREATE EXTENSION IF NOT EXISTS btree_gist SCHEMA public;
		CREATE TABLE bench_range (
			user_name text NOT NULL, limiter_range tstzrange NOT NULL,
			EXCLUDE USING gist (user_name WITH =, limiter_range WITH &&))`,
	open: openPool(map[string]string{
		"take": `INSERT INTO bench_range SELECT $1, tstzrange(now, now + $2::interval) FROM clock_timestamp() AS now`,
	}, takeRange),
}

func takeRange(ctx context.Context, db *pgxpool.Pool, key string, period time.Duration) (bool, error) {
	_, err := db.Exec(ctx, "take", key, period)
	if failedWith(err, exclusionViolation) {
		return false, nil
	}
	return err == nil, err
}

// upsert does all in one statement: INSERT ON CONFLICT DO UPDATE WHERE.
var upsert = strategy{
	name:   "upsert",
	schema: `CREATE TABLE bench_upsert (user_name text PRIMARY KEY, request_dt timestamptz NOT NULL)`,
	open: openPool(map[string]string{
		"take": `INSERT INTO bench_upsert AS b VALUES ($1, clock_timestamp())
			ON CONFLICT (user_name) DO UPDATE SET request_dt = excluded.request_dt
			WHERE excluded.request_dt - $2::interval > b.request_dt`,
	}, takeUpsert),
}

func takeUpsert(ctx context.Context, db *pgxpool.Pool, key string, period time.Duration) (bool, error) {
	result, err := db.Exec(ctx, "take", key, period)
	return err == nil && result.RowsAffected() == 1, err
}

// takeFunc decides with the statements that a pool has prepared.
type takeFunc func(ctx context.Context, db *pgxpool.Pool, key string, period time.Duration) (bool, error)

// pool is a taker over a pool of connections.
type pool struct {
	db     *pgxpool.Pool
	period time.Duration
	do     takeFunc
}

// openPool returns what opens a pool that has prepared statements, by their
// names, on each of its connections. The driver by itself would prepare one
// again whenever it has failed, which is how some of these say no.
func openPool(statements map[string]string, do takeFunc) func(context.Context, string, time.Duration) (taker, error) {
	return func(ctx context.Context, url string, period time.Duration) (taker, error) {
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return nil, err
		}
		config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
			for name, text := range statements {
				if _, err := c.Prepare(ctx, name, text); err != nil {
					return err
				}
			}
			return nil
		}
		db, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		return &pool{db, period, do}, nil
	}
}

func (p *pool) take(ctx context.Context, key string) (bool, error) {
	return p.do(ctx, p.db, key, p.period)
}

func (p *pool) close() { p.db.Close() }
