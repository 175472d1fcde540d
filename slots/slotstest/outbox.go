package slotstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// outboxes returns two clients of a ledger with a config, payments, that has a
// version that delivers.
func outboxes(t *testing.T, h Harness) [2]slots.Outbox {
	t.Helper()
	first := h.open(t)
	if _, can := first.(slots.Outbox); !can {
		t.Skip("the ledger keeps nothing that is to be delivered")
	}
	second := first
	if h.Reopen != nil {
		second = closed(t, h.Reopen)
	}
	create(t, first, "payments")
	return [2]slots.Outbox{first.(slots.Outbox), second.(slots.Outbox)}
}

// delivery is one that is due so long after now.
func delivery(id string, now, after plan.Ticks) slots.Delivery {
	return slots.Delivery{ID: id, Requested: noon, Due: now + after}
}

// put puts deliveries into the outbox, and returns the clock.
func put(t testing.TB, o slots.Outbox, config string, ds ...slots.Delivery) {
	t.Helper()
	commit(t, o, config, &slots.Changes{Put: ds})
}

func nowOf(t testing.TB, l slots.Ledger) plan.Ticks {
	t.Helper()
	_, now, err := l.Config(timeout(t), "payments")
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// everyDue is a claim of all that is due within an hour of now.
func everyDue(lease int64) slots.Claim {
	return slots.Claim{From: -plan.Hour, Until: plan.Hour, Limit: 1000, Lease: lease, For: plan.Minute}
}

// claim claims, and returns the ids in the order in which they are told.
func claim(t testing.TB, o slots.Outbox, c slots.Claim) (ids []string) {
	t.Helper()
	claimed, _, err := o.Claim(timeout(t), c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	for _, d := range claimed {
		if d.Lease != c.Lease || d.Dead != 0 {
			t.Errorf("claimed with lease %d: %+v", c.Lease, d)
		}
		ids = append(ids, d.ID)
	}
	return ids
}

func settle(t testing.TB, o slots.Outbox, settled ...slots.Settled) {
	t.Helper()
	if err := o.Settle(timeout(t), "payments", settled); err != nil {
		t.Fatalf("settle: %v", err)
	}
}

// claims looks what is claimed of what is put.
func claims(t *testing.T, h Harness) {
	o := outboxes(t, h)
	create(t, o[0], "refunds")
	began := nowOf(t, o[0])
	whole := delivery("whole", began, 5*plan.Second)
	whole.Attempts, whole.Status, whole.Error = 3, 503, "the receiver is busy: Überlast €"
	put(t, o[0], "payments", delivery("last", began, 9*plan.Minute), whole, delivery("past", began, -20*plan.Second))
	put(t, o[0], "refunds", delivery("whole", began, 6*plan.Second))

	same(t, "nothing that is due", nil, claim(t, o[1], slots.Claim{From: -plan.Second, Until: plan.Second, Limit: 10, Lease: 1, For: plan.Minute}))
	same(t, "what is overdue", []string{"past"}, claim(t, o[1], slots.Claim{From: -plan.Minute, Until: 0, Limit: 10, Lease: 2, For: plan.Minute}))
	got, now, err := o[1].Claim(timeout(t), slots.Claim{From: -plan.Minute, Until: 8 * plan.Minute, Limit: 2, Lease: 3, For: plan.Minute})
	if err != nil {
		t.Fatal(err)
	}
	want := whole
	want.Config, want.Lease = "payments", 3
	other := delivery("whole", began, 6*plan.Second)
	other.Config, other.Lease = "refunds", 3
	same(t, "what is due, of two configs", []slots.Delivery{want, other}, got)
	if last := nowOf(t, o[0]); now < began || now > last {
		t.Errorf("the claim was made at %d by its clock, between %d and %d", now, began, last)
	}
	same(t, "what is claimed already", nil, claim(t, o[0], slots.Claim{From: -plan.Minute, Until: 8 * plan.Minute, Limit: 10, Lease: 4, For: plan.Minute}))
	same(t, "the rest", []string{"last"}, claim(t, o[0], everyDue(5)))

	// The earliest come first, whatever the limit.
	var ids []string
	var many []slots.Delivery
	for i := range 50 {
		ids = append(ids, fmt.Sprintf("event %02d", i))
		many = append(many, delivery(ids[i], began, plan.Minute+plan.Ticks(i)*plan.Millisecond))
	}
	rand.Shuffle(len(many), func(i, j int) { many[i], many[j] = many[j], many[i] })
	put(t, o[0], "payments", many...)
	for i, limit := range []int{1, 19, 30} {
		from := []int{0, 1, 20}[i]
		c := everyDue(int64(10 + i))
		c.Limit = limit
		same(t, fmt.Sprintf("the next %d", limit), ids[from:from+limit], claim(t, o[i%2], c))
	}
}

// leases looks who may do what to a delivery, and for how long.
func leases(t *testing.T, h Harness) {
	o := outboxes(t, h)
	began := nowOf(t, o[0])
	put(t, o[0], "payments", delivery("alice", began, 0), delivery("bob", began, 1))
	c := everyDue(1)
	c.For = plan.Second
	same(t, "claimed", []string{"alice", "bob"}, claim(t, o[0], c))
	settle(t, o[0], slots.Settled{ID: "bob", Lease: 1, Fate: slots.Released})
	same(t, "claimed after a release", []string{"bob"}, claim(t, o[1], everyDue(2)))
	if h.Advance != nil {
		h.Advance(t, time.Second-time.Microsecond)
		same(t, "claimed before the lease's end", nil, claim(t, o[1], everyDue(3)))
		h.Advance(t, time.Microsecond)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if ids := claim(t, o[1], everyDue(3)); len(ids) > 0 {
			same(t, "claimed after the lease's end", []string{"alice"}, ids)
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("a lease of 1s goes on after %v", patience)
		}
	}
	// Who had them before has lost them.
	for _, fate := range []slots.Fate{slots.Delivered, slots.Died, slots.Released} {
		settle(t, o[0], slots.Settled{ID: "alice", Lease: 1, Fate: fate}, slots.Settled{ID: "bob", Lease: 1, Fate: fate})
	}
	same(t, "claimed after others have settled", nil, claim(t, o[0], everyDue(4)))
	tx := begin(t, o[0], "payments")
	held, err := tx.(slots.OutboxTx).Deliveries([]string{"nobody", "bob", "alice", "bob"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]slots.Delivery{"alice": delivery("alice", began, 0), "bob": delivery("bob", began, 1)}
	for id, lease := range map[string]int64{"alice": 3, "bob": 2} {
		d := want[id]
		d.Config, d.Lease = "payments", lease
		want[id] = d
	}
	same(t, "Deliveries", want, held)
	tx.Rollback()
	settle(t, o[1], slots.Settled{ID: "alice", Lease: 3, Fate: slots.Delivered}, slots.Settled{ID: "bob", Lease: 2, Fate: slots.Delivered})
	gone(t, o[0], "alice", "bob")
}

// gone looks whether the outbox has none of ids.
func gone(t testing.TB, o slots.Outbox, ids ...string) {
	t.Helper()
	tx := begin(t, o, "payments")
	left, err := tx.(slots.OutboxTx).Deliveries(ids)
	if err != nil || len(left) > 0 {
		t.Errorf("the outbox has %+v, %v; want nothing", left, err)
	}
	tx.Rollback()
}

// deadLetters looks what is kept of those that have failed for good.
func deadLetters(t *testing.T, h Harness) {
	o := outboxes(t, h)
	create(t, o[0], "refunds")
	began := nowOf(t, o[0])
	ids := numbered(25)
	var all []slots.Delivery
	for _, id := range ids {
		all = append(all, delivery(id, began, 0))
	}
	put(t, o[0], "payments", all...)
	put(t, o[0], "refunds", all[:3]...)
	if n := len(claim(t, o[0], everyDue(7))); n != 28 {
		t.Fatalf("%d are claimed, want 28", n)
	}
	// They die in three lots, some of which may be at one instant.
	text := strings.Repeat("ä", slots.MaxErrorLen/2)
	for _, lot := range [][]string{ids[15:], ids[:4], ids[4:15]} {
		var died []slots.Settled
		for _, id := range lot {
			died = append(died, slots.Settled{ID: id, Lease: 7, Fate: slots.Died, Attempts: 12, Status: 500, Error: text})
		}
		rand.Shuffle(len(died), func(i, j int) { died[i], died[j] = died[j], died[i] })
		settle(t, o[1], died...)
		if h.Advance != nil {
			h.Advance(t, time.Second)
		}
	}
	same(t, "claimed of the dead", nil, claim(t, o[1], everyDue(8)))
	for _, limit := range []int{1, 7, 25, 100} {
		var got []slots.Delivery
		var after *slots.Delivery
		for {
			page, err := o[0].Dead(timeout(t), "payments", after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > limit {
				t.Fatalf("a page of %d has %d", limit, len(page))
			}
			got = append(got, page...)
			if len(page) < limit {
				break
			}
			after = &page[len(page)-1]
		}
		if len(got) != 25 || !slices.IsSortedFunc(got, byDeath) {
			t.Fatalf("in pages of %d there are %d dead letters, want 25 in the order of their deaths: %+v", limit, len(got), got)
		}
		for _, d := range got {
			if d.Config != "payments" || d.Dead < began || d.Attempts != 12 || d.Status != 500 || d.Error != text || d.Due != began || d.Requested != noon {
				t.Fatalf("dead letter %+v", d)
			}
		}
	}
	none, err := o[0].Dead(timeout(t), "refunds", nil, 10)
	if err != nil || len(none) > 0 {
		t.Errorf("dead letters of another config: %+v, %v", none, err)
	}
	_, err = o[0].Dead(timeout(t), "elsewhere", nil, 10)
	is(t, "dead letters of a config that is not there", slots.ErrNoConfig, err)

	// A dead letter is over, for everybody but those who put it anew.
	settle(t, o[0], slots.Settled{ID: ids[0], Lease: 7, Fate: slots.Delivered}, slots.Settled{ID: ids[1], Lease: 7, Fate: slots.Released})
	put(t, o[0], "payments", delivery(ids[2], began, plan.Second))
	same(t, "claimed of what was put anew", []string{ids[2]}, claim(t, o[1], everyDue(9)))
	if left, err := o[0].Dead(timeout(t), "payments", nil, 100); err != nil || len(left) != 24 {
		t.Errorf("%d dead letters are left, %v; want 24", len(left), err)
	}
}

// outboxTx looks whether what is put goes with its transaction.
func outboxTx(t *testing.T, h Harness) {
	o := outboxes(t, h)
	began := nowOf(t, o[0])
	tx := begin(t, o[0], "payments")
	if err := tx.Write(&slots.Changes{Put: []slots.Delivery{delivery("alice", began, 0)}}); err != nil {
		t.Fatal(err)
	}
	if h.Reopen != nil && !h.OneWriter {
		same(t, "claimed before the commit", nil, claim(t, o[1], everyDue(1)))
	}
	tx.Rollback()
	same(t, "claimed after a rollback", nil, claim(t, o[1], everyDue(2)))

	tx = begin(t, o[0], "payments")
	first := delivery("alice", began, 0)
	first.Attempts, first.Status, first.Error = 1, 500, "at first"
	if err := tx.Write(&slots.Changes{Put: []slots.Delivery{first, delivery("bob", began, 1)}}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(&slots.Changes{Put: []slots.Delivery{delivery("alice", began, 2), delivery("carol", began, 3)}, Removed: []string{"bob", "nobody"}}); err != nil {
		t.Fatal(err)
	}
	got, _, err := o[1].Claim(timeout(t), everyDue(3))
	if err != nil {
		t.Fatal(err)
	}
	alice, carol := delivery("alice", began, 2), delivery("carol", began, 3)
	for _, d := range []*slots.Delivery{&alice, &carol} {
		d.Config, d.Lease = "payments", 3
	}
	same(t, "what was put last", []slots.Delivery{alice, carol}, got)

	// What is put anew is nobody's.
	put(t, o[0], "payments", delivery("alice", began, 4))
	same(t, "claimed of what was put anew", []string{"alice"}, claim(t, o[0], everyDue(4)))

	// Who has asked for a delivery in a transaction keeps others from it.
	put(t, o[0], "payments", delivery("alice", began, 5), delivery("carol", began, 6))
	if h.Reopen == nil || h.OneWriter {
		return // nobody else can claim meanwhile, or only by the same client
	}
	tx = begin(t, o[0], "payments")
	if _, err := tx.(slots.OutboxTx).Deliveries([]string{"carol"}); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan []string, 1)
	go func() {
		some, _, _ := o[1].Claim(timeout(t), everyDue(5))
		ids := []string{}
		for _, d := range some {
			ids = append(ids, d.ID)
		}
		claimed <- ids
	}()
	time.Sleep(soon)
	if err := tx.Commit(&slots.Changes{Removed: []string{"carol"}}); err != nil {
		t.Fatal(err)
	}
	same(t, "claimed while another is held that is removed then", []string{"alice"}, <-claimed)
}

// outboxIDs puts, claims and settles ids that differ by a byte.
func outboxIDs(t *testing.T, h Harness) {
	o := outboxes(t, h)
	began := nowOf(t, o[0])
	ids := []string{"a", "A", "a ", "é", "e\u0301", "😀", "'; --", `\`, "%", "\x01", strings.Repeat("x", slots.MaxIDLen), strings.Repeat("x", slots.MaxIDLen-1) + "y"}
	var all []slots.Delivery
	for i, id := range ids {
		all = append(all, delivery(id, began, plan.Ticks(i)))
	}
	put(t, o[0], "payments", all...)
	same(t, "claimed", ids, claim(t, o[1], everyDue(1)))
	for i, id := range ids {
		settle(t, o[0], slots.Settled{ID: id, Lease: 1, Fate: slots.Died, Error: id[:min(len(id), 200)]})
		dead, err := o[1].Dead(timeout(t), "payments", nil, 100)
		if err != nil || len(dead) != i+1 {
			t.Fatalf("after %q there are %d dead letters, %v; want %d", id, len(dead), err, i+1)
		}
		if !slices.ContainsFunc(dead, func(d slots.Delivery) bool { return d.ID == id && d.Error == id[:min(len(id), 200)] }) {
			t.Errorf("%q is not among the dead letters as it was settled: %+v", id, dead)
		}
	}
}

// outboxRace has many claim, settle and book at once.
func outboxRace(t *testing.T, h Harness) {
	o := outboxes(t, h)
	const events, callers = 600, 8
	began := nowOf(t, o[0])
	ids := numbered(events)
	var all []slots.Delivery
	for i, id := range ids {
		all = append(all, delivery(id, began, plan.Ticks(i)))
	}
	put(t, o[0], "payments", all...)
	var mu sync.Mutex
	times := make(map[string]int)
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for round := 0; ; round++ {
				c := everyDue(int64(1 + g + callers*round))
				c.Limit = 1 + rand.IntN(40)
				claimed, _, err := o[g%2].Claim(timeout(t), c)
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				var settled []slots.Settled
				for _, d := range claimed {
					s := slots.Settled{ID: d.ID, Lease: c.Lease}
					if rand.IntN(4) == 0 {
						s.Fate = slots.Released
					} else {
						mu.Lock()
						times[d.ID]++
						mu.Unlock()
					}
					settled = append(settled, s)
				}
				rand.Shuffle(len(settled), func(i, j int) { settled[i], settled[j] = settled[j], settled[i] })
				if err := o[g%2].Settle(timeout(t), "payments", settled); err != nil {
					t.Errorf("settle: %v", err)
					return
				}
				mu.Lock()
				done := len(times)
				mu.Unlock()
				if done == events || t.Context().Err() != nil {
					return
				}
			}
		})
	}
	// Meanwhile others are cancelled and moved.
	wg.Go(func() {
		for range 20 {
			some := []string{ids[rand.IntN(events)], ids[rand.IntN(events)]}
			tx, err := o[0].Begin(timeout(t), "payments", nil, nil)
			if err != nil {
				t.Errorf("begin: %v", err)
				return
			}
			if _, err := tx.(slots.OutboxTx).Deliveries(some); err != nil {
				t.Errorf("deliveries: %v", err)
			}
			if err := tx.Commit(&slots.Changes{Put: []slots.Delivery{delivery("other", began, 2*plan.Hour)}, Removed: []string{"nobody"}}); err != nil {
				t.Errorf("commit: %v", err)
			}
		}
	})
	wg.Wait()
	for id, n := range times {
		if n != 1 {
			t.Errorf("%q was delivered %d times", id, n)
		}
	}
	if len(times) != events {
		t.Errorf("%d of %d were delivered", len(times), events)
	}
	gone(t, o[0], ids...)
}

// outboxClosed asks an outbox that is closed.
func outboxClosed(t *testing.T, h Harness) {
	l, store := h.Open(t)
	o, can := l.(slots.Outbox)
	if !can {
		t.Skip("the ledger keeps nothing that is to be delivered")
	}
	create(t, l, "payments")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for op, call := range outboxCalls(o) {
		unsent(t, op+" of a closed ledger", call(t.Context()), slots.ErrClosed)
	}
}

func outboxCalls(o slots.Outbox) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"claim": func(ctx context.Context) error {
			_, _, err := o.Claim(ctx, everyDue(1))
			return err
		},
		"settle": func(ctx context.Context) error {
			return o.Settle(ctx, "payments", []slots.Settled{{ID: "alice", Lease: 1}})
		},
		"dead": func(ctx context.Context) error {
			_, err := o.Dead(ctx, "payments", nil, 1)
			return err
		},
	}
}

// outboxBroken asks an outbox without a connection.
func outboxBroken(t *testing.T, h Harness) {
	if h.Break == nil {
		t.Skip("there is no connection to cut")
	}
	o := outboxes(t, h)[0]
	began := nowOf(t, o)
	put(t, o, "payments", delivery("alice", began, 0))
	repair := h.Break(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	for op, call := range outboxCalls(o) {
		fault(t, op+" without a connection", call(ctx), nil)
	}
	cancel()
	repair()
	recovers(t, o)
	same(t, "claimed after the repair", []string{"alice"}, claim(t, o, everyDue(2)))
}

// delivering returns a Scheduler of payments, which delivers.
func delivering(t *testing.T, h Harness, most int) ([2]slots.Outbox, *slots.Scheduler) {
	t.Helper()
	o := outboxes(t, h)
	s := slots.New(o[0], &slots.Options{Timeout: patience})
	t.Cleanup(func() { s.Close() })
	v := fourSeconds(most)
	v.DeliverTo = "https://example.com/hooks"
	if _, err := s.Configure(timeout(t), "payments", v); err != nil {
		t.Fatal(err)
	}
	return o, s
}

// outboxBooked looks what schedulers put into the outbox.
func outboxBooked(t *testing.T, h Harness) {
	o, s := delivering(t, h, 10)
	at := nowOf(t, o[0]) + plan.Minute
	book := func(id string) slots.Event {
		t.Helper()
		e, err := bookNew(timeout(t), s, id, at)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	alice, bob, carol := book("alice"), book("bob"), book("carol")
	if _, err := s.Cancel(timeout(t), "payments", "bob"); err != nil {
		t.Fatal(err)
	}
	moved, err := s.Reschedule(timeout(t), "payments", slots.Request{ID: "carol", At: at + plan.Minute})
	if err != nil {
		t.Fatal(err)
	}
	// A version that delivers nothing stops no delivery of what was booked before.
	if _, err := s.Configure(timeout(t), "payments", fourSeconds(10)); err != nil {
		t.Fatal(err)
	}
	dave := book("dave")
	if _, err := s.Reschedule(timeout(t), "payments", slots.Request{ID: "dave", At: at + plan.Minute}); err != nil {
		t.Fatal(err)
	}
	if bob.At == carol.At || dave.At == 0 {
		t.Errorf("bob %+v, carol %+v, dave %+v", bob, carol, dave)
	}
	got, _, err := o[1].Claim(timeout(t), everyDue(1))
	if err != nil {
		t.Fatal(err)
	}
	want := []slots.Delivery{
		{Config: "payments", ID: "alice", Requested: at, Due: alice.At, Lease: 1},
		{Config: "payments", ID: "carol", Requested: at + plan.Minute, Due: moved.At, Lease: 1},
	}
	same(t, "what is to be delivered", want, got)
	for _, call := range []func() error{
		func() error { _, err := s.Cancel(timeout(t), "payments", "alice"); return err },
		func() error { _, err := s.Cancel(timeout(t), "payments", "dave"); return err },
	} {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
	gone(t, o[1], "alice", "bob", "dave")
	audited(t, o[0])
}

// postponed looks what becomes of events that are postponed.
func postponed(t *testing.T, h Harness) {
	const most = 10
	o, s := delivering(t, h, most)
	at := nowOf(t, o[0])
	ids := numbered(35)
	var rs []slots.Request
	for _, id := range ids {
		rs = append(rs, slots.Request{ID: id, At: at})
	}
	booked, err := s.BookAll(timeout(t), "payments", rs)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(claim(t, o[1], everyDue(1))); n != len(ids) {
		t.Fatalf("%d are claimed, want %d", n, len(ids))
	}
	// One is moved by somebody else, one cancelled, and one lost.
	if _, err := s.Reschedule(timeout(t), "payments", slots.Request{ID: ids[0], At: at + plan.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(timeout(t), "payments", ids[1]); err != nil {
		t.Fatal(err)
	}
	settle(t, o[1], slots.Settled{ID: ids[2], Lease: 1, Fate: slots.Released})
	same(t, "claimed by another", []string{ids[2]}, claim(t, o[1], slots.Claim{From: -plan.Minute, Until: plan.Minute, Limit: 1, Lease: 2, For: plan.Minute}))
	until := at + 10*plan.Minute
	var ps []slots.Postponement
	for _, id := range append(ids, "nobody", ids[5]) {
		ps = append(ps, slots.Postponement{ID: id, Lease: 1, At: until, Attempts: 2, Status: 502, Error: "bad gateway"})
	}
	got, err := s.Postpone(timeout(t), "payments", ps)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range got {
		switch id := ps[i].ID; {
		case i < 3, i == len(ids)+1:
			is(t, "postponement of "+id+", which is not held", slots.ErrLost, cmpErr(p.Err, slots.ErrCancelled, slots.ErrLost))
		case id == "nobody":
			is(t, "postponement of nobody", slots.ErrNoEvent, p.Err)
		case p.Err != nil || p.ID != id || p.Requested != at || p.At < until:
			t.Errorf("%s, which was booked as %+v, is postponed to %d as %+v", id, booked[i], until, p)
		case lookUp(t, o[1], "payments", id) != p.Event:
			t.Errorf("%s is not known as %+v", id, p)
		}
	}
	audited(t, o[0])
	claimed, _, err := o[1].Claim(timeout(t), slots.Claim{From: 5 * plan.Minute, Until: 30 * plan.Minute, Limit: 100, Lease: 3, For: plan.Minute})
	if err != nil || len(claimed) != len(ids)-3 {
		t.Fatalf("%d are to be delivered then, %v; want %d", len(claimed), err, len(ids)-3)
	}
	for _, d := range claimed {
		e := lookUp(t, o[0], "payments", d.ID)
		if d.Due != e.At || d.Requested != at || d.Attempts != 2 || d.Status != 502 || d.Error != "bad gateway" {
			t.Errorf("delivery %+v of %+v", d, e)
		}
	}

	// A pause moves what is postponed on, and neither a maximum delay nor a horizon
	// refuses it.
	v := fourSeconds(most)
	v.DeliverTo, v.MaxDelay, v.Horizon = "https://example.com/hooks", plan.Second, plan.Second
	if _, err := s.Configure(timeout(t), "payments", v); err != nil {
		t.Fatal(err)
	}
	for _, hold := range []plan.Ticks{at + 2*plan.Hour, at + plan.Hour} {
		c, err := s.Hold(timeout(t), "payments", hold)
		if err != nil || c.PausedUntil != at+2*plan.Hour {
			t.Fatalf("held until %d, the config is paused until %d, %v; want %d", hold, c.PausedUntil, err, at+2*plan.Hour)
		}
	}
	got, err = s.Postpone(timeout(t), "payments", []slots.Postponement{{ID: ids[5], Lease: 3, At: plan.MinInstant}})
	if err != nil || got[0].Err != nil || got[0].At < at+2*plan.Hour {
		t.Errorf("postponed during a pause: %+v, %v", got, err)
	}

	// Dead letters are tried anew.
	settle(t, o[1], slots.Settled{ID: ids[6], Lease: 3, Fate: slots.Died, Attempts: 3, Status: 410, Error: "gone"})
	got, err = s.Redrive(timeout(t), "payments", []string{ids[6], ids[7]})
	if err != nil || got[0].Err != nil || !errors.Is(got[1].Err, slots.ErrLost) {
		t.Errorf("redriven: %+v, %v; want the first alone", got, err)
	}
	if dead, err := o[1].Dead(timeout(t), "payments", nil, 10); err != nil || len(dead) > 0 {
		t.Errorf("dead letters are left: %+v, %v", dead, err)
	}
	same(t, "what is to be delivered after the pause", []string{ids[5], ids[6]}, sorted(claim(t, o[0], slots.Claim{From: 90 * plan.Minute, Until: 3 * plan.Hour, Limit: 100, Lease: 9, For: plan.Minute})))
	audited(t, o[0])
}

func sorted(ids []string) []string { return slices.Sorted(slices.Values(ids)) }

// cmpErr returns want for any of some errors.
func cmpErr(err error, some ...error) error {
	for _, e := range some {
		if errors.Is(err, e) {
			return some[len(some)-1]
		}
	}
	return err
}
