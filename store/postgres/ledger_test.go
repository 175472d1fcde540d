package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/store/postgres"
)

// ledger returns a ledger with a config of 10 slots in each second.
func ledger(t testing.TB, url string) slots.Ledger {
	t.Helper()
	l := open(t, url, nil).Ledger()
	s := slots.New(l, nil)
	defer s.Close()
	if _, err := s.Configure(t.Context(), "payments", slots.Version{Version: plan.Version{Max: 10, Window: plan.Second}}); err != nil {
		t.Fatal(err)
	}
	return l
}

func begin(t testing.TB, ctx context.Context, l slots.Ledger) slots.Tx {
	t.Helper()
	tx, err := l.Begin(ctx, "payments", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tx.Rollback)
	return tx
}

// faulted looks whether err is a fault of the ledger that was not sent.
func faulted(t testing.TB, err error, op, part string) {
	t.Helper()
	fault, ok := errors.AsType[*slots.LedgerError](err)
	if !ok || fault.Sent || !strings.HasPrefix(err.Error(), "postgres: "+op+": ") || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v; want a *slots.LedgerError of %s with %q that was not sent", err, op, part)
	}
}

// The schema refuses what a Scheduler would have to be wrong to ask for, and then
// nothing of the transaction is kept.
func testLedgerSchema(t *testing.T, server string) {
	url := tables(t, server)
	l := ledger(t, url)
	at := func(id string, window int64, phase int) slots.Event {
		return slots.Event{ID: id, Slot: plan.Slot{Window: window, Phase: phase}}
	}
	tx := begin(t, t.Context(), l)
	if err := tx.Commit(&slots.Changes{Booked: []slots.Event{at("alice", 1, 1)}}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, constraint string
		second           slots.Event
	}{
		{"a slot twice", "stint_slot_pkey", at("bob", 1, 1)},
		{"an event twice", "stint_slot_config_event_key", at("alice", 1, 2)},
		{"a phase before the first", "stint_slot_phase_check", at("bob", 1, -1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			changes := &slots.Changes{Booked: []slots.Event{at("carol", 2, 2), test.second}}
			tx := begin(t, t.Context(), l)
			faulted(t, tx.Commit(changes), "commit", test.constraint)
			faulted(t, tx.Commit(nil), "commit", "the transaction has ended")

			tx = begin(t, t.Context(), l)
			faulted(t, tx.Write(changes), "write", test.constraint)
			faulted(t, tx.Commit(nil), "commit", "something in the transaction had failed")
			if n := number(t, url, "SELECT count(*) FROM stint_slot"); n != 1 {
				t.Errorf("%d events are booked, want alice alone", n)
			}
		})
	}
	t.Run("a config that loses a version", func(t *testing.T) {
		tx := begin(t, t.Context(), l)
		faulted(t, tx.Commit(&slots.Changes{Config: &slots.Config{Revision: 9}}), "commit", "the config has 1 versions already and would have 0; none is ever taken out")
	})
}

// A config that changes twice in one transaction has both versions.
func testLedgerTwoVersions(t *testing.T, server string) {
	l := ledger(t, tables(t, server))
	tx := begin(t, t.Context(), l)
	c := *tx.Config()
	for range 2 {
		c.Revision++
		c.Versions = append(c.Versions[:len(c.Versions):len(c.Versions)], c.Versions[0])
		next := c
		if err := tx.Write(&slots.Changes{Config: &next}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(nil); err != nil {
		t.Fatal(err)
	}
	got, _, err := l.Config(t.Context(), "payments")
	if diff := cmp.Diff(c, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A transaction that is left alone ends with the context of its Begin, and whoever
// waits for its lock waits as long as the own context allows.
func testLedgerLock(t *testing.T, server string) {
	url := tables(t, server)
	first := ledger(t, url)
	second := open(t, url, nil).Ledger()

	ctx, leave := context.WithCancel(t.Context())
	held := begin(t, ctx, first)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := second.Begin(short, "payments", nil, nil)
	if took := time.Since(began); took > 5*time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after %v: %v; want the end of the context", took, err)
	}
	faulted(t, err, "begin", "")
	const waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
	for began := time.Now(); number(t, url, waiting) > 0; {
		if time.Since(began) > 10*time.Second {
			t.Fatal("somebody still waits for the lock, 10s after having given up")
		}
	}

	leave()
	long, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tx, err := second.Begin(long, "payments", nil, nil)
	if err != nil {
		t.Fatalf("the lock that was left behind is held still: %v", err)
	}
	tx.Rollback()
	tx.Rollback()
	if err := held.Commit(nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a commit after the end of the context: %v", err)
	}
	if n := number(t, url, "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"); n > 0 {
		t.Errorf("%d transactions are left", n)
	}
}

// A Book of somebody who is alone takes two trips; one for an id that is known
// takes as many.
func testLedgerTrips(t *testing.T, server string) {
	own := tables(t, server)
	ledger(t, own)
	u, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	wire := servertest.NewWire(t, u.Host)
	s := slots.New(open(t, at(t, own, nil, wire.Address), nil).Ledger(), nil)
	defer s.Close()
	instant := plan.At(time.Now()) + plan.Hour
	trips := func(book func() error) int {
		t.Helper()
		began := time.Now()
		if err := book(); err != nil {
			t.Fatal(err)
		}
		return int(time.Since(began) / trip)
	}
	book := func(n int) int {
		return trips(func() error {
			_, err := s.Book(t.Context(), "payments", slots.Request{ID: fmt.Sprint("event ", n), At: instant})
			return err
		})
	}
	scattered := func(name string) int {
		return trips(func() error { return bookScattered(t.Context(), s, name, instant) })
	}
	for n := range 30 { // three windows, and all the statements are prepared
		book(n)
	}
	scattered("first")
	wire.Delay(trip)
	defer wire.Delay(0)
	for _, n := range []int{30, 31, 31} {
		if trips := book(n); trips != 2 {
			t.Errorf("event %d took %d trips, want 2", n, trips)
		}
	}
	if trips := scattered("second"); trips != 3 {
		t.Errorf("12 events that lie hours apart took %d trips, want 3", trips)
	}
}

// bookScattered books 12 events together that lie hours apart.
func bookScattered(ctx context.Context, s *slots.Scheduler, name string, from plan.Ticks) error {
	requests := make([]slots.Request, 12)
	for i := range requests {
		requests[i] = slots.Request{ID: fmt.Sprint(name, " ", i), At: from + plan.Ticks(i+1)*plan.Hour}
	}
	results, err := s.BookAll(ctx, "payments", requests)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}

// trip is what an answer takes, while that is measured.
const trip = 250 * time.Millisecond

// What Load, Taken and the runs in the table say is what the same changes do to
// plan.Runs and to windows in memory, whatever was read ahead.
func testLedgerOccupancy(t *testing.T, server string) {
	l := ledger(t, tables(t, server))
	random := rand.New(rand.NewPCG(4, 4))
	var full [2]plan.Runs
	taken := make(map[plan.Run]plan.Bits) // by era and index
	someRuns := func(n int) (runs []plan.Run) {
		for from := int64(random.IntN(20)); len(runs) < n; from += int64(random.IntN(20)) {
			r := plan.Run{Era: random.IntN(2), From: from, To: from + 1 + int64(random.IntN(30))}
			runs, from = append(runs, r), r.To
		}
		return runs
	}
	check := func(tx slots.Tx, need plan.Need) (to int64) {
		t.Helper()
		chunk, err := tx.Load(need)
		if err != nil || chunk.To <= need.From {
			t.Fatalf("Load(%+v): %+v, %v", need, chunk, err)
		}
		var wantRuns []plan.Run
		for _, r := range full[need.Era].From(need.From) {
			if r.From < chunk.To {
				wantRuns = append(wantRuns, r)
			}
		}
		if diff := cmp.Diff(joined(wantRuns), joined(chunk.Full)); diff != "" {
			t.Fatalf("Load(%+v): runs (-want +got):\n%s", need, diff)
		}
		var want []plan.Window
		for k := need.From; k < chunk.To; k++ {
			if covering := full[need.Era].From(k); len(covering) > 0 && covering[0].From <= k {
				continue
			}
			if bits := taken[plan.Run{Era: need.Era, From: k}]; len(bits) > 0 {
				want = append(want, plan.Window{Era: need.Era, Index: k, Taken: bits})
			}
		}
		if diff := cmp.Diff(want, chunk.Taken, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("Load(%+v): windows (-want +got):\n%s", need, diff)
		}
		return chunk.To
	}
	for range 300 {
		tx, err := l.Begin(t.Context(), "payments", []string{"event"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		change := func() *slots.Changes {
			c := &slots.Changes{Reopened: someRuns(random.IntN(3)), Full: someRuns(random.IntN(3))}
			for _, r := range c.Reopened {
				full[r.Era] = full[r.Era].Cut(r)
			}
			for _, r := range c.Full {
				full[r.Era] = full[r.Era].Add(r)
			}
			for k := int64(random.IntN(30)); k < 200; k += 1 + int64(random.IntN(60)) {
				w := plan.Window{Era: random.IntN(2), Index: k}
				if random.IntN(3) > 0 {
					w.Taken = w.Taken.With(random.IntN(10))
				}
				c.Windows = append(c.Windows, w)
				taken[plan.Run{Era: w.Era, From: k}] = w.Taken
			}
			return c
		}
		if random.IntN(2) == 0 {
			if err := tx.Write(change()); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			check(tx, plan.Need{Era: random.IntN(2), From: int64(random.IntN(200)), Windows: 1 + random.IntN(100)})
		}
		if err := tx.Commit(change()); err != nil {
			t.Fatal(err)
		}
	}

	// Of more runs than are read at once, those that are read are told.
	var many []plan.Run
	for k := int64(1000); k < 3000; k += 2 {
		many = append(many, plan.Run{From: k, To: k + 1})
		full[0] = full[0].Add(many[len(many)-1])
	}
	tx := begin(t, t.Context(), l)
	if err := tx.Write(&slots.Changes{Full: many}); err != nil {
		t.Fatal(err)
	}
	loads := 0
	for k := int64(1000); k < 3000; loads++ {
		k = check(tx, plan.Need{From: k, Windows: 2000})
	}
	if loads < 2 {
		t.Error("all of 1000 runs were read at once")
	}
}

// joined returns runs of one era with those that touch as one.
func joined(runs []plan.Run) (all []plan.Run) {
	for _, r := range runs {
		if n := len(all); n > 0 && all[n-1].To == r.From {
			all[n-1].To = r.To
		} else {
			all = append(all, r)
		}
	}
	return all
}

// Callers of two nodes, for one instant and around it, fill every window from
// there on, though each node has read ahead what the other one then changes.
func testLedgerTwoNodes(t *testing.T, server string) {
	url := tables(t, server)
	nodes := []*slots.Scheduler{slots.New(ledger(t, url), nil), slots.New(open(t, url, nil).Ledger(), nil)}
	instant := (plan.At(time.Now()) + plan.Hour) / plan.Second * plan.Second
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for n := range 50 {
				r := slots.Request{ID: fmt.Sprintf("event %d of %d", n, i), At: instant + plan.Second*plan.Ticks(n%3)}
				if _, err := nodes[i%2].Book(t.Context(), "payments", r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, node := range nodes {
		node.Close()
	}
	const full = "SELECT count(*) FROM (SELECT win FROM stint_slot GROUP BY win HAVING count(*) = 10) AS w"
	if n := number(t, url, full); n != 160 {
		t.Errorf("%d windows are full, want 160 of 10 events each", n)
	}
	if n := number(t, url, "SELECT sum(hi - lo)::bigint FROM stint_slot_run"); n != 160 {
		t.Errorf("the runs are %d windows long, want 160", n)
	}
	if n := number(t, url, "SELECT sum(bit_count(taken))::bigint FROM stint_slot_window"); n != 1600 {
		t.Errorf("%d phases are taken in the windows, want 1600", n)
	}
}

// What Open says if the tables of slots are not there, or not for this user.
func testLedgerRights(t *testing.T, server string) {
	own := tables(t, server)
	execute(t, own, "CREATE ROLE limits LOGIN", fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO limits", parameter(t, own, "search_path")),
		"GRANT SELECT ON stint_schema TO limits", "GRANT SELECT, INSERT, UPDATE, DELETE ON stint_state, stint_slot_config, stint_slot_version, stint_slot, stint_slot_cancelled TO limits")
	as := at(t, own, url.User("limits"), "")
	_, err := postgres.Open(t.Context(), as, nil)
	refused(t, "open", err, "the user limits may not SELECT, INSERT, UPDATE, DELETE stint_slot_window, stint_slot_run, stint_slot_delivery, stint_rule, stint_rule_change, stint_rule_version; let its owner run: GRANT SELECT, INSERT, UPDATE, DELETE ON stint_slot_window, stint_slot_run, stint_slot_delivery, stint_rule, stint_rule_change, stint_rule_version TO limits")
	execute(t, own, "GRANT SELECT, INSERT, UPDATE, DELETE ON stint_slot_window, stint_slot_run, stint_slot_delivery, stint_rule, stint_rule_change, stint_rule_version TO limits")
	s := slots.New(open(t, as, nil).Ledger(), nil)
	defer s.Close()
	if _, err := s.Configure(t.Context(), "payments", slots.Version{Version: plan.Version{Max: 10, Window: plan.Second}}); err != nil {
		t.Errorf("with all these rights: %v", err)
	}
	execute(t, own, "DROP TABLE stint_slot", "REVOKE ALL ON ALL TABLES IN SCHEMA "+parameter(t, own, "search_path")+" FROM limits", "REVOKE ALL ON SCHEMA "+parameter(t, own, "search_path")+" FROM limits", "DROP ROLE limits")
	_, err = postgres.Open(t.Context(), own, nil)
	refused(t, "open", err, "the table stint_slot is missing; run: stint migrate --store "+own)
}

// A context that ends while a transaction begins leaves nothing behind, whichever
// of the two is first.
func testLedgerEndsAtOnce(t *testing.T, server string) {
	url := tables(t, server)
	l := ledger(t, url)
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
		if tx, err := l.Begin(ctx, "payments", nil, nil); err == nil {
			<-ctx.Done()
			if err := tx.Commit(nil); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		cancel()
	}
	tx := begin(t, t.Context(), l)
	if err := tx.Commit(nil); err != nil {
		t.Errorf("the lock of somebody whose time was over: %v", err)
	}
}
