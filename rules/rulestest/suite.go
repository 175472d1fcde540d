// Package rulestest is what a rules.Source must do, as tests.
package rulestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/rules"
)

// Harness is how the suite handles one kind of source. Only Open is needed; what
// is nil the source cannot do, and the properties that need it are skipped.
type Harness struct {
	// Open returns a source on a table of its own, which is empty, and the store
	// that it belongs to. The suite closes that, perhaps more than once.
	Open func(t testing.TB) (rules.Source, io.Closer)
	// Reopen returns a second client on the table of the last Open.
	Reopen func(t testing.TB) (rules.Source, io.Closer)
	// Session begins a session with the database of the last Open, as people
	// have, and returns what runs SQL in it. nil: there is no SQL.
	Session func(t testing.TB) (run func(sql string))
	// Schemaless says that the database takes what no row may be, and that what a
	// Session runs knows no transactions.
	Schemaless bool
	// Break cuts the connection to the table of the last Open until repair is called.
	Break func(t testing.TB) (repair func())
	// OneWriter says that who changes a row waits for whoever changes another.
	OneWriter bool
}

// patience bounds everything that a test waits for.
var patience = 30 * time.Second

// Run holds the sources of h against every property of the contract.
func Run(t *testing.T, h Harness) {
	for _, property := range []struct {
		name  string
		check func(t *testing.T, h Harness)
	}{
		{"what is put is there, for every client", roundTrip},
		{"rows are listed by id, page by page", pages},
		{"who has not read the last revision changes nothing", lostUpdates},
		{"no two rows have one name or one path", taken},
		{"what is out of bounds is refused, and nothing changes", outOfBounds},
		{"every change is another version", versions},
		{"a change by SQL is seen", bySQL},
		{"the schema refuses what no row may be", schema},
		{"a change that is committed late is seen", lateCommit},
		{"counted up by many, nothing is lost", race},
		{"a rollback brings back what has been", rollback},
		{"random changes leave what they say", model},
		{"who watches is told", watch},
		{"a lost connection is an error, and no more after it", broken},
		{"a closed source says so", closing},
	} {
		t.Run(property.name, func(t *testing.T) { property.check(t, h) })
	}
}

func closed(t testing.TB, open func(t testing.TB) (rules.Source, io.Closer)) rules.Source {
	t.Helper()
	s, store := open(t)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// clients opens a source and returns two clients of it: the same one twice if
// there can be no second.
func (h Harness) clients(t testing.TB) [2]rules.Source {
	t.Helper()
	first := closed(t, h.Open)
	if h.Reopen == nil {
		return [2]rules.Source{first, first}
	}
	return [2]rules.Source{first, closed(t, h.Reopen)}
}

func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func plain(path string, calls int64) rules.Row {
	return rules.Row{Enabled: true, Path: path, Calls: calls, PeriodMS: 60_000}
}

func full(name string) rules.Row {
	return rules.Row{Enabled: true, Name: name, Rule: "{\"name\": \"" + name + "\", \"limits\": [{\"quota\": 1, \"window\": \"1m\"}]}"}
}

func put(t testing.TB, s rules.Source, row rules.Row, by string) rules.Row {
	t.Helper()
	got, err := s.Put(timeout(t), row, by)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	return got
}

func version(t testing.TB, s rules.Source) int64 {
	t.Helper()
	v, err := s.Version(timeout(t))
	if err != nil {
		t.Fatalf("version: %v", err)
	}
	return v
}

func list(t testing.TB, s rules.Source) []rules.Row {
	t.Helper()
	rows, err := s.List(timeout(t), 0, 1000)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return rows
}

func historyOf(t testing.TB, s rules.Source, q rules.HistoryQuery) []rules.Change {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 1000
	}
	changes, err := s.History(timeout(t), q)
	if err != nil {
		t.Fatalf("history: %v", err)
	}
	return changes
}

func want[T any](t testing.TB, what string, want, got T, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, append(options, cmpopts.EquateEmpty())...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func wantErr(t testing.TB, what string, want, got error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

func roundTrip(t *testing.T, h Harness) {
	clients := h.clients(t)
	ctx := timeout(t)
	off := plain("/off", 0)
	off.Enabled = false
	chosen := full("chosen")
	chosen.ID = 77
	for i, row := range []rules.Row{
		plain("/entity/#/table/query", 10),
		full("uploads"),
		off,
		chosen,
		{Name: "long", Rule: "# 'quotes', \"quotes\", \\, %, é, \U0001F600\n" + strings.Repeat("x", rules.MaxRowRule-50)},
		{Name: "most", Path: "/" + strings.Repeat("é", rules.MaxRowPath/2), Calls: 1<<63 - 1, PeriodMS: 365 * 24 * 3600 * 1000},
	} {
		got := put(t, clients[i%2], row, "ann'; DROP TABLE stint_rule; --")
		if got.ID == 0 || row.ID != 0 && got.ID != row.ID || got.Revision == 0 || got.Modified.IsZero() {
			t.Errorf("put %+v, got %+v: no id, revision or time", row, got)
		}
		row.ID, row.Revision, row.Modified, row.By = got.ID, got.Revision, got.Modified, "ann'; DROP TABLE stint_rule; --"
		want(t, "what Put returns", row, got)
		read, err := clients[1-i%2].Get(ctx, got.ID)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "what the other client gets", got, read)

		got.Enabled = !got.Enabled
		again := put(t, clients[1-i%2], got, "bob")
		if again.Revision == got.Revision || again.Modified.Before(got.Modified) {
			t.Errorf("revision %d of %v after %d of %v", again.Revision, again.Modified, got.Revision, got.Modified)
		}
		got.Revision, got.Modified, got.By = again.Revision, again.Modified, "bob"
		want(t, "what is put again", got, again)
	}
	if _, err := clients[0].Get(ctx, 1<<40); !errors.Is(err, rules.ErrNoRow) {
		t.Errorf("a row that is not there: %v, want ErrNoRow", err)
	}
}

func pages(t *testing.T, h Harness) {
	clients := h.clients(t)
	var all []rules.Row
	for i := range 7 {
		all = append(all, put(t, clients[i%2], plain(fmt.Sprintf("/%d", i), 1), "ann"))
	}
	if err := clients[0].Delete(timeout(t), all[2].ID, all[2].Revision, "ann"); err != nil {
		t.Fatal(err)
	}
	all = append(all[:2], all[3:]...)
	for size := 1; size <= 7; size++ {
		var got []rules.Row
		for after := int64(0); ; after = got[len(got)-1].ID {
			page, err := clients[1].List(timeout(t), after, size)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > size {
				t.Errorf("a page of %d rows, want %d at most", len(page), size)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
		}
		want(t, fmt.Sprintf("pages of %d", size), all, got)
	}
}

func lostUpdates(t *testing.T, h Harness) {
	clients := h.clients(t)
	ctx := timeout(t)
	first := put(t, clients[0], plain("/x", 1), "ann")
	second := first
	second.Calls = 2
	second = put(t, clients[1], second, "bob")
	other := put(t, clients[0], plain("/other", 1), "ann")
	before := version(t, clients[0])

	stale := first
	stale.Calls = 3
	_, err := clients[0].Put(ctx, stale, "ann")
	wantErr(t, "put with a revision that is past", rules.ErrChanged, err)
	stale.Revision = 0
	_, err = clients[0].Put(ctx, stale, "ann")
	wantErr(t, "put as new what is there", rules.ErrChanged, err)
	stale.Revision = other.Revision
	if stale.Revision != second.Revision {
		_, err = clients[0].Put(ctx, stale, "ann")
		wantErr(t, "put with another row's revision", rules.ErrChanged, err)
	}
	wantErr(t, "delete with a revision that is past", rules.ErrChanged, clients[0].Delete(ctx, first.ID, first.Revision, "ann"))
	wantErr(t, "delete what is not there", rules.ErrNoRow, clients[0].Delete(ctx, 1<<40, 5, "ann"))
	gone := first
	gone.ID = 1 << 40
	_, err = clients[0].Put(ctx, gone, "ann")
	wantErr(t, "change what is not there", rules.ErrNoRow, err)

	want(t, "the rows", []rules.Row{second, other}, list(t, clients[0]))
	want(t, "the version", before, version(t, clients[1]))
	want(t, "the number of changes", 3, len(historyOf(t, clients[1], rules.HistoryQuery{})))

	if err := clients[0].Delete(ctx, second.ID, second.Revision, "ann"); err != nil {
		t.Fatal(err)
	}
	_, err = clients[1].Put(ctx, second, "bob")
	wantErr(t, "change what has been deleted", rules.ErrNoRow, err)
	second.Revision = 0
	again := put(t, clients[1], second, "bob")
	wantErr(t, "delete what was made anew", rules.ErrChanged, clients[0].Delete(ctx, first.ID, first.Revision, "ann"))
	if again.ID != first.ID || again.Revision == first.Revision {
		t.Errorf("made anew as %d of revision %d, was %d of revision %d", again.ID, again.Revision, first.ID, first.Revision)
	}
}

func taken(t *testing.T, h Harness) {
	clients := h.clients(t)
	ctx := timeout(t)
	named := plain("/named", 1)
	named.Name = "one"
	named = put(t, clients[0], named, "ann")
	two := put(t, clients[0], full("two"), "ann")
	put(t, clients[0], plain("/nameless", 1), "ann")
	put(t, clients[0], plain("/nameless/too", 1), "ann")
	before := list(t, clients[0])

	_, err := clients[1].Put(ctx, full("one"), "bob")
	wantErr(t, "a new row with a name that is taken", rules.ErrNameTaken, err)
	_, err = clients[1].Put(ctx, plain("/nameless", 1), "bob")
	wantErr(t, "a new row with a path that is taken", rules.ErrPathTaken, err)
	two.Name = "one"
	_, err = clients[1].Put(ctx, two, "bob")
	wantErr(t, "a change to a name that is taken", rules.ErrNameTaken, err)
	named.Path = "/nameless"
	_, err = clients[1].Put(ctx, named, "bob")
	wantErr(t, "a change to a path that is taken", rules.ErrPathTaken, err)
	want(t, "the rows", before, list(t, clients[0]))

	put(t, clients[1], plain("/Nameless", 1), "bob") // bytes count, not letters
}

func outOfBounds(t *testing.T, h Harness) {
	s := closed(t, h.Open)
	before := version(t, s)
	for _, c := range []struct {
		change func(r *rules.Row)
		by     string
		field  string
	}{
		{func(r *rules.Row) { r.Calls = -1 }, "ann", "calls"},
		{func(r *rules.Row) { r.PeriodMS = 0 }, "ann", "period_ms"},
		{func(r *rules.Row) { r.PeriodMS = 1 << 62 }, "ann", "period_ms"},
		{func(r *rules.Row) { r.Path = "" }, "ann", "path"},
		{func(r *rules.Row) { r.Path = "/" + strings.Repeat("x", rules.MaxRowPath) }, "ann", "path"},
		{func(r *rules.Row) { r.Path = "/\xff" }, "ann", "path"},
		{func(r *rules.Row) { r.Path = "/\x00" }, "ann", "path"},
		{func(r *rules.Row) { r.Rule = "name: x" }, "ann", "rule"},
		{func(r *rules.Row) { *r = rules.Row{Rule: strings.Repeat("x", 1<<20)} }, "ann", "rule"},
		{func(r *rules.Row) { *r = rules.Row{Rule: "name: \xff"} }, "ann", "rule"},
		{func(r *rules.Row) { r.Name = "Not a name" }, "ann", "name"},
		{func(r *rules.Row) { r.ID = -1 }, "ann", "id"},
		{func(r *rules.Row) {}, "", "by"},
		{func(r *rules.Row) {}, strings.Repeat("x", rules.MaxRowBy+1), "by"},
	} {
		row := plain("/x", 1)
		c.change(&row)
		_, err := s.Put(timeout(t), row, c.by)
		if e, ok := errors.AsType[*rules.RowError](err); !ok || e.Field != c.field {
			t.Errorf("put of what has a bad %s: %.200v, want a RowError of that field", c.field, err)
		}
	}
	want(t, "the rows", nil, list(t, s))
	want(t, "the version", before, version(t, s))
}

func versions(t *testing.T, h Harness) {
	clients := h.clients(t)
	seen := map[int64]bool{version(t, clients[0]): true}
	moved := func(after string) {
		t.Helper()
		one, other := version(t, clients[0]), version(t, clients[1])
		if one != other || seen[one] {
			t.Errorf("after %s the version is %d and %d; want both the same, and one that has not been", after, one, other)
		}
		seen[one] = true
	}
	row := put(t, clients[0], plain("/x", 1), "ann")
	moved("a new row")
	put(t, clients[1], plain("/y", 1), "bob")
	moved("another")
	row.Calls = 2
	row = put(t, clients[1], row, "bob")
	moved("a change")
	row = put(t, clients[1], row, "bob")
	moved("the same again")
	if err := clients[0].Delete(timeout(t), row.ID, row.Revision, "ann"); err != nil {
		t.Fatal(err)
	}
	moved("a deletion")
	row.Revision = 0
	put(t, clients[0], row, "ann")
	moved("a row made anew")
}

var anyTime = cmpopts.IgnoreFields(rules.Row{}, "Revision", "Modified")

func bySQL(t *testing.T, h Harness) {
	if h.Session == nil {
		t.Skip("there is no SQL")
	}
	clients := h.clients(t)
	run := h.Session(t)
	last := version(t, clients[0])
	moved := func(after string) {
		t.Helper()
		now := version(t, clients[0])
		if now == last {
			t.Errorf("the version after %s is what it was", after)
		}
		last = now
	}
	run("INSERT INTO stint_rule (path, calls, period_ms) VALUES ('/entity/#', 10, 60000)")
	moved("an INSERT")
	rows := list(t, clients[0])
	if len(rows) != 1 {
		t.Fatalf("%d rows, want 1", len(rows))
	}
	made := rows[0]
	want(t, "what SQL has made", rules.Row{ID: made.ID, Enabled: true, Path: "/entity/#", Calls: 10, PeriodMS: 60_000}, made, anyTime)

	run("UPDATE stint_rule SET calls = 20, name = 'entity' WHERE path = '/entity/#'")
	moved("an UPDATE")
	_, err := clients[0].Put(timeout(t), made, "ann")
	wantErr(t, "put over what SQL has changed", rules.ErrChanged, err)
	changed, err := clients[1].Get(timeout(t), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "what SQL has changed", rules.Row{ID: made.ID, Name: "entity", Enabled: true, Path: "/entity/#", Calls: 20, PeriodMS: 60_000}, changed, anyTime)
	if changed.Revision == made.Revision || !changed.Modified.After(made.Modified) {
		t.Errorf("revision %d of %v after %d of %v", changed.Revision, changed.Modified, made.Revision, made.Modified)
	}

	mine := changed
	mine.Calls = 30
	mine = put(t, clients[0], mine, "ann")
	moved("a Put")
	run("UPDATE stint_rule SET enabled = FALSE WHERE name = 'entity'")
	moved("an UPDATE of what was put")
	off, err := clients[1].Get(timeout(t), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "what SQL has turned off", rules.Row{ID: made.ID, Name: "entity", Path: "/entity/#", Calls: 30, PeriodMS: 60_000}, off, anyTime)
	if err := clients[1].Delete(timeout(t), off.ID, off.Revision, "bob"); err != nil {
		t.Fatal(err)
	}
	moved("a Delete")
	changes := historyOf(t, clients[0], rules.HistoryQuery{Row: made.ID})
	var told []string
	for _, c := range changes {
		told = append(told, fmt.Sprintf("%q calls=%d enabled=%v deleted=%v", c.By, c.Row.Calls, c.Row.Enabled, c.Deleted))
	}
	want(t, "the history", []string{
		`"bob" calls=30 enabled=false deleted=true`,
		`"" calls=30 enabled=false deleted=false`,
		`"ann" calls=30 enabled=true deleted=false`,
		`"" calls=20 enabled=true deleted=false`,
	}, told)

	run("INSERT INTO stint_rule (rule) VALUES ('name: a\nlimits: [{quota: 1, window: 1m}]')")
	moved("an INSERT of a rule")
	run("DELETE FROM stint_rule WHERE rule IS NOT NULL")
	moved("a DELETE")
}

func schema(t *testing.T, h Harness) {
	if h.Session == nil || h.Schemaless {
		t.Skip("there is no SQL, or no schema")
	}
	s := closed(t, h.Open)
	put(t, s, plain("/taken", 1), "ann")
	before := list(t, s)
	for _, values := range []string{
		"(path, calls, period_ms) VALUES ('/x', -1, 1000)",
		"(path, calls, period_ms) VALUES ('/x', 1, 0)",
		"(path, calls, period_ms) VALUES ('/x', 1, 31536000001)",
		"(path, calls, period_ms) VALUES ('/x', 1, NULL)",
		"(path, calls, period_ms) VALUES ('/x', NULL, 1000)",
		"(path, calls, period_ms) VALUES (NULL, 1, 1000)",
		"(path, calls, period_ms, rule) VALUES ('/x', 1, 1000, 'name: x')",
		"(name) VALUES ('x')",
		"(path, calls, period_ms) VALUES ('/taken', 1, 1000)",
	} {
		refused(t, h, "INSERT INTO stint_rule "+values)
	}
	want(t, "the rows", before, list(t, s))
}

// refused runs SQL that must fail.
func refused(t *testing.T, h Harness, sql string) {
	t.Helper()
	probe := &recorder{TB: t}
	func() {
		defer func() { recover() }()
		h.Session(probe)(sql)
	}()
	if !probe.failed {
		t.Errorf("%s: no error", sql)
	}
}

// recorder notes that a test has failed, and stops it.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Fatalf(string, ...any) { r.failed = true; panic("stopped") }

func lateCommit(t *testing.T, h Harness) {
	if h.Session == nil || h.Schemaless {
		t.Skip("there are no transactions")
	}
	clients := h.clients(t)
	early, late := put(t, clients[0], plain("/early", 1), "ann"), put(t, clients[0], plain("/late", 1), "ann")
	before := version(t, clients[0])
	run := h.Session(t)
	run("BEGIN")
	run(fmt.Sprintf("UPDATE stint_rule SET calls = 2 WHERE id = %d", late.ID))
	done := make(chan error, 1)
	go func() {
		_, err := clients[1].Put(timeout(t), early, "bob")
		done <- err
	}()
	if h.OneWriter {
		run("COMMIT")
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	between := version(t, clients[0])
	if between == before {
		t.Error("the version does not tell of the change that was committed first")
	}
	if h.OneWriter {
		return
	}
	run("COMMIT")
	if version(t, clients[0]) == between {
		t.Error("the version does not tell of the change that was begun first and committed last")
	}
}

func race(t *testing.T, h Harness) {
	clients := h.clients(t)
	id := put(t, clients[0], plain("/x", 0), "ann").ID
	const goroutines, each = 6, 5
	ctx := timeout(t)
	var wg sync.WaitGroup
	for i := range goroutines {
		s := clients[i%2]
		wg.Go(func() {
			for n := 0; n < each; {
				row, err := s.Get(ctx, id)
				if err == nil {
					row.Calls++
					_, err = s.Put(ctx, row, "ann")
				}
				switch {
				case err == nil:
					n++
				case !errors.Is(err, rules.ErrChanged):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	rows := list(t, clients[0])
	if len(rows) != 1 || rows[0].Calls != goroutines*each {
		t.Errorf("counted up to %+v, want %d", rows, goroutines*each)
	}
	changes := historyOf(t, clients[1], rules.HistoryQuery{Row: id})
	for i, c := range changes {
		if c.Row.Calls != int64(len(changes)-1-i) {
			t.Errorf("change %d of the history counts %d, want %d", i, c.Row.Calls, len(changes)-1-i)
		}
	}
	want(t, "the number of changes", goroutines*each+1, len(changes))
}

func rollback(t *testing.T, h Harness) {
	clients := h.clients(t)
	ctx := timeout(t)
	first := put(t, clients[0], plain("/x", 1), "ann")
	second := first
	second.Calls, second.Name, second.Enabled = 2, "x", false
	second = put(t, clients[1], second, "bob")
	changes := historyOf(t, clients[0], rules.HistoryQuery{Row: first.ID})
	if len(changes) != 2 {
		t.Fatalf("%d changes, want 2", len(changes))
	}
	want(t, "what the history has of the rows", []rules.Row{second, first}, []rules.Row{changes[0].Row, changes[1].Row}, cmpopts.IgnoreFields(rules.Row{}, "Modified"))

	_, err := rules.Rollback(ctx, clients[0], changes[1].N, first.Revision, "ann")
	wantErr(t, "a rollback of what has changed since", rules.ErrChanged, err)
	back, err := rules.Rollback(ctx, clients[0], changes[1].N, second.Revision, "ann")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "after the rollback", first, back, anyTime)
	if err := clients[1].Delete(ctx, back.ID, back.Revision, "bob"); err != nil {
		t.Fatal(err)
	}
	changes = historyOf(t, clients[0], rules.HistoryQuery{Row: first.ID, Limit: 1})
	if len(changes) != 1 || !changes[0].Deleted {
		t.Fatalf("the last change is %+v, want a deletion", changes)
	}
	again, err := rules.Rollback(ctx, clients[0], changes[0].N, 0, "ann")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "after the deletion was rolled back", first, again, anyTime)
	_, err = rules.Rollback(ctx, clients[0], 1<<40, 0, "ann")
	wantErr(t, "a rollback to a change that has not been", rules.ErrNoChange, err)

	var paged []rules.Change
	for q := (rules.HistoryQuery{Limit: 2}); ; q.Before = paged[len(paged)-1].N {
		page := historyOf(t, clients[0], q)
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
	}
	want(t, "the history in pages of 2", historyOf(t, clients[0], rules.HistoryQuery{}), paged)
	want(t, "the length of the history", 5, len(paged))
}

// model makes random changes through two clients, and the same ones in memory.
func model(t *testing.T, h Harness) {
	clients := h.clients(t)
	base := int64(0)
	rapid.Check(t, func(r *rapid.T) {
		base += 10 // ids of its own
		var m Memory
		mine, theirs := map[int64]int64{}, map[int64]int64{} // revisions that are past
		forget := cmpopts.IgnoreFields(rules.Row{}, "Revision", "Modified")
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			s := clients[rapid.IntRange(0, 1).Draw(r, "client")]
			id := base + rapid.Int64Range(1, 4).Draw(r, "id")
			fresh := rapid.Bool().Draw(r, "fresh")
			a, b := mine[id], theirs[id]
			if fresh {
				a, b = 0, 0
				if row, err := m.Get(t.Context(), id); err == nil {
					a = row.Revision
				}
				if row, err := s.Get(timeout(t), id); err == nil {
					b = row.Revision
				}
			}
			if rapid.IntRange(0, 3).Draw(r, "delete") == 0 {
				modelled, got := m.Delete(t.Context(), id, a, "ann"), s.Delete(timeout(t), id, b, "ann")
				if !errors.Is(got, modelled) {
					r.Fatalf("delete: %v, want %v", got, modelled)
				}
				continue
			}
			row := plain(fmt.Sprintf("/%d/%s", base, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "path")), rapid.Int64Range(0, 3).Draw(r, "calls"))
			row.ID = id
			if name := rapid.SampledFrom([]string{"", "a", "b"}).Draw(r, "name"); name != "" {
				row.Name = fmt.Sprintf("%s-%d", name, base)
			}
			row.Enabled = rapid.Bool().Draw(r, "enabled")
			row.Revision = a
			modelled, modelledErr := m.Put(t.Context(), row, "ann")
			row.Revision = b
			got, err := s.Put(timeout(t), row, "ann")
			if !errors.Is(err, modelledErr) && !(isTaken(err) && isTaken(modelledErr)) {
				r.Fatalf("put: %v, want %v", err, modelledErr)
			}
			if err == nil {
				if diff := cmp.Diff(modelled, got, forget); diff != "" {
					r.Fatalf("put (-want +got):\n%s", diff)
				}
				mine[id], theirs[id] = a, b
			}
		}
		rows, err := clients[0].List(timeout(t), base, 10)
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(list(t, &m), rows, forget, cmpopts.EquateEmpty()); diff != "" {
			r.Fatalf("the rows (-want +got):\n%s", diff)
		}
		past := func(s rules.Source) (told []string) {
			for id := base + 1; id <= base+4; id++ {
				for _, c := range historyOf(t, s, rules.HistoryQuery{Row: id}) {
					told = append(told, fmt.Sprintf("%d %q %q %d %v %v", c.Row.ID, c.Row.Name, c.Row.Path, c.Row.Calls, c.Row.Enabled, c.Deleted))
				}
			}
			return told
		}
		if diff := cmp.Diff(past(&m), past(clients[1])); diff != "" {
			r.Fatalf("the history (-want +got):\n%s", diff)
		}
	})
}

// isTaken: a row may have both a name and a path that are.
func isTaken(err error) bool {
	return errors.Is(err, rules.ErrNameTaken) || errors.Is(err, rules.ErrPathTaken)
}

func watch(t *testing.T, h Harness) {
	clients := h.clients(t)
	w, ok := clients[1].(rules.Watcher)
	if !ok {
		t.Skip("it has to be polled")
	}
	ctx, stop := context.WithCancel(timeout(t))
	told := make(chan struct{}, 100)
	ended := make(chan error, 1)
	go func() { ended <- w.Watch(ctx, func() { told <- struct{}{} }) }()
	hear := func(of string) {
		t.Helper()
		select {
		case <-told:
		case err := <-ended:
			t.Fatalf("watching ended: %v", err)
		case <-ctx.Done():
			t.Fatalf("nothing was told of %s", of)
		}
	}
	hear("the beginning")
	row := put(t, clients[0], plain("/x", 1), "ann")
	hear("a new row")
	if h.Session != nil {
		run := h.Session(t)
		run("UPDATE stint_rule SET calls = 2")
		hear("an UPDATE")
		row, _ = clients[0].Get(ctx, row.ID)
	}
	if err := clients[0].Delete(ctx, row.ID, row.Revision, "ann"); err != nil {
		t.Fatal(err)
	}
	hear("a deletion")
	stop()
	wantErr(t, "the end of watching", context.Canceled, <-ended)
}

func broken(t *testing.T, h Harness) {
	if h.Break == nil {
		t.Skip("there is no connection")
	}
	s := closed(t, h.Open)
	row := put(t, s, plain("/x", 1), "ann")
	repair := h.Break(t)
	defer repair()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for op, err := range map[string]error{
		"version": func() error { _, err := s.Version(ctx); return err }(),
		"put":     func() error { _, err := s.Put(ctx, row, "ann"); return err }(),
	} {
		if e, ok := errors.AsType[*rules.SourceError](err); !ok || e.Op != op {
			t.Errorf("%s without a connection: %v, want a SourceError", op, err)
		}
	}
	repair()
	again, end := timeout(t), time.Now().Add(patience)
	for {
		got, err := s.List(again, 0, 10)
		if err == nil {
			want(t, "the rows", []rules.Row{row}, got)
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after the repair: %v", err)
		}
	}
}

func closing(t *testing.T, h Harness) {
	s, store := h.Open(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Version(t.Context())
	wantErr(t, "version", rules.ErrSourceClosed, err)
	_, err = s.Put(t.Context(), plain("/x", 1), "ann")
	wantErr(t, "put", rules.ErrSourceClosed, err)
	wantErr(t, "delete", rules.ErrSourceClosed, s.Delete(t.Context(), 1, 1, "ann"))
}
