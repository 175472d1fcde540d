package mongodb_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/mongodb"
)

func TestUpdate(t *testing.T) {
	d := start(t)
	t.Run("several keys", func(t *testing.T) { severalKeys(t, d.store(t, nil)) })
	t.Run("what fn leaves in Version is ignored", func(t *testing.T) { fnSetsVersion(t, d.store(t, nil)) })
	t.Run("a clock that is stepped back", func(t *testing.T) { clockStepsBack(t, d) })
	t.Run("a state expires on the microsecond or at most a millisecond later", func(t *testing.T) { expiresLate(t, d) })
	t.Run("a context ends a contest", func(t *testing.T) { contest(t, d) })
	t.Run("the server's clock", func(t *testing.T) { serverClock(t, d.store(t, nil)) })
	t.Run("a key that is too long", func(t *testing.T) {
		s := d.store(t, nil)
		err := s.Update(t.Context(), []string{strings.Repeat("k", 513)}, func(algo.Ticks, []limit.Cell) error { return nil })
		wantError(t, err, "mongodb: update: key must have 1 to 512 bytes")
		_, err = s.Swap(t.Context(), []limit.Cell{{}})
		wantError(t, err, "mongodb: swap: key must have 1 to 512 bytes")
	})
}

// wantError checks the text of err and that it is a *limit.StoreError of
// something that was not sent.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	e, ok := errors.AsType[*limit.StoreError](err)
	if !ok || e.Sent || err.Error() != want {
		t.Errorf("got the error\n%v\nwant one that was not sent\n%s", err, want)
	}
}

func severalKeys(t *testing.T, s *mongodb.Store) {
	both := func(dirty ...bool) error {
		return s.Update(t.Context(), []string{"a", "b"}, func(_ algo.Ticks, cells []limit.Cell) error {
			for i := range cells {
				cells[i].State.A++
				cells[i].TTL, cells[i].Dirty = algo.Day, dirty[i]
			}
			return nil
		})
	}
	err := both(true, true)
	wantError(t, err, "mongodb: update: several keys cannot be changed together; change one at a time")
	if !errors.Is(err, mongodb.ErrApart) {
		t.Errorf("%v is not ErrApart", err)
	}
	if err := both(false, true); err != nil {
		t.Errorf("one of two keys changed: %v", err)
	}
	same := func(n int64) int64 { return n }
	if a, b := count(t, s, "a", same), count(t, s, "b", same); a != 0 || b != 1 {
		t.Errorf("a is %d and b is %d, want 0 and 1", a, b)
	}
	if !s.Together([]string{"a"}) || s.Together([]string{"a", "b"}) {
		t.Error("want one key together and two not")
	}
}

func fnSetsVersion(t *testing.T, s *mongodb.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, version := range []int64{77, 0} {
		err := s.Update(ctx, []string{"key"}, func(_ algo.Ticks, cells []limit.Cell) error {
			c := &cells[0]
			c.State.A++
			c.TTL, c.Dirty, c.Version = algo.Day, true, version
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if n := count(t, s, "key", func(n int64) int64 { return n }); n != 2 {
		t.Errorf("the count is %d, want 2", n)
	}
}

// A new primary may have a clock that is behind the old one's.
func clockStepsBack(t *testing.T, d *databases) {
	clock := noon
	s := d.store(t, new(mongodb.Options).WithClock(func() algo.Ticks { return clock }))
	at := func() (now algo.Ticks, a int64) {
		err := s.Update(t.Context(), []string{"key"}, func(at algo.Ticks, cells []limit.Cell) error {
			c := &cells[0]
			now, a = at, c.State.A
			c.State.A++
			c.TTL, c.Dirty = algo.Second, true
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return now, a
	}
	for i, test := range []struct{ clock, now algo.Ticks }{
		{noon, noon},
		{noon - algo.Hour, noon},
		{noon - algo.Hour, noon},
		{noon + algo.Millisecond, noon + algo.Millisecond},
	} {
		clock = test.clock
		if now, a := at(); now != test.now || a != int64(i) {
			t.Errorf("at %v from noon an update sees %v from noon and the count %d, want %v and %d", clock-noon, now-noon, a, test.now-noon, i)
		}
	}
}

func expiresLate(t *testing.T, d *databases) {
	clock := noon + 1
	s := d.store(t, new(mongodb.Options).WithClock(func() algo.Ticks { return clock }))
	c := change(limit.Cell{Key: "key"})
	c.TTL = algo.Second
	swap(t, s, c)
	for _, test := range []struct{ clock, want algo.Ticks }{
		{noon + 1 + algo.Second - 1, 1},
		{noon + algo.Second + algo.Millisecond, 0},
	} {
		clock = test.clock
		if c := swap(t, s, limit.Cell{Key: "key"})[0]; c.State.A != int64(test.want) {
			t.Errorf("%v after noon the count is %d, want %d", clock-noon, c.State.A, test.want)
		}
	}
}

// Somebody else changes the key whenever this update has looked at it.
func contest(t *testing.T, d *databases) {
	s := d.store(t, nil)
	other := open(t, d.last, nil)
	defer other.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	runs := 0
	err := s.Update(ctx, []string{"key"}, func(_ algo.Ticks, cells []limit.Cell) error {
		runs++
		count(t, other, "key", func(n int64) int64 { return n + 1 })
		cells[0].State.A, cells[0].TTL, cells[0].Dirty = -1, algo.Day, true
		return nil
	})
	if e, ok := errors.AsType[*limit.StoreError](err); !ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v after %d runs, want a *limit.StoreError that is %v", e, runs, context.DeadlineExceeded)
	}
	if n := count(t, s, "key", func(n int64) int64 { return n }); n != int64(runs) || runs < 2 {
		t.Errorf("the count is %d after %d runs, want as many, and several", n, runs)
	}
}

// serverClock checks that the time is the server's, and has its milliseconds:
// this test and its server are on one machine.
func serverClock(t *testing.T, s *mongodb.Store) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			before := time.Now().UnixMilli()
			err := s.Update(t.Context(), []string{"key"}, func(now algo.Ticks, _ []limit.Cell) error {
				if ms := int64(now / algo.Millisecond); ms < before-60_000 || ms > before+60_000 || now%algo.Millisecond != 0 {
					t.Errorf("the server's clock says %d, this machine's %dms", now, before)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
