package mysql_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/mysql"
)

// TestFaults is what can go wrong at a server that runs.
func TestFaults(t *testing.T) {
	server := server(t, "--innodb-flush-log-at-trx-commit=0")
	for _, test := range []struct {
		name string
		run  func(t *testing.T, server string)
	}{
		{"keys of no length that there can be", testKeyLength},
		{"keys that look alike", testKeysAlike},
		{"clock stepped back", testClockSteppedBack},
		{"connections killed between look and commit", testKilledBeforeCommit},
		{"connections killed in a transaction", testKilledInTransaction},
		{"connections killed at any time", testKilledAtAnyTime},
		{"a row that somebody has", testRowHeld},
		{"a row that somebody has, after others were locked", testSecondRowHeld},
		{"a table that somebody has", testTableHeld},
		{"all connections in use", testPoolExhausted},
		{"deadlock", testDeadlock},
		{"opposite orders", testOppositeOrders},
		{"close", testClose},
		{"long lists", testLongLists},
		{"long lists and killed connections", testLongListsKilled},
		{"long logs", testLongLogs},
		{"plan", testPlan},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, server) })
	}
}

// count counts each of keys up by one.
func count(ctx context.Context, s limit.Store, keys ...string) error {
	return s.Update(ctx, keys, countUp)
}

func countUp(_ algo.Ticks, cells []limit.Cell) error {
	for i := range cells {
		cells[i].State.A++
		cells[i].TTL, cells[i].Dirty = algo.Day, true
	}
	return nil
}

// counts returns how far each of keys has been counted.
func counts(t *testing.T, s limit.Store, keys ...string) (all []int64) {
	t.Helper()
	err := s.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
		all = all[:0]
		for i := range cells {
			all = append(all, cells[i].State.A)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// soon waits until something is so, for ten seconds at most.
func soon(so func() bool) bool {
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
		if so() {
			return true
		}
	}
	return false
}

// within returns a context that ends soon.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// holder is somebody else, in a transaction.
type holder struct {
	db *sql.DB
	tx *sql.Tx
}

// hold locks the rows of keys, which are there.
func hold(t *testing.T, url string, keys ...string) *holder {
	t.Helper()
	h := &holder{db: connect(t, url)}
	t.Cleanup(func() { h.db.Close() })
	var err error
	if h.tx, err = h.db.Begin(); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		h.lock(t, key)
	}
	return h
}

func (h *holder) lock(t *testing.T, key string) {
	t.Helper()
	var found int
	if err := h.tx.QueryRow("SELECT 1 FROM stint_state WHERE stint_state.key = ? FOR UPDATE", key).Scan(&found); err != nil {
		t.Fatal(err)
	}
}

func (h *holder) release(t *testing.T) {
	t.Helper()
	if err := h.tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// sessions are the connections to the database at url, but for the one that asks.
const sessions = " FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"

// kill ends every other connection to the database at url.
func kill(t *testing.T, url string) (n int) {
	t.Helper()
	db := connect(t, url)
	defer db.Close()
	for _, id := range listed(t, db) {
		db.Exec(fmt.Sprint("KILL ", id)) // or it has gone by itself
		n++
	}
	if !soon(func() bool { return len(listed(t, db)) == 0 }) {
		t.Error("connections that were killed are still there")
	}
	return n
}

func listed(t *testing.T, db *sql.DB) (ids []int64) {
	t.Helper()
	found, err := db.Query("SELECT id" + sessions)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var id int64
		if err := found.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func testKeyLength(t *testing.T, server string) {
	url := tables(t, server)
	s := open(t, url, nil)
	p := &limit.Policy{Quota: 5, Window: time.Minute}
	for _, key := range []string{"", strings.Repeat("k", 513)} {
		_, swapped := s.Swap(t.Context(), []limit.Cell{{Key: "good"}, {Key: key}})
		for op, err := range map[string]error{
			"update": count(t.Context(), s, "good", key),
			"delete": s.Delete(t.Context(), "good", key),
			"swap":   swapped,
			"take":   s.TakeBulk(t.Context(), []limit.Take{{Policy: p, Key: "good", Cost: 1, Times: 1}, {Policy: p, Key: key, Cost: 1, Times: 1}}),
		} {
			refused(t, op, err, "key must have 1 to 512 bytes")
			if !errors.Is(err, limit.ErrKeyLen) {
				t.Errorf("%s: %v, want a limit.ErrKeyLen", op, err)
			}
		}
	}
	if n := number(t, url, rows); n != 0 {
		t.Errorf("%d rows were made", n)
	}
	if err := count(t.Context(), s, strings.Repeat("k", 512)); err != nil {
		t.Errorf("a key of 512 bytes: %v", err)
	}
}

// A key is its bytes, whatever they may mean as text or as SQL.
func testKeysAlike(t *testing.T, server string) {
	s := open(t, tables(t, server), nil)
	keys := []string{
		"key", "Key", "KEY", "kéy", "ke\u0301y", "k\xe9y", "ＫＥＹ",
		"key ", "key  ", " key", "key\t", "key\n", "key\x00", "key\x00\x00", "\x00key", "\x00", " ",
		"ss", "ß", "ſs", "i", "ı", "\xff", "\xfe", "\xc3", "\xed\xa0\x80", "\U0001f511",
		"'", "''", `"`, `\`, `\\`, `\'`, "%", "_", "x'6b6579'", "6b6579", "NULL", "0", "00",
	}
	err := s.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
		for i := range cells {
			cells[i].State.A, cells[i].TTL, cells[i].Dirty = int64(i+1), algo.Day, true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]int64)
	for i, key := range keys {
		want[key] = int64(i + 1)
		if n := counts(t, s, key)[0]; n != int64(i+1) {
			t.Errorf("%q counts %d, want %d", key, n, i+1)
		}
	}
	list := func() map[string]int64 {
		got := make(map[string]int64)
		for cell, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			got[cell.Key] = cell.State.A
		}
		return got
	}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	for _, key := range keys {
		if err := s.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if delete(want, key); !cmp.Equal(want, list()) {
			t.Errorf("with %q another key was deleted", key)
		}
	}
}

// A clock that is stepped back admits nothing extra, loses nothing, and brings
// nothing back that was deleted.
func testClockSteppedBack(t *testing.T, server string) {
	db := connect(t, server)
	defer db.Close()
	c := newClock(t, db, tables(t, server))
	var o mysql.Options
	o.SetClock(clockExpression)
	s := open(t, c.url, &o)
	p := &limit.Policy{Name: "login", Quota: 5, Window: time.Minute}
	byTake := func(key string) limit.Take {
		t.Helper()
		takes := []limit.Take{{Policy: p, Key: key, Cost: 5, Times: 1}}
		if err := s.TakeBulk(t.Context(), takes); err != nil {
			t.Fatal(err)
		}
		return takes[0]
	}
	byUpdate := func(key string) limit.Take {
		t.Helper()
		takes := []limit.Take{{Policy: p, Key: key, Cost: 5, Times: 1}}
		err := limit.TakeByUpdate(takes, []bool{false}, func(keys []string, fn func(algo.Ticks, []limit.Cell) error) error {
			return s.Update(t.Context(), keys, fn)
		})
		if err != nil {
			t.Fatal(err)
		}
		return takes[0]
	}
	for way, spend := range map[string]func(key string) limit.Take{"take": byTake, "update": byUpdate} {
		key, deleted := limit.StoreKey(p, way), limit.StoreKey(p, way+" deleted")
		noon := spend(key).Now
		spend(deleted)
		if err := s.Delete(t.Context(), deleted); err != nil {
			t.Fatal(err)
		}
		c.set(t, noon-30*algo.Second)
		take := spend(key)
		if take.Now != noon-30*algo.Second || take.Before.At != noon || take.Before.A != 5 {
			t.Errorf("%s 30s earlier: %+v, want the 5 units of noon", way, take)
		}
		if _, v := p.Decide(take.Before, take.Now, 5); v.OK || v.RetryAfter != 90*algo.Second {
			t.Errorf("%s 30s earlier: %+v, want a denial for 90s", way, v)
		}
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := spend(deleted); got.Before != (algo.State{}) {
			t.Errorf("%s 30s earlier what was deleted is %+v, want the zero State", way, got.Before)
		}
		c.set(t, noon+60*algo.Second)
		take = spend(key)
		if _, v := p.Decide(take.Before, take.Now, 5); !v.OK {
			t.Errorf("%s 60s later: %+v, want it admitted", way, v)
		}
		// Expired at noon + 2m, and swept a minute later at the earliest.
		c.set(t, noon+170*algo.Second)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.set(t, noon+115*algo.Second)
		if take = spend(key); take.Before.A != 5 {
			t.Errorf("%s 55s earlier: %+v, want the 5 units of noon + 60s, which have not expired again", way, take)
		}
		c.set(t, noon)
	}
}

// What was looked at is committed by another connection if its own has gone.
func testKilledBeforeCommit(t *testing.T, server string) {
	url := tables(t, server)
	s := open(t, url, nil)
	runs := 0
	err := s.Update(t.Context(), []string{"one", "two"}, func(now algo.Ticks, cells []limit.Cell) error {
		if runs++; kill(t, url) == 0 {
			t.Error("there was no connection to kill")
		}
		return countUp(now, cells)
	})
	if err != nil || runs != 1 {
		t.Errorf("%v after %d runs, want it committed after one", err, runs)
	}
	if diff := cmp.Diff([]int64{1, 1}, counts(t, s, "one", "two")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A transaction that has lost its connection is gone with all that it has written,
// and so are its locks.
func testKilledInTransaction(t *testing.T, server string) {
	url := tables(t, server)
	s := open(t, url, nil)
	keys := []string{"one", "two"}
	for runs := range 10 {
		before := counts(t, s, keys...)
		tries := 0
		err := s.Update(t.Context(), keys, func(now algo.Ticks, cells []limit.Cell) error {
			switch tries++; tries {
			case 1: // somebody else is faster: what comes next is under locks
				execute(t, url, "INSERT INTO stint_state VALUES ('two', 0, 0, 0, 4e15, 1, '') ON DUPLICATE KEY UPDATE version = version + 1")
			case 2:
				kill(t, url)
			}
			return countUp(now, cells)
		})
		if tries < 2 {
			t.Fatalf("fn ran once, want it to run again under locks")
		}
		after := counts(t, s, keys...)
		fault, failed := errors.AsType[*limit.StoreError](err)
		switch done := after[0] - before[0]; {
		case after[1]-before[1] != done:
			t.Errorf("run %d: %v became %v: half an update", runs, before, after)
		case err == nil && done != 1, failed && !fault.Sent && done != 0, done < 0 || done > 1:
			t.Errorf("run %d: %v became %v, and the update said: %v", runs, before, after, err)
		}
		if err := count(within(t, 5*time.Second), s, keys...); err != nil {
			t.Errorf("run %d: the update after it: %v", runs, err)
		}
	}
}

// However the connections are killed, every update is done whole or not at all,
// and one that says it was not sent was not done.
func testKilledAtAnyTime(t *testing.T, server string) {
	url := tables(t, server)
	s := open(t, url, nil)
	keys := []string{"one", "two"}
	var told, unsure atomic.Int64
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
				// A query that is killed between two statements that were sent
				// together is never answered: only a deadline ends it.
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				err := count(ctx, s, keys...)
				cancel()
				if fault, ok := errors.AsType[*limit.StoreError](err); err == nil {
					told.Add(1)
				} else if !ok {
					t.Errorf("%#v, want a *limit.StoreError", err)
				} else if fault.Sent {
					unsure.Add(1)
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
	got := counts(t, s, keys...)
	if low, high := told.Load(), told.Load()+unsure.Load(); got[0] != got[1] || got[0] < low || got[0] > high {
		t.Errorf("after %d kills the keys count %v, want them alike and between %d and %d", kills, got, low, high)
	}
	if told.Load() == 0 || kills < 300 {
		t.Errorf("%d updates, %d kills: too few", told.Load(), kills)
	}
}

// Whoever waits for a row waits no longer than it may, and then wants it no more.
func testRowHeld(t *testing.T, server string) {
	url := tables(t, server)
	s, other := open(t, url, nil), open(t, url, nil)
	if err := count(t.Context(), s, "key", "free"); err != nil {
		t.Fatal(err)
	}
	h := hold(t, url, "key")
	for op, do := range map[string]func(ctx context.Context) error{
		"update": func(ctx context.Context) error { return count(ctx, s, "key") },
		"delete": func(ctx context.Context) error { return s.Delete(ctx, "key") },
	} {
		began := time.Now()
		err := do(within(t, 100*time.Millisecond))
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 900*time.Millisecond {
			t.Errorf("%s after %v: %v, want it to end with its 100ms", op, took, err)
		}
	}
	const waiting = "SELECT COUNT(*)" + sessions + " AND command = 'Query'"
	if !soon(func() bool { return number(t, url, waiting) == 0 }) {
		t.Error("the row is still waited for by somebody who has gone")
	}
	if err := count(within(t, 5*time.Second), other, "free"); err != nil {
		t.Errorf("a row that nobody has: %v", err)
	}
	h.release(t)
	before := counts(t, other, "key")[0]
	if err := count(within(t, 5*time.Second), other, "key"); err != nil {
		t.Errorf("the row is free again: %v", err)
	}
	if n := counts(t, other, "key")[0]; n != before+1 {
		t.Errorf("the key counts %d, want %d", n, before+1)
	}
}

// Whoever waits for one row has others, and lets go of them when it ends, while
// the one that it waits for is held yet.
func testSecondRowHeld(t *testing.T, server string) {
	url := tables(t, server)
	s, other := open(t, url, nil), open(t, url, nil)
	if err := count(t.Context(), s, "a", "b"); err != nil {
		t.Fatal(err)
	}
	var h *holder
	began := time.Now()
	err := s.Update(within(t, 300*time.Millisecond), []string{"b", "a"}, func(now algo.Ticks, cells []limit.Cell) error {
		if h == nil { // somebody else is faster, and keeps one of the rows
			execute(t, url, "UPDATE stint_state SET version = version + 1")
			h = hold(t, url, "b")
		}
		return countUp(now, cells)
	})
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 1500*time.Millisecond {
		t.Errorf("after %v: %v, want it to end with its 300ms", took, err)
	}
	if err := count(within(t, 5*time.Second), other, "a"); err != nil {
		t.Errorf("the row that nobody should have: %v", err)
	}
	h.release(t)
	if err := count(within(t, 5*time.Second), other, "b"); err != nil {
		t.Errorf("the row that is free again: %v", err)
	}
	if diff := cmp.Diff([]int64{2, 2}, counts(t, other, "a", "b")); diff != "" {
		t.Errorf("what was called off counts (-want +got):\n%s", diff)
	}
}

// While somebody has the whole table, such as to alter it, callers who give up do
// not leave connections behind that wait for it.
func testTableHeld(t *testing.T, server string) {
	url := tables(t, server)
	s := open(t, url, &mysql.Options{PoolSize: 4})
	other := connect(t, url)
	defer other.Close()
	if _, err := other.Exec("LOCK TABLES stint_state WRITE"); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		began := time.Now()
		err := count(within(t, 20*time.Millisecond), s, "key")
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > time.Second {
			t.Errorf("after %v: %v, want it to end with its 20ms", took, err)
		}
	}
	watcher := connect(t, server)
	defer watcher.Close()
	waiting := func() (n int) {
		err := watcher.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%' AND db = ?", nameOf(t, url)).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if !soon(func() bool { return waiting() == 0 }) {
		t.Errorf("%d connections still wait for the table", waiting())
	}
	if _, err := other.Exec("UNLOCK TABLES"); err != nil {
		t.Fatal(err)
	}
	if err := count(t.Context(), s, "key"); err != nil {
		t.Errorf("the table is free again: %v", err)
	}
}

func testPoolExhausted(t *testing.T, server string) {
	url := tables(t, server)
	s := open(t, url, &mysql.Options{PoolSize: 2})
	if err := count(t.Context(), s, "key"); err != nil {
		t.Fatal(err)
	}
	h := hold(t, url, "key")
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() {
			if err := count(t.Context(), s, "key"); err != nil {
				t.Error(err)
			}
		})
	}
	// A wait for the row ends after a second and is begun again.
	const busy = "SELECT COUNT(*)" + sessions + " AND command = 'Query' AND info LIKE 'INSERT%'"
	if !soon(func() bool { return number(t, url, busy) == 2 }) {
		t.Fatal("the connections are not in use")
	}
	began := time.Now()
	err := s.Ping(within(t, 20*time.Millisecond))
	refused(t, "ping", err, "all 2 connections are in use: context deadline exceeded")
	if took := time.Since(began); took > time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after %v: %v", took, err)
	}
	h.release(t)
	waiting.Wait()
	if n := counts(t, s, "key")[0]; n != 3 {
		t.Errorf("the key counts %d, want 3", n)
	}
}

// A transaction that the server gives up, so that another can go on, is run again.
func testDeadlock(t *testing.T, server string) {
	url := tables(t, server)
	s := open(t, url, nil)
	if err := count(t.Context(), s, "a", "b"); err != nil {
		t.Fatal(err)
	}
	var h *holder
	deadlocked := make(chan error, 1)
	tries := 0
	err := s.Update(within(t, 10*time.Second), []string{"a", "b"}, func(now algo.Ticks, cells []limit.Cell) error {
		if tries++; tries > 1 {
			return countUp(now, cells)
		}
		execute(t, url, "UPDATE stint_state SET version = version + 1")
		h = hold(t, url, "b")
		// It has done more than the update will have, so it is not the one to be
		// given up.
		for i := range 100 {
			if _, err := h.tx.Exec("INSERT INTO stint_state VALUES (?, 0, 0, 0, 0, 1, '')", fmt.Sprint("more ", i)); err != nil {
				t.Fatal(err)
			}
		}
		go func() { // as soon as the update has a and waits for b
			if !soon(func() bool { return locked(t, url, "a") }) {
				t.Error("the update does not lock its rows")
			}
			_, err := h.tx.Exec("UPDATE stint_state SET a = a + 10 WHERE stint_state.key = 'a'")
			deadlocked <- errors.Join(err, h.tx.Commit())
		}()
		return countUp(now, cells)
	})
	if err != nil {
		t.Errorf("the update: %v", err)
	}
	if err := <-deadlocked; err != nil {
		t.Errorf("the other transaction: %v", err)
	}
	if diff := cmp.Diff([]int64{12, 2}, counts(t, s, "a", "b")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// locked reports whether somebody has the row of a key, and keeps it.
func locked(t *testing.T, url, key string) bool {
	t.Helper()
	db := connect(t, url)
	defer db.Close()
	for range 20 {
		if _, err := db.Exec("SELECT 1 FROM stint_state WHERE stint_state.key = '" + key + "' FOR UPDATE NOWAIT"); err == nil {
			return false
		}
	}
	return true
}

func testOppositeOrders(t *testing.T, server string) {
	url := tables(t, server)
	keys := []string{"a", "b", "c", "d", "e"}
	const updates = 30
	var wg sync.WaitGroup
	for i := range 4 {
		s := open(t, url, nil)
		mine := slices.Clone(keys)
		if i%2 == 1 {
			slices.Reverse(mine)
		}
		wg.Go(func() {
			for range updates {
				if err := count(t.Context(), s, mine...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i, n := range counts(t, open(t, url, nil), keys...) {
		if n != 4*updates {
			t.Errorf("%s counts %d, want %d", keys[i], n, 4*updates)
		}
	}
}

func testClose(t *testing.T, server string) {
	url := tables(t, server)
	s := open(t, url, nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	updated, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		updated <- s.Update(t.Context(), []string{"key"}, func(now algo.Ticks, cells []limit.Cell) error {
			close(begun)
			<-goOn
			return countUp(now, cells)
		})
	}()
	<-begun
	go func() { closed <- s.Close() }()
	select {
	case <-closed:
		t.Error("Close does not wait for an update that is under way")
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	if err := <-updated; err != nil {
		t.Errorf("the update that was under way: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	if n := number(t, url, "SELECT a FROM stint_state"); n != 1 {
		t.Errorf("the key counts %d, want 1", n)
	}
	if !soon(func() bool { return number(t, url, "SELECT COUNT(*)"+sessions) == 0 }) {
		t.Error("there are connections left")
	}

	_, swapped := s.Swap(t.Context(), []limit.Cell{{Key: "key"}})
	var listed error
	for _, listed = range s.List(t.Context(), "") {
	}
	for op, err := range map[string]error{
		"update": count(t.Context(), s, "key"),
		"delete": s.Delete(t.Context(), "key"),
		"ping":   s.Ping(t.Context()),
		"take":   s.TakeBulk(t.Context(), nil),
		"swap":   swapped,
		"list":   listed,
	} {
		refused(t, op, err, "store is closed")
		if !errors.Is(err, limit.ErrClosed) {
			t.Errorf("%s: %v, want a limit.ErrClosed", op, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// longKeys are more than fit one statement.
func longKeys() []string {
	keys := make([]string, 5000)
	for i := range keys {
		keys[i] = fmt.Sprintf("%0512d", i)
	}
	return keys
}

// alike returns what all keys count, and fails if they do not all count the same.
func alike(t *testing.T, all []int64) int64 {
	t.Helper()
	if low, high := slices.Min(all), slices.Max(all); low != high {
		t.Errorf("of %d keys, which are always counted together, some count %d and some %d", len(all), low, high)
	}
	return all[0]
}

// What needs several statements is all or nothing, too.
func testLongLists(t *testing.T, server string) {
	url := tables(t, server)
	keys := longKeys()
	s := open(t, url, nil)
	var wg sync.WaitGroup
	for range 3 {
		s := open(t, url, nil)
		wg.Go(func() {
			if err := count(t.Context(), s, keys...); err != nil {
				t.Error(err)
			}
			alike(t, counts(t, s, keys...))
		})
	}
	wg.Wait()
	called := errors.New("called off")
	err := s.Update(t.Context(), keys, func(now algo.Ticks, cells []limit.Cell) error {
		countUp(now, cells)
		return called
	})
	if n := alike(t, counts(t, s, keys...)); err != called || n != 3 {
		t.Errorf("an update that was called off: %v, and the keys count %d, want 3", err, n)
	}
	if err := s.Delete(t.Context(), keys...); err != nil {
		t.Error(err)
	}
	if n := alike(t, counts(t, s, keys...)); n != 0 {
		t.Errorf("the keys count %d after they were deleted", n)
	}
}

// The connection may be lost after any of the statements.
func testLongListsKilled(t *testing.T, server string) {
	url := tables(t, server)
	keys := longKeys()[:2500]
	s := open(t, url, nil)
	if err := count(t.Context(), s, keys...); err != nil {
		t.Fatal(err)
	}
	watcher := connect(t, url)
	defer watcher.Close()
	const writing = "SELECT id" + sessions + " AND info LIKE 'INSERT%'"
	failed := 0
	for i := range 5 {
		before := alike(t, counts(t, s, keys...))
		looked, updated := make(chan struct{}, 10), make(chan error, 1)
		go func() {
			updated <- s.Update(t.Context(), keys, func(now algo.Ticks, cells []limit.Cell) error {
				looked <- struct{}{}
				return countUp(now, cells)
			})
		}()
		<-looked // what it inserts from now on is what it commits
		for seen := 0; len(updated) == 0; {
			var id int64
			if err := watcher.QueryRow(writing).Scan(&id); err == nil {
				seen++
			}
			if seen > i { // later each time
				watcher.Exec(fmt.Sprint("KILL ", id))
				break
			}
		}
		err := <-updated
		done := alike(t, counts(t, s, keys...)) - before
		fault, ok := errors.AsType[*limit.StoreError](err)
		if err == nil && done != 1 || ok && !fault.Sent && done != 0 || done < 0 || done > 1 {
			t.Errorf("%d updates are done, and the one said: %v", done, err)
		}
		if err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no update was interrupted")
	}
}

func testLongLogs(t *testing.T, server string) {
	s := open(t, tables(t, server), nil)
	log := make([]byte, 60_000)
	rand.Read(log)
	state := algo.State{At: 1, A: 2, B: 3}.WithEntries(string(log))
	put := func(_ algo.Ticks, cells []limit.Cell) error {
		for i := range cells {
			cells[i].State, cells[i].TTL, cells[i].Dirty = state, algo.Day, true
		}
		return nil
	}
	var keys []string
	for i := range 20 { // together more than fits one statement
		keys = append(keys, fmt.Sprint("key ", i))
	}
	for _, list := range [][]string{keys[:1], keys} {
		if err := s.Update(t.Context(), list, put); err != nil {
			t.Fatal(err)
		}
	}
	cells := make([]limit.Cell, len(keys))
	for i, key := range keys {
		cells[i].Key = key
	}
	if _, err := s.Swap(t.Context(), cells); err != nil {
		t.Fatal(err)
	}
	for cell, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, cell)
	}
	if len(cells) != 2*len(keys) {
		t.Errorf("%d keys are listed, want %d", len(cells)-len(keys), len(keys))
	}
	for _, cell := range cells {
		if !cell.State.Equal(state) {
			t.Errorf("%q has another log of %d bytes, want %d", cell.Key, len(cell.State.Entries()), len(log))
		}
	}
}

// A list of keys is looked up by the primary key, however long it is: no other row
// is read. The statement is the one that the server was asked, and the settings are
// those of the connection that asked it.
func testPlan(t *testing.T, server string) {
	url := tables(t, server)
	const hundred = "(WITH RECURSIVE up AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM up WHERE n < 99) SELECT n FROM up)"
	execute(t, url, "INSERT INTO stint_state SELECT CONCAT('key ', 100 * a.n + b.n), 1, 1, 1, 4e15, 1, '' FROM "+hundred+" AS a, "+hundred+" AS b")
	if n := number(t, url, rows); n != 10_000 {
		t.Fatalf("%d rows, want 10000", n)
	}
	asked := connect(t, url)
	defer asked.Close()
	run := func(statement string) {
		t.Helper()
		if _, err := asked.Exec(statement); err != nil {
			t.Fatalf("%.200s: %v", statement, err)
		}
	}
	var keys []string
	for i := range 3000 {
		keys = append(keys, fmt.Sprint("key ", i))
	}
	for _, n := range []int{1, 50, len(keys)} {
		run("SET GLOBAL log_output = 'TABLE'")
		run("TRUNCATE mysql.general_log")
		run("SET GLOBAL general_log = 1")
		counts(t, open(t, url, nil), keys[:n]...)
		run("SET GLOBAL general_log = 0")

		logged := func(like string) (text string) {
			t.Helper()
			if err := asked.QueryRow("SELECT argument FROM mysql.general_log WHERE command_type = 'Query' AND argument LIKE ?", like).Scan(&text); err != nil {
				t.Fatalf("no statement like %s: %v", like, err)
			}
			return text
		}
		run(logged("%in_predicate_conversion_threshold%"))
		look, _, _ := strings.Cut(logged("SELECT stint_state.key%IN (%"), ";")
		plan := explained(t, asked, look)
		if len(plan) != 1 || plan[0]["type"] != "range" || plan[0]["key"] != "PRIMARY" {
			t.Errorf("the plan for %d keys is %v, want a range of the primary key", n, plan)
		}
		run("FLUSH STATUS")
		run(look)
		read := make(map[string]int)
		found, err := asked.Query("SHOW SESSION STATUS LIKE 'Handler_read%'")
		if err != nil {
			t.Fatal(err)
		}
		for found.Next() {
			var name string
			var times int
			if err := found.Scan(&name, &times); err != nil {
				t.Fatal(err)
			}
			if times > 0 {
				read[name] = times
			}
		}
		found.Close()
		// One more for the key that there cannot be, which begins the list.
		if diff := cmp.Diff(map[string]int{"Handler_read_key": n + 1}, read); diff != "" {
			t.Errorf("for %d keys the server reads (-want +got):\n%s", n, diff)
		}
	}
}

// explained returns the rows of a plan, by the names of their columns.
func explained(t *testing.T, db *sql.DB, statement string) (plan []map[string]string) {
	t.Helper()
	found, err := db.Query("EXPLAIN " + statement)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	names, err := found.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for found.Next() {
		values, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := found.Scan(into...); err != nil {
			t.Fatal(err)
		}
		row := make(map[string]string)
		for i, name := range names {
			row[name] = values[i].String
		}
		plan = append(plan, row)
	}
	return plan
}

// A server that was killed and comes back is used again by the stores that were
// open, and has what it said it had.
func TestServerRestarts(t *testing.T) {
	server := servertest.StartMariaDB(t)
	s := open(t, tables(t, server.URL), &mysql.Options{PoolSize: 4})
	told := int64(0)
	for range 2 {
		var wg sync.WaitGroup
		for range 4 { // so that the pool has several connections, all of which are lost
			told++
			wg.Go(func() {
				if err := count(t.Context(), s, "key"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		server.Kill(t)
		refused(t, "update", count(t.Context(), s, "key"), "cannot connect: dial tcp "+server.Address+": connect: connection refused")
		server.Restart(t)
		if n := counts(t, s, "key")[0]; n != told {
			t.Errorf("the key counts %d, want the %d that were told so", n, told)
		}
	}
}
