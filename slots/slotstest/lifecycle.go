package slotstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

func durability(t *testing.T, h Harness) {
	if h.Reopen == nil {
		t.Skip("the data live and die with their client")
	}
	first, store := h.Open(t)
	before(t, first)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	second := closed(t, h.Reopen)
	state(t, "opened again", second, false)
	tx := begin(t, second, "payments")
	if err := tx.Commit(something(*tx.Config())); err != nil {
		t.Fatal(err)
	}
	state(t, "opened again and changed", closed(t, h.Reopen), true)
}

// closing closes a ledger while events are booked in it.
func closing(t *testing.T, h Harness) {
	running := goleak.IgnoreCurrent()
	l, store := h.Open(t)
	create(t, l, "payments")
	s := slots.New(l, &slots.Options{Timeout: patience})
	var wg sync.WaitGroup
	started := make(chan struct{}, 8)
	for g := range cap(started) {
		wg.Go(func() {
			for i, began := 0, time.Now(); ; i++ {
				_, err := bookNew(t.Context(), s, fmt.Sprintf("event %d of %d", i, g), noon)
				if i == 0 {
					started <- struct{}{}
				}
				if err != nil {
					fault(t, "book during close", err, slots.ErrClosed)
					return
				}
				if time.Since(began) > patience {
					t.Errorf("events are still booked after %v", patience)
					return
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	if err := store.Close(); err != nil {
		t.Errorf("close while events are booked: %v", err)
	}
	wg.Wait()
	s.Close()
	if err := store.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	for op, call := range calls(l, "payments") {
		unsent(t, op+" of a closed ledger", call(t.Context()), slots.ErrClosed)
	}
	goleak.VerifyNone(t, running)
}

// outcome is what a caller was told.
type outcome struct {
	event slots.Event
	err   error
}

// brokenConnection cuts the connection while events are booked, again and again,
// and compares what is booked with what the callers were told.
func brokenConnection(t *testing.T, h Harness) {
	if h.Break == nil {
		t.Skip("there is no connection to cut")
	}
	l := h.open(t)
	patient := slots.New(l, nil) // what makes the config is not what is tested
	t.Cleanup(func() { patient.Close() })
	if _, err := patient.Configure(timeout(t), "payments", fourSeconds(7)); err != nil {
		t.Fatal(err)
	}
	s := slots.New(l, &slots.Options{Timeout: 500 * time.Millisecond})
	t.Cleanup(func() { s.Close() })
	_, now, err := l.Config(timeout(t), "payments")
	if err != nil {
		t.Fatal(err)
	}
	at := now + plan.Hour
	told := make([]map[string]outcome, 8) // by caller and id
	var fine, failed atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range told {
		told[g] = make(map[string]outcome)
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("event %d of %d", i, g)
				e, err := bookNew(t.Context(), s, id, at)
				if told[g][id] = (outcome{e, err}); err == nil {
					fine.Add(1)
				} else {
					failed.Add(1)
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	// Few cuts fall between a commit and its answer.
	for cuts, began := 0, time.Now(); cuts < 3 || cuts < 30 && time.Since(began) < 4*time.Second; cuts++ {
		more(t, "were booked", &fine)
		repair := h.Break(t)
		more(t, "failed", &failed)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		for _, op := range []string{"begin", "config", "event", "events"} {
			fault(t, op+" without a connection", calls(l, "payments")[op](ctx), nil)
		}
		cancel()
		repair()
		recovers(t, l)
	}
	more(t, "were booked", &fine)
	close(stop)
	wg.Wait()

	unsure := 0
	for _, own := range told {
		for id, o := range own {
			e, err := l.Event(timeout(t), "payments", id)
			switch {
			case o.err == nil:
				if err != nil || e != o.event {
					t.Errorf("event %q was booked as %+v; afterwards it is %+v, %v", id, o.event, e, err)
				}
			case fault(t, "book", o.err, nil).Sent:
				unsure++
			case !errors.Is(err, slots.ErrNoEvent):
				t.Errorf("event %q was not sent to be booked (%v); afterwards it is %+v, %v", id, o.err, e, err)
			}
			if again, err := s.Book(timeout(t), "payments", slots.Request{ID: id, At: at}); err != nil || o.err == nil && again.Event != o.event {
				t.Errorf("event %q is booked again as %+v, %v; it was %+v", id, again, err, o.event)
			}
		}
	}
	r := audited(t, l)
	if n := int(fine.Load() + failed.Load()); len(r.Events) != n {
		t.Errorf("%d events are booked, want %d", len(r.Events), n)
	}
	t.Logf("%d events were booked, %d failed, %d of those not for sure", fine.Load(), failed.Load(), unsure)
}

// more waits until some more have been counted.
func more(t *testing.T, what string, n *atomic.Int64) {
	t.Helper()
	enough := n.Load() + 20
	for began := time.Now(); n.Load() < enough; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("in %v less than 20 more events %s", patience, what)
		}
	}
}

// recovers waits until the ledger answers.
func recovers(t *testing.T, l slots.Ledger) {
	t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < patience; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, _, err = l.Config(ctx, "payments")
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatalf("%v after the repair: %v", patience, err)
}
