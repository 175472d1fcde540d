package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/store/mysql"
)

// TestLedger is what slotstest does not know of: this schema, its locks and trips,
// and what can go wrong at a server that runs.
func TestLedger(t *testing.T) {
	server := server(t, "--innodb-flush-log-at-trx-commit=0")
	for _, test := range []struct {
		name string
		run  func(t *testing.T, server string)
	}{
		{"schema", testLedgerSchema},
		{"lock", testLedgerLock},
		{"a holder that is gone", testLedgerHalted},
		{"deadlock", testLedgerDeadlock},
		{"neighbours", testLedgerNeighbours},
		{"trips", testLedgerTrips},
		{"occupancy", testLedgerOccupancy},
		{"two nodes", testLedgerTwoNodes},
		{"long ids", testLedgerLongIDs},
		{"killed at any time", testLedgerKilled},
		{"close", testLedgerClose},
		{"plans", testLedgerPlans},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, server) })
	}
}

// ledger returns a ledger with a config of 10 slots in each second.
func ledger(t testing.TB, url string) slots.Ledger {
	t.Helper()
	l := open(t, url, nil).Ledger()
	configure(t, l, "payments")
	return l
}

func configure(t testing.TB, l slots.Ledger, config string) {
	t.Helper()
	s := slots.New(l, nil)
	defer s.Close()
	if _, err := s.Configure(t.Context(), config, slots.Version{Version: plan.Version{Max: 10, Window: plan.Second}}); err != nil {
		t.Fatal(err)
	}
}

// everything does all that there is to do with a config that is not there yet.
func everything(ctx context.Context, l slots.Ledger, config string) error {
	s := slots.New(l, nil)
	defer s.Close()
	if _, err := s.Configure(ctx, config, slots.Version{Version: plan.Version{Max: 1, Window: plan.Second}}); err != nil {
		return err
	}
	for _, id := range []string{"alice", "bob"} {
		if _, err := s.Book(ctx, config, slots.Request{ID: id}); err != nil {
			return err
		}
	}
	_, err := s.Cancel(ctx, config, "alice")
	return err
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

func commit(t testing.TB, l slots.Ledger, c *slots.Changes) {
	t.Helper()
	if err := begin(t, t.Context(), l).Commit(c); err != nil {
		t.Fatal(err)
	}
}

// faulted looks whether err is a fault of the ledger that was not sent.
func faulted(t testing.TB, err error, op, part string) {
	t.Helper()
	fault, ok := errors.AsType[*slots.LedgerError](err)
	if !ok || fault.Sent || !strings.HasPrefix(err.Error(), "mysql: "+op+": ") || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v; want a *slots.LedgerError of %s with %q that was not sent", err, op, part)
	}
}

// booked is an event in a slot.
func booked(id string, window int64, phase int) slots.Event {
	return slots.Event{ID: id, Slot: plan.Slot{Window: window, Phase: phase, At: plan.Ticks(window)*plan.Second + plan.Ticks(phase)}}
}

// The schema refuses what a Scheduler would have to be wrong to ask for, and then
// nothing of the transaction is kept.
func testLedgerSchema(t *testing.T, server string) {
	url := tables(t, server)
	l := ledger(t, url)
	commit(t, l, &slots.Changes{Booked: []slots.Event{booked("alice", 1, 1)}})
	for _, test := range []struct {
		name, refusal string
		second        slots.Event
	}{
		{"a slot twice", "for key 'PRIMARY'", booked("bob", 1, 1)},
		{"an event twice", "for key 'event'", booked("alice", 1, 2)},
		{"a phase before the first", "Out of range value for column 'phase'", booked("bob", 1, -1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			changes := &slots.Changes{Booked: []slots.Event{booked("carol", 2, 2), test.second}}
			tx := begin(t, t.Context(), l)
			faulted(t, tx.Commit(changes), "commit", test.refusal)
			faulted(t, tx.Commit(nil), "commit", "the transaction has ended")

			tx = begin(t, t.Context(), l)
			faulted(t, tx.Write(changes), "write", test.refusal)
			faulted(t, tx.Commit(nil), "commit", "the transaction has ended")
			if n := number(t, url, "SELECT COUNT(*) FROM stint_slot"); n != 1 {
				t.Errorf("%d events are booked, want alice alone", n)
			}
		})
	}
	t.Run("a config that loses a version", func(t *testing.T) {
		tx := begin(t, t.Context(), l)
		faulted(t, tx.Commit(&slots.Changes{Config: &slots.Config{Revision: 9}}), "commit", "the config has 1 versions already and would have 0; none is ever taken out")
		if n := number(t, url, "SELECT revision FROM stint_slot_config"); n != 1 {
			t.Errorf("the revision is %d, want 1", n)
		}
	})
}

// A transaction that is left alone ends with the context of its Begin, and whoever
// waits for its lock waits as long as the own context allows, which may be longer
// than the server lets a statement wait.
func testLedgerLock(t *testing.T, server string) {
	url := tables(t, server)
	first := ledger(t, url)
	second := open(t, url, nil).Ledger()

	ctx, leave := context.WithCancel(t.Context())
	held := begin(t, ctx, first)
	began := time.Now()
	_, err := second.Begin(within(t, 50*time.Millisecond), "payments", nil, nil)
	if took := time.Since(began); took > 900*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after %v: %v; want the end of the context", took, err)
	}
	faulted(t, err, "begin", "")
	const waiting = "SELECT COUNT(*)" + sessions + " AND command = 'Query'"
	if !soon(func() bool { return number(t, url, waiting) == 0 }) {
		t.Error("somebody still waits for the lock, after having given up")
	}

	begun := make(chan error, 1)
	began = time.Now()
	go func() {
		tx, err := second.Begin(within(t, 10*time.Second), "payments", nil, nil)
		if err == nil {
			tx.Rollback()
			tx.Rollback()
		}
		begun <- err
	}()
	if !soon(func() bool { return time.Since(began) > 1500*time.Millisecond && number(t, url, waiting) == 1 }) {
		t.Error("nobody waits any more, after more than the server's second")
	}
	select {
	case err := <-begun:
		t.Fatalf("begin has not waited: %v", err)
	default:
	}
	leave()
	if err := <-begun; err != nil {
		t.Fatalf("the lock that was left behind is held still: %v", err)
	}
	if err := held.Commit(nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a commit after the end of the context: %v", err)
	}
	if n := number(t, url, "SELECT COUNT(*) FROM information_schema.innodb_trx"); n > 0 {
		t.Errorf("%d transactions are left", n)
	}

	// Whoever begins and is out of time at once leaves nothing behind, either.
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
		if tx, err := first.Begin(ctx, "payments", nil, nil); err == nil {
			<-ctx.Done()
			if err := tx.Commit(nil); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		cancel()
	}
	tx, err := second.Begin(within(t, 10*time.Second), "payments", nil, nil)
	if err != nil {
		t.Fatalf("the lock of somebody whose time was over: %v", err)
	}
	tx.Rollback()
}

// halted is a context whose end is not noticed.
type halted struct {
	context.Context
	end time.Time
}

func (h halted) Deadline() (end time.Time, ok bool) { return h.end, true }

// The server lets go of the lock of a process that is halted when its time is over.
// A connection that was given back may be idle for longer.
func testLedgerHalted(t *testing.T, server string) {
	url := tables(t, server)
	ledger(t, url)
	for end, by := range map[string]func(tx slots.Tx){
		"commit":   func(tx slots.Tx) { tx.Commit(nil) },
		"rollback": slots.Tx.Rollback,
	} {
		first := open(t, url, &mysql.Options{PoolSize: 1})
		by(begin(t, within(t, time.Second), first.Ledger()))
		const idle = "SELECT COUNT(*)" + sessions + " AND command = 'Sleep' AND time >= 4"
		if !soon(func() bool { return number(t, url, idle) > 0 }) {
			t.Errorf("after a %s, the connection is no longer there after 4s of silence", end)
		}
		first.Close()
	}

	first, second := open(t, url, nil).Ledger(), open(t, url, nil).Ledger()
	tx := begin(t, halted{context.Background(), time.Now().Add(time.Second)}, first)
	next := begin(t, within(t, 10*time.Second), second)
	if err := next.Commit(&slots.Changes{Booked: []slots.Event{booked("alice", 1, 1)}}); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(&slots.Changes{Booked: []slots.Event{booked("alice", 2, 2)}}); err == nil {
		t.Error("a commit without the lock")
	}
	if n := number(t, url, "SELECT win FROM stint_slot"); n != 1 {
		t.Errorf("alice is in window %d, want 1", n)
	}
}

// A begin that the server gives up, so that another can go on, is run again; a
// commit fails, and was not done.
func testLedgerDeadlock(t *testing.T, server string) {
	url := tables(t, server)
	l := ledger(t, url)
	commit(t, l, &slots.Changes{Booked: []slots.Event{booked("alice", 1, 1)}})
	other := connect(t, url)
	defer other.Close()
	// hold begins a transaction that has done more than those of the ledger will
	// have: it is not the one to be given up.
	hold := func(statement string) (tx *sql.Tx) {
		t.Helper()
		tx, err := other.Begin()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tx.Rollback() })
		for i := range 100 {
			if _, err := tx.Exec("INSERT INTO stint_state VALUES (?, 0, 0, 0, 0, 1, '')", fmt.Sprint("more ", i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tx.Exec(statement); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	// inTheWay locks what somebody who waits for tx has.
	inTheWay := func(tx *sql.Tx, statement string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := tx.Exec(statement)
			done <- errors.Join(err, tx.Rollback())
		}()
		return done
	}
	const waiting = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
	// The server answers from a copy of the table, which it renews only when nobody
	// has read it for 100ms.
	somebodyWaits := func() {
		t.Helper()
		if !soon(func() bool { time.Sleep(150 * time.Millisecond); return number(t, url, waiting) == 1 }) {
			t.Fatal("nobody waits for a lock")
		}
	}

	theirs := hold("UPDATE stint_slot_config SET paused_until = 7 WHERE id = 1")
	begun := make(chan error, 1)
	go func() {
		tx, err := l.Begin(within(t, 10*time.Second), "payments", nil, nil)
		if err == nil {
			tx.Rollback()
		}
		begun <- err
	}()
	somebodyWaits()
	if err := <-inTheWay(theirs, "SELECT id FROM stint_slot_config WHERE name = 'payments' FOR UPDATE"); err != nil {
		t.Errorf("the other transaction: %v", err)
	}
	if err := <-begun; err != nil {
		t.Errorf("begin: %v", err)
	}

	tx := begin(t, t.Context(), l)
	theirs = hold("UPDATE stint_slot SET booked = 7 WHERE event = 'alice'")
	done := inTheWay(theirs, "UPDATE stint_slot_config SET paused_until = 7")
	somebodyWaits()
	faulted(t, tx.Commit(&slots.Changes{Freed: []slots.Event{booked("alice", 1, 1)}, Booked: []slots.Event{booked("bob", 1, 1)}}), "commit", "Deadlock")
	if err := <-done; err != nil {
		t.Errorf("the other transaction: %v", err)
	}
	if n := number(t, url, "SELECT COUNT(*) FROM stint_slot WHERE event = 'alice'"); n != 1 {
		t.Error("alice is gone, though the commit has failed")
	}
}

// Transactions of configs whose rows lie side by side in every table do not wait
// for each other, whatever they do.
func testLedgerNeighbours(t *testing.T, server string) {
	url := tables(t, server)
	l := open(t, url, nil).Ledger()
	configs := []string{"first", "second", "third"}
	all := func(f func(config string)) {
		for _, config := range configs {
			f(config)
		}
	}
	all(func(config string) { configure(t, l, config) })
	first := &slots.Changes{
		Booked:  []slots.Event{booked("alice", 1, 1), booked("bob", 2, 2)},
		Windows: []plan.Window{{Index: 1, Taken: plan.Bits{2}}, {Index: 2, Taken: plan.Bits{4}}},
		Full:    []plan.Run{{From: 1, To: 3}, {From: 7, To: 9}},
	}
	cancelled := booked("bob", 2, 2)
	cancelled.Cancelled = 1
	second := &slots.Changes{
		Freed:    []slots.Event{booked("alice", 1, 1), cancelled},
		Booked:   []slots.Event{booked("alice", 3, 3), booked("carol", 1, 1)},
		Windows:  []plan.Window{{Index: 2}, {Index: 3, Taken: plan.Bits{8}}, {Index: 9}},
		Reopened: []plan.Run{{From: math.MinInt64, To: 2}, {From: 8, To: math.MaxInt64}},
		Full:     []plan.Run{{From: 0, To: 1}, {From: 100, To: 101}},
	}
	for _, c := range []*slots.Changes{first, second} {
		var held []slots.Tx
		all(func(config string) {
			began := time.Now()
			tx, err := l.Begin(within(t, 10*time.Second), config, []string{"alice", "bob", "zoe"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(tx.Rollback)
			if err := tx.Write(c); err != nil {
				t.Errorf("%s, %v after begin: %v", config, time.Since(began), err)
			}
			held = append(held, tx)
		})
		for _, tx := range held {
			if err := tx.Commit(nil); err != nil {
				t.Error(err)
			}
		}
	}
	for query, want := range map[string]int64{
		"SELECT COUNT(*) FROM stint_slot":                       6,
		"SELECT COUNT(*) FROM stint_slot_cancelled":             3,
		"SELECT COUNT(*) FROM stint_slot_window":                6,
		"SELECT COUNT(*) FROM stint_slot_run":                   12,
		"SELECT COUNT(DISTINCT lo, hi) FROM stint_slot_run":     4,
		"SELECT SUM(hi - lo) FROM stint_slot_run WHERE lo <= 7": 9,
	} {
		if n := number(t, url, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
}

// A Book of somebody who is alone takes two trips; one for an id that is known
// takes none to commit, and one to roll back.
func testLedgerTrips(t *testing.T, server string) {
	own := tables(t, server)
	ledger(t, own)
	u, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	address, asked := counted(t, u.Host)
	s := slots.New(open(t, at(t, own, nil, address, ""), nil).Ledger(), nil)
	defer s.Close()
	instant := plan.At(time.Now()) + plan.Hour
	trips := func(book func() error) int64 {
		t.Helper()
		before := asked.Load()
		if err := book(); err != nil {
			t.Fatal(err)
		}
		return asked.Load() - before
	}
	book := func(n int) int64 {
		return trips(func() error {
			_, err := s.Book(t.Context(), "payments", slots.Request{ID: fmt.Sprint("event ", n), At: instant})
			return err
		})
	}
	scattered := func(name string) int64 {
		return trips(func() error { return bookScattered(t.Context(), s, name, instant) })
	}
	for n := range 39 { // three windows, and most of a fourth
		book(n)
	}
	for _, n := range []int{39, 40, 40, 41} { // the first one fills a window
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

// counted returns an address that leads to a server, and how much it was asked
// there: a packet that begins something has the number 0.
func counted(t *testing.T, server string) (address string, asked *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	asked = new(atomic.Int64)
	relay := func(client net.Conn) {
		defer client.Close()
		to, err := net.Dial("tcp", server)
		if err != nil {
			t.Error(err)
			return
		}
		defer to.Close()
		go io.Copy(client, to)
		var header [4]byte
		for {
			if _, err := io.ReadFull(client, header[:]); err != nil {
				return
			}
			if header[3] == 0 {
				asked.Add(1)
			}
			to.Write(header[:])
			length := int64(header[0]) | int64(header[1])<<8 | int64(header[2])<<16
			if _, err := io.CopyN(to, client, length); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go relay(client)
		}
	}()
	return l.Addr().String(), asked
}

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
		if diff := cmp.Diff(wantRuns, chunk.Full, cmpopts.EquateEmpty()); diff != "" {
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
	var cached *slots.Config
	for range 300 {
		tx, err := l.Begin(t.Context(), "payments", []string{"event"}, cached)
		if err != nil {
			t.Fatal(err)
		}
		cached = tx.Config()
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
		for range random.IntN(4) {
			check(tx, plan.Need{Era: random.IntN(2), From: int64(random.IntN(200)), Windows: 1 + random.IntN(100)})
		}
		if err := tx.Commit(change()); err != nil {
			t.Fatal(err)
		}
	}

	// Between long runs, what is open is read at once; of more runs than are read
	// at once, those that are read are told.
	tx := begin(t, t.Context(), l)
	var long, short []plan.Run
	for k := int64(1000); k < 11_000; k += 1000 {
		long = append(long, plan.Run{From: k, To: k + 999})
	}
	for k := int64(20_000); k < 22_000; k += 2 {
		short = append(short, plan.Run{From: k, To: k + 1})
	}
	for _, r := range append(long, short...) {
		full[0] = full[0].Add(r)
	}
	taken[plan.Run{From: 5999}] = plan.Bits{1}
	if err := tx.Write(&slots.Changes{Full: append(long, short...), Windows: []plan.Window{{Index: 5999, Taken: plan.Bits{1}}}}); err != nil {
		t.Fatal(err)
	}
	if to := check(tx, plan.Need{From: 1500, Windows: 9}); to < 11_000 {
		t.Errorf("what was read of 9 windows between long runs ends at %d, want 11000 or more", to)
	}
	loads := 0
	for k := int64(20_000); k < 22_000; loads++ {
		k = check(tx, plan.Need{From: k, Windows: 2000})
	}
	if loads < 2 {
		t.Error("all of 1000 runs were read at once")
	}
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
	for query, want := range map[string]int64{
		"SELECT COUNT(*) FROM (SELECT win FROM stint_slot GROUP BY win HAVING COUNT(*) = 10) AS w":        160,
		"SELECT SUM(hi - lo) FROM stint_slot_run":                                                         160,
		"SELECT SUM(BIT_COUNT(CONV(HEX(taken), 16, 10))) FROM stint_slot_window WHERE LENGTH(taken) <= 2": 1600,
	} {
		if n := number(t, url, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
}

// What fits no single statement goes in several, and is all or nothing, too.
func testLedgerLongIDs(t *testing.T, server string) {
	url := tables(t, server)
	l := ledger(t, url)
	ids := longKeys()
	c := new(slots.Changes)
	for i, id := range ids {
		c.Booked = append(c.Booked, booked(id, int64(i), 0))
	}
	wrong := *c
	wrong.Booked = append(wrong.Booked[:len(ids):len(ids)], booked("the last", 0, 0))
	faulted(t, begin(t, t.Context(), l).Commit(&wrong), "commit", "for key 'PRIMARY'")
	if n := number(t, url, "SELECT COUNT(*) FROM stint_slot"); n != 0 {
		t.Fatalf("%d events of a commit that has failed are booked", n)
	}
	commit(t, l, c)
	tx, err := l.Begin(t.Context(), "payments", ids, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	known := tx.Known()
	for _, e := range c.Booked {
		if known[e.ID] != e {
			t.Fatalf("%q is known as %+v, want %+v", e.ID, known[e.ID], e)
		}
	}
	large := plan.Bits(make([]byte, 1<<19)).With(1<<22 - 1) // as much as a config may have
	windows := []plan.Window{{Index: 1, Taken: large}, {Index: 2, Taken: large}, {Index: 3, Taken: large}}
	if err := tx.Write(&slots.Changes{Windows: windows}); err != nil {
		t.Fatal(err)
	}
	got, err := tx.Taken(0, []int64{3, 2, 1})
	if err != nil || !slices.EqualFunc(windows, got, func(a, b plan.Window) bool { return a.Index == b.Index && bytes.Equal(a.Taken, b.Taken) }) {
		t.Errorf("windows of 4 million phases are others now: %v", err)
	}
}

// However the connections are killed, what was told to be booked is, and what was
// told not to be sent is not.
func testLedgerKilled(t *testing.T, server string) {
	url := tables(t, server)
	l := ledger(t, url)
	var told, unsure, unsent sync.Map
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		wg.Go(func() {
			for n := int64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("event %d of %d", n, i)
				// A query that is killed between two statements that were sent
				// together is never answered: only a deadline ends it.
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				tx, err := l.Begin(ctx, "payments", []string{id}, nil)
				if err == nil {
					err = tx.Commit(&slots.Changes{Booked: []slots.Event{booked(id, n, i)}})
				}
				cancel()
				if fault, ok := errors.AsType[*slots.LedgerError](err); err == nil {
					told.Store(id, true)
				} else if !ok {
					t.Errorf("%#v, want a *slots.LedgerError", err)
				} else if fault.Sent {
					unsure.Store(id, true)
				} else {
					unsent.Store(id, true)
				}
			}
		})
	}
	killer := connect(t, url)
	defer killer.Close()
	kills := 0
	for began := time.Now(); kills < 300 && time.Since(began) < 10*time.Second; {
		for i, id := range listed(t, killer) {
			killer.Exec(fmt.Sprint([]string{"KILL ", "KILL QUERY "}[(kills+i)%2], id))
			kills++
		}
	}
	close(stop)
	wg.Wait()
	events, err := l.Events(t.Context(), "payments", slots.Query{From: plan.MinInstant, Until: plan.MaxInstant, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	there := 0
	for _, e := range events {
		if _, was := unsent.Load(e.ID); was {
			t.Errorf("%s is booked, and its caller was told that it was not sent", e.ID)
		}
		if _, was := told.Load(e.ID); was {
			there++
		}
	}
	count := func(m *sync.Map) (n int) {
		for range m.Range {
			n++
		}
		return n
	}
	if n := count(&told); there != n || n == 0 || kills < 300 {
		t.Errorf("after %d kills %d events are booked of %d that were told to be", kills, there, n)
	}
	t.Logf("%d were told, %d not sure, %d not sent", count(&told), count(&unsure), count(&unsent))
}

// Close waits for a transaction that is under way, which can be committed yet.
func testLedgerClose(t *testing.T, server string) {
	url := tables(t, server)
	s := open(t, url, nil)
	configure(t, s.Ledger(), "payments")
	tx := begin(t, t.Context(), s.Ledger())
	var closed atomic.Bool
	done := make(chan error, 1)
	go func() {
		err := s.Close()
		closed.Store(true)
		done <- err
	}()
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; time.Sleep(time.Millisecond) {
		if closed.Load() {
			t.Fatal("Close does not wait for a transaction that is under way")
		}
	}
	if err := tx.Commit(&slots.Changes{Booked: []slots.Event{booked("alice", 1, 1)}}); err != nil {
		t.Errorf("the transaction that was under way: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("close: %v", err)
	}
	if n := number(t, url, "SELECT COUNT(*) FROM stint_slot"); n != 1 {
		t.Errorf("%d events are booked, want alice", n)
	}
	if !soon(func() bool { return number(t, url, "SELECT COUNT(*)"+sessions) == 0 }) {
		t.Error("there are connections left")
	}
}

// Nothing that a transaction or a query does reads more rows than it is about,
// however many there are. The statements are those that the server was asked.
func testLedgerPlans(t *testing.T, server string) {
	url := tables(t, server)
	l := ledger(t, url)
	configure(t, l, "refunds")
	const up = "(WITH RECURSIVE up AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM up WHERE n < 99) SELECT n FROM up)"
	from := " FROM (SELECT 100 * a.n + b.n AS i FROM " + up + " AS a, " + up + " AS b) AS numbers, (SELECT 1 AS config UNION SELECT 2) AS configs"
	execute(t, url,
		"INSERT INTO stint_slot (config, event, requested, era, win, phase, at, booked) SELECT config, CONCAT('event ', i), i, 0, i, 0, 1000000 * i, i"+from,
		"INSERT INTO stint_slot_cancelled (config, event, requested, era, win, phase, at, booked, cancelled) SELECT config, CONCAT('cancelled ', i), i, 0, i, 0, i, i, i"+from,
		"INSERT INTO stint_slot_window SELECT config, 0, i, x'01'"+from,
		"INSERT INTO stint_slot_run SELECT config, 0, 3 * i, 3 * i + 2"+from,
		"INSERT INTO stint_slot_delivery (config, event, requested, due, attempts, status, error, lease, leased_until, dead) SELECT config, CONCAT('event ', i), i, i, 0, 0, '', 0, 0, IF(i % 2 = 0, 0, i)"+from,
	)
	outbox := l.(slots.Outbox)
	asked := connect(t, server)
	defer asked.Close()
	read := func() (n int) {
		t.Helper()
		if err := asked.QueryRow("SELECT SUM(variable_value) FROM information_schema.global_status WHERE variable_name LIKE 'Handler_read%' AND variable_name <> 'Handler_read_rnd_deleted'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	base := read()
	base = read() - base // of the question itself
	var tx slots.Tx
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"begin", func() (err error) {
			tx, err = l.Begin(t.Context(), "payments", []string{"event 5000", "cancelled 5000", "nobody"}, nil)
			return err
		}},
		{"load", func() error { _, err := tx.Load(plan.Need{From: 5000, Windows: 10}); return err }},
		{"strays", func() error { _, err := tx.Strays(1, 0, 5000*plan.Second, 5010*plan.Second); return err }},
		{"taken", func() error { _, err := tx.Taken(0, []int64{5000, 5001}); return err }},
		{"write", func() error {
			cancelled := booked("event 5000", 5000, 0)
			cancelled.Cancelled = 1
			return tx.Write(&slots.Changes{
				Freed: []slots.Event{booked("event 6000", 6000, 0), cancelled}, Booked: []slots.Event{booked("event 6000", 6000, 1)},
				Windows:  []plan.Window{{Index: 5000}, {Index: 6000, Taken: plan.Bits{2}}},
				Reopened: []plan.Run{{From: 5000, To: 5001}}, Full: []plan.Run{{From: 7000, To: 7001}},
			})
		}},
		{"deliveries", func() error { _, err := tx.(slots.OutboxTx).Deliveries([]string{"event 5000", "nobody"}); return err }},
		{"put", func() error {
			return tx.Write(&slots.Changes{Put: []slots.Delivery{{ID: "event 5001"}, {ID: "new"}}, Removed: []string{"event 5003"}})
		}},
		{"commit", func() error { return tx.Commit(nil) }},
		{"claim", func() error {
			some, _, err := outbox.Claim(t.Context(), slots.Claim{From: -3_000_000_000_000_000, Limit: 10, Lease: 7, For: plan.Second})
			if err == nil && len(some) != 10 {
				err = fmt.Errorf("%d are claimed", len(some))
			}
			return err
		}},
		{"settle", func() error {
			return outbox.Settle(t.Context(), "payments", []slots.Settled{{ID: "event 5010"}, {ID: "event 5012", Fate: slots.Died}, {ID: "event 5014", Fate: slots.Released}})
		}},
		{"dead", func() error {
			_, err := outbox.Dead(t.Context(), "payments", &slots.Delivery{Dead: 5000}, 10)
			return err
		}},
		{"event", func() error { _, err := l.Event(t.Context(), "payments", "event 5000"); return err }},
		{"events", func() error {
			_, err := l.Events(t.Context(), "payments", slots.Query{From: plan.MinInstant, Until: plan.MaxInstant, After: &slots.Event{Slot: plan.Slot{At: 5000 * plan.Second}}, Limit: 10})
			return err
		}},
		{"count", func() error {
			_, err := l.Count(t.Context(), "payments", 5000*plan.Second, plan.Second, 10)
			return err
		}},
		{"config", func() error { _, _, err := l.Config(t.Context(), "payments"); return err }},
		{"configs", func() error { _, err := l.Configs(t.Context(), "", 10); return err }},
	} {
		before := read()
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		const most = 500 // load reads as many as 256 runs
		if n := read() - before - base; n > most {
			t.Errorf("%s reads %d rows, want %d at most", step.name, n, most)
		} else {
			t.Logf("%s reads %d rows", step.name, n)
		}
	}
}
