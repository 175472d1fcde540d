package slots_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// door is a Ledger through whose door one transaction at a time may begin, while
// it is shut none.
type door struct {
	slots.Ledger
	shut   sync.Mutex
	begun  atomic.Int64 // transactions, those before the door included
	commit func(tx slots.Tx, c *slots.Changes) error
	// meanwhile is called when all wait that are to.
	meanwhile func()
}

// behind puts d before a ledger.
func (d *door) behind(l slots.Ledger) slots.Ledger {
	d.Ledger = l
	return d
}

func (d *door) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	d.begun.Add(1)
	d.shut.Lock()
	defer d.shut.Unlock()
	tx, err := d.Ledger.Begin(ctx, config, ids, cached)
	return doorTx{tx, d}, err
}

type doorTx struct {
	slots.Tx
	door *door
}

func (t doorTx) Commit(c *slots.Changes) error {
	if t.door.commit != nil {
		return t.door.commit(t.Tx, c)
	}
	return t.Tx.Commit(c)
}

// together has calls wait behind the door, in their order, so that all go in one
// transaction if they can, and returns how many they took.
func (d *desk) together(door *door, calls ...func()) (transactions int64) {
	d.t.Helper()
	var wg sync.WaitGroup
	before := door.begun.Load()
	func() {
		door.shut.Lock()
		defer door.shut.Unlock()
		// One transaction is under way, which has nothing to do.
		wg.Go(func() { d.Book(context.Background(), "payments", slots.Request{}) })
		d.until(func() bool { return door.begun.Load() == before+1 })
		for i, call := range calls {
			wg.Go(call)
			d.until(func() bool { return d.Waiting("payments") == i+1 })
		}
		if door.meanwhile != nil {
			door.meanwhile()
		}
	}()
	wg.Wait()
	return door.begun.Load() - before - 1
}

// until waits until something is so.
func (d *desk) until(so func() bool) {
	d.t.Helper()
	for began := time.Now(); !so(); time.Sleep(100 * time.Microsecond) {
		if time.Since(began) > 10*time.Second {
			d.t.Fatal("it does not come to pass in 10s")
		}
	}
}

func TestAllThatWaitGoTogether(t *testing.T) {
	var door door
	d := open(t, windows(10), door.behind, nil)
	var calls []func()
	for i := range 100 {
		calls = append(calls, func() {
			if r, err := d.Book(t.Context(), "payments", slots.Request{ID: fmt.Sprint("alice ", i), At: noon}); err != nil || r.Repeated {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	if n := d.together(&door, calls...); n != 1 {
		t.Errorf("100 calls took %d transactions, want 1", n)
	}
	d.equal("by second", each(10, 10), in(d.audit().Events))
}

func TestMaxGroup(t *testing.T) {
	var door door
	d := open(t, windows(10), door.behind, &slots.Options{MaxGroup: 10})
	var calls []func()
	for i := range 6 {
		calls = append(calls, func() {
			var rs []slots.Request
			for n := range []int{4, 4, 4, 25, 1, 1}[i] { // 4+4, 4, 25, 1+1
				rs = append(rs, slots.Request{ID: fmt.Sprintf("%d of %d", n, i), At: noon})
			}
			if _, err := d.BookAll(t.Context(), "payments", rs); err != nil {
				t.Error(err)
			}
		})
	}
	if n := d.together(&door, calls...); n != 4 {
		t.Errorf("they took %d transactions, want 4", n)
	}
}

// An id that is asked for more than once is booked once, for the first who asks.
func TestSameIDInOneTransaction(t *testing.T) {
	var door door
	d := open(t, windows(1), door.behind, nil)
	results := make([]slots.Result, 3)
	ask := func(i int, at plan.Ticks) func() {
		return func() {
			var err error
			if results[i], err = d.Book(t.Context(), "payments", slots.Request{ID: "alice", At: at}); err != nil {
				t.Error(err)
			}
		}
	}
	if n := d.together(&door, ask(0, noon+plan.Minute), ask(1, noon+plan.Minute), ask(2, noon)); n != 1 {
		t.Fatalf("they took %d transactions, want 1", n)
	}
	e := results[0].Event
	d.equal("who was first, who asked for the same, and who did not", []slots.Result{
		{Event: e}, {Event: e, Repeated: true}, {Event: e, Repeated: true, Conflict: true},
	}, results)
	d.equal("what is booked", []slots.Event{e}, d.audit().Events)

	batch, err := d.BookAll(t.Context(), "payments", []slots.Request{{ID: "bob", At: noon}, {ID: "alice", At: noon}, {ID: "bob", At: noon}})
	if err != nil {
		t.Fatal(err)
	}
	bob := batch[0].Event
	d.equal("in a batch", []slots.Result{{Event: bob}, {Event: e, Repeated: true, Conflict: true}, {Event: bob, Repeated: true}}, batch)
}

// Who is refused does not take it from those who ask for the same event on other
// terms. Those who ask on the same terms have the same answer.
func TestSameIDOnOtherTerms(t *testing.T) {
	var door door
	d := open(t, windows(1), door.behind, nil)
	d.book(noon, 5)
	results := make([]slots.Result, 5)
	var calls []func()
	for i, maxDelay := range []plan.Ticks{plan.Second, plan.Second, 2 * plan.Second, 0, 2 * plan.Second} {
		calls = append(calls, func() {
			results[i], _ = d.Book(t.Context(), "payments", slots.Request{ID: "alice", At: noon, MaxDelay: maxDelay})
		})
	}
	calls = append(calls, func() {
		if r, err := d.Book(t.Context(), "payments", slots.Request{ID: "bob", At: noon}); err != nil || r.Repeated {
			t.Errorf("bob: %+v, %v", r, err)
		}
	})
	if n := d.together(&door, calls...); n != 1 {
		t.Fatalf("they took %d transactions, want 1", n)
	}
	for i, r := range results {
		refused, _ := errors.AsType[*slots.Refused](r.Err)
		if booked := i == 3; booked == (refused != nil) || booked != (r.ID == "alice") || r.Repeated {
			t.Errorf("caller %d: %+v", i, r)
		}
	}
	if n := len(d.audit().Events); n != 7 {
		t.Errorf("%d events are booked, want 7", n)
	}
}

func TestCancelAndBookInOneTransaction(t *testing.T) {
	var door door
	d := open(t, windows(2), door.behind, nil)
	events := d.book(noon, 4)
	var moved slots.Event
	n := d.together(&door,
		func() {
			if e, err := d.Cancel(t.Context(), "payments", events[0].ID); err != nil || e.Cancelled == 0 {
				t.Errorf("cancel: %+v, %v", e, err)
			}
		},
		func() { d.equal("booked meanwhile", map[int]int{2: 1}, in(d.book(noon, 1))) },
		func() {
			var err error
			if moved, err = d.Reschedule(t.Context(), "payments", slots.Request{ID: events[1].ID, At: noon + 2*plan.Second}); err != nil {
				t.Error(err)
			}
		},
		func() {
			if e, err := d.Cancel(t.Context(), "payments", "nobody"); !errors.Is(err, slots.ErrNoEvent) {
				t.Errorf("an event that is not there: %+v, %v", e, err)
			}
		},
	)
	if n != 1 {
		t.Errorf("they took %d transactions, want 1", n)
	}
	d.equal("moved", map[int]int{2: 1}, in([]slots.Event{moved}))
	d.equal("what is booked", map[int]int{1: 2, 2: 2}, in(d.audit().Events))
	d.equal("what is booked next", map[int]int{0: 2, 3: 1}, in(d.book(noon, 3)))
	d.audit()
}

// Two changes of one event go one after the other.
func TestAlterationsOfOneEvent(t *testing.T) {
	var door door
	d := open(t, windows(2), door.behind, nil)
	e := d.book(noon, 1)[0]
	n := d.together(&door,
		func() { d.Reschedule(t.Context(), "payments", slots.Request{ID: e.ID, At: noon + plan.Minute}) },
		func() { d.Reschedule(t.Context(), "payments", slots.Request{ID: e.ID, At: noon + plan.Hour}) },
		func() { d.Cancel(t.Context(), "payments", e.ID) },
	)
	if n != 3 {
		t.Errorf("they took %d transactions, want 3", n)
	}
	if gone, err := d.memory.Event(t.Context(), "payments", e.ID); err != nil || gone.Cancelled == 0 || gone.Requested != noon+plan.Hour {
		t.Errorf("%+v, %v; want it moved by an hour, then cancelled", gone, err)
	}
	if n := len(d.audit().Events); n != 0 {
		t.Errorf("%d events are booked, want none", n)
	}
}

// What is configured holds for those who wait in the same transaction.
func TestConfigureInOneTransaction(t *testing.T) {
	var door door
	d := open(t, windows(1), door.behind, nil)
	d.book(noon, 3)
	n := d.together(&door,
		func() { d.equal("booked meanwhile", map[int]int{0: 2, 1: 2, 2: 1}, in(d.book(noon, 5))) },
		func() { d.configure(windows(2)) },
		func() {
			if _, err := d.Configure(t.Context(), "payments", windows(0)); err == nil {
				t.Error("no event in each second is allowed")
			}
		},
		func() { d.configure(windows(3)) },
		func() {
			if _, err := d.Pause(t.Context(), "payments", noon+plan.Minute); err != nil {
				t.Error(err)
			}
		},
		func() {
			if _, err := d.Pause(t.Context(), "payments", 0); err != nil {
				t.Error(err)
			}
		},
	)
	if n != 1 {
		t.Errorf("they took %d transactions, want 1", n)
	}
	c, _, err := d.memory.Config(t.Context(), "payments")
	if err != nil || len(c.Versions) != 3 || c.Versions[2].Max != 3 || c.PausedUntil != 0 {
		t.Errorf("%+v, %v; want three versions and no pause", c, err)
	}
	d.audit()
}

// lost is what a commit says when the connection is lost.
func lost(sent bool) error {
	return &slots.LedgerError{Store: "test", Op: "commit", Sent: sent, Err: errors.New("connection reset")}
}

// everything books, moves, cancels and configures in one transaction, and looks
// that it was done once.
func everything(t *testing.T, door *door, before func(d *desk)) {
	t.Helper()
	d := open(t, windows(2), door.behind, nil)
	events := d.book(noon, 4)
	before(d)
	var fresh []slots.Event
	d.together(door,
		func() { fresh = d.book(noon, 3) },
		func() {
			if e, err := d.Reschedule(t.Context(), "payments", slots.Request{ID: events[0].ID, At: noon + plan.Minute}); err != nil || e.Requested != noon+plan.Minute {
				t.Errorf("reschedule: %+v, %v", e, err)
			}
		},
		func() {
			if e, err := d.Cancel(t.Context(), "payments", events[1].ID); err != nil || e.Cancelled == 0 {
				t.Errorf("cancel: %+v, %v", e, err)
			}
		},
		func() { d.configure(windows(3)) },
	)
	for _, e := range fresh {
		if now, err := d.memory.Event(t.Context(), "payments", e.ID); err != nil || now != e {
			t.Errorf("%+v was told, and it is %+v, %v", e, now, err)
		}
	}
	c, _, err := d.memory.Config(t.Context(), "payments")
	if n := len(d.audit().Events); err != nil || n != 6 || len(c.Versions) != 2 {
		t.Errorf("%d events are booked under %d versions, %v; want 6 under 2", n, len(c.Versions), err)
	}
}

// A commit whose outcome is unknown is tried again, and what it has done is found.
func TestUnknownOutcome(t *testing.T) {
	for name, committed := range map[string]bool{"it was committed": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			var door door
			everything(t, &door, func(d *desk) {
				door.commit = func(tx slots.Tx, c *slots.Changes) error {
					door.commit = nil
					if committed {
						if err := tx.Commit(c); err != nil {
							return err
						}
					}
					d.now.Add(1000)
					return lost(true)
				}
			})
		})
	}
}

// If nothing is known after the second try, either, the error says that it may
// have been done.
func TestOutcomeThatRemainsUnknown(t *testing.T) {
	var door door
	d := open(t, windows(2), door.behind, nil)
	commits := 0
	door.commit = func(tx slots.Tx, c *slots.Changes) error {
		if commits++; commits == 1 {
			return lost(true)
		}
		return lost(false)
	}
	_, err := d.Book(t.Context(), "payments", slots.Request{ID: "alice", At: noon})
	if fault, ok := errors.AsType[*slots.LedgerError](err); !ok || !fault.Sent || commits != 2 {
		t.Errorf("after %d commits: %v; want two, and an error that says that it was sent", commits, err)
	}
	commits = 1
	_, err = d.Book(t.Context(), "payments", slots.Request{ID: "alice", At: noon})
	if fault, ok := errors.AsType[*slots.LedgerError](err); !ok || fault.Sent || commits != 2 {
		t.Errorf("after %d commit: %v; want one, and an error that says that nothing was sent", commits-1, err)
	}
	door.commit = nil
	if r, err := d.Book(t.Context(), "payments", slots.Request{ID: "alice", At: noon}); err != nil || r.Repeated {
		t.Errorf("when all is well again: %+v, %v", r, err)
	}
}

// A change of the config that fails leaves nothing in memory: the next revision
// may be another's.
func TestConfigThatWasNotCommitted(t *testing.T) {
	var door door
	d := open(t, windows(2), door.behind, nil)
	d.book(noon, 1)
	door.commit = func(slots.Tx, *slots.Changes) error { return lost(false) }
	if _, err := d.Configure(t.Context(), "payments", windows(9)); err == nil {
		t.Error("it was not committed, and no error tells")
	}
	door.commit = nil
	other := slots.New(d.memory, nil)
	defer other.Close()
	if _, err := other.Configure(t.Context(), "payments", windows(4)); err != nil {
		t.Fatal(err)
	}
	d.equal("by second", map[int]int{0: 3, 1: 4, 2: 1}, in(d.book(noon, 8)))
	d.audit()
}

// A reschedule that is not committed moves nothing.
func TestRescheduleIsAtomic(t *testing.T) {
	var door door
	d := open(t, windows(2), door.behind, nil)
	e := d.book(noon, 2)[0]
	door.commit = func(slots.Tx, *slots.Changes) error { return lost(false) }
	if _, err := d.Reschedule(t.Context(), "payments", slots.Request{ID: e.ID, At: noon + plan.Minute}); err == nil {
		t.Error("it was not committed, and no error tells")
	}
	door.commit = nil
	if now, err := d.memory.Event(t.Context(), "payments", e.ID); err != nil || now != e {
		t.Errorf("%+v has become %+v, %v", e, now, err)
	}
	d.equal("by second", map[int]int{1: 1}, in(d.book(noon, 1)))
	d.audit()
}

func TestMaxWaiting(t *testing.T) {
	var door door
	d := open(t, windows(10), door.behind, &slots.Options{MaxWaiting: 3})
	book := func(id string) func() {
		return func() {
			if _, err := d.Book(t.Context(), "payments", slots.Request{ID: id, At: noon}); err != nil {
				t.Error(err)
			}
		}
	}
	door.meanwhile = func() {
		if _, err := d.Book(t.Context(), "payments", slots.Request{ID: "d", At: noon}); !errors.Is(err, slots.ErrBusy) {
			t.Errorf("the fourth: %v, want %v", err, slots.ErrBusy)
		}
	}
	d.together(&door, book("a"), book("b"), book("c"))
	if n := len(d.book(noon, 20)); n != 20 {
		t.Errorf("%d of 20 are booked at once when nobody waits", n)
	}
	if n := len(d.audit().Events); n != 23 {
		t.Errorf("%d events are booked, want 23", n)
	}
}

// Whoever has had enough of waiting leaves at once. What was asked may be done.
func TestContextEndsTheWait(t *testing.T) {
	var door door
	d := open(t, windows(10), door.behind, nil)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	door.meanwhile = func() {
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the end of the context", err)
		}
	}
	d.together(&door, func() { left <- second(d.Book(ctx, "payments", slots.Request{ID: "alice", At: noon})) })
	if _, err := d.Book(ctx, "payments", slots.Request{ID: "carol", At: noon}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context has ended: %v", err)
	}
	d.book(noon, 1) // everything before it is done
	if r, err := d.Book(t.Context(), "payments", slots.Request{ID: "alice", At: noon}); err != nil || !r.Repeated {
		t.Errorf("alice again: %+v, %v; want her booked", r, err)
	}
	if _, err := d.memory.Event(t.Context(), "payments", "carol"); !errors.Is(err, slots.ErrNoEvent) {
		t.Errorf("carol: %v; want her not booked", err)
	}
}

// A ledger that does not answer holds nobody up for longer than the Timeout.
func TestTimeout(t *testing.T) {
	d := open(t, windows(10), nil, &slots.Options{Timeout: 50 * time.Millisecond})
	held, err := d.memory.Begin(t.Context(), "payments", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = d.Book(t.Context(), "payments", slots.Request{ID: "alice", At: noon})
	if fault, ok := errors.AsType[*slots.LedgerError](err); !ok || fault.Sent || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v; want a fault of the ledger in 50ms, that was not sent", time.Since(began), err)
	}
	held.Rollback()
	d.book(noon, 1)
}

func TestClose(t *testing.T) {
	var door door
	d := open(t, windows(10), door.behind, nil)
	closed := make(chan struct{})
	door.meanwhile = func() {
		go func() {
			d.Close()
			close(closed)
		}()
		d.until(func() bool { // by calls that last no longer than this
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			return errors.Is(second(d.Cancel(ctx, "payments", "nobody")), slots.ErrClosed)
		})
	}
	d.together(&door, func() {
		if _, err := d.Book(t.Context(), "payments", slots.Request{ID: "alice", At: noon}); err != nil {
			t.Errorf("one that was there before the end: %v", err)
		}
	})
	<-closed
	for what, err := range map[string]error{
		"book":      second(d.Book(t.Context(), "payments", slots.Request{ID: "bob", At: noon})),
		"cancel":    second(d.Cancel(t.Context(), "payments", "alice")),
		"configure": second(d.Configure(t.Context(), "payments", windows(1))),
		"quote":     second(d.Quote(t.Context(), "payments", slots.Request{At: noon}, 1)),
	} {
		if !errors.Is(err, slots.ErrClosed) {
			t.Errorf("%s after the end: %v, want %v", what, err, slots.ErrClosed)
		}
	}
	if err := d.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// counter is an Observer.
type counter struct {
	mu  sync.Mutex
	sum slots.Group
	// failed is how many transactions have.
	failed int
}

func (c *counter) Grouped(g *slots.Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum.Events += g.Events
	c.sum.Booked += g.Booked
	c.sum.Repeated += g.Repeated
	c.sum.Refused += g.Refused
	c.sum.Cancelled += g.Cancelled
	c.sum.Moved += g.Moved
	c.sum.Last = max(c.sum.Last, g.Last)
	if g.Err != nil {
		c.failed++
	}
}

func TestObserver(t *testing.T) {
	var door door
	var c counter
	d := open(t, windows(1), door.behind, &slots.Options{Observer: &c})
	d.book(noon, 3)
	d.BookAll(t.Context(), "payments", []slots.Request{{ID: "event 1", At: noon}, {ID: "hasty", At: noon, MaxDelay: 1}, {ID: "hasty", At: noon, MaxDelay: 1}, {ID: "alice", At: noon}, {ID: "alice", At: noon}})
	d.Cancel(t.Context(), "payments", "event 1")
	d.Cancel(t.Context(), "payments", "event 1")
	moved, err := d.Reschedule(t.Context(), "payments", slots.Request{ID: "event 2", At: noon + plan.Hour})
	if err != nil {
		t.Fatal(err)
	}
	door.commit = func(slots.Tx, *slots.Changes) error { return lost(false) }
	d.Book(t.Context(), "payments", slots.Request{ID: "bob", At: noon})
	d.Close()
	want := slots.Group{Events: 1 + 3 + 5 + 2 + 1 + 1, Booked: 4, Repeated: 2, Refused: 2, Cancelled: 1, Moved: 1, Last: moved.At}
	if c.sum != want || c.failed != 1 {
		t.Errorf("%+v, and %d transactions have failed; want %+v, and 1", c.sum, c.failed, want)
	}
}

// Configs that nobody asks for any more are forgotten.
func TestFewConfigsAreRemembered(t *testing.T) {
	d := open(t, windows(1), nil, nil)
	for i := range slots.MaxLines + 10 {
		config := fmt.Sprint("config ", i)
		if _, err := d.Configure(t.Context(), config, windows(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Book(t.Context(), "no "+config, slots.Request{ID: "alice"}); !errors.Is(err, slots.ErrNoConfig) {
			t.Fatal(err)
		}
	}
	d.until(func() bool { return d.Lines() <= slots.MaxLines })
	d.book(noon, 1)
}
