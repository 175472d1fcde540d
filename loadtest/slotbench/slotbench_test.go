package slotbench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/store/postgres"
)

func openLedger(ctx context.Context, url string) (slots.Ledger, func() error, error) {
	if _, err := postgres.Migrate(ctx, url); err != nil {
		return nil, nil, err
	}
	s, err := postgres.Open(ctx, url, nil)
	if err != nil {
		return nil, nil, err
	}
	return s.Ledger(), s.Close, nil
}

// TestCounters is what can share a server.
func TestCounters(t *testing.T) {
	server := servertest.StartPostgres(t, "fsync=off").URL
	t.Run("algorithm", func(t *testing.T) { testAlgorithm(t, server) })
	t.Run("far future", func(t *testing.T) { testFarFuture(t, server) })
	t.Run("run", func(t *testing.T) { testRun(t, server) })
	t.Run("leaves nothing behind", func(t *testing.T) {
		tables := (&bench{Options{URL: server}}).tables()
		if err := tables.Exec(t.Context(), "CREATE SCHEMA "+tables.Name, "DROP SCHEMA "+tables.Name); err != nil {
			t.Error(err)
		}
	})
}

// with calls f with a booker by counters in a schema of its own.
func with(t *testing.T, server string, o Options, f func(book func(id string, at plan.Ticks) (plan.Ticks, error))) {
	t.Helper()
	o.URL = server
	b := bench{o.withDefaults()}
	err := b.tables().Within(t.Context(), func() error {
		at, err := b.tables().Path(server)
		if err != nil {
			return err
		}
		by, err := byCounters.open(t.Context(), at.String(), &b.Options)
		if err != nil {
			return err
		}
		defer by.close()
		f(func(id string, at plan.Ticks) (plan.Ticks, error) { return by.book(t.Context(), id, at) })
		return nil
	}, byCounters.schema)
	if err != nil {
		t.Fatal(err)
	}
}

// testAlgorithm: what it does, step by step.
func testAlgorithm(t *testing.T, server string) {
	const window = 4 * plan.Second
	start := plan.At(time.Date(2030, 1, 15, 12, 0, 0, 0, time.UTC)) / window * window
	inWindow := func(t *testing.T, at plan.Ticks, err error, n int) {
		t.Helper()
		if from := start + plan.Ticks(n)*window; err != nil || at < from || at >= from+window {
			t.Errorf("booked for %v, %v; want a time in window %d", at-start, err, n)
		}
	}
	t.Run("a window is filled and then the next", func(t *testing.T) {
		with(t, server, Options{Max: 10}, func(book func(string, plan.Ticks) (plan.Ticks, error)) {
			for i := range 35 {
				at, err := book(fmt.Sprint("event ", i), start)
				inWindow(t, at, err, i/10)
			}
		})
	})
	t.Run("the part of a window that is over counts for nothing", func(t *testing.T) {
		with(t, server, Options{Max: 10}, func(book func(string, plan.Ticks) (plan.Ticks, error)) {
			asked := start + window*3/4
			for i := range 2 { // a quarter of 10, cut
				at, err := book(fmt.Sprint("event ", i), asked)
				inWindow(t, at, err, 0)
				if at < asked {
					t.Errorf("booked %v too early", asked-at)
				}
			}
			at, err := book("one more", asked)
			inWindow(t, at, err, 1)
		})
	})
	t.Run("a known event has its time", func(t *testing.T) {
		with(t, server, Options{}, func(book func(string, plan.Ticks) (plan.Ticks, error)) {
			var all [16]plan.Ticks
			var wg sync.WaitGroup
			for i := range all {
				wg.Go(func() {
					var err error
					if all[i], err = book("event", start); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if slices.Min(all[:]) != slices.Max(all[:]) {
				t.Errorf("one event has the times %v", all)
			}
		})
	})
	t.Run("a window that somebody holds is passed over", func(t *testing.T) {
		with(t, server, Options{}, func(book func(string, plan.Ticks) (plan.Ticks, error)) {
			at, err := book("first", start)
			inWindow(t, at, err, 0)
			tables := (&bench{Options{URL: server}}).tables()
			held := make(chan error)
			go func() {
				held <- tables.Exec(t.Context(), "SET search_path = "+tables.Name, "BEGIN; SELECT FROM counter_window FOR UPDATE; SELECT pg_advisory_lock(1), pg_sleep(3600)")
			}()
			for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
				if at, err = book(fmt.Sprint("event ", time.Now().UnixNano()), start); err == nil && at >= start+window {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("no event was put elsewhere in 10 s")
				}
			}
			inWindow(t, at, err, 1)
			if err := tables.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"); err != nil {
				t.Fatal(err)
			}
			if err := <-held; err == nil {
				t.Error("whoever held the window was not ended")
			}
		})
	})
	t.Run("nothing beyond the headroom", func(t *testing.T) {
		with(t, server, Options{Max: 1}, func(book func(string, plan.Ticks) (plan.Ticks, error)) {
			if at, err := book("event", start+window-1); err == nil {
				inWindow(t, at, err, 1) // a share of one slot is none
			}
			tables := (&bench{Options{URL: server}}).tables()
			// As after a maximum was lowered: windows that are full and open.
			fill := fmt.Sprintf("INSERT INTO counter_window SELECT %d + i * %d, 1, 'OPEN' FROM generate_series(0, 300) AS i ON CONFLICT DO NOTHING", start, window)
			if err := tables.Exec(t.Context(), "SET search_path = "+tables.Name, fill, "UPDATE counter_window SET status = 'OPEN', taken = 1"); err != nil {
				t.Fatal(err)
			}
			if at, err := book("one more", start); !errors.Is(err, errRefused) {
				t.Errorf("%v, %v; want a refusal", at, err)
			}
		})
	})
}

// testFarFuture: with the window asked for full and none open after it but one a
// year ahead, that is where the way by counters puts the next event. Stint
// takes the next window.
func testFarFuture(t *testing.T, server string) {
	start := plan.At(time.Date(2030, 1, 15, 12, 0, 0, 0, time.UTC))
	with(t, server, Options{Max: 1}, func(book func(string, plan.Ticks) (plan.Ticks, error)) {
		tables := (&bench{Options{URL: server}}).tables()
		open := fmt.Sprintf("INSERT INTO counter_window VALUES (%d, 0, 'OPEN')", start+365*plan.Day)
		if err := tables.Exec(t.Context(), "SET search_path = "+tables.Name, open); err != nil {
			t.Fatal(err)
		}
		if at, err := book("first", start); err != nil || at >= start+plan.Minute {
			t.Fatalf("the first: %v, %v", at-start, err)
		}
		if at, err := book("second", start); err != nil || at < start+365*plan.Day {
			t.Errorf("the second: after %v, %v; this algorithm puts it a year ahead", at-start, err)
		}
	})
}

func testRun(t *testing.T, server string) {
	var progress bytes.Buffer
	o := &Options{URL: server, OpenLedger: openLedger, Events: 1005, Callers: []int{1, 32}, Max: 10, Rounds: 1, Progress: &progress}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if want := "round 1 of 1: 1 callers: counters\n"; !strings.HasPrefix(progress.String(), want) {
		t.Errorf("progress begins with %.80q, want %q", progress.String(), want)
	}
	for g := range r.Groups {
		crowd := &r.Groups[g]
		for _, s := range crowd.Ways {
			m := &s.Median
			if m.Booked+m.Refused != 1005 || m.Errors != 0 || m.PerSecond <= 0 || m.P99 < m.P50 || m.Longest < m.P99 {
				t.Errorf("%s: %s: %+v", crowd.Name, s.Name, m)
			}
		}
		if by, m := crowd.Ways[1].Name, crowd.Ways[1].Median; by != "stint" || m.Booked != 1005 || m.Windows != 101 || m.Holes != 0 || m.WorstWindow != 10 {
			t.Errorf("%s: %s: %+v; want 100 full windows, and never more than 10 events in one", crowd.Name, by, m)
		}
		if times(crowd, 1) <= 0 {
			t.Errorf("%s: times %v", crowd.Name, times(crowd, 1))
		}
	}
	if alone := r.Groups[0].Ways[0].Median; alone.Holes != 0 || alone.Booked != 1005 {
		t.Errorf("the way by counters with one caller: %+v; nobody is in its way", alone)
	}
	if alone := r.Groups[0].Ways[0].Median; alone.WorstWindow <= 10 {
		t.Errorf("the way by counters: %d events in the worst window; jitter at random puts more than 10 in some", alone.WorstWindow)
	}
}

// TestRunSaysWhatIsWrong needs no server.
func TestRunSaysWhatIsWrong(t *testing.T) {
	_, err := Run(t.Context(), &Options{URL: "postgres://stint:hunter2@127.0.0.1:1/x?sslmode=disable"})
	if err == nil || !strings.HasPrefix(err.Error(), "32 callers: counters: ") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

func TestMeter(t *testing.T) {
	m := &meter{took: 2 * time.Second}
	// Two windows of 10 and the beginning of a third: of 3, 2 and 1 events, five
	// of them within 10.
	for _, at := range []plan.Ticks{100, 108, 109, 111, 117, 121} {
		m.add(at, nil, time.Duration(at))
	}
	m.add(0, errRefused, 5)
	m.add(0, fmt.Errorf("book: %w", errors.New("gone")), time.Hour)
	want := Result{PerSecond: 3, P50: 109, P99: 121, Longest: 121, Booked: 6, Refused: 1, Errors: 1, FirstError: "book: gone", Windows: 3, Holes: 1, WorstWindow: 4}
	if got := *m.result(3, 10); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := *(&meter{took: time.Second}).result(3, 10); got != (Result{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestReportForPeople(t *testing.T) {
	r := newReport(&Options{Events: 20_000, Max: 100, Window: 4 * time.Second, Rounds: 3, Callers: []int{32}}, "counters", "stint")
	r.Groups[0].Ways[0].Rounds = []Result{
		{PerSecond: 2000, P99: 20 * time.Millisecond, Booked: 20_000, Windows: 232, Holes: 3100, WorstWindow: 131},
		{PerSecond: 2500, P99: 10 * time.Millisecond, Booked: 19_990, Refused: 10, Errors: 1, FirstError: "gone", Windows: 230, Holes: 2900, WorstWindow: 129},
		{PerSecond: 9000, P99: 30 * time.Millisecond, Booked: 20_000, Windows: 231, Holes: 3000, WorstWindow: 130},
	}
	r.Groups[0].Ways[1].Rounds = []Result{{PerSecond: 40_000, P50: time.Millisecond, P99: 2 * time.Millisecond, Longest: 5 * time.Millisecond, Booked: 20_000, Windows: 200, WorstWindow: 100}}
	r.TakeMedians()
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	const want = `20000 events for one instant, at most 100 in 4s; medians of 3 rounds; holes are slots left empty before the last window; the worst window is the fullest span of 4s

32 callers
ALGORITHM  EVENTS/S  TIMES  P50   P99    LONGEST  BOOKED  REFUSED  ERRORS  WINDOWS  HOLES  WORST WINDOW
counters   2500      1.0    0 ms  20 ms  0 ms     20000   0        0       231      3000   130
stint      40k       16.0   1 ms  2 ms   5 ms     20000   0        0       200      0      100
counters: the first error: gone
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	out.Reset()
	if err := r.WriteChart(&out); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"<svg", ">32 callers<", ">counters<", ">stint<", ">slots left empty<", ">worst window, of 100<", "</svg>"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the chart lacks %s", text)
		}
	}
	out.Reset()
	var back Report
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Groups[0].Ways[1].Median.WorstWindow != 100 {
		t.Errorf("%+v, %v", back, err)
	}
}
