package slotstest

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// full is a version with everything in it.
func full() slots.Version {
	return slots.Version{
		Made: noon, MaxDelay: plan.Hour, Horizon: 400 * plan.Day,
		Version: plan.Version{
			From: noon + 1, Max: 7, Window: 1500 * plan.Millisecond, Mode: plan.Spread, Seed: 1<<64 - 1,
			Calendar: &plan.Calendar{
				Zone:      "Europe/Berlin",
				Hours:     plan.Hours{{Day: time.Monday, From: 9 * plan.Hour, To: 17 * plan.Hour}},
				Holidays:  []plan.Date{20447, -1},
				Blackouts: []plan.Blackout{{From: plan.MinInstant, To: plan.MaxInstant}},
			},
		},
	}
}

func configs(t *testing.T, h Harness) {
	clients := h.clients(t)
	for _, l := range clients {
		if err := l.Create(timeout(t), "payments"); err != nil {
			t.Fatalf("create: %v", err)
		}
	}
	_, _, err := clients[0].Config(timeout(t), "payments")
	is(t, "a config without versions", slots.ErrNoConfig, err)

	tx := begin(t, clients[0], "payments")
	if c := tx.Config(); c.Name != "payments" || len(c.Versions) != 0 {
		t.Fatalf("a config that was just made is %+v; want payments without versions", c)
	}
	want := slots.Config{Name: "payments", Revision: tx.Config().Revision + 1, Versions: []slots.Version{full()}}
	if err := tx.Commit(&slots.Changes{Config: &want}); err != nil {
		t.Fatal(err)
	}
	readConfig(t, "with its first version", clients[1], want)

	if err := clients[0].Create(timeout(t), "payments"); err != nil {
		t.Fatalf("create of what there is: %v", err)
	}
	readConfig(t, "created again", clients[1], want)

	want.Revision += 5
	want.Versions = append(want.Versions, fourSeconds(1), full(), fourSeconds(1<<22))
	want.PausedUntil = noon + plan.Day
	commit(t, clients[1], "payments", &slots.Changes{Config: &want})
	readConfig(t, "with four versions", clients[0], want)

	want.Revision++
	want.PausedUntil = 0
	commit(t, clients[1], "payments", &slots.Changes{Config: &want})
	readConfig(t, "without a pause", clients[0], want)
}

// readConfig looks at a config in every way.
func readConfig(t testing.TB, what string, l slots.Ledger, want slots.Config) {
	t.Helper()
	got, _, err := l.Config(timeout(t), want.Name)
	if err != nil {
		t.Fatalf("%s: config: %v", what, err)
	}
	same(t, what+": Config", want, got)
	all, err := l.Configs(timeout(t), "", 10)
	if err != nil {
		t.Fatalf("%s: configs: %v", what, err)
	}
	same(t, what+": Configs", []slots.Config{want}, all)
	tx := begin(t, l, want.Name)
	same(t, what+": Tx.Config", want, *tx.Config())
	tx.Rollback()
}

func configList(t *testing.T, h Harness) {
	l := h.open(t)
	all, err := l.Configs(timeout(t), "", 10)
	if err != nil || len(all) != 0 {
		t.Errorf("of an empty ledger: %v, %v; want nothing", all, err)
	}
	names := []string{"B", "Z", "a", "a ", "aa", "b", "z", "\u00e9", "\u20ac"} // in this order, byte by byte
	for _, i := range []int{4, 0, 8, 2, 6, 1, 7, 3, 5} {
		create(t, l, names[i])
	}
	if err := l.Create(timeout(t), "without versions"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		after string
		limit int
		want  []string
	}{
		{"", 100, names},
		{"", 3, names[:3]},
		{"a", 3, names[3:6]},
		{"a", 1, names[3:4]},
		{"A", 1, names[:1]},
		{"aaa", 100, names[5:]},
		{names[8], 100, nil},
	} {
		configs, err := l.Configs(timeout(t), test.after, test.limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range configs {
			got = append(got, c.Name)
			same(t, "versions of "+c.Name, []slots.Version{fourSeconds(100)}, c.Versions)
		}
		if len(got) != len(test.want) || strings.Join(got, "\x00") != strings.Join(test.want, "\x00") {
			t.Errorf("%d after %q: got %q, want %q", test.limit, test.after, got, test.want)
		}
	}
}

func unknown(t *testing.T, h Harness) {
	l := h.open(t)
	create(t, l, "payments")
	ctx := timeout(t)
	for op, call := range calls(l, "refunds") {
		if op != "create" && op != "configs" {
			is(t, op+" of a config that is not there", slots.ErrNoConfig, call(ctx))
		}
	}
	_, err := l.Event(ctx, "payments", "alice")
	is(t, "an event that is not there", slots.ErrNoEvent, err)
	if events, err := l.Events(ctx, "payments", slots.Query{From: plan.MinInstant, Until: plan.MaxInstant, Limit: 10}); err != nil || len(events) != 0 {
		t.Errorf("events of a config without any: %v, %v", events, err)
	}
	if n, err := l.Count(ctx, "payments", noon, plan.Second, 3); err != nil {
		t.Errorf("count of a config without events: %v", err)
	} else {
		same(t, "count of a config without events", []int64{0, 0, 0}, n)
	}
}

// cachedConfig begins with a config that has another content than the ledger's.
// It can be told by its revision alone whether that is to be read.
func cachedConfig(t *testing.T, h Harness) {
	clients := h.clients(t)
	create(t, clients[0], "payments")
	now, _, err := clients[0].Config(timeout(t), "payments")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what   string
		cached slots.Config
	}{
		{"an older revision", slots.Config{Name: "payments", Revision: now.Revision - 1}},
		{"a revision that never was", slots.Config{Name: "payments", Revision: now.Revision + 1, Versions: []slots.Version{full(), full()}}},
		{"the revision that there is", now},
	} {
		tx, err := clients[1].Begin(timeout(t), "payments", nil, &test.cached)
		if err != nil {
			t.Fatalf("%s: %v", test.what, err)
		}
		same(t, "begun with "+test.what, now, *tx.Config())
		tx.Rollback()
	}
}
