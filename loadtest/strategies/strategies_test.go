package strategies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/postgres"
)

func openStint(ctx context.Context, url string) (limit.Store, error) {
	if _, err := postgres.Migrate(ctx, url); err != nil {
		return nil, err
	}
	return postgres.Open(ctx, url, nil)
}

// TestStrategies is what can share a server.
func TestStrategies(t *testing.T) {
	server := servertest.StartPostgres(t, "fsync=off", "deadlock_timeout=100ms").URL
	all := append(published[:len(published):len(published)], stint(openStint))
	t.Run("grants", func(t *testing.T) { testGrants(t, server, all) })
	t.Run("statements", func(t *testing.T) { testStatements(t, server, all) })
	t.Run("collapse", func(t *testing.T) { testCollapse(t, server) })
	t.Run("report", func(t *testing.T) { testReport(t, server) })
	t.Run("leaves nothing behind", func(t *testing.T) { testNothingIsLeft(t, server) })
}

// testGrants: of 32 callers that come at once through two instances, one is
// granted, and another one after the period. Exclusion constraints may end in
// a deadlock instead, and then none.
func testGrants(t *testing.T, server string, all []strategy) {
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			crowd := workload{run: func(ctx context.Context, takers []taker, span time.Duration, m *meter) {
				for range 2 {
					var asking sync.WaitGroup
					for i := range 32 {
						asking.Go(func() { ask(ctx, takers[i%2], "alex", time.Now(), m) })
					}
					asking.Wait()
					time.Sleep(span)
				}
				m.took = 2 * span
			}}
			b := bench{Options{URL: server, Period: 300 * time.Millisecond}}
			result, err := b.run(t.Context(), crowd, s, server, 400*time.Millisecond, nil)
			if err != nil {
				t.Fatal(err)
			}
			least := int64(2)
			if s.name == ranges.name {
				least = 0
			}
			if result.Granted > 2 || result.Granted < least || result.Errors != 0 || result.decisions()+result.Deadlocks != 64 {
				t.Errorf("%+v", result)
			}
		})
	}
}

// testStatements: what a grant and a hundred denials take by the counter. Stint
// denies without asking the server, of which it asks other things now and then.
func testStatements(t *testing.T, server string, all []strategy) {
	for name, want := range map[string]struct{ least, most int64 }{
		"nowait": {4 + 300, 4 + 300}, "range": {101, 101}, "upsert": {101, 101}, "stint": {1, 20},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newCounter(server)
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			var counted int64
			some := workload{run: func(ctx context.Context, takers []taker, span time.Duration, m *meter) {
				before := c.statements.Load()
				for range 101 {
					ask(ctx, takers[0], "alex", time.Now(), m)
				}
				counted, m.took = c.statements.Load()-before, span
			}}
			b := bench{Options{URL: server, Period: time.Minute}}
			for _, s := range all {
				if s.name != name {
					continue
				}
				result, err := b.run(t.Context(), some, s, c.URL, time.Second, nil)
				if err != nil || result.Granted != 1 || result.Denied != 100 {
					t.Fatalf("%+v, %v", result, err)
				}
			}
			if counted < want.least || counted > want.most {
				t.Errorf("%d statements, want %d to %d", counted, want.least, want.most)
			}
		})
	}
}

// testCollapse: callers of one key deadlock under an exclusion constraint,
// whenever a period ends and all of them insert at once.
func testCollapse(t *testing.T, server string) {
	b := bench{Options{URL: server, Period: 100 * time.Millisecond}}
	var deadlocks int64
	for end := time.Now().Add(20 * time.Second); deadlocks == 0 && time.Now().Before(end); {
		result, err := b.run(t.Context(), workload{run: callers(32, 1)}, ranges, server, time.Second, nil)
		if err != nil {
			t.Fatal(err)
		}
		deadlocks = result.Deadlocks
	}
	if deadlocks == 0 {
		t.Error("no deadlock in 20 s")
	}
}

func testReport(t *testing.T, server string) {
	var progress bytes.Buffer
	r, err := Run(t.Context(), &Options{URL: server, OpenStore: openStint, Duration: 100 * time.Millisecond, Rounds: 1, Keys: 1000, Progress: &progress})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Groups) != 4 {
		t.Fatalf("%d workloads", len(r.Groups))
	}
	for _, w := range r.Groups {
		for _, s := range w.Ways {
			if s.Median.decisions()+s.Median.Deadlocks == 0 || s.Median.Errors != 0 || len(s.Rounds) != 1 {
				t.Errorf("%s: %s: %+v", w.Name, s.Name, s.Median)
			}
		}
	}
	if want := "round 1 of 1: one key, 200/s: nowait\n"; !strings.HasPrefix(progress.String(), want) {
		t.Errorf("progress begins with %.80q, want %q", progress.String(), want)
	}
}

func testNothingIsLeft(t *testing.T, server string) {
	tables := (&bench{Options{URL: server}}).tables()
	if err := tables.Exec(t.Context(), "CREATE SCHEMA "+tables.Name, "DROP SCHEMA "+tables.Name); err != nil {
		t.Error(err)
	}
}

// TestRunSaysWhatIsWrong needs no server.
func TestRunSaysWhatIsWrong(t *testing.T) {
	_, err := Run(t.Context(), &Options{URL: "postgres://stint:hunter2@127.0.0.1:1/x?sslmode=disable"})
	if err == nil || !strings.Contains(err.Error(), "one key, 200/s: nowait: ") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

func TestMeter(t *testing.T) {
	m := newMeter()
	m.took = 2 * time.Second
	m.add(true, nil, 5*time.Millisecond)
	m.add(false, nil, 3*time.Millisecond)
	m.add(false, nil, time.Hour)
	m.add(false, fmt.Errorf("take: %w", errors.New("gone")), time.Second)
	r := m.result()
	if r.PerSecond != 1.5 || r.Granted != 1 || r.Denied != 2 || r.Errors != 1 || r.FirstError != "take: gone" || r.Worst != time.Hour {
		t.Errorf("%+v", r)
	}
}

func TestReportForPeople(t *testing.T) {
	r := newReport(&Options{Duration: time.Second, Rounds: 3, Period: 2 * time.Second},
		[]workload{{Name: "one key", About: "all at once"}}, []strategy{{name: "range"}, {name: "stint"}})
	r.Groups[0].Ways[0].Median = Result{PerSecond: 362, Granted: 1, Worst: 10 * time.Second, Deadlocks: 7, Errors: 1, FirstError: "gone", StatementsPerDecision: 1}
	r.Groups[0].Ways[1].Median = Result{PerSecond: 222_800, Granted: 2, GrantP50: 5 * time.Millisecond, StatementsPerDecision: 0.0004}
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	const want = `medians of 3 rounds of 1s; each key may pass once in 2s; statements are for each decision

one key: all at once
STRATEGY  DECISIONS/S  GRANTED  GRANT P50  P99   DENIAL P50  P99   WORST  STATEMENTS  DEADLOCKS  ERRORS
range     362          1        0 ms       0 ms  0 ms        0 ms  10 s   1.000       7          1
stint     222.8k       2        5 ms       0 ms  0 ms        0 ms  0 ms   0.000       0          0
range: the first error: gone
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	out.Reset()
	if err := r.WriteChart(&out); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"<svg", ">one key<", ">range<", ">stint<", ">deadlocks<", ">222.8k<", "</svg>"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the chart lacks %s", text)
		}
	}
	out.Reset()
	var back Report
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Groups[0].Ways[1].Median.Granted != 2 {
		t.Errorf("%+v, %v", back, err)
	}
}
