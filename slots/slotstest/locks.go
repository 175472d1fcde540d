package slotstest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// exclusion has transactions of two clients read what they then write one more of.
func exclusion(t *testing.T, h Harness) {
	clients := h.clients(t)
	create(t, clients[0], "payments")
	const callers, each = 8, 10
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for range each {
				if err := addOne(timeout(t), clients[g%2]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	tx := begin(t, clients[0], "payments")
	if got := tx.Config().PausedUntil; got != callers*each {
		t.Errorf("%d transactions have each added one to what they have read, and the sum is %d", callers*each, got)
	}
	if n := len(list(t, clients[1], "payments")); n != callers*each {
		t.Errorf("they have booked %d events, want %d", n, callers*each)
	}
}

// addOne uses the next phase of window 0, by what is taken there.
func addOne(ctx context.Context, l slots.Ledger) error {
	tx, err := l.Begin(ctx, "payments", nil, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	windows, err := tx.Taken(0, []int64{0})
	if err != nil {
		return err
	}
	c := *tx.Config()
	c.Revision++
	c.PausedUntil++
	w := plan.Window{Index: 0}
	for _, now := range windows {
		w.Taken = now.Taken
	}
	n := w.Taken.Count(int(c.PausedUntil) + 1)
	w.Taken = w.Taken.With(n)
	return tx.Commit(&slots.Changes{Config: &c, Booked: []slots.Event{event(fmt.Sprint("event ", n), 0, n)}, Windows: []plan.Window{w}})
}

// soon is how long a test waits for something that must not happen.
const soon = 100 * time.Millisecond

func independence(t *testing.T, h Harness) {
	clients := h.clients(t)
	create(t, clients[0], "payments")
	create(t, clients[0], "refunds")
	held := begin(t, clients[0], "payments")
	ctx, cancel := context.WithTimeout(t.Context(), patience/3)
	defer cancel()
	if !h.OneWriter {
		for op, call := range calls(clients[1], "refunds") {
			if err := call(ctx); err != nil && op != "event" {
				t.Errorf("%s while another config is locked: %v", op, err)
			}
		}
		other := begin(t, clients[1], "refunds")
		if err := other.Commit(&slots.Changes{Booked: []slots.Event{event("alice", 1, 1)}}); err != nil {
			t.Errorf("commit while another config is locked: %v", err)
		}
	}
	if h.Reopen != nil { // whoever only looks does not wait at all
		for op, call := range calls(clients[1], "payments") {
			if op == "begin" || op == "create" {
				continue
			}
			if err := call(ctx); err != nil && op != "event" {
				t.Errorf("%s while the config is locked: %v", op, err)
			}
		}
	}
	held.Rollback()
}

// waiting has one wait for the lock of a config until it has had enough.
func waiting(t *testing.T, h Harness) {
	clients := h.clients(t)
	before(t, clients[0])
	held := begin(t, clients[0], "payments")
	if err := held.Write(something(*held.Config())); err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func() (context.Context, context.CancelFunc){
		"timed out": func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), soon) },
		"cancelled": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(soon, cancel)
			return ctx, cancel
		},
	} {
		for i, l := range clients {
			began := time.Now()
			ctx, cancel := end()
			o := bounded(t, beginLater(ctx, l, "alice"))
			took := time.Since(began)
			unsent(t, name, o.err, ctx.Err())
			if took < soon || took > patience/2 {
				t.Errorf("%s by client %d: begin has waited %v; want about %v", name, i, took, soon)
			}
			cancel()
		}
	}

	// Whoever waits has it next, and what was written before.
	begun := beginLater(timeout(t), clients[1], "alice", "carol")
	select {
	case o := <-begun:
		t.Fatalf("begin has the lock that another has: %v, %v", o.tx, o.err)
	case <-time.After(soon):
	}
	if err := held.Commit(nil); err != nil {
		t.Fatal(err)
	}
	next := bounded(t, begun)
	if next.err != nil {
		t.Fatalf("begin after the lock was given back: %v", next.err)
	}
	same(t, "Known", map[string]slots.Event{"alice": event("alice", 2, 0), "carol": event("carol", 1, 0)}, next.tx.Known())
	if n := len(next.tx.Config().Versions); n != 2 {
		t.Errorf("the config has %d versions, want 2", n)
	}
	occupied(t, next.tx, []plan.Window{{Index: 1, Taken: bits(0)}, {Index: 2, Taken: bits(0)}}, plan.Runs{{From: 12, To: 15}, {From: 15, To: 25}})
	next.tx.Rollback()
	for _, l := range clients {
		commit(t, l, "payments", &slots.Changes{})
	}
}

// begun is what came of a Begin.
type begun struct {
	tx  slots.Tx
	err error
}

// beginLater begins a transaction for whose lock it may have to wait.
func beginLater(ctx context.Context, l slots.Ledger, ids ...string) <-chan begun {
	c := make(chan begun, 1)
	go func() {
		tx, err := l.Begin(ctx, "payments", ids, nil)
		c <- begun{tx, err}
	}()
	return c
}

// bounded returns what is to come from c before long.
func bounded(t testing.TB, c <-chan begun) begun {
	t.Helper()
	select {
	case b := <-c:
		return b
	case <-time.After(patience / 2):
		t.Fatalf("begin goes on waiting after %v", patience/2)
		return begun{}
	}
}

func clock(t *testing.T, h Harness) {
	clients := h.clients(t)
	create(t, clients[0], "payments")
	now := func(i int) plan.Ticks {
		_, now, err := clients[i].Config(timeout(t), "payments")
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	// It is read after the lock was had.
	held := begin(t, clients[0], "payments")
	begun := beginLater(timeout(t), clients[1])
	time.Sleep(soon)
	least := held.Now() + plan.Ticks(soon/2/time.Microsecond)
	if h.Advance != nil {
		h.Advance(t, time.Minute)
		least = held.Now() + plan.Minute
	}
	held.Rollback()
	next := bounded(t, begun)
	if next.err != nil {
		t.Fatal(next.err)
	}
	tx := next.tx
	if at := tx.Now(); at < least {
		t.Errorf("a transaction that has waited for one begun at %d is at %d, want %d or later: the clock is to be read under the lock", held.Now(), at, least)
	}
	tx.Rollback()

	for i := range 20 {
		first, tx := now(i%2), begin(t, clients[(i+1)%2], "payments")
		at := tx.Now()
		tx.Rollback()
		if last := now(i % 2); first > at || at > last {
			t.Errorf("Config is at %d, then Begin at %d, then Config at %d", first, at, last)
		} else if h.Advance != nil && first != last {
			t.Errorf("the clock stands still, and goes from %d to %d: it must be the ledger's", first, last)
		}
		if h.Advance != nil {
			h.Advance(t, 12345*time.Microsecond)
			if last := now(i % 2); last != first+12345 {
				t.Errorf("the clock was moved on by 12345, and goes from %d to %d", first, last)
			}
		}
	}
}
