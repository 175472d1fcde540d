package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/slots/plan"
)

// asked is an empty occupancy that knows one window at a time, and remembers which.
type asked map[plan.Need]bool

func (a asked) Load(n plan.Need) (plan.Chunk, error) {
	a[plan.Need{Era: n.Era, From: n.From}] = true
	return plan.Chunk{To: n.From + 1}, nil
}

func (asked) Strays(int, int, plan.Ticks, plan.Ticks) ([]plan.Slot, error) { return nil, nil }

// What is expected is asked for, whatever else is; and they come in order.
func TestExpectedIsAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		versions := []plan.Version{drawVersion(t)}
		if rapid.Bool().Draw(t, "changes") {
			next := drawVersion(t)
			next.From = plan.Ticks(rapid.IntRange(0, 5000).Draw(t, "from"))
			versions = append(versions, next)
		}
		line, err := plan.New(0, versions...)
		if err != nil {
			t.Skip(err)
		}
		now := plan.Ticks(rapid.IntRange(0, 5000).Draw(t, "now"))
		requests := drawRequests(t, 0, 8)
		expected, loaded := line.Expected(now, requests), asked{}
		if _, err := line.Book(now, requests, loaded); err != nil {
			t.Fatal(err)
		}
		for i, n := range expected {
			if !loaded[plan.Need{Era: n.Era, From: n.From}] {
				t.Fatalf("%+v is expected, and asked for are %v", n, loaded)
			}
			if before := max(0, i-1); i > 0 && (n.Era < expected[before].Era || n.Era == expected[before].Era && n.From <= expected[before].From) {
				t.Fatalf("%+v comes after %+v", n, expected[before])
			}
		}
	})
}

func TestExpected(t *testing.T) {
	line := mustNew(t, 0, payments)
	at := func(s ...plan.Ticks) (requests []plan.Request) {
		for _, s := range s {
			requests = append(requests, plan.Request{At: s * plan.Second})
		}
		return requests
	}
	want := []plan.Need{{From: 2, Windows: 2}, {From: 5, Windows: 1}}
	many := append(at(1, 9, 21, 20), at(make([]plan.Ticks, 100)...)...) // what is past is of now
	if diff := cmp.Diff(want, line.Expected(8*plan.Second, many)); diff != "" {
		t.Error(diff)
	}
	if got := line.Expected(0, nil); len(got) > 0 {
		t.Error(got)
	}
}
