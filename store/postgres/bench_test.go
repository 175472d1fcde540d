package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/postgres"
)

// alone hides everything of a store but its Update.
type alone struct{ limit.Store }

func (alone) Parallel() int { return 2 }

// BenchmarkCallers takes random keys by so many callers, through a Limiter with
// and without TakeBulk, and by the statement of those who do it by hand: one
// upsert for each decision, through 32 connections.
func BenchmarkCallers(b *testing.B) {
	const keys = 100_000
	url := tables(b, server(b))
	s := open(b, url, nil)
	p := &limit.Policy{Name: "many", Quota: 1e9, Window: time.Minute}
	byHand := upsert(b, url, keys)
	limiter := func(s limit.Store) func(ctx context.Context, key int) error {
		l := limit.New(s, &limit.Options{Timeout: 10 * time.Second})
		return func(ctx context.Context, key int) error {
			_, err := l.Take(ctx, p, fmt.Sprint("user ", key), 1)
			return err
		}
	}
	fill(b, s, p, keys)
	for _, callers := range []int{1, 32, 512} {
		for _, way := range []struct {
			name string
			take func(ctx context.Context, key int) error
		}{
			{"upsert", byHand},
			{"update", limiter(alone{s})},
			{"bulk", limiter(s)},
		} {
			b.Run(fmt.Sprintf("%s/callers=%d", way.name, callers), func(b *testing.B) {
				var wg sync.WaitGroup
				var left atomic.Int64
				left.Store(int64(b.N))
				for range callers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if err := way.take(b.Context(), rand.N(keys)); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}

func fill(b *testing.B, s *postgres.Store, p *limit.Policy, keys int) {
	for from := 0; from < keys; from += 1000 {
		takes := make([]limit.Take, 1000)
		for i := range takes {
			takes[i] = limit.Take{Policy: p, Key: limit.StoreKey(p, fmt.Sprint("user ", from+i)), Cost: 1, Times: 1}
		}
		if err := s.TakeBulk(b.Context(), takes); err != nil {
			b.Fatal(err)
		}
	}
}

func upsert(b *testing.B, url string, keys int) func(ctx context.Context, key int) error {
	execute(b, url,
		"CREATE TABLE by_hand (name text PRIMARY KEY, at bigint NOT NULL) WITH (fillfactor = 70)",
		fmt.Sprintf("INSERT INTO by_hand SELECT 'user ' || i, 0 FROM generate_series(0, %d) AS i", keys-1),
		"VACUUM ANALYZE by_hand", "CHECKPOINT")
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return func(ctx context.Context, key int) error {
		const statement = `
INSERT INTO by_hand AS u VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE u.at < excluded.at - 1 RETURNING at`
		var now algo.Ticks
		err := pool.QueryRow(ctx, statement, fmt.Sprint("user ", key)).Scan(&now)
		if err == pgx.ErrNoRows {
			return nil
		}
		return err
	}
}
