package readahead_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/readahead"
)

func configOf(max int) *slots.Config {
	return &slots.Config{Versions: []slots.Version{{Version: plan.Version{Max: max}}}}
}

func TestBounded(t *testing.T) {
	for _, c := range []struct {
		needed int64
		max    int
		want   int
	}{
		{1, 100, 64},         // a few more
		{500, 100, 500},      // as many as are needed
		{1 << 40, 100, 4096}, // but not all there are
		{500, 8 << 10, 64},   // nor more than 64 KiB of them
		{500, 4 << 20, 1},    // unless it is one
	} {
		if got := readahead.Bounded(c.needed, configOf(c.max)); got != c.want {
			t.Errorf("of windows with %d slots %d are needed: %d are read, want %d", c.max, c.needed, got, c.want)
		}
	}
}

func TestGuess(t *testing.T) {
	var uses readahead.Uses
	config := configOf(100)
	guess := func(events int) plan.Need { return uses.Last("payments").Guess(events, config) }
	use := func(id int64, era int, from, last int64) {
		var u readahead.Use
		u.Add(id, plan.Need{Era: era, From: from})
		u.Add(id, plan.Need{Era: era, From: from + 1}) // the first counts
		uses.Remember("payments", u, &slots.Changes{Windows: []plan.Window{{Era: era, Index: last}}})
	}
	want := func(what string, events int, want plan.Need) {
		t.Helper()
		if diff := cmp.Diff(want, guess(events)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	want("nothing is known", 1, plan.Need{})
	uses.Remember("payments", readahead.Use{}, &slots.Changes{})
	want("nothing was used", 1, plan.Need{})

	use(1, 0, 1000, 1199)
	want("as many as the last time", 1, plan.Need{From: 1000, Windows: 200})
	want("as many as so many events fill", 50_000, plan.Need{From: 1000, Windows: 502})
	want("no events", 0, plan.Need{})
	use(1, 0, 1080, 1119)
	want("what was not used is forgotten slowly", 1, plan.Need{From: 1010, Windows: 180})
	use(1, 1, 7, 7)
	want("another era", 1, plan.Need{Era: 1, From: 7, Windows: 64})
	use(2, 1, 9, 9)
	want("another config of that name", 1, plan.Need{Era: 1, From: 9, Windows: 64})
}

func TestUsesAreBounded(t *testing.T) {
	var uses readahead.Uses
	remembered := 0
	for i := range 1001 {
		uses.Remember(fmt.Sprint(i), readahead.Use{Config: 1, To: 1}, &slots.Changes{})
	}
	for i := range 1001 {
		if uses.Last(fmt.Sprint(i)) != (readahead.Use{}) {
			remembered++
		}
	}
	if remembered == 0 || remembered > 1000 {
		t.Errorf("%d configs are remembered", remembered)
	}
}

func TestAnswer(t *testing.T) {
	w := readahead.Windows{Era: 1, From: 10, Chunk: plan.Chunk{
		To:    20,
		Full:  []plan.Run{{Era: 1, From: 11, To: 13}, {Era: 1, From: 15, To: 16}},
		Taken: []plan.Window{{Era: 1, Index: 10}, {Era: 1, Index: 14}, {Era: 1, Index: 17}},
	}}
	var a readahead.Ahead
	a.Read(readahead.Windows{Era: 1, From: 5, Chunk: plan.Chunk{To: 6}}, w)
	for n, want := range map[plan.Need]bool{{Era: 1, From: 5}: true, {Era: 1, From: 10}: true, {Era: 1, From: 19}: true, {Era: 1, From: 9}: false, {Era: 1, From: 20}: false, {Era: 2, From: 10}: false} {
		if _, ok := a.Answer(n); ok != want {
			t.Errorf("it has %+v: %v", n, !want)
		}
	}
	want := plan.Chunk{To: 20, Full: w.Full, Taken: w.Taken[1:]}
	got, _ := a.Answer(plan.Need{Era: 1, From: 12})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	a.Forget()
	if _, ok := a.Answer(plan.Need{Era: 1, From: 12}); ok {
		t.Error("it knows what it has forgotten")
	}
}

func TestNext(t *testing.T) {
	far := make([]plan.Need, 1000)
	for i := range far {
		far[i] = plan.Need{From: int64(100 * i), Windows: 1}
	}
	// more are some of far with one window more.
	more := func(some []plan.Need) []plan.Need {
		some = slices.Clone(some)
		for i := range some {
			some[i].Windows++
		}
		return some
	}
	for name, test := range map[string]struct {
		expected []plan.Need
		n        plan.Need
		max      int
		want     []plan.Need
	}{
		"nothing expected": {nil, plan.Need{From: 7, Windows: 1}, 100, []plan.Need{{From: 7, Windows: 64}}},
		"something else":   {far, plan.Need{From: 7, Windows: 1}, 100, []plan.Need{{From: 7, Windows: 64}}},
		"the last":         {far, far[999], 100, []plan.Need{{From: 99_900, Windows: 64}}},
		"what comes after": {far[:3], far[1], 100, more(far[1:3])},
		"so many places":   {far, far[10], 100, more(far[10:266])},
		"so many bytes":    {far, far[10], 1 << 20, append([]plan.Need{{From: 1000, Windows: 1}}, more(far[11:14])...)},
		"large windows":    {[]plan.Need{{Windows: 9}, {From: 100, Windows: 1}}, plan.Need{Windows: 1}, 1 << 22, []plan.Need{{Windows: 1}}},
		"another era":      {[]plan.Need{{Windows: 1}, {Era: 1, Windows: 1}}, plan.Need{Windows: 1}, 100, []plan.Need{{Windows: 2}, {Era: 1, Windows: 2}}},
		"together": {
			[]plan.Need{{Windows: 2}, {From: 1, Windows: 1}, {From: 2, Windows: 1}, {From: 7, Windows: 3}, {From: 16, Windows: 1}},
			plan.Need{Windows: 1}, 100, []plan.Need{{Windows: 11}, {From: 16, Windows: 2}},
		},
	} {
		var a readahead.Ahead
		a.Expect(test.expected)
		if diff := cmp.Diff(test.want, a.Next(test.n, configOf(test.max))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestScattered(t *testing.T) {
	for _, test := range []struct {
		expected []plan.Need
		want     bool
	}{
		{nil, false},
		{[]plan.Need{{From: 1000}}, false},
		{[]plan.Need{{From: 1000}, {From: 1064}}, false},
		{[]plan.Need{{From: 1000}, {From: 1001}, {From: 1065}}, true},
		{[]plan.Need{{From: 1000}, {Era: 1, From: 1001}}, true},
	} {
		var a readahead.Ahead
		a.Expect(test.expected)
		if a.Scattered() != test.want {
			t.Errorf("%v: %v", test.expected, !test.want)
		}
	}
}
