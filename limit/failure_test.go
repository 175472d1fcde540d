package limit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/store/postgres"
)

// cluster is a PostgreSQL server, and nodes that reach it each by a wire of its own.
type cluster struct {
	server *servertest.Postgres
	wires  []*servertest.Wire
	nodes  []*limit.Limiter
}

// patience is what a decision of a cluster's nodes waits for the store.
const patience = 250 * time.Millisecond

func newCluster(t *testing.T, nodes int) *cluster {
	c := &cluster{server: servertest.StartPostgres(t)}
	if _, err := postgres.Migrate(t.Context(), c.server.URL); err != nil {
		t.Fatal(err)
	}
	for range nodes {
		wire := servertest.NewWire(t, c.server.Address)
		s, err := postgres.Open(t.Context(), "postgres://postgres@"+wire.Address+"/postgres?sslmode=disable", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		c.wires = append(c.wires, wire)
		c.nodes = append(c.nodes, open(t, s, &limit.Options{Local: memory.New(nil), Timeout: patience}))
	}
	return c
}

// admin runs SQL on the server, not through a wire.
func (c *cluster) admin(t *testing.T, sql ...string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range sql {
		if _, err := conn.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}

// TestFailuresOfTheStore makes a PostgreSQL server fail in every way that it can,
// under decisions that go on all the time.
func TestFailuresOfTheStore(t *testing.T) {
	c := newCluster(t, 1)
	l, wire := c.nodes[0], c.wires[0]
	faults := []struct {
		name         string
		fail, repair func(t *testing.T)
	}{
		{"killed", func(t *testing.T) { c.server.Kill(t) }, func(t *testing.T) { c.server.Restart(t) }},
		{"does not answer", func(t *testing.T) { c.server.Pause(t) }, func(t *testing.T) { c.server.Resume(t) }},
		{"slow", func(*testing.T) { wire.Delay(time.Second) }, func(*testing.T) { wire.Delay(0) }},
		{"cut off", func(*testing.T) { wire.Cut() }, func(*testing.T) { wire.Mend() }},
		{"table locked", func(t *testing.T) {
			conn := c.admin(t, "BEGIN", "LOCK TABLE stint_state IN ACCESS EXCLUSIVE MODE")
			time.AfterFunc(time.Second, func() { conn.Close(context.Background()) })
		}, func(*testing.T) {}},
		{"read-only", func(t *testing.T) {
			c.admin(t, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()").Close(t.Context())
		}, func(t *testing.T) {
			c.admin(t, "SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()").Close(t.Context())
		}},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			policy := func(name string, fail limit.OnStoreError) *limit.Policy {
				return &limit.Policy{Name: f.name + name, Quota: 1000, Window: 24 * time.Hour, OnStoreError: fail}
			}
			counted, allow, local := policy("", limit.FailError), policy("allow", limit.FailAllow), policy("local", limit.FailLocal)
			for range 7 {
				mustTake(t, l, counted)
			}
			f.fail(t)
			failed := 0
			for began := time.Now(); time.Since(began) < 1500*time.Millisecond; time.Sleep(10 * time.Millisecond) {
				for _, p := range []*limit.Policy{counted, allow, local} {
					d, err := answered(t, l, p)
					fault, ok := errors.AsType[*limit.StoreError](err)
					switch {
					case err == nil && !d.Allowed:
						t.Fatalf("%+v: a failure of the store is told as a denial", d)
					case err != nil && (p != counted || !ok):
						t.Fatalf("%v", err)
					case err != nil && !fault.Sent, err == nil && d.Degraded:
						failed++
					}
				}
			}
			if failed == 0 {
				t.Error("nothing failed")
			}
			f.repair(t)
			repaired := time.Now()
			for {
				d, err := answered(t, l, allow)
				if err == nil && !d.Degraded {
					break
				}
				if time.Since(repaired) > 20*time.Second {
					t.Fatalf("not back 20s after the repair: %+v, %v", d, err)
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Logf("back %v after the repair", time.Since(repaired).Round(time.Millisecond))
			d, err := l.Peek(t.Context(), counted, "alex", 1)
			if err != nil || d.Remaining > 993 {
				t.Errorf("%+v, %v: what was counted before is lost", d, err)
			}
		})
	}
}

// answered takes a unit and reports an error of the test if that takes longer
// than it may.
func answered(t *testing.T, l *limit.Limiter, p *limit.Policy) (limit.Decision, error) {
	t.Helper()
	began := time.Now()
	d, err := l.Take(t.Context(), p, "alex", 1)
	if took := time.Since(began); took > patience+500*time.Millisecond {
		t.Errorf("answered after %v, with a timeout of %v", took, patience)
	}
	return d, err
}

func mustTake(t *testing.T, l *limit.Limiter, p *limit.Policy) {
	t.Helper()
	if d, err := l.Take(t.Context(), p, "alex", 1); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v; want allowed", d, err)
	}
}

// TestPartitionOfOneNode cuts one of two nodes off. It goes on with its half of
// the limit, the other with the whole.
func TestPartitionOfOneNode(t *testing.T) {
	c := newCluster(t, 2)
	p := &limit.Policy{Name: "partition", Quota: 10, Window: 24 * time.Hour, OnStoreError: limit.FailLocal}
	for _, l := range c.nodes {
		mustTake(t, l, p)
	}
	time.Sleep(5 * time.Second) // longer than a node takes to learn of another: see roster
	c.wires[1].Cut()
	admitted := [2]int{}
	for range 30 {
		for i, l := range c.nodes {
			d, err := answered(t, l, p)
			if err != nil || d.Degraded != (i == 1) {
				t.Fatalf("node %d: %+v, %v", i, d, err)
			}
			if d.Allowed {
				admitted[i]++
			}
		}
	}
	if want := [2]int{8, 5}; admitted != want {
		t.Errorf("the nodes admit %v, want %v: what was left in the store, and half of the limit", admitted, want)
	}
	c.wires[1].Mend()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if d, err := answered(t, c.nodes[1], p); err == nil && !d.Degraded {
			if d.Allowed {
				t.Error("back from the partition a node admits more than the limit")
			}
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("the node is not back")
		}
	}
}
