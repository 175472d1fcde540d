package lease_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/isolate/leasetest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/lease"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/store/mongodb"
	"github.com/stint-dev/stint/store/mysql"
	"github.com/stint-dev/stint/store/postgres"
	"github.com/stint-dev/stint/store/redis"
	"github.com/stint-dev/stint/store/sqlite"
)

// opened closes s after the test.
func opened[S limit.Store](t testing.TB, s S, err error) limit.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func over(one, other limit.Store) [2]isolate.Leaser {
	return [2]isolate.Leaser{lease.New(one), lease.New(other)}
}

func host(t testing.TB, server string) string {
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return at.Host
}

var made atomic.Int64

// name returns that of a database, another one each time.
func name() string { return fmt.Sprint("lease", made.Add(1)) }

func TestMemory(t *testing.T) {
	leasetest.Run(t, leasetest.Harness{Open: func(t testing.TB) [2]isolate.Leaser {
		s := opened(t, memory.New(nil), nil)
		return over(s, s)
	}})
}

func TestSQLite(t *testing.T) {
	leasetest.Run(t, leasetest.Harness{Open: func(t testing.TB) [2]isolate.Leaser {
		file := filepath.Join(t.TempDir(), "stint.db")
		open := func() limit.Store {
			s, err := sqlite.Open(file, nil)
			return opened(t, s, err)
		}
		return over(open(), open())
	}})
}

// networked is a store behind a wire that can be cut. database makes an empty one and
// returns its URL on the given host.
func networked(t *testing.T, server string, database func(t testing.TB, at *url.URL) string, open func(ctx context.Context, url string) (limit.Store, error)) {
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	wire := servertest.NewWire(t, host(t, server))
	through := *at
	through.Host = wire.Address
	leasetest.Run(t, leasetest.Harness{
		Open: func(t testing.TB) [2]isolate.Leaser {
			u := through
			made := database(t, &u)
			client := func() limit.Store {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				s, err := open(ctx, made)
				return opened(t, s, err)
			}
			return over(client(), client())
		},
		Break: func(testing.TB) func() { wire.Cut(); return wire.Mend },
	})
}

func TestPostgres(t *testing.T) {
	server := servertest.StartPostgres(t, "fsync=off") // no test cuts the power
	networked(t, server.URL, func(t testing.TB, at *url.URL) string {
		conn, err := pgx.Connect(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		database := name()
		if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+database); err != nil {
			t.Fatal(err)
		}
		at.Path = "/" + database
		if _, err := postgres.Migrate(t.Context(), at.String()); err != nil {
			t.Fatal(err)
		}
		return at.String()
	}, func(ctx context.Context, url string) (limit.Store, error) { return postgres.Open(ctx, url, nil) })
}

func TestMariaDB(t *testing.T) {
	server := servertest.StartMariaDB(t)
	networked(t, server.URL, func(t testing.TB, at *url.URL) string {
		at.Path = "/" + name()
		direct, err := sql.Open("mysql", "root@tcp("+host(t, server.URL)+")/")
		if err != nil {
			t.Fatal(err)
		}
		defer direct.Close()
		if _, err := direct.ExecContext(t.Context(), "CREATE DATABASE "+at.Path[1:]); err != nil {
			t.Fatal(err)
		}
		if _, err := mysql.Migrate(t.Context(), at.String()); err != nil {
			t.Fatal(err)
		}
		return at.String()
	}, func(ctx context.Context, url string) (limit.Store, error) { return mysql.Open(ctx, url, nil) })
}

func TestMongoDB(t *testing.T) {
	networked(t, servertest.StartMongoDB(t).URL, func(t testing.TB, at *url.URL) string {
		at.Path = "/" + name()
		if _, err := mongodb.Migrate(t.Context(), at.String()); err != nil {
			t.Fatal(err)
		}
		return at.String()
	}, func(ctx context.Context, url string) (limit.Store, error) { return mongodb.Open(ctx, url, nil) })
}

func TestRedis(t *testing.T) {
	prefix := ""
	networked(t, servertest.StartRedis(t).URL, func(_ testing.TB, at *url.URL) string {
		prefix = name() + ":"
		return at.String()
	}, func(ctx context.Context, url string) (limit.Store, error) {
		return redis.Open(ctx, url, &redis.Options{Prefix: prefix})
	})
}

// A cell that holds something else stops nobody: neither its tenant nor the others of
// the same call.
func TestDamagedCell(t *testing.T) {
	s := opened(t, memory.New(nil), nil)
	err := s.Update(t.Context(), []string{"cap:acme"}, func(now algo.Ticks, cells []limit.Cell) error {
		cells[0].State, cells[0].TTL, cells[0].Dirty = algo.State{At: now}.WithEntries("something else"), algo.Day, true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l := lease.New(s)
	for want := range 2 {
		err := l.Lease(t.Context(), []string{"globex", "acme"}, func(n int, _ time.Time, holders []isolate.Holder) ([]isolate.Holder, bool) {
			if len(holders) != want {
				t.Errorf("tenant %d: %d holders, want %d", n, len(holders), want)
			}
			return []isolate.Holder{{Node: 1}}, true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
