package postgres_test

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/rules/rulestest"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/slotstest"
	"github.com/stint-dev/stint/store/postgres"
)

// server returns the URL of a server that may be used, as a superuser.
func server(t testing.TB, settings ...string) string {
	if url := os.Getenv(servertest.PostgresURL); url != "" {
		return url
	}
	return servertest.StartPostgres(t, settings...).URL
}

// with returns text, a URL, with parameters, in pairs of name and value.
func with(t testing.TB, text string, parameters ...string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for i := 0; i < len(parameters); i += 2 {
		q.Set(parameters[i], parameters[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// at returns text, a URL, with another user and host.
func at(t testing.TB, text string, user *url.Userinfo, host string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if user != nil {
		u.User = user
	}
	if host != "" {
		u.Host = host
	}
	return u.String()
}

var schemas atomic.Int64

// schema makes a schema that is empty, and returns the URL that leads to it.
func schema(t testing.TB, server string) string {
	t.Helper()
	name := fmt.Sprintf("stint_test_%d_%d", os.Getpid(), schemas.Add(1))
	execute(t, server, "CREATE SCHEMA "+name)
	t.Cleanup(func() { execute(t, server, "DROP SCHEMA "+name+" CASCADE") })
	return with(t, server, "search_path", name)
}

// tables makes a schema with Stint's tables, and returns the URL that leads to it.
func tables(t testing.TB, server string) string {
	t.Helper()
	url := schema(t, server)
	if _, err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

func open(t testing.TB, url string, o *postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// execute runs SQL on the server with no Store in between.
func execute(t testing.TB, url string, statements ...string) {
	t.Helper()
	c := connect(t, url)
	defer c.Close(context.Background())
	for _, statement := range statements {
		if _, err := c.Exec(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// number returns what a query says.
func number(t testing.TB, url, query string) (n int64) {
	t.Helper()
	c := connect(t, url)
	defer c.Close(context.Background())
	if err := c.QueryRow(context.Background(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// connect works after the test's context has ended, too.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// clock is one that can be set: a sequence, of which everybody sees the last
// value at once.
type clock struct {
	url string
	// turning lets one advance at a time: each reads the sequence and then sets it.
	turning *sync.Mutex
}

const clockExpression = "pg_sequence_last_value('stint_clock')"

func newClock(t testing.TB, url string) clock {
	execute(t, url, "CREATE SEQUENCE stint_clock")
	c := clock{url, new(sync.Mutex)}
	c.set(t, time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c clock) set(t testing.TB, now int64) {
	execute(t, c.url, fmt.Sprintf("SELECT setval('stint_clock', %d)", now))
}

func (c clock) advance(t testing.TB, d time.Duration) {
	c.turning.Lock()
	defer c.turning.Unlock()
	execute(t, c.url, fmt.Sprintf("SELECT setval('stint_clock', last_value + %d) FROM stint_clock", d.Microseconds()))
}

// harness is over schemas of one server, through a wire that can be cut.
type harness struct {
	server string
	wire   *servertest.Wire
	clock  clock // of the last Open
	own    bool  // the clock is the server's own
}

func newHarness(t testing.TB, server string) *harness {
	h := &harness{server: server}
	u, err := url.Parse(h.server)
	if err != nil {
		t.Fatal(err)
	}
	h.wire = servertest.NewWire(t, u.Host)
	return h
}

// empty makes the tables that the harness is then over.
func (h *harness) empty(t testing.TB) {
	h.clock = newClock(t, tables(t, h.server))
}

// client returns a Store over these tables.
func (h *harness) client(t testing.TB) *postgres.Store {
	var o postgres.Options
	if !h.own {
		o.SetClock(clockExpression)
	}
	s, err := postgres.Open(t.Context(), at(t, h.clock.url, nil, h.wire.Address), &o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (h *harness) cut(testing.TB) (repair func()) {
	h.wire.Cut()
	return h.wire.Mend
}

// advance is nil if the clock is the server's own.
func (h *harness) advance() func(t testing.TB, d time.Duration) {
	if h.own {
		return nil
	}
	return func(t testing.TB, d time.Duration) { h.clock.advance(t, d) }
}

func (h *harness) limits() limittest.Harness {
	reopen := func(t testing.TB) limit.Store { return h.client(t) }
	open := func(t testing.TB) limit.Store {
		h.empty(t)
		return reopen(t)
	}
	return limittest.Harness{Open: open, Reopen: reopen, Advance: h.advance(), Break: h.cut}
}

func (h *harness) rules() rulestest.Harness {
	reopen := func(t testing.TB) (rules.Source, io.Closer) {
		s := h.client(t)
		return s.Rules(), s
	}
	open := func(t testing.TB) (rules.Source, io.Closer) {
		h.empty(t)
		return reopen(t)
	}
	session := func(t testing.TB) func(sql string) {
		c := connect(t, h.clock.url)
		t.Cleanup(func() { c.Close(context.Background()) })
		return func(sql string) {
			if _, err := c.Exec(context.Background(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	return rulestest.Harness{Open: open, Reopen: reopen, Break: h.cut, Session: session, OneWriter: true}
}

func (h *harness) slots() slotstest.Harness {
	reopen := func(t testing.TB) (slots.Ledger, io.Closer) {
		s := h.client(t)
		return s.Ledger(), s
	}
	open := func(t testing.TB) (slots.Ledger, io.Closer) {
		h.empty(t)
		return reopen(t)
	}
	return slotstest.Harness{Open: open, Reopen: reopen, Advance: h.advance(), Break: h.cut}
}
