package slotstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// pages reads events, several of which have one instant, in pages of all sizes.
func pages(t *testing.T, h Harness) {
	clients := h.clients(t)
	create(t, clients[0], "payments")
	create(t, clients[0], "refunds")
	var all []slots.Event
	for i, id := range []string{"B", "Z", "a", "a ", "aa", "b", "\u00e9", "\u20ac", "A", "z"} { // the first 8 in their order
		e := event(id, 1, i)
		e.At = noon + plan.Ticks(i/8) // two more are a microsecond later
		all = append(all, e)
	}
	scattered := slices.Clone(all)
	slices.Reverse(scattered)
	commit(t, clients[0], "payments", &slots.Changes{Booked: scattered})
	commit(t, clients[0], "refunds", &slots.Changes{Booked: scattered[:1]})
	commit(t, clients[0], "payments", &slots.Changes{Booked: []slots.Event{event("gone", 1, 77)}})
	commit(t, clients[0], "payments", &slots.Changes{Freed: []slots.Event{cancelled(event("gone", 1, 77))}})

	for limit := 1; limit <= len(all)+1; limit++ {
		q := slots.Query{From: plan.MinInstant, Until: plan.MaxInstant, Limit: limit}
		for left := all; ; {
			page, err := clients[1].Events(timeout(t), "payments", q)
			if err != nil {
				t.Fatal(err)
			}
			n := min(limit, len(left))
			if !same(t, fmt.Sprintf("a page of %d after %d", limit, len(all)-len(left)), left[:n], page) || n == 0 {
				break
			}
			q.After, left = &left[n-1], left[n:]
		}
	}
	for _, test := range []struct {
		from, until plan.Ticks
		after       *slots.Event
		want        []slots.Event
	}{
		{noon, noon + 1, nil, all[:8]},
		{noon + 1, noon + 2, nil, all[8:]},
		{noon - 1, noon, nil, nil},
		{noon, noon, nil, nil},
		{noon + 1, noon + 5, &all[2], all[8:]},
		{noon - 5, noon + 1, &all[2], all[3:8]},
		{noon, noon + 5, &slots.Event{ID: "c", Slot: plan.Slot{At: noon}}, all[6:]},
	} {
		q := slots.Query{From: test.from, Until: test.until, After: test.after, Limit: 100}
		got, err := clients[1].Events(timeout(t), "payments", q)
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("events of %+v", q), test.want, got)
	}
}

func counts(t *testing.T, h Harness) {
	l := h.open(t)
	create(t, l, "payments")
	create(t, l, "refunds")
	var all []slots.Event
	for i, after := range []plan.Ticks{-1, 0, 0, 9, 10, 29, 30, plan.MaxInstant - noon} {
		e := event(fmt.Sprint("event ", i), 1, i)
		e.At = noon + after
		all = append(all, e)
	}
	commit(t, l, "payments", &slots.Changes{Booked: all})
	commit(t, l, "refunds", &slots.Changes{Booked: all})
	commit(t, l, "refunds", &slots.Changes{Freed: []slots.Event{cancelled(all[0]), cancelled(all[1])}})
	for _, test := range []struct {
		config     string
		from, step plan.Ticks
		want       []int64
	}{
		{"payments", noon, 10, []int64{3, 1, 1}},
		{"payments", noon - 1, 1, []int64{1, 2, 0}},
		{"payments", noon + 1, 100, []int64{4}},
		{"payments", plan.MinInstant, plan.MaxInstant - plan.MinInstant + 1, []int64{8}},
		{"payments", noon + plan.Hour, plan.Second, []int64{0, 0}},
		{"payments", noon, 10, nil},
		{"refunds", noon, 10, []int64{2, 1, 1}},
	} {
		got, err := l.Count(timeout(t), test.config, test.from, test.step, len(test.want))
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("%s, %d spans of %d from %d on", test.config, len(test.want), test.step, test.from-noon), test.want, got)
	}
}

// hostile are distinct ids that a database may take for the same, or refuse.
var hostile = []string{
	"a", "A", "\u00df", "ss", "\u1e9e", "\u0130", "i", "I", "\u0131", "\u03c3", "\u03c2",
	" ", "  ", "a ", "a  ", " a", "a\t", "a\n", "a\r\n", "\x01", "a\x01", "\x7f",
	"\u00e9", "e\u0301", "\u212b", "\u00c5", "A\u030a", "\ufb01", "fi", "\uff41",
	"\u200b", "a\u200b", "\ufeffa", "\u202ea", "\u00ad", "\ufffd", "\uffff", "\U0010ffff",
	"'", "''", `"`, "`", `\`, `\\`, `\0`, "%", "_", "*", "?", "[a]", "{a}", "a:b", "a.b", "$1", ";--", "/*",
	"0", "00", "0.0", "1e0", "1", "null", "NULL", "true", "x'61'", "\\x61",
	"\u0628\u0627", "😀", "😁", "👩‍💻", "👩💻",
}

// long are ids that differ only at the end of the longest that there can be.
func long(length int) []string {
	stem := strings.Repeat("k", length-4)
	return []string{stem + "aaaa", stem + "aaaA", stem + "aaa ", stem + "aaa", stem + "aab", stem + "é__", stem + "😀"}
}

func hostileIDs(t *testing.T, h Harness) {
	clients := h.clients(t)
	create(t, clients[0], "payments")
	ids := append(long(slots.MaxIDLen), hostile...)
	var booked []slots.Event
	for i, id := range ids {
		if err := slots.CheckID(id); err != nil {
			t.Fatal(err)
		}
		e := event(id, 1, i)
		e.At = noon
		booked = append(booked, e)
	}
	commit(t, clients[0], "payments", &slots.Changes{Booked: booked})
	inOrder := slices.SortedFunc(slices.Values(booked), byTime)
	same(t, "events in pages of 7", inOrder, inPages(t, clients[1], "payments", 7))

	for i, id := range ids {
		if e := lookUp(t, clients[1], "payments", id); e != booked[i] {
			t.Errorf("id %q: got %+v, want %+v", id, e, booked[i])
		}
		commit(t, clients[0], "payments", &slots.Changes{Freed: []slots.Event{cancelled(booked[i])}})
		tx := begin(t, clients[1], "payments", ids...)
		known := tx.Known()
		tx.Rollback()
		for j, other := range ids {
			if e := known[other]; e.ID != other || e.Slot != booked[j].Slot || (e.Cancelled != 0) != (j <= i) {
				t.Fatalf("after %q was cancelled, %q is %+v", id, other, e)
			}
		}
	}
}

func hostileNames(t *testing.T, h Harness) {
	clients := h.clients(t)
	names := append(long(slots.MaxNameLen), hostile...)
	for i, name := range names {
		if err := slots.CheckName(name); err != nil {
			t.Fatal(err)
		}
		create(t, clients[0], name)
		commit(t, clients[0], name, &slots.Changes{Booked: []slots.Event{event(fmt.Sprint("event ", i), 1, 1)}})
	}
	for i, name := range names {
		same(t, fmt.Sprintf("events of %q", name), []slots.Event{event(fmt.Sprint("event ", i), 1, 1)}, list(t, clients[1], name))
	}
	slices.Sort(names)
	all, err := clients[1].Configs(timeout(t), "", len(names)+1)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range all {
		got = append(got, c.Name)
	}
	same(t, "names", names, got)
}
