package redis_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/rules/rulestest"
	"github.com/stint-dev/stint/store/redis"
)

// rules is the harness of the tables of s.
func (s *server) rules() rulestest.Harness {
	source := func(store any) (rules.Source, io.Closer) {
		return store.(*redis.Store).Rules(), store.(io.Closer)
	}
	return rulestest.Harness{
		Open:   func(t testing.TB) (rules.Source, io.Closer) { return source(s.open(t)) },
		Reopen: func(t testing.TB) (rules.Source, io.Closer) { return source(s.reopen(t)) },
		Break:  s.harness().Break,
	}
}

func TestRules(t *testing.T) { rulestest.Run(t, single(t).rules()) }

// byHand changes the table of s as redis-cli does.
type byHand struct {
	*servertest.Redis
	t       *testing.T
	version func() int64
	last    int64
}

// do runs a command, and wants it to be another version.
func (h *byHand) do(command ...string) {
	h.t.Helper()
	h.Run(h.t, command...)
	if now := h.version(); now == h.last {
		h.t.Errorf("the version after %q is what it was", command)
	} else {
		h.last = now
	}
}

const table = "stint:{rules}"

func TestRulesByHand(t *testing.T) {
	server := servertest.StartRedis(t)
	one, two := open(t, server.URL).Rules(), open(t, server.URL).Rules()
	ctx := t.Context()
	version := func() int64 {
		t.Helper()
		n, err := one.Version(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := two.Version(ctx); err != nil || again != n {
			t.Errorf("the other client has version %d, %v; want %d", again, err, n)
		}
		return n
	}
	get := func(id int64) rules.Row {
		t.Helper()
		row, err := two.Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	h := &byHand{Redis: server, t: t, version: version}
	h.do("HSET", table, "1", `{"path": "/entity/#", "calls": 10, "period_ms": 60000}`)
	made := get(1)
	if want := (rules.Row{ID: 1, Enabled: true, Path: "/entity/#", Calls: 10, PeriodMS: 60_000, Revision: h.last, Modified: time.UnixMicro(h.last).UTC()}); made != want {
		t.Errorf("what was made by hand is %+v, want %+v", made, want)
	}
	h.do("HSET", table, "1", `{"name": "entity", "path": "/entity/#", "calls": 20, "period_ms": 60000}`)
	if _, err := one.Put(ctx, made, "ann"); err != rules.ErrChanged {
		t.Errorf("put over what was changed by hand: %v, want ErrChanged", err)
	}
	changed := get(1)
	changed.Calls = 30
	put, err := one.Put(ctx, changed, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if h.last = version(); h.last != put.Revision {
		t.Errorf("version %d, want %d", h.last, put.Revision)
	}
	h.do("HSET", table, "1", strings.Replace(strings.TrimSpace(server.Run(t, "HGET", table, "1")), "{", `{"enabled": false, `, 1))
	off := get(1)
	if off.Enabled || off.Calls != 30 || off.Name != "entity" || off.By != "" || off.Revision == put.Revision {
		t.Errorf("what was switched off by hand is %+v", off)
	}
	if err := two.Delete(ctx, 1, put.Revision, "bob"); err != rules.ErrChanged {
		t.Errorf("delete of what was changed by hand: %v, want ErrChanged", err)
	}
	if err := two.Delete(ctx, 1, off.Revision, "bob"); err != nil {
		t.Fatal(err)
	}
	h.last = version()
	changes, err := one.History(ctx, rules.HistoryQuery{Row: 1, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, c := range changes {
		told = append(told, fmt.Sprintf("%q calls=%d enabled=%v deleted=%v", c.By, c.Row.Calls, c.Row.Enabled, c.Deleted))
	}
	if want := []string{
		`"bob" calls=30 enabled=false deleted=true`,
		`"" calls=30 enabled=false deleted=false`,
		`"ann" calls=30 enabled=true deleted=false`,
		`"" calls=20 enabled=true deleted=false`,
	}; !slices.Equal(told, want) {
		t.Errorf("the history is\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}

	h.do("HSET", table, "41", "name: a\nlimits: [{quota: 1, window: 1m}]", "7", `{"rule": {"name": "b"}, "name": "b"}`)
	if first, second := get(7), get(41); first.Rule != `{"name": "b"}` || second.Rule != "name: a\nlimits: [{quota: 1, window: 1m}]" {
		t.Errorf("rules by hand are %q and %q", first.Rule, second.Rule)
	}
	next, err := one.Put(ctx, rules.Row{Path: "/next", Calls: 1, PeriodMS: 1}, "ann")
	if err != nil || next.ID != 42 {
		t.Errorf("the row after 41 is %d, %v", next.ID, err)
	}
	h.last = version()
	h.do("HDEL", table, "41")
	h.do("DEL", table)
	if rows, err := one.List(ctx, 0, 10); err != nil || len(rows) != 0 {
		t.Errorf("after DEL there are %+v, %v", rows, err)
	}
}

// TestRulesByHandAreRead has what people may write into a row.
func TestRulesByHandAreRead(t *testing.T) {
	server := servertest.StartRedis(t)
	s := open(t, server.URL).Rules()
	if _, err := s.Put(t.Context(), rules.Row{ID: 1, Name: "taken", Path: "/taken", Calls: 1, PeriodMS: 1}, "ann"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text string
		want rules.Row
	}{
		{`{"path": "/x", "calls": 9223372036854775807, "period_ms": 1000}`, rules.Row{Enabled: true, Path: "/x", Calls: 1<<63 - 1, PeriodMS: 1000}},
		{` {"enabled": true, "path": "/x", "calls": 0, "period_ms": 1000} `, rules.Row{Enabled: true, Path: "/x", PeriodMS: 1000}},
		{`{"enabled": false, "name": "n", "rule": "name: n"}`, rules.Row{Name: "n", Rule: "name: n"}},
		{`{"rule": {"name": "n"}}`, rules.Row{Enabled: true, Rule: `{"name": "n"}`}},
		{`{"path": "/x", "period_ms": 1000}`, rules.Row{Enabled: true, Path: "/x", Calls: -1, PeriodMS: 1000}},
		{`{"name": "taken", "path": "/taken", "calls": 2, "period_ms": 1}`, rules.Row{Enabled: true, Name: "taken", Path: "/taken", Calls: 2, PeriodMS: 1}},
		{`{"name": "n", "limits": []}`, rules.Row{Enabled: true, Rule: `{"name": "n", "limits": []}`}},
		{`{"path": "/x", "calls": 1.5, "period_ms": 1000}`, rules.Row{Enabled: true, Rule: `{"path": "/x", "calls": 1.5, "period_ms": 1000}`}},
		{`{"path": "/x"} {"path": "/y"}`, rules.Row{Enabled: true, Rule: `{"path": "/x"} {"path": "/y"}`}},
		{`name: n`, rules.Row{Enabled: true, Rule: "name: n"}},
		{`{`, rules.Row{Enabled: true, Rule: "{"}},
		{`{}`, rules.Row{Enabled: true}},
	} {
		server.Run(t, "HSET", table, "9223372036854775807", test.text)
		rows, err := s.List(t.Context(), 1, 10)
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %d rows, %v; want 1", test.text, len(rows), err)
		}
		got := rows[0]
		test.want.ID, test.want.Revision, test.want.Modified = 9223372036854775807, got.Revision, got.Modified
		if got != test.want {
			t.Errorf("%s is\n%+v, want\n%+v", test.text, got, test.want)
		}
	}
	server.Run(t, "HDEL", table, "9223372036854775807")
	before, err := s.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"0", "-1", "01", "1.0", "x", "9223372036854775808", ""} {
		server.Run(t, "HSET", table, id, `{"path": "/x", "calls": 1, "period_ms": 1}`)
	}
	if rows, err := s.List(t.Context(), 0, 10); err != nil || len(rows) != 1 {
		t.Errorf("with fields that are no ids: %+v, %v", rows, err)
	}
	if now, err := s.Version(t.Context()); err != nil || now != before {
		t.Errorf("with fields that are no ids the version is %d, %v; want %d", now, err, before)
	}
}

// TestRulesByHandAreTold watches a table that nobody asks for its version.
func TestRulesByHandAreTold(t *testing.T) {
	server := servertest.StartRedis(t)
	w := open(t, server.URL).Rules().(rules.Watcher)
	told := make(chan struct{}, 10)
	go w.Watch(t.Context(), func() { told <- struct{}{} })
	for _, value := range []string{"begin", "name: a", "name: b"} {
		if value != "begin" {
			server.Run(t, "HSET", table, "1", value)
		}
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			t.Fatalf("nothing was told of %s", value)
		}
	}
}

// TestRulesOfMany has a table that Redis keeps otherwise than a small one.
func TestRulesOfMany(t *testing.T) {
	server := servertest.StartRedis(t)
	one, two := open(t, server.URL).Rules(), open(t, server.URL).Rules()
	const many = 10_000
	server.Run(t, "EVAL", fmt.Sprintf(`for i = 1, %d do
		redis.call('HSET', KEYS[1], i, '{"path":"/entity/#/table/query/' .. i .. '","calls":10,"period_ms":60000}')
	end`, many), "1", table)
	version, err := one.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := int64(0)
	for {
		rows, err := two.List(t.Context(), ids, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if ids++; row.ID != ids {
				t.Fatalf("row %d comes after %d", row.ID, ids-1)
			}
		}
		if len(rows) == 0 {
			break
		}
	}
	if ids != many {
		t.Errorf("%d rows, want %d", ids, many)
	}
	if again, err := two.Version(t.Context()); err != nil || again != version {
		t.Errorf("nothing was changed, and the version is %d, %v; want %d", again, err, version)
	}
	server.Run(t, "HSET", table, "7", "name: x")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		now, err := one.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if now != version {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a change by hand is never seen")
		}
	}
}

// TestRulesAreLost empties the server: that is told, and no version comes back.
func TestRulesAreLost(t *testing.T) {
	server := servertest.StartRedis(t)
	s := open(t, server.URL).Rules()
	row := rules.Row{Path: "/x", Calls: 1, PeriodMS: 1}
	before, err := s.Put(t.Context(), row, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Run(t, "FLUSHALL")
	for range 2 {
		n, err := s.Version(t.Context())
		if e, ok := errors.AsType[*rules.SourceError](err); !ok || !strings.Contains(e.Error(), "redis: version: the server has lost the rules") {
			t.Errorf("version %d, %v of what is lost", n, err)
		}
	}
	if n, err := open(t, server.URL).Rules().Version(t.Context()); err != nil || n != 0 {
		t.Errorf("who has never seen a table has version %d, %v; want 0", n, err)
	}
	after, err := s.Put(t.Context(), row, "ann")
	if err != nil || after.ID != before.ID || after.Revision <= before.Revision {
		t.Errorf("put again: %+v, %v after %+v", after, err, before)
	}
	if n, err := s.Version(t.Context()); err != nil || n != after.Revision {
		t.Errorf("version %d, %v; want %d", n, err, after.Revision)
	}
}

// FuzzRow reads what people may write. What is read and may be written is read
// again as it was.
func FuzzRow(f *testing.F) {
	for _, text := range []string{
		`{"name": "n", "path": "/x", "calls": 10, "period_ms": 1000, "enabled": false}`, `{"rule": {"name": "n"}}`, `{"rule": "name: <n> & \u2028"}`,
		`{"rule": null}`, `{"rule": 7}`, `{"calls": 0, "path": ""}`, `null`, `{}{}`, `{`, "name: n", "\xff", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		row := redis.ReadRow(text)
		if row.Check() != nil {
			return
		}
		if again := redis.ReadRow(redis.WriteRow(&row)); again != row {
			t.Errorf("%q is\n%+v, and written again\n%+v", text, row, again)
		}
	})
}
