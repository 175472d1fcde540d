package rulestest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/rules/rulestest"
)

// faults are what a source may do wrong, and the property that must find it.
var faults = []struct {
	name, property string
	source         func(m *rulestest.Memory) rules.Source
}{
	{"forgets who", "what is put is there, for every client", on(func(f *faulty) {
		f.put = func(row rules.Row, by string) (rules.Row, string) { return row, "somebody" }
	})},
	{"drops what is not enabled", "what is put is there, for every client", on(func(f *faulty) {
		f.put = func(row rules.Row, by string) (rules.Row, string) { row.Enabled = true; return row, by }
	})},
	{"lists backwards", "rows are listed by id, page by page", on(func(f *faulty) {
		f.list = func(rows []rules.Row) []rules.Row { slices.Reverse(rows); return rows }
	})},
	{"lists one row too few", "rows are listed by id, page by page", on(func(f *faulty) {
		f.list = func(rows []rules.Row) []rules.Row { return rows[:max(0, len(rows)-1)] }
	})},
	{"believes any revision", "who has not read the last revision changes nothing", on(func(f *faulty) { f.careless = true })},
	{"believes any revision", "random changes leave what they say", on(func(f *faulty) { f.careless = true })},
	{"lets names be taken twice", "no two rows have one name or one path", on(func(f *faulty) {
		f.put = func(row rules.Row, by string) (rules.Row, string) { row.Name = ""; return row, by }
	})},
	{"cuts what is out of bounds", "what is out of bounds is refused, and nothing changes", on(func(f *faulty) {
		f.put = func(row rules.Row, by string) (rules.Row, string) {
			row.Calls, row.PeriodMS = max(0, row.Calls), max(1, row.PeriodMS)
			return row, by
		}
	})},
	{"has one version", "every change is another version", on(func(f *faulty) { f.version = func(int64) int64 { return 1 } })},
	{"counts a version for two", "every change is another version", on(func(f *faulty) { f.version = func(v int64) int64 { return v / 2 } })},
	{"forgets deletions", "a rollback brings back what has been", on(func(f *faulty) {
		f.history = func(all []rules.Change) []rules.Change {
			return slices.DeleteFunc(all, func(c rules.Change) bool { return c.Deleted })
		}
	})},
	{"tells the history backwards", "random changes leave what they say", on(func(f *faulty) {
		f.history = func(all []rules.Change) []rules.Change { slices.Reverse(all); return all }
	})},
	{"goes on after its end", "a closed source says so", on(func(f *faulty) { f.endless = true })},
}

// on makes a source that is wrong in one thing.
func on(spoil func(f *faulty)) func(m *rulestest.Memory) rules.Source {
	return func(m *rulestest.Memory) rules.Source {
		f := &faulty{Memory: m}
		spoil(f)
		return f
	}
}

// faulty changes what goes into a Memory and what comes out of it.
type faulty struct {
	*rulestest.Memory
	put      func(row rules.Row, by string) (rules.Row, string)
	list     func(rows []rules.Row) []rules.Row
	history  func(all []rules.Change) []rules.Change
	version  func(v int64) int64
	careless bool // of revisions
	endless  bool
}

func (f *faulty) Version(ctx context.Context) (int64, error) {
	v, err := f.Memory.Version(ctx)
	if f.version != nil {
		v = f.version(v)
	}
	if f.endless {
		err = nil
	}
	return v, err
}

func (f *faulty) List(ctx context.Context, after int64, limit int) ([]rules.Row, error) {
	rows, err := f.Memory.List(ctx, after, limit)
	if f.list != nil {
		rows = f.list(rows)
	}
	return rows, err
}

func (f *faulty) Put(ctx context.Context, row rules.Row, by string) (rules.Row, error) {
	if f.put != nil {
		row, by = f.put(row, by)
	}
	if now, err := f.Memory.Get(ctx, row.ID); f.careless && err == nil {
		row.Revision = now.Revision
	}
	return f.Memory.Put(ctx, row, by)
}

func (f *faulty) History(ctx context.Context, q rules.HistoryQuery) ([]rules.Change, error) {
	all, err := f.Memory.History(ctx, q)
	if f.history != nil {
		all = f.history(all)
	}
	return all, err
}

const faultNumber = "STINT_TEST_RULES_FAULT"

// TestFaultySource must fail. TestRunFindsFaults runs it.
func TestFaultySource(t *testing.T) {
	number, err := strconv.Atoi(os.Getenv(faultNumber))
	if err != nil {
		t.Skip("run by TestRunFindsFaults")
	}
	var last *rulestest.Memory
	reopen := func(testing.TB) (rules.Source, io.Closer) { return faults[number].source(last), closer{last} }
	rulestest.Run(t, rulestest.Harness{
		Open: func(t testing.TB) (rules.Source, io.Closer) {
			last = new(rulestest.Memory)
			return reopen(t)
		},
		Reopen: reopen,
	})
}

func TestRunFindsFaults(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for number, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			property := strings.ReplaceAll(f.property, " ", "_")
			cmd := exec.CommandContext(t.Context(), self, "-test.timeout", "1m", "-rapid.nofailfile", "-test.run", "^TestFaultySource$/^"+regexp.QuoteMeta(property)+"$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", faultNumber, number))
			out, err := cmd.CombinedOutput()
			if want := "--- FAIL: TestFaultySource/" + property; err == nil || !strings.Contains(string(out), want) {
				t.Errorf("a source that %s passes; want a line with %q. Its output:\n%s", f.name, want, out)
			}
		})
	}
}
