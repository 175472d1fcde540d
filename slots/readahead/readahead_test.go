package readahead_test

import (
	"fmt"
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
	for n, want := range map[plan.Need]bool{{Era: 1, From: 10}: true, {Era: 1, From: 19}: true, {Era: 1, From: 9}: false, {Era: 1, From: 20}: false, {Era: 2, From: 10}: false} {
		if w.Has(n) != want {
			t.Errorf("it has %+v: %v", n, !want)
		}
	}
	want := plan.Chunk{To: 20, Full: w.Full, Taken: w.Taken[1:]}
	if diff := cmp.Diff(want, w.Answer(plan.Need{Era: 1, From: 12})); diff != "" {
		t.Error(diff)
	}
}
