package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/rules/rulestest"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/slotstest"
	"github.com/stint-dev/stint/store/mysql"
)

// server returns the URL of a server that may be used, as root. It names no
// database.
func server(t testing.TB, settings ...string) string {
	if url := os.Getenv(servertest.MySQLURL); url != "" {
		return url
	}
	return servertest.StartMariaDB(t, settings...).URL
}

// at returns text, a URL, with another user, host or database.
func at(t testing.TB, text string, user *url.Userinfo, host, database string) string {
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
	if database != "" {
		u.Path = "/" + database
	}
	return u.String()
}

var databases atomic.Int64

// database makes a database that is empty, and returns the URL that leads to it.
func database(t testing.TB, server string) string {
	t.Helper()
	name := fmt.Sprintf("stint_test_%d_%d", os.Getpid(), databases.Add(1))
	execute(t, server, "CREATE DATABASE "+name)
	// Without a bound, a transaction that a failed test has left would hold it up
	// for a day.
	t.Cleanup(func() { execute(t, server, "SET lock_wait_timeout = 10; DROP DATABASE "+name) })
	return at(t, server, nil, "", name)
}

// tables makes a database with Stint's tables, and returns the URL that leads to it.
func tables(t testing.TB, server string) string {
	t.Helper()
	url := database(t, server)
	if _, err := mysql.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

func open(t testing.TB, url string, o *mysql.Options) *mysql.Store {
	t.Helper()
	s, err := mysql.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// connect returns a connection with no Store in between. It works after the
// test's context has ended, too.
func connect(t testing.TB, text string) *sql.DB {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	config := driver.NewConfig()
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr, config.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	config.MultiStatements = true
	c, err := driver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(1)
	return db
}

// execute runs SQL on the server.
func execute(t testing.TB, url string, statements ...string) {
	t.Helper()
	db := connect(t, url)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// number returns what a query says.
func number(t testing.TB, url, query string) (n int64) {
	t.Helper()
	db := connect(t, url)
	defer db.Close()
	if err := db.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// clock is one that can be set: a table of one row.
type clock struct {
	url   string
	table string
	db    *sql.DB // to the server
}

const clockExpression = "(SELECT now FROM stint_clock)"

func newClock(t testing.TB, db *sql.DB, text string) clock {
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c := clock{text, u.Path[1:] + ".stint_clock", db}
	noon := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC).UnixMicro()
	c.run(t, "CREATE TABLE %s (now BIGINT NOT NULL) ENGINE=InnoDB", c.table)
	c.run(t, "INSERT INTO %s VALUES (%d)", c.table, noon)
	return c
}

func (c clock) run(t testing.TB, format string, arguments ...any) {
	if _, err := c.db.ExecContext(context.Background(), fmt.Sprintf(format, arguments...)); err != nil {
		t.Errorf(format+": %v", append(arguments, err)...)
	}
}

func (c clock) set(t testing.TB, now algo.Ticks) { c.run(t, "UPDATE %s SET now = %d", c.table, now) }

func (c clock) advance(t testing.TB, d time.Duration) {
	c.run(t, "UPDATE %s SET now = now + %d", c.table, d.Microseconds())
}

// harness is over databases of one server, through a wire that can be cut.
type harness struct {
	server string
	db     *sql.DB // to the server
	wire   *servertest.Wire
	clock  clock // of the last Open
	own    bool  // the clock is the server's own
}

func newHarness(t testing.TB, server string) *harness {
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{server: server, db: connect(t, server), wire: servertest.NewWire(t, u.Host)}
	t.Cleanup(func() { h.db.Close() })
	return h
}

// empty makes the tables that the harness is then over.
func (h *harness) empty(t testing.TB) { h.clock = newClock(t, h.db, tables(t, h.server)) }

// client returns a Store over these tables.
func (h *harness) client(t testing.TB) *mysql.Store {
	var o mysql.Options
	if !h.own {
		o.SetClock(clockExpression)
	}
	s, err := mysql.Open(t.Context(), at(t, h.clock.url, nil, h.wire.Address, ""), &o)
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
	return rulestest.Harness{Open: open, Reopen: reopen, Break: h.cut, Session: func(t testing.TB) func(sql string) {
		db := connect(t, h.clock.url)
		t.Cleanup(func() { db.Close() })
		return func(sql string) {
			if _, err := db.ExecContext(context.Background(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}}
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
