package mysql_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/mysql"
)

// BenchmarkCallers takes random keys by so many callers: by the statement of
// those who do it by hand, one upsert for each decision through 32 connections,
// and through a Limiter.
func BenchmarkCallers(b *testing.B) {
	const keys = 100_000
	url := tables(b, server(b))
	s := open(b, url, nil)
	p := &limit.Policy{Name: "many", Quota: 1e9, Window: time.Minute}
	l := limit.New(s, &limit.Options{Timeout: 10 * time.Second})
	defer l.Close()
	fill(b, s, p, keys)
	for _, callers := range []int{1, 32, 512} {
		for _, way := range []struct {
			name string
			take func(ctx context.Context, key int) error
		}{
			{"upsert", byHand(b, url, keys)},
			{"limiter", func(ctx context.Context, key int) error {
				_, err := l.Take(ctx, p, fmt.Sprint("user ", key), 1)
				return err
			}},
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

func fill(b *testing.B, s *mysql.Store, p *limit.Policy, keys int) {
	for from := 0; from < keys; from += 1000 {
		some := make([]string, 1000)
		for i := range some {
			some[i] = limit.StoreKey(p, fmt.Sprint("user ", from+i))
		}
		if err := spend(b.Context(), s, p, some...); err != nil {
			b.Fatal(err)
		}
	}
}

// spend spends one from each of keys.
func spend(ctx context.Context, s limit.Store, p *limit.Policy, keys ...string) error {
	return s.Update(ctx, keys, func(now algo.Ticks, cells []limit.Cell) error {
		for i := range cells {
			state, v := p.Decide(cells[i].State, now, 1)
			cells[i].State, cells[i].TTL, cells[i].Dirty = state, v.ResetAfter, true
		}
		return nil
	})
}

func byHand(b *testing.B, url string, keys int) func(ctx context.Context, key int) error {
	db := connect(b, url)
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	for _, statement := range []string{
		"DROP TABLE IF EXISTS by_hand",
		"CREATE TABLE by_hand (name VARBINARY(512) PRIMARY KEY, at BIGINT NOT NULL) ENGINE=InnoDB",
	} {
		if _, err := db.ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	for from := 0; from < keys; from += 1000 {
		rows := make([]string, 1000)
		for i := range rows {
			rows[i] = fmt.Sprintf("('user %d', 0)", from+i)
		}
		text := "INSERT INTO by_hand VALUES " + strings.Join(rows, ", ")
		if _, err := db.ExecContext(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	return func(ctx context.Context, key int) error {
		const now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))"
		_, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO by_hand VALUES ('user %d', %s) ON DUPLICATE KEY UPDATE at = IF(at < %[2]s - 1, %[2]s, at)", key, now))
		return err
	}
}

// BenchmarkTakeBulk is one trip that takes from so many keys.
func BenchmarkTakeBulk(b *testing.B) {
	const keys = 100_000
	s := open(b, tables(b, server(b)), nil)
	p := &limit.Policy{Name: "many", Quota: 1e9, Window: time.Minute}
	fill(b, s, p, keys)
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			takes := make([]limit.Take, n)
			for b.Loop() {
				first := rand.N(keys)
				for i := range takes {
					key := limit.StoreKey(p, fmt.Sprint("user ", (first+i*7919)%keys))
					takes[i] = limit.Take{Policy: p, Key: key, Cost: 1, Times: 1}
				}
				if err := s.TakeBulk(b.Context(), takes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
