package limittest

import (
	"math"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

func expiry(t *testing.T, h Harness) {
	t.Run("update", func(t *testing.T) { expires(t, h, h.open(t), put) })
	t.Run("swap", func(t *testing.T) {
		s := h.open(t)
		if _, ok := s.(limit.Swapper); !ok {
			t.Skip("the store is no limit.Swapper")
		}
		expires(t, h, s, putBySwap)
	})
}

type putter func(t testing.TB, s limit.Store, state algo.State, ttl algo.Ticks, keys ...string)

// expires checks that what put writes lives as long as its TTL.
func expires(t *testing.T, h Harness, s limit.Store, put putter) {
	const ttl = 400 * algo.Millisecond
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

func closing(t *testing.T, h Harness) {
	running := goleak.IgnoreCurrent()
	s := h.Open(t)
	var wg sync.WaitGroup
	all := adders(s)
	started := make(chan struct{}, 8)
	for i := range cap(started) {
		wg.Go(func() { addUntilClosed(t, all[i%len(all)], started) })
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
	for op, call := range calls(s) {
		if fault := storeError(t, op, call(t.Context()), limit.ErrClosed); fault.Sent {
			t.Errorf("%s of a closed store says that it was sent", op)
		}
	}
	goleak.VerifyNone(t, running)
}

// addUntilClosed adds until an error, which must be ErrClosed.
func addUntilClosed(t *testing.T, a adder, started chan<- struct{}) {
	for i := 0; ; i++ {
		_, err := a.add(t.Context())
		if i == 0 {
			started <- struct{}{}
		}
		if err != nil {
			storeError(t, a.name+" during close", err, limit.ErrClosed)
			return
		}
	}
}
