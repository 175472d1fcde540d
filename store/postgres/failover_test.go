package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/postgres"
)

// A store whose URL names all the servers goes on with the one that has become
// the primary, and finds there what it was told was committed.
func TestFailover(t *testing.T) {
	primary := servertest.StartPostgres(t, "synchronous_commit=remote_apply")
	if _, err := postgres.Migrate(t.Context(), primary.URL); err != nil {
		t.Fatal(err)
	}
	standby := servertest.StartPostgresStandby(t, primary, "hot_standby_feedback=on")
	execute(t, primary.URL, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")

	_, err := postgres.Open(t.Context(), standby.URL, nil)
	refused(t, "open", err, "the server is a standby, which takes no writes; name the primary, or all the servers and target_session_attrs=read-write")

	u, err := url.Parse(primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	both := strings.Replace(primary.URL, u.Host, standby.Address+","+primary.Address, 1)
	s := open(t, both, nil)
	committed := func(ctx context.Context) error { return count(ctx, s, "key") }
	for range 3 {
		if err := committed(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	primary.Kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, ok := errors.AsType[*limit.StoreError](committed(ctx)); !ok {
		t.Error("an update while there is no primary: want a *limit.StoreError")
	}
	standby.Promote(t)
	execute(t, standby.URL, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := committed(ctx)
		cancel()
		if err == nil {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("the standby was promoted 20s ago, and still: %v", err)
		}
	}
	if n := number(t, standby.URL, "SELECT a FROM stint_state"); n < 4 {
		t.Errorf("the new primary counts %d updates, want the 3 before the failover and those after", n)
	}
}

// A primary that has become a standby under its clients' hands is left alone
// for the one that has taken its place.
func TestReadOnlyInTheMiddleOfItsWork(t *testing.T) {
	server := servertest.StartPostgres(t)
	s := open(t, tables(t, server.URL), nil)
	if err := count(t.Context(), s, "key"); err != nil {
		t.Fatal(err)
	}
	execute(t, server.URL, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	var err error
	for began := time.Now(); err == nil && time.Since(began) < 10*time.Second; {
		err = count(t.Context(), s, "key")
	}
	fault, _ := errors.AsType[*limit.StoreError](err)
	want := "postgres: update: cannot execute INSERT in a read-only transaction; name all the servers in the URL, and target_session_attrs=read-write"
	if err == nil || err.Error() != want || fault.Sent {
		t.Errorf("got  %v (sent: %v)\nwant %s", err, fault.Sent, want)
	}
	denied := s.Update(t.Context(), []string{"key"}, func(algo.Ticks, []limit.Cell) error { return nil })
	if denied != nil {
		t.Errorf("an update that changes nothing: %v; there is nothing to write", denied)
	}
	execute(t, with(t, server.URL, "default_transaction_read_only", "off"), "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
	for began := time.Now(); err != nil && time.Since(began) < 10*time.Second; {
		err = count(t.Context(), s, "key")
	}
	if err != nil {
		t.Errorf("the server takes writes again, and still: %v", err)
	}
}

// count counts key up by one.
func count(ctx context.Context, s limit.Store, keys ...string) error {
	return s.Update(ctx, keys, func(_ algo.Ticks, cells []limit.Cell) error {
		for i := range cells {
			cells[i].State.A++
			cells[i].TTL, cells[i].Dirty = algo.Day, true
		}
		return nil
	})
}
