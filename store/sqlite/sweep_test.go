package sqlite

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

const (
	expiring = 3 * pageLen // with a TTL of a second
	lasting  = pageLen / 2 // with one of an hour
)

// fill opens a store with rows of both kinds.
func fill(t *testing.T, sweepEvery time.Duration) (s *Store, now *atomic.Int64) {
	t.Helper()
	now = new(atomic.Int64)
	now.Store(1_800_000_000_000_000)
	s, err := Open(filepath.Join(t.TempDir(), "stint.db"), &Options{
		SweepEvery: sweepEvery,
		Now:        func() algo.Ticks { return algo.Ticks(now.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	keys := make([]string, expiring+lasting)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	err = s.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
		for i := range cells {
			c := &cells[i]
			c.State.A, c.TTL, c.Dirty = 1, algo.Second, true
			if i%7 == 0 {
				c.TTL = algo.Hour
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, now
}

func rows(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM stint_state").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A sweep deletes the rows that have expired, more than a page of them, and no
// others.
func TestSweep(t *testing.T) {
	s, now := fill(t, time.Hour)
	for _, test := range []struct {
		advance algo.Ticks
		want    int
	}{
		{0, expiring + lasting},
		{algo.Second - 1, expiring + lasting},
		{1, lasting},
		{algo.Hour, 0},
	} {
		now.Add(int64(test.advance))
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := rows(t, s); n != test.want {
			t.Errorf("%v later a sweep leaves %d rows, want %d", test.advance, n, test.want)
		}
	}
}

func TestSweepsByItself(t *testing.T) {
	s, now := fill(t, 5*time.Millisecond)
	now.Add(int64(algo.Second))
	n := rows(t, s)
	for began := time.Now(); n != lasting && time.Since(began) < 10*time.Second; n = rows(t, s) {
		time.Sleep(5 * time.Millisecond)
	}
	if n != lasting {
		t.Errorf("%d rows are left, want %d", n, lasting)
	}
}
