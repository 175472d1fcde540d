package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/postgres"
)

const (
	expiring = 5000 // with a TTL of a second
	lasting  = 700  // with one of a day
)

// swept opens a store with rows of both kinds, and a clock for it.
func swept(t *testing.T, server string, sweepEvery time.Duration) (*postgres.Store, clock) {
	t.Helper()
	url := tables(t, server)
	c := newClock(t, url)
	o := postgres.Options{SweepEvery: sweepEvery}
	o.SetClock(clockExpression)
	s := open(t, url, &o)
	keys := make([]string, expiring+lasting)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	err := s.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
		for i := range cells {
			cells[i].State.A, cells[i].TTL, cells[i].Dirty = 1, algo.Second, true
			if i >= expiring {
				cells[i].TTL = algo.Day
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

const rows = "SELECT count(*) FROM stint_state"

func testSweep(t *testing.T, server string) {
	t.Run("what expired a minute ago", func(t *testing.T) {
		s, c := swept(t, server, time.Hour)
		for _, test := range []struct {
			advance time.Duration
			want    int64
		}{
			{0, expiring + lasting},
			{time.Minute, expiring + lasting},
			{time.Second, lasting},
			{25 * time.Hour, 0},
		} {
			c.advance(t, test.advance)
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := number(t, c.url, rows); n != test.want {
				t.Errorf("%v later a sweep leaves %d rows, want %d", test.advance, n, test.want)
			}
		}
	})
	t.Run("by itself", func(t *testing.T) {
		_, c := swept(t, server, 5*time.Millisecond)
		c.advance(t, 2*time.Minute)
		n := number(t, c.url, rows)
		for began := time.Now(); n != lasting && time.Since(began) < 10*time.Second; n = number(t, c.url, rows) {
			time.Sleep(5 * time.Millisecond)
		}
		if n != lasting {
			t.Errorf("%d rows are left, want %d", n, lasting)
		}
	})
	t.Run("one node at a time, which waits for nobody", func(t *testing.T) {
		s, c := swept(t, server, time.Hour)
		c.advance(t, 2*time.Minute)
		other := connect(t, c.url)
		defer other.Close(t.Context())
		const lock = "((x'7374696e'::bigint << 32) + 'stint_state'::regclass::oid::bigint)"
		for _, statement := range []string{"SELECT pg_advisory_lock" + lock, "BEGIN", "SELECT FROM stint_state WHERE key = 'key 7' FOR UPDATE"} {
			if _, err := other.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []int64{expiring + lasting, lasting + 1, lasting} {
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := number(t, c.url, rows); n != want {
				t.Errorf("%d rows are left, want %d", n, want)
			}
			switch want {
			case expiring + lasting: // somebody else is sweeping
				other.Exec(t.Context(), "SELECT pg_advisory_unlock"+lock)
			case lasting + 1: // somebody has a row
				other.Exec(t.Context(), "COMMIT")
			}
		}
	})
}
