package slotstest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// something is changes of every kind.
func something(c slots.Config) *slots.Changes {
	c.Revision++
	c.Versions = append(c.Versions[:len(c.Versions):len(c.Versions)], full())
	return &slots.Changes{
		Config:   &c,
		Freed:    []slots.Event{event("alice", 1, 0), cancelled(event("bob", 1, 1))},
		Booked:   []slots.Event{event("alice", 2, 0), event("carol", 1, 0)},
		Windows:  []plan.Window{{Index: 1, Taken: bits(0)}, {Index: 2, Taken: bits(0)}},
		Reopened: []plan.Run{{From: 10, To: 12}},
		Full:     []plan.Run{{From: 15, To: 25}},
	}
}

// before puts something there that something can change.
func before(t testing.TB, l slots.Ledger) {
	t.Helper()
	create(t, l, "payments")
	commit(t, l, "payments", &slots.Changes{
		Booked:  []slots.Event{event("alice", 1, 0), event("bob", 1, 1)},
		Windows: []plan.Window{{Index: 1, Taken: bits(0, 1)}},
		Full:    []plan.Run{{From: 10, To: 20}},
	})
}

// state is what of before or something holds.
func state(t testing.TB, what string, l slots.Ledger, changed bool) {
	t.Helper()
	c, _, err := l.Config(timeout(t), "payments")
	if err != nil {
		t.Fatal(err)
	}
	versions, events := 1, []slots.Event{event("alice", 1, 0), event("bob", 1, 1)}
	windows := []plan.Window{{Index: 1, Taken: bits(0, 1)}}
	runs := plan.Runs{{From: 10, To: 20}}
	if changed {
		versions, events = 2, []slots.Event{event("carol", 1, 0), event("alice", 2, 0)}
		windows = []plan.Window{{Index: 1, Taken: bits(0)}, {Index: 2, Taken: bits(0)}}
		runs = plan.Runs{{From: 12, To: 15}, {From: 15, To: 25}}
		same(t, what+": what was cancelled", cancelled(event("bob", 1, 1)), lookUp(t, l, "payments", "bob"))
	}
	if len(c.Versions) != versions {
		t.Errorf("%s: %d versions, want %d", what, len(c.Versions), versions)
	}
	same(t, what+": events", events, list(t, l, "payments"))
	tx := begin(t, l, "payments")
	defer tx.Rollback()
	occupied(t, tx, windows, runs)
}

// occupied looks at windows 0 to 9 and all runs by the tx.
func occupied(t testing.TB, tx slots.Tx, windows []plan.Window, runs plan.Runs) {
	t.Helper()
	taken(t, tx, 0, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, windows...)
	byIndex := make(map[int64]plan.Bits)
	for _, w := range windows {
		byIndex[w.Index] = w.Taken
	}
	for _, from := range []int64{0, 2, 11, 14, 15, 24} {
		checkLoad(t, tx, plan.Need{From: from, Windows: 9}, runs, byIndex)
	}
}

func writes(t *testing.T, h Harness) {
	clients := h.clients(t)
	before(t, clients[0])
	tx := begin(t, clients[0], "payments", "alice", "bob")
	occupied(t, tx, []plan.Window{{Index: 1, Taken: bits(0, 1)}}, plan.Runs{{From: 10, To: 20}})
	if err := tx.Write(something(*tx.Config())); err != nil {
		t.Fatal(err)
	}
	occupied(t, tx, []plan.Window{{Index: 1, Taken: bits(0)}, {Index: 2, Taken: bits(0)}}, plan.Runs{{From: 12, To: 15}, {From: 15, To: 25}})
	got, err := tx.Strays(-1, 0, plan.MinInstant, plan.MaxInstant)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "Strays after a Write", []plan.Slot{event("carol", 1, 0).Slot, event("alice", 2, 0).Slot}, got)
	if h.Reopen != nil {
		same(t, "events that another client sees meanwhile", []slots.Event{event("alice", 1, 0), event("bob", 1, 1)}, list(t, clients[1], "payments"))
	}
	// Commit goes on where Write has ended.
	err = tx.Commit(&slots.Changes{
		Freed:   []slots.Event{event("carol", 1, 0)},
		Booked:  []slots.Event{event("dave", 1, 0), event("erin", 3, 0)},
		Windows: []plan.Window{{Index: 2}, {Index: 3, Taken: bits(0)}},
		Full:    []plan.Run{{From: 13, To: 14}},
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "events", []slots.Event{event("dave", 1, 0), event("alice", 2, 0), event("erin", 3, 0)}, list(t, clients[1], "payments"))
	tx = begin(t, clients[1], "payments")
	occupied(t, tx, []plan.Window{{Index: 1, Taken: bits(0)}, {Index: 3, Taken: bits(0)}},
		plan.Runs{{From: 12, To: 13}, {From: 13, To: 14}, {From: 14, To: 15}, {From: 15, To: 25}})
	tx.Rollback()

	before := begin(t, clients[0], "payments")
	if err := before.Write(&slots.Changes{Booked: []slots.Event{event("frank", 4, 0)}}); err != nil {
		t.Fatal(err)
	}
	if err := before.Commit(nil); err != nil {
		t.Errorf("a commit of what was written before: %v", err)
	}
	same(t, "what was written before the commit", event("frank", 4, 0), lookUp(t, clients[1], "payments", "frank"))
}

func rollbacks(t *testing.T, h Harness) {
	clients := h.clients(t)
	before(t, clients[0])
	tx := begin(t, clients[0], "payments")
	tx.Rollback()
	state(t, "nothing was written", clients[1], false)

	tx = begin(t, clients[0], "payments")
	changes := something(*tx.Config())
	if err := tx.Write(changes); err != nil {
		t.Fatal(err)
	}
	tx.Rollback()
	tx.Rollback()
	state(t, "rolled back", clients[1], false)
	unsent(t, "a commit after a rollback", tx.Commit(changes), nil)
	state(t, "rolled back, then committed", clients[1], false)

	tx = begin(t, clients[0], "payments")
	if err := tx.Commit(changes); err != nil {
		t.Fatal(err)
	}
	tx.Rollback()
	unsent(t, "a second commit", tx.Commit(&slots.Changes{Booked: []slots.Event{event("dave", 9, 9)}}), nil)
	state(t, "committed, then rolled back", clients[1], true)
}

// refusals has a Scheduler that is wrong. What it does must not be possible.
func refusals(t *testing.T, h Harness) {
	for _, test := range []struct {
		name   string
		change func(c *slots.Changes)
	}{
		{"a slot that is taken", func(c *slots.Changes) { c.Booked = append(c.Booked, event("dave", 1, 9)) }},
		{"a slot twice", func(c *slots.Changes) { c.Booked = append(c.Booked, event("dave", 2, 0)) }},
		{"an event that has a slot", func(c *slots.Changes) { c.Booked = append(c.Booked, event("zoe", 9, 9)) }},
		{"an event twice", func(c *slots.Changes) { c.Booked = append(c.Booked, event("carol", 9, 9)) }},
		{"a phase before the first", func(c *slots.Changes) { c.Booked = append(c.Booked, event("dave", 9, -1)) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			clients := h.clients(t)
			before(t, clients[0])
			commit(t, clients[0], "payments", &slots.Changes{Booked: []slots.Event{event("zoe", 1, 9)}})
			commit(t, clients[0], "payments", &slots.Changes{Freed: []slots.Event{cancelled(event("gone", 1, 9))}})
			whole := func(what string) {
				t.Helper()
				same(t, what+": events", []slots.Event{event("alice", 1, 0), event("bob", 1, 1), event("zoe", 1, 9)}, list(t, clients[1], "payments"))
				c, _, err := clients[1].Config(timeout(t), "payments")
				if err != nil || len(c.Versions) != 1 {
					t.Errorf("%s: config %+v, %v; want it with 1 version", what, c, err)
				}
				tx := begin(t, clients[1], "payments")
				defer tx.Rollback()
				occupied(t, tx, []plan.Window{{Index: 1, Taken: bits(0, 1)}}, plan.Runs{{From: 10, To: 20}})
			}
			tx := begin(t, clients[0], "payments")
			wrong := something(*tx.Config())
			test.change(wrong)
			unsent(t, "commit", tx.Commit(wrong), nil)
			whole("commit refused")
			unsent(t, "a commit after it was refused", tx.Commit(nil), nil)

			tx = begin(t, clients[0], "payments")
			unsent(t, "write", tx.Write(wrong), nil)
			unsent(t, "commit after a write that was refused", tx.Commit(nil), nil)
			whole("write refused")

			tx = begin(t, clients[0], "payments")
			right := &slots.Changes{Booked: []slots.Event{event("erin", 5, 5)}}
			if err := tx.Write(right); err != nil {
				t.Fatal(err)
			}
			unsent(t, "commit after a write that was not refused", tx.Commit(wrong), nil)
			whole("commit refused after a write")
			tx = begin(t, clients[0], "payments")
			if err := tx.Commit(right); err != nil {
				t.Errorf("nothing is wrong any more: %v", err)
			}
		})
	}
}

func cancellations(t *testing.T, h Harness) {
	clients := h.clients(t)
	create(t, clients[0], "payments")
	create(t, clients[0], "refunds")
	for _, config := range []string{"payments", "refunds"} {
		commit(t, clients[0], config, &slots.Changes{Booked: []slots.Event{event("alice", 1, 0), event("bob", 1, 1)}})
	}
	gone := cancelled(event("alice", 1, 0))
	commit(t, clients[0], "payments", &slots.Changes{Freed: []slots.Event{gone}})

	same(t, "Event", gone, lookUp(t, clients[1], "payments", "alice"))
	tx := begin(t, clients[1], "payments", "bob", "alice", "carol")
	same(t, "Known", map[string]slots.Event{"alice": gone, "bob": event("bob", 1, 1)}, tx.Known())
	left, err := tx.Strays(-1, 0, plan.MinInstant, plan.MaxInstant)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "Strays", []plan.Slot{event("bob", 1, 1).Slot}, left)
	tx.Rollback()
	same(t, "Events", []slots.Event{event("bob", 1, 1)}, list(t, clients[1], "payments"))

	carol := event("carol", 1, 0)
	commit(t, clients[1], "payments", &slots.Changes{Booked: []slots.Event{carol}})
	same(t, "Events after the slot was given to another", []slots.Event{carol, event("bob", 1, 1)}, list(t, clients[0], "payments"))
	same(t, "Event after its slot was given to another", gone, lookUp(t, clients[0], "payments", "alice"))
	same(t, "the event of the same id in another config", event("alice", 1, 0), lookUp(t, clients[0], "refunds", "alice"))
}

func moves(t *testing.T, h Harness) {
	clients := h.clients(t)
	create(t, clients[0], "payments")
	commit(t, clients[0], "payments", &slots.Changes{Booked: []slots.Event{event("alice", 1, 0), event("bob", 1, 1)}})
	for _, test := range []struct {
		name string
		to   [2]slots.Event
	}{
		{"elsewhere", [2]slots.Event{event("alice", 2, 0), event("bob", 1, 1)}},
		{"to each other's place", [2]slots.Event{event("alice", 1, 1), event("bob", 2, 0)}},
		{"to where it is", [2]slots.Event{{ID: "alice", Requested: noon + 1, Booked: noon, Slot: event("alice", 1, 1).Slot}, event("bob", 2, 0)}},
	} {
		from := []slots.Event{lookUp(t, clients[0], "payments", "alice"), lookUp(t, clients[0], "payments", "bob")}
		commit(t, clients[0], "payments", &slots.Changes{Freed: from, Booked: test.to[:]})
		for _, e := range test.to {
			same(t, test.name, e, lookUp(t, clients[1], "payments", e.ID))
		}
		if n := len(list(t, clients[1], "payments")); n != 2 {
			t.Errorf("%s: there are %d events, want 2", test.name, n)
		}
	}
}

// large books 10,000 events at once, moves some and cancels the others.
func large(t *testing.T, h Harness) {
	const n = 10_000
	clients := h.clients(t)
	create(t, clients[0], "payments")
	ids := numbered(n)
	var booked, freed, moved []slots.Event
	var windows []plan.Window
	var runs []plan.Run
	for i, id := range ids {
		e := event(id, int64(i/4*2), i%4)
		booked = append(booked, e)
		if i%2 == 0 {
			freed = append(freed, cancelled(e))
		} else {
			freed = append(freed, e)
			moved = append(moved, event(id, int64(i/4*2+1), i%4))
		}
		if i%4 == 0 {
			windows = append(windows, plan.Window{Index: e.Window, Taken: bits(0, 1, 2, 3)})
			runs = append(runs, plan.Run{From: e.Window, To: e.Window + 1})
		}
	}
	commit(t, clients[0], "payments", &slots.Changes{Booked: booked, Windows: windows, Full: runs})
	same(t, "events", booked, list(t, clients[1], "payments"))

	tx := begin(t, clients[1], "payments", ids...)
	if got := tx.Known(); len(got) != n || got[ids[n-1]] != booked[n-1] {
		t.Errorf("%d of %d ids are known, the last of them as %+v; want all, and %+v", len(got), n, got[ids[n-1]], booked[n-1])
	}
	indexes := make([]int64, len(windows))
	for i, w := range windows {
		indexes[i] = w.Index
	}
	taken(t, tx, 0, indexes, windows...)
	next, found := int64(0), 0
	for next < windows[len(windows)-1].Index+1 {
		c, err := tx.Load(plan.Need{From: next, Windows: 1000})
		if err != nil || c.To <= next {
			t.Fatalf("Load from window %d: %+v, %v", next, c, err)
		}
		for _, r := range c.Full {
			if r.From >= next && r.From < c.To {
				found++
			}
		}
		next = c.To
	}
	if found != len(runs) {
		t.Errorf("%d runs of full windows, want %d", found, len(runs))
	}
	for i := range windows {
		windows[i].Taken = nil
	}
	if err := tx.Commit(&slots.Changes{Freed: freed, Booked: moved, Windows: windows, Reopened: runs}); err != nil {
		t.Fatal(err)
	}
	same(t, "events that have moved", moved, list(t, clients[0], "payments"))
	tx = begin(t, clients[0], "payments")
	taken(t, tx, 0, indexes)
	checkLoad(t, tx, plan.Need{From: 0, Windows: 1000}, nil, nil)
}

// abandoned leaves a transaction to its context.
func abandoned(t *testing.T, h Harness) {
	clients := h.clients(t)
	before(t, clients[0])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tx, err := clients[0].Begin(ctx, "payments", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	changes := something(*tx.Config())
	if err := tx.Write(changes); err != nil {
		t.Fatal(err)
	}
	cancel()
	state(t, "its context has ended", clients[1], false)
	unsent(t, "commit after the context has ended", tx.Commit(changes), nil)
	tx.Rollback()
	state(t, "a commit after its context has ended", clients[1], false)

	for i := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
		id := fmt.Sprint("event ", i)
		done := false
		if tx, err := clients[0].Begin(ctx, "payments", nil, nil); err == nil {
			err := tx.Commit(&slots.Changes{Booked: []slots.Event{event(id, 100, i)}})
			done = err == nil
			if err != nil && fault(t, "commit", err, nil).Sent {
				done = true // or not
			} else if _, known := begin(t, clients[1], "payments", id).Known()[id]; known != done {
				t.Errorf("commit: %v; the event is booked: %v", err, known)
			}
		} else {
			unsent(t, "begin", err, context.DeadlineExceeded)
		}
		cancel()
	}
}
