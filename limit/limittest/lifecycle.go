package limittest

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

func expiry(t *testing.T, h Harness) {
	const ttl = 400 * algo.Millisecond
	s := h.open(t)
	put(t, s, algo.State{A: 1}, math.MaxInt64, "for ever")
	put(t, s, algo.State{A: 1}, algo.Day, "dropped")
	put(t, s, algo.State{A: 2}, 0, "dropped")
	put(t, s, algo.State{A: 1}, -algo.Second, "never kept")
	put(t, s, algo.State{A: 1}, ttl, "renewed")

	_, earliest := look(t, s, "short")
	put(t, s, algo.State{A: 1}.WithEntries("log"), ttl, "short")
	_, latest := look(t, s, "short") // short was put between the two
	renewed := false
	for alive := true; alive; {
		state, now := look(t, s, "short")
		alive = !state.Equal(algo.State{})
		switch {
		case !alive && now < earliest+ttl:
			t.Fatalf("gone %v before its TTL ends", earliest+ttl-now)
		case alive && now > latest+ttl+algo.Second:
			t.Fatalf("still there %v after its TTL has ended", now-latest-ttl)
		}
		if !renewed && now > earliest+ttl/2 {
			put(t, s, algo.State{A: 2}, algo.Day, "renewed")
			renewed = true
		}
		h.pause(t, 20*time.Millisecond)
	}
	for key, want := range map[string]int64{"for ever": 1, "dropped": 0, "never kept": 0, "renewed": 2, "short": 0} {
		if got, _ := look(t, s, key); got.A != want {
			t.Errorf("%q holds %d, want %d", key, got.A, want)
		}
	}
	update(t, s, count, "short")
	if got, _ := look(t, s, "short"); !got.Equal(algo.State{A: 1}) {
		t.Errorf("a key that had expired begins with %s, want the zero State counted up once", brief(got))
	}
}

func cancellation(t *testing.T, h Harness) {
	s := h.open(t)
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for op, err := range map[string]error{
			"update": s.Update(ctx, []string{"key"}, func(algo.Ticks, []limit.Cell) error {
				t.Error("fn is called though the context has ended")
				return nil
			}),
			"delete": s.Delete(ctx, "key"),
			"ping":   s.Ping(ctx),
		} {
			if fault := storeError(t, op, err, context.Canceled); fault.Sent {
				t.Errorf("%s says that it was sent", op)
			}
		}
	})
	t.Run("during", func(t *testing.T) {
		var tally tally
		for i := range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
			tally.update(ctx, t, s, nil)
			cancel()
		}
		tally.check(t, s)
	})
	t.Run("in fn", func(t *testing.T) {
		var tally tally
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			tally.update(ctx, t, s, cancel)
		}
		tally.check(t, s)
	})
}

// tally counts a key up and keeps book of which updates must have had an
// effect, which may have had one, and how many failed in all.
type tally struct{ sure, unsure, failed atomic.Int64 }

func (c *tally) key(t testing.TB) string { return t.Name()[max(0, len(t.Name())-limit.MaxKeyLen):] }

func (c *tally) update(ctx context.Context, t *testing.T, s limit.Store, inside func()) {
	began := time.Now()
	err := s.Update(ctx, []string{c.key(t)}, func(_ algo.Ticks, cells []limit.Cell) error {
		count(cells)
		cells[0].TTL, cells[0].Dirty = algo.Day, true
		if inside != nil {
			inside()
		}
		return nil
	})
	if took := time.Since(began); took > patience/2 {
		t.Errorf("an update came back %v after its context could end", took)
	}
	if err == nil {
		c.sure.Add(1)
		return
	}
	if storeError(t, "update", err, nil).Sent {
		c.unsure.Add(1)
	}
	c.failed.Add(1)
}

func (c *tally) check(t *testing.T, s limit.Store) {
	t.Helper()
	got, _ := look(t, s, c.key(t))
	if sure, most := c.sure.Load(), c.sure.Load()+c.unsure.Load(); got.A < sure || got.A > most {
		t.Errorf("the key counts %d, want %d that succeeded and at most %d more that were sent", got.A, sure, most-sure)
	}
}

func durability(t *testing.T, h Harness) {
	if h.Reopen == nil {
		t.Skip("the states live and die with their client")
	}
	first := h.Open(t)
	for i, state := range extremes {
		put(t, first, state, algo.Day, hostile[i])
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := closed(t, h.Reopen(t))
	for i, want := range extremes {
		if got, _ := look(t, second, hostile[i]); !got.Equal(want) {
			t.Errorf("put %s, after a reopening got %s", brief(want), brief(got))
		}
	}
}

// brokenConnection cuts the connection under a load, again and again, and
// compares what the key counts with what the callers were told.
func brokenConnection(t *testing.T, h Harness) {
	if h.Break == nil {
		t.Skip("there is no connection to cut")
	}
	s := h.open(t)
	var tally tally
	ctx := timeout(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				tally.update(ctx, t, s, nil)
				cancel()
			}
		})
	}
	for range 3 {
		more(t, &tally.sure)
		repair := h.Break(t)
		more(t, &tally.failed)
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		storeError(t, "ping", s.Ping(short), nil)
		cancel()
		repair()
		recovers(t, s)
	}
	more(t, &tally.sure)
	close(stop)
	wg.Wait()
	tally.check(t, s)
}

// more waits until n has grown by some.
func more(t *testing.T, n *atomic.Int64) {
	t.Helper()
	const some = 8
	enough := n.Load() + some
	for began := time.Now(); n.Load() < enough; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Errorf("in %v there were less than %d more updates of this kind", patience, some)
			return
		}
	}
}

func recovers(t *testing.T, s limit.Store) {
	t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = s.Ping(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	t.Errorf("%v after the repair: %v", patience, err)
}

func closing(t *testing.T, h Harness) {
	running := goleak.IgnoreCurrent()
	s := h.Open(t)
	var wg sync.WaitGroup
	started := make(chan struct{}, 8)
	for range cap(started) {
		wg.Go(func() { updateUntilClosed(t, s, started) })
	}
	for range cap(started) {
		<-started
	}
	if err := s.Close(); err != nil {
		t.Errorf("close while updates are under way: %v", err)
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	calls := map[string]error{
		"update": s.Update(t.Context(), []string{"key"}, func(algo.Ticks, []limit.Cell) error { return nil }),
		"delete": s.Delete(t.Context(), "key"),
		"ping":   s.Ping(t.Context()),
	}
	if lister, ok := s.(limit.Lister); ok {
		for _, err := range lister.List(t.Context(), "") {
			calls["list"] = err
		}
		if calls["list"] == nil {
			t.Error("list of a closed store yields no error")
		}
	}
	if taker, ok := s.(limit.Taker); ok {
		_, calls["take"] = taker.Take(t.Context(), year(algo.GCRA, 1), "key", 1)
	}
	for op, err := range calls {
		if fault := storeError(t, op, err, limit.ErrClosed); fault.Sent {
			t.Errorf("%s of a closed store says that it was sent", op)
		}
	}
	goleak.VerifyNone(t, running)
}

// updateUntilClosed updates until an error, which must be ErrClosed.
func updateUntilClosed(t *testing.T, s limit.Store, started chan<- struct{}) {
	for i := 0; ; i++ {
		err := s.Update(t.Context(), []string{"key"}, func(_ algo.Ticks, cells []limit.Cell) error {
			count(cells)
			cells[0].TTL, cells[0].Dirty = algo.Day, true
			return nil
		})
		if i == 0 {
			started <- struct{}{}
		}
		if err != nil {
			storeError(t, "update during close", err, limit.ErrClosed)
			return
		}
	}
}
