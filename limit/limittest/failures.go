package limittest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

func cancellation(t *testing.T, h Harness) {
	s := h.open(t)
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for op, call := range calls(s) {
			if op == "list" || op == "take" || op == "listen" {
				continue // they may do without, or have no error of the store's
			}
			if fault := storeError(t, op, call(ctx), context.Canceled); fault.Sent {
				t.Errorf("%s says that it was sent", op)
			}
		}
		if got, _ := look(t, s, "key"); !got.Equal(algo.State{}) {
			t.Errorf("after calls with a context that had ended there is %s", brief(got))
		}
	})
	for _, a := range adders(s) {
		t.Run("during "+a.name, func(t *testing.T) {
			tally := tally{adder: a}
			step := max(10*time.Microsecond, tally.took(t)/50)
			for i := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*step)
				tally.add(ctx, t)
				cancel()
			}
			tally.check(t, s)
		})
	}
	t.Run("in fn", func(t *testing.T) {
		var tally tally
		tally.adder = adder{name: "update", key: "cancelled inside", read: func(s algo.State) int64 { return s.A }}
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			tally.adder.add = func(ctx context.Context) (bool, error) { return addByUpdate(ctx, s, tally.key, cancel) }
			tally.add(ctx, t)
		}
		tally.check(t, s)
	})
}

// tally keeps book of an adder: how many of its calls must have added one, how
// many may have, and how many failed in all.
type tally struct {
	adder
	sure, unsure, failed atomic.Int64
}

func (c *tally) add(ctx context.Context, t testing.TB) {
	began := time.Now()
	added, err := c.adder.add(ctx)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("%s came back %v after its context could end", c.name, took)
	}
	switch {
	case err != nil:
		c.failed.Add(1)
		if storeError(t, c.name, err, nil).Sent {
			c.unsure.Add(1)
		}
	case added:
		c.sure.Add(1)
	}
}

// took returns how long it takes to add one.
func (c *tally) took(t testing.TB) time.Duration {
	began := time.Now()
	c.add(timeout(t), t)
	return time.Since(began)
}

// check compares what the key counts with the book. A connection that was cut
// may still be in use, so it looks as often as it takes.
func (c *tally) check(t testing.TB, s limit.Store) {
	t.Helper()
	var got algo.State
	persist(t, "a look at what was counted", func(ctx context.Context) error {
		return s.Update(ctx, []string{c.key}, func(_ algo.Ticks, cells []limit.Cell) error {
			got = cells[0].State
			return nil
		})
	})
	if n, sure, most := c.read(got), c.sure.Load(), c.sure.Load()+c.unsure.Load(); n < sure || n > most {
		t.Errorf("%s: the key counts %d, want %d that succeeded and at most %d more that were sent", c.name, n, sure, most-sure)
	}
}

// persist calls do until it succeeds.
func persist(t testing.TB, what string, do func(ctx context.Context) error) {
	t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = do(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	t.Errorf("%s still fails after %v: %v", what, patience, err)
}

// brokenConnection cuts the connection under a load, again and again, and
// compares what the keys count with what the callers were told.
func brokenConnection(t *testing.T, h Harness) {
	if h.Break == nil {
		t.Skip("there is no connection to cut")
	}
	s := h.open(t)
	ctx := timeout(t)
	var tallies []*tally
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, a := range adders(s) {
		tally := &tally{adder: a}
		tallies = append(tallies, tally)
		for range 2 {
			wg.Go(func() { tally.addUntil(ctx, t, stop) })
		}
	}
	for range 3 {
		more(t, tallies, func(c *tally) int64 { return c.sure.Load() })
		repair := h.Break(t)
		more(t, tallies, func(c *tally) int64 { return c.failed.Load() })
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		storeError(t, "ping", s.Ping(short), nil)
		cancel()
		repair()
		persist(t, "a ping after the repair", s.Ping)
	}
	more(t, tallies, func(c *tally) int64 { return c.sure.Load() })
	close(stop)
	wg.Wait()
	for _, c := range tallies {
		c.check(t, s)
	}
}

func (c *tally) addUntil(ctx context.Context, t testing.TB, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		c.add(short, t)
		cancel()
	}
}

// more waits until n has grown by some of every tally.
func more(t *testing.T, tallies []*tally, n func(*tally) int64) {
	t.Helper()
	const some = 4
	for _, c := range tallies {
		enough := n(c) + some
		for began := time.Now(); n(c) < enough; time.Sleep(time.Millisecond) {
			if time.Since(began) > patience {
				t.Errorf("in %v there were less than %d more calls of %s of this kind", patience, some, c.name)
				return
			}
		}
	}
}
