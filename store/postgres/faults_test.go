package postgres_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/postgres"
)

func testFaults(t *testing.T, server string) {
	told := func(t *testing.T, err error, want string) {
		t.Helper()
		fault, ok := errors.AsType[*limit.StoreError](err)
		if !ok || err.Error() != want || fault.Sent {
			t.Errorf("got  %v\nwant %s, a *limit.StoreError that was not sent", err, want)
		}
	}
	t.Run("a key of 513 bytes", func(t *testing.T) {
		s, key := open(t, tables(t, server), nil), strings.Repeat("k", 513)
		const want = "key must have 1 to 512 bytes"
		told(t, count(t.Context(), s, key), "postgres: update: "+want)
		told(t, s.Delete(t.Context(), key), "postgres: delete: "+want)
		_, err := s.Swap(t.Context(), []limit.Cell{{Key: key}})
		told(t, err, "postgres: swap: "+want)
		told(t, s.TakeBulk(t.Context(), []limit.Take{{Key: key}}), "postgres: take: "+want)
	})
	t.Run("statement_timeout", func(t *testing.T) {
		url := tables(t, server)
		s := open(t, with(t, url, "statement_timeout", "50ms"), nil)
		if err := count(t.Context(), s, "key"); err != nil {
			t.Fatal(err)
		}
		holder := connect(t, url)
		defer holder.Close(t.Context())
		if _, err := holder.Exec(t.Context(), "BEGIN; SELECT FROM stint_state FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		told(t, count(t.Context(), s, "key"), "postgres: update: canceling statement due to statement timeout")
		if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := count(t.Context(), s, "key"); err != nil {
			t.Errorf("the row is free again: %v", err)
		}
		if n := number(t, url, "SELECT a FROM stint_state"); n != 2 {
			t.Errorf("the key counts %d, want 2: the update in between was called off", n)
		}
	})
	t.Run("all connections in use", func(t *testing.T) {
		url := tables(t, server)
		s := open(t, url, &postgres.Options{PoolSize: 2})
		holder := connect(t, url)
		defer holder.Close(t.Context())
		if _, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE stint_state"); err != nil {
			t.Fatal(err)
		}
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() { s.Ping(t.Context()) })
		}
		const busy = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'stint_state'::regclass"
		for began := time.Now(); number(t, url, busy) < 2 && time.Since(began) < 10*time.Second; {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		told(t, count(ctx, s, "key"), "postgres: update: all 2 connections are in use: context deadline exceeded")
		if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
		if err := count(t.Context(), s, "key"); err != nil {
			t.Errorf("the connections are free again: %v", err)
		}
	})
}

// What was looked at and is gone when it is written is looked at again.
func testGoneMeanwhile(t *testing.T, server string) {
	for _, keys := range [][]string{{"one"}, {"one", "two"}} {
		url := tables(t, server)
		s := open(t, url, nil)
		if err := count(t.Context(), s, keys...); err != nil {
			t.Fatal(err)
		}
		var found []int64
		err := s.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
			found = append(found, cells[0].State.A)
			if len(found) == 1 {
				execute(t, url, "DELETE FROM stint_state WHERE key = 'one'")
			}
			for i := range cells {
				cells[i].State.A++
				cells[i].TTL, cells[i].Dirty = algo.Day, true
			}
			return nil
		})
		if diff := cmp.Diff([]int64{1, 0}, found); diff != "" || err != nil {
			t.Errorf("an update of %q: %v, and it found (-want +got):\n%s", keys, err, diff)
		}
		if n, want := number(t, url, "SELECT sum(a)::bigint FROM stint_state"), int64(2*len(keys)-1); n != want {
			t.Errorf("%q count %d together, want %d", keys, n, want)
		}
	}
}

// A clock that is stepped back admits nothing extra, and brings nothing back
// that was deleted.
func testClockSteppedBack(t *testing.T, server string) {
	url := tables(t, server)
	c := newClock(t, url)
	var o postgres.Options
	o.SetClock(clockExpression)
	s := open(t, url, &o)
	p := &limit.Policy{Name: "login", Quota: 5, Window: time.Minute}
	key, deleted := limit.StoreKey(p, "alice"), limit.StoreKey(p, "bob")
	spend := func(key string) limit.Take {
		t.Helper()
		takes := []limit.Take{{Policy: p, Key: key, Cost: 5, Times: 1}}
		if err := s.TakeBulk(t.Context(), takes); err != nil {
			t.Fatal(err)
		}
		return takes[0]
	}
	noon := spend(key).Now
	spend(deleted)
	if err := s.Delete(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}

	c.set(t, int64(noon-30*algo.Second))
	take := spend(key)
	if take.Now != noon-30*algo.Second || take.Before.At != noon || take.Before.A != 5 {
		t.Errorf("30s earlier: %+v, want the 5 units of noon", take)
	}
	_, v := p.Decide(take.Before, take.Now, 5)
	if want := 90 * algo.Second; v.OK || v.RetryAfter != want {
		t.Errorf("30s earlier: %+v, want a denial for %v", v, want)
	}
	if got := spend(deleted); got.Before != (algo.State{}) {
		t.Errorf("30s earlier what was deleted is %+v, want the zero State", got.Before)
	}
	c.set(t, int64(noon+60*algo.Second))
	take = spend(key)
	if _, v = p.Decide(take.Before, take.Now, 5); !v.OK {
		t.Errorf("60s later: %+v, want it admitted", v)
	}
}

// What does not fit the arithmetic of SQL is left to Update.
func testTakesBulk(t *testing.T, server string) {
	s := open(t, tables(t, server), nil)
	const year = 365 * 24 * time.Hour
	for _, test := range []struct {
		policy limit.Policy
		cost   int64
		want   bool
	}{
		{limit.Policy{Quota: 1, Window: time.Millisecond}, 1, true},
		{limit.Policy{Quota: 1e12, Window: time.Second}, 1e12, true},
		{limit.Policy{Quota: 1000, Window: time.Minute, Burst: 10}, 11, false},
		{limit.Policy{Quota: 1000, Window: time.Minute}, 0, false},
		{limit.Policy{Quota: 0, Window: time.Minute}, 1, false},
		{limit.Policy{Quota: 10_000, Window: year}, 1, true},
		{limit.Policy{Quota: 1e9, Window: year}, 1, false},
		{limit.Policy{Quota: math.MaxInt64, Window: time.Millisecond, Burst: 1}, 1, false},
		{limit.Policy{Quota: 5, Window: time.Minute, Algorithm: algo.Sliding}, 1, false},
	} {
		if got := s.TakesBulk(&test.policy, test.cost); got != test.want {
			t.Errorf("%+v, cost %d: %v, want %v", test.policy.Limit(), test.cost, got, test.want)
		}
	}
}
