package mysql_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/mysql"
)

const (
	expiring = 1200 // with a TTL of a second: more than two pages
	deleted  = 50   // of those with a TTL of a day
	lasting  = 300  // the rest of them
	together = expiring + deleted + lasting

	rows = "SELECT COUNT(*) FROM stint_state"
)

// swept opens a store with rows of all kinds, and a clock for it.
func swept(t *testing.T, server string, o mysql.Options) (*mysql.Store, clock) {
	t.Helper()
	db := connect(t, server)
	t.Cleanup(func() { db.Close() })
	c := newClock(t, db, tables(t, server))
	o.SetClock(clockExpression)
	s := open(t, c.url, &o)
	keys := make([]string, together)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	err := s.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
		for i := range cells {
			cells[i].State.A, cells[i].TTL, cells[i].Dirty = 1, algo.Day, true
			if i < expiring {
				cells[i].TTL = algo.Second
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), keys[expiring:expiring+deleted]...); err != nil {
		t.Fatal(err)
	}
	return s, c
}

func TestSweep(t *testing.T) {
	server := server(t, "--innodb-flush-log-at-trx-commit=0")
	leaves := func(t *testing.T, c clock, s *mysql.Store, want int64) {
		t.Helper()
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := number(t, c.url, rows); n != want {
			t.Errorf("a sweep leaves %d rows, want %d", n, want)
		}
	}
	t.Run("what expired or was deleted a minute ago", func(t *testing.T) {
		s, c := swept(t, server, mysql.Options{})
		leaves(t, c, s, together)
		c.advance(t, time.Minute-time.Microsecond)
		leaves(t, c, s, together)
		c.advance(t, time.Microsecond)
		leaves(t, c, s, together-deleted)
		c.advance(t, time.Second)
		leaves(t, c, s, lasting)
		c.advance(t, 25*time.Hour)
		leaves(t, c, s, 0)
	})
	t.Run("by itself", func(t *testing.T) {
		_, c := swept(t, server, mysql.Options{SweepEvery: 5 * time.Millisecond})
		if n := number(t, c.url, rows); n != together {
			t.Errorf("%d rows are left before any is old, want %d", n, together)
		}
		c.advance(t, 2*time.Minute)
		if !soon(func() bool { return number(t, c.url, rows) == lasting }) {
			t.Errorf("%d rows are left, want %d", number(t, c.url, rows), lasting)
		}
	})
	t.Run("by one node at a time", func(t *testing.T) {
		s, c := swept(t, server, mysql.Options{})
		c.advance(t, 2*time.Minute)
		other := connect(t, c.url)
		defer other.Close()
		const lock = "(CONCAT('stint sweep ', SHA1(DATABASE()))"
		if _, err := other.ExecContext(t.Context(), "DO GET_LOCK"+lock+", 0)"); err != nil {
			t.Fatal(err)
		}
		leaves(t, c, s, together)
		if _, err := other.ExecContext(t.Context(), "DO RELEASE_LOCK"+lock+")"); err != nil {
			t.Fatal(err)
		}
		leaves(t, c, s, lasting)
		if n := number(t, c.url, "SELECT IS_FREE_LOCK"+lock+")"); n != 1 {
			t.Error("the sweep is over, and the lock is still held")
		}
	})
	t.Run("by many who try", func(t *testing.T) {
		s, c := swept(t, server, mysql.Options{})
		c.advance(t, 2*time.Minute)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := s.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := number(t, c.url, rows); n != lasting {
			t.Errorf("%d rows are left, want %d", n, lasting)
		}
	})
	t.Run("but for the page of a row that somebody has", func(t *testing.T) {
		s, c := swept(t, server, mysql.Options{})
		c.advance(t, 2*time.Minute)
		holder := hold(t, c.url, "key 7")
		if err := s.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		if n := number(t, c.url, rows); n < lasting+1 || n > lasting+500 {
			t.Errorf("%d rows are left, want the %d that last and at most a page more", n, lasting)
		}
		holder.release(t)
		leaves(t, c, s, lasting)
	})
	t.Run("while the keys are written", testSweepWhileWriting(server))
	t.Run("that fails", func(t *testing.T) {
		var log buffer
		_, c := swept(t, server, mysql.Options{SweepEvery: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		execute(t, c.url, "DROP TABLE stint_state")
		want := fmt.Sprintf(`level=WARN msg="expired rows were not deleted" store=mysql error="Table '%s.stint_state' doesn't exist; run: stint migrate"`, nameOf(t, c.url))
		if !soon(func() bool { return strings.Contains(log.String(), want) }) {
			t.Errorf("the log has\n%s\nwant %s", &log, want)
		}
	})
}

// Keys that come to life again while the rows that they had are swept lose none
// of what is written then.
func testSweepWhileWriting(server string) func(t *testing.T) {
	return func(t *testing.T) {
		const writers, writes = 3, 5
		s, c := swept(t, server, mysql.Options{SweepEvery: time.Millisecond})
		keys := []string{"a", "b", "c"}
		for round := range 20 {
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for range writes {
						err := s.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
							for i := range cells {
								cells[i].State.A++
								cells[i].TTL, cells[i].Dirty = algo.Second, true
							}
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			for i, n := range counts(t, s, keys...) {
				if n != writers*writes {
					t.Errorf("round %d: %s counts %d, want %d", round, keys[i], n, writers*writes)
				}
			}
			c.advance(t, 2*time.Minute)
		}
	}
}

// buffer is what a logger writes to.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
