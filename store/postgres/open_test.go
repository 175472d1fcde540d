package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/postgres"
)

// refused is how Open and Migrate say no.
func refused(t *testing.T, op string, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s works", op)
	}
	if want = "postgres: " + op + ": " + want; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if fault, ok := errors.AsType[*limit.StoreError](err); !ok || fault.Sent {
		t.Errorf("%#v, want a *limit.StoreError that was not sent", err)
	}
}

func TestOpenRefusesURLs(t *testing.T) {
	const write = "write postgres://USER@HOST/DATABASE"
	const escape = write + ", and signs within a password as %40 for @"
	for url, want := range map[string]string{
		"":                           "the URL must begin with postgres://; " + write,
		"host=db password=secret":    "the URL must begin with postgres://; " + write,
		"mysql://me:secret@db/app":   "the URL must begin with postgres://; " + write,
		"postgres://me:sec%ret@db/a": "the URL is wrong: failed to parse as URL; " + escape,
		"postgres://me:secret@db:x":  "the URL is wrong: invalid port; " + escape,
		"postgres://me:secret@db/app?sslmode=perhaps":    "the URL is wrong: failed to configure TLS; " + escape,
		"postgres://me:secret@db/app?pool_max_conns=ten": "the URL is wrong: cannot parse pool_max_conns; " + escape,
		"postgres://me:secret@127.0.0.1:1/app":           "cannot connect: 127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: connection refused",
	} {
		t.Run(url, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), url, nil)
			refused(t, "open", err, want)
			_, err = postgres.Migrate(t.Context(), url)
			refused(t, "migrate", err, want)
		})
	}
}

func TestOpenRefusesDatabases(t *testing.T) {
	server := servertest.StartPostgres(t).URL
	standIn := tables(t, server)
	namespace := parameter(t, standIn, "search_path")
	execute(t, standIn,
		"CREATE ROLE scram LOGIN PASSWORD 'p@ss:word/1'",
		"CREATE ROLE reader LOGIN",
		fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO reader", namespace),
		"GRANT SELECT ON stint_state, stint_schema TO reader",
		"CREATE ROLE careful LOGIN",
		"ALTER ROLE careful SET default_transaction_read_only = on",
		fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO careful", namespace),
		"CREATE DATABASE full_house CONNECTION LIMIT 0",
	)
	empty, older, newer := schema(t, server), tables(t, server), tables(t, server)
	execute(t, older, "DELETE FROM stint_schema")
	execute(t, newer, "INSERT INTO stint_schema (version) VALUES (5)")
	half := tables(t, server)
	execute(t, half, "DROP TABLE stint_state")
	as := func(user string) string { return at(t, standIn, url.User(user), "") }
	scram := func(password string) string { return at(t, standIn, url.UserPassword("scram", password), "") }

	for _, test := range []struct{ name, url, want string }{
		{"wrong password", scram("guess"), `password authentication failed for user "scram"; check the user and the password in the URL`},
		{"no such user", as("nobody"), `role "nobody" does not exist`},
		{"no such database", strings.Replace(server, "/postgres?", "/nowhere?", 1), `database "nowhere" does not exist; create the database first`},
		{"too many clients", strings.Replace(as("reader"), "/postgres?", "/full_house?", 1), `too many connections for database "full_house"; lower pool_max_conns in the URLs, or raise the server's max_connections`},
		{"no tables", empty, "the table stint_state is missing; run: stint migrate --store " + empty},
		{"half the tables", half, "the table stint_state is missing; run: stint migrate --store " + half},
		{"an older schema", older, "the tables have schema version 0, and this Stint needs 4; run: stint migrate --store " + older},
		{"a newer schema", newer, "the tables have schema version 5, and this Stint knows up to 4; run the newer Stint that made them"},
		{"no right to look", scram("p@ss:word/1"), "the table stint_state is missing; run: stint migrate --store " + strings.Replace(scram("x"), ":x@", "@", 1)},
		{"no right to write", as("reader"), "the user reader may not INSERT, UPDATE, DELETE stint_state; let its owner run: GRANT INSERT, UPDATE, DELETE ON stint_state TO reader"},
		{"read-only transactions", as("careful"), "the server takes no writes from this user: default_transaction_read_only is on; set it to off"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), test.url, nil)
			refused(t, "open", err, test.want)
		})
	}
	t.Run("in the middle of its work", func(t *testing.T) {
		s := open(t, standIn, nil)
		execute(t, standIn, "DROP TABLE stint_state")
		fault, _ := errors.AsType[*limit.StoreError](s.Ping(t.Context()))
		if want := `postgres: ping: relation "stint_state" does not exist; run: stint migrate`; fault.Error() != want || fault.Sent {
			t.Errorf("got  %s (sent: %v)\nwant %s", fault, fault.Sent, want)
		}
	})
}

func parameter(t *testing.T, text, name string) string {
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get(name)
}

// A server that says nothing holds nobody up who has no time.
func TestOpenEndsWithItsContext(t *testing.T) {
	server := servertest.StartPostgres(t)
	url := tables(t, server.URL)
	server.Pause(t)
	defer server.Resume(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := postgres.Open(ctx, url, nil)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: %v, want the end of the context", time.Since(began), err)
	}
}
