package mysql_test

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
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/mysql"
)

// refused is how Open and Migrate say no.
func refused(t *testing.T, op string, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s works", op)
	}
	if want = "mysql: " + op + ": " + want; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if fault, ok := errors.AsType[*limit.StoreError](err); !ok || fault.Sent {
		t.Errorf("%#v, want a *limit.StoreError that was not sent", err)
	}
}

func TestOpenRefusesURLs(t *testing.T) {
	const (
		write    = "write mysql://USER@HOST/DATABASE"
		scheme   = "the URL must begin with mysql:// or mariadb://; " + write
		unread   = "the URL cannot be read; " + write + ", and in a password %40, %2F and %3F for @, / and ?"
		unnamed  = "the URL names no host, or no database; " + write
		nobody   = "cannot connect: dial tcp 127.0.0.1:1: connect: connection refused"
		poolSize = "pool_max_conns in the URL is %q; a number of 1 or more is allowed"
	)
	for url, want := range map[string]string{
		"":                                               scheme,
		"me:secret@tcp(db)/app":                          scheme,
		"postgres://me:secret@db/app":                    scheme,
		"mysql://":                                       unnamed,
		"mysql://me:secret@/app":                         unnamed,
		"mysql://me:secret@:3306/app":                    unnamed,
		"mysql://me:secret@db":                           unnamed,
		"mysql://me:secret@db/":                          unnamed,
		"mysql://me:secret@db/a/b":                       unnamed,
		"mysql://me:sec%ret@db/app":                      unread,
		"mysql://me:sec/ret@db/app":                      unread,
		"mysql://me:sec?ret@db/app":                      unread,
		"mysql://me:sec#ret@db/app":                      unread,
		"mysql://me:secret@db:x/app":                     unread,
		"mysql://db/app?user=me&password=secret":         "the URL has the user or the password among its parameters; write mysql://USER:PASSWORD@HOST/DATABASE",
		"mysql://me:secret@db/app?timeout=%zz":           unread,
		"mysql://me:secret@db/app?pool_max_conns=0":      fmt.Sprintf(poolSize, "0"),
		"mysql://me:secret@db/app?pool_max_conns=ten":    fmt.Sprintf(poolSize, "ten"),
		"mysql://me:secret@db/app?timeout=soon":          `the URL is wrong: time: invalid duration "soon"`,
		"mysql://me:secret@db/app?tls=perhaps":           "the URL is wrong: invalid value / unknown config name: perhaps",
		"mysql://me:secret@127.0.0.1:1/app":              nobody,
		"mariadb://me:secret@127.0.0.1:1/app?timeout=1m": nobody,
	} {
		t.Run(url, func(t *testing.T) {
			_, err := mysql.Open(t.Context(), url, nil)
			refused(t, "open", err, want)
			_, err = mysql.Migrate(t.Context(), url)
			refused(t, "migrate", err, want)
		})
	}
}

// as returns text, a URL, with another user.
func as(t *testing.T, text, user, password string) string {
	t.Helper()
	u := url.User(user)
	if password != "" {
		u = url.UserPassword(user, password)
	}
	return at(t, text, u, "", "")
}

// nameOf is the database that text, a URL, leads to.
func nameOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

func TestOpenRefusesDatabases(t *testing.T) {
	server := servertest.StartMariaDB(t).URL
	standIn, empty, older, newer, half, slotless := tables(t, server), database(t, server), tables(t, server), tables(t, server), tables(t, server), tables(t, server)
	name := nameOf(t, standIn)
	execute(t, standIn,
		"CREATE USER guarded IDENTIFIED BY 'p@ss:word/1'",
		"CREATE USER stranger",
		"CREATE USER once WITH MAX_USER_CONNECTIONS 1",
		"GRANT ALL ON "+name+".* TO once",
	)
	execute(t, older, "DELETE FROM stint_schema")
	execute(t, newer, "INSERT INTO stint_schema (version) VALUES (5)")
	execute(t, half, "DROP TABLE stint_state")
	execute(t, slotless, "DROP TABLE stint_slot_window")
	once := connect(t, as(t, standIn, "once", ""))
	defer once.Close()
	if err := once.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}

	const check = "; check the user and the password in the URL"
	for _, test := range []struct{ name, url, want string }{
		{"wrong password", as(t, standIn, "guarded", "guess"), "Access denied for user 'guarded'@'127.0.0.1' (using password: YES)" + check},
		{"no password", as(t, standIn, "guarded", ""), "Access denied for user 'guarded'@'127.0.0.1' (using password: NO)" + check},
		{"no such user", as(t, standIn, "nobody", ""), "Access denied for user 'nobody'@'127.0.0.1' (using password: NO)" + check},
		{"no such database", at(t, server, nil, "", "nowhere"), "Unknown database 'nowhere'; create the database first"},
		{"a database of others", as(t, standIn, "stranger", ""), "Access denied for user 'stranger'@'%' to database '" + name + "'; let an administrator grant it, or name another database in the URL"},
		{"too many connections", as(t, standIn, "once", ""), "User 'once' has exceeded the 'max_user_connections' resource (current value: 1); let an administrator raise this limit"},
		{"no TLS", standIn + "?tls=true", "cannot connect: TLS requested but server does not support TLS"},
		{"an unknown parameter", standIn + "?flavour=sweet", "Unknown system variable 'flavour'; take it out of the URL: neither the driver nor the server knows it"},
		{"no tables", empty, "the table stint_state is missing; run: stint migrate --store " + empty},
		{"half the tables", half, "the table stint_state is missing; run: stint migrate --store " + half},
		{"not all the tables of slots", slotless, "the table stint_slot_window is missing; run: stint migrate --store " + slotless},
		{"an older schema", older, "the tables have schema version 0, and this Stint needs 4; run: stint migrate --store " + older},
		{"a newer schema", newer, "the tables have schema version 5, and this Stint knows up to 4; run the newer Stint that made them"},
		{"read-only transactions", standIn + "?tx_read_only=1", "Cannot execute statement in a READ ONLY transaction; set transaction_read_only, which MariaDB calls tx_read_only, to off for this user"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := mysql.Open(t.Context(), test.url, nil)
			refused(t, "open", err, test.want)
		})
	}
	t.Run("the password is nobody's business", func(t *testing.T) {
		execute(t, standIn, "GRANT ALL ON "+nameOf(t, empty)+".* TO guarded")
		_, err := mysql.Open(t.Context(), as(t, empty, "guarded", "p@ss:word/1"), nil)
		refused(t, "open", err, "the table stint_state is missing; run: stint migrate --store "+as(t, empty, "guarded", ""))
	})
	t.Run("in the middle of its work", func(t *testing.T) {
		s := open(t, standIn, nil)
		execute(t, standIn, "DROP TABLE stint_state")
		refused(t, "ping", s.Ping(t.Context()), "Table '"+name+".stint_state' doesn't exist; run: stint migrate")
	})
}

// Who lacks a right is told which, and the statements that give it are such that
// can be run as they are.
func TestOpenNamesRights(t *testing.T) {
	server := servertest.StartMariaDB(t).URL
	plain, dashed := tables(t, server), at(t, server, nil, "", "stint-test`s")
	execute(t, server, "CREATE DATABASE `stint-test``s`")
	if _, err := mysql.Migrate(t.Context(), dashed); err != nil {
		t.Fatal(err)
	}
	here := "`" + nameOf(t, plain) + "`"
	const (
		there = "`stint-test``s`"
		all   = "SELECT, INSERT, UPDATE, DELETE"
		every = "stint_rule, stint_rule_change, stint_slot, stint_slot_cancelled, stint_slot_config, stint_slot_delivery, stint_slot_run, stint_slot_version, stint_slot_window, stint_state"
	)
	// grants are those of rights on tables, in their order.
	grants := func(rights, database, tables, account string) string {
		var each []string
		for table := range strings.SplitSeq(tables, ", ") {
			each = append(each, "GRANT "+rights+" ON "+database+"."+table+" TO "+account)
		}
		return strings.Join(each, "; ")
	}
	limits := []string{"SELECT ON " + here + ".stint_schema", all + " ON " + here + ".stint_state"}
	for _, test := range []struct {
		url, user, account string
		has                []string
		may, grant         string
	}{
		{plain, "reader", "'reader'@'%'", []string{"SELECT ON " + here + ".*"},
			"INSERT, UPDATE, DELETE " + every, grants("INSERT, UPDATE, DELETE", here, every, "'reader'@'%'")},
		{plain, "writer", "'writer'@'127.0.0.1'", []string{"SELECT, INSERT, UPDATE ON " + here + ".*"},
			"DELETE " + every, grants("DELETE", here, every, "'writer'@'127.0.0.1'")},
		{plain, "limits", "'limits'@'%'", limits,
			all + " " + strings.TrimSuffix(every, ", stint_state"), grants(all, here, strings.TrimSuffix(every, ", stint_state"), "'limits'@'%'")},
		{plain, "stranger", "'stranger'@'%'", []string{"CREATE ON " + here + ".*"},
			"SELECT stint_schema, nor " + all + " " + every,
			grants(all, here, "stint_rule, stint_rule_change", "'stranger'@'%'") + "; GRANT SELECT ON " + here + ".stint_schema TO 'stranger'@'%'; " +
				grants(all, here, strings.TrimPrefix(every, "stint_rule, stint_rule_change, "), "'stranger'@'%'")},
		{dashed, "o'reader@home", "'o''reader@home'@'%'", []string{"SELECT ON " + there + ".stint_schema"},
			all + " " + every, grants(all, there, every, "'o''reader@home'@'%'")},
	} {
		t.Run(test.user, func(t *testing.T) {
			execute(t, server, "CREATE USER "+test.account)
			for _, has := range test.has {
				execute(t, server, "GRANT "+has+" TO "+test.account)
			}
			url := as(t, test.url, test.user, "")
			_, err := mysql.Open(t.Context(), url, nil)
			account := strings.NewReplacer("''", "'", "'", "").Replace(test.account)
			refused(t, "open", err, fmt.Sprintf("the user %s may not %s; let an administrator run: %s", account, test.may, test.grant))
			execute(t, server, test.grant)
			s := open(t, url, nil)
			if err := count(t.Context(), s, "key of "+test.user); err != nil {
				t.Errorf("with the rights that were asked for: %v", err)
			}
			if err := everything(t.Context(), s.Ledger(), "config of "+test.user); err != nil {
				t.Errorf("with the rights that were asked for: %v", err)
			}
		})
	}
}

// A primary that has become a replica is refused, and one that becomes one in the
// middle of its work says so, and changes nothing.
func TestReadOnlyServer(t *testing.T) {
	server := servertest.StartMariaDB(t).URL
	root := tables(t, server)
	execute(t, root, "CREATE USER app", "GRANT SELECT, INSERT, UPDATE, DELETE ON "+nameOf(t, root)+".* TO app")
	url := as(t, root, "app", "")
	s := open(t, url, nil)
	if err := count(t.Context(), s, "key"); err != nil {
		t.Fatal(err)
	}
	execute(t, root, "SET GLOBAL read_only = 1")
	for _, url := range []string{url, root} {
		_, err := mysql.Open(t.Context(), url, nil)
		refused(t, "open", err, "the server takes no writes, as a replica does: read_only is on; name the server that takes writes, or an address that leads to it")
	}
	refused(t, "update", count(t.Context(), s, "key"), "The MariaDB server is running with the --read-only option so it cannot execute this statement; name the server that takes writes, or an address that leads to it")
	const kept = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'"
	if !soon(func() bool { return number(t, root, kept) == 0 }) {
		t.Error("the connections are kept, though their address may lead to another server by now")
	}
	if err := s.Update(t.Context(), []string{"key"}, func(algo.Ticks, []limit.Cell) error { return nil }); err != nil {
		t.Errorf("an update that changes nothing: %v; there is nothing to write", err)
	}
	execute(t, root, "SET GLOBAL read_only = 0")
	if err := count(t.Context(), s, "key"); err != nil {
		t.Errorf("the server takes writes again, and still: %v", err)
	}
	if n := number(t, root, "SELECT a FROM stint_state"); n != 2 {
		t.Errorf("the key counts %d, want 2: one update was refused", n)
	}
}

// A server that says nothing holds nobody up longer than it may.
func TestOpenEndsInTime(t *testing.T) {
	server := servertest.StartMariaDB(t)
	url := tables(t, server.URL)
	server.Pause(t)
	defer server.Resume(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for _, test := range []struct {
		name string
		open func() error
	}{
		{"the context", func() error { _, err := mysql.Open(ctx, url, nil); return err }},
		{"the context of a migration", func() error { _, err := mysql.Migrate(ctx, url); return err }},
		{"the timeout of the URL", func() error { _, err := mysql.Open(t.Context(), url+"?timeout=100ms", nil); return err }},
		{"ConnectTimeout", func() error {
			_, err := mysql.Open(t.Context(), url, &mysql.Options{ConnectTimeout: 100 * time.Millisecond})
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			began := time.Now()
			err := test.open()
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 3*time.Second {
				t.Errorf("after %v: %v, want it to end with its 100ms", took, err)
			}
		})
	}
}
