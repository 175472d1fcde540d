package limittest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/store/memory"
)

// server is a database as the suite sees one: states that outlive their
// clients, a clock that can be set, and a connection that can be cut.
type server struct {
	states *memory.Store
	now    atomic.Int64
	cut    atomic.Bool
	board  board
	fault  fault // of its clients

	mu       sync.Mutex
	versions map[string]int64
	changes  int64
}

func (s *server) harness() limittest.Harness {
	s.now.Store(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC).UnixMicro())
	return limittest.Harness{
		Open: func(t testing.TB) limit.Store {
			s.start()
			return s.connect(t)
		},
		Reopen:  s.connect,
		Advance: func(_ testing.TB, d time.Duration) { s.now.Add(d.Microseconds()) },
		Break: func(testing.TB) (repair func()) {
			s.cut.Store(true)
			s.board.hangUp()
			return func() { s.cut.Store(false) }
		},
	}
}

func (s *server) start() {
	s.states = memory.New(&memory.Options{Now: func() algo.Ticks { return algo.Ticks(s.now.Load()) }})
}

func (s *server) connect(testing.TB) limit.Store {
	c := &client{server: s, done: make(chan struct{})}
	c.update = c.send
	if s.fault.update != nil {
		c.update = s.fault.update(c.send)
	}
	if s.fault.wrap != nil {
		return s.fault.wrap(c)
	}
	return c
}

// commit is an update that gives each key which it changes a new version.
func (s *server) commit(ctx context.Context, keys []string, fn change) error {
	return s.states.Update(ctx, keys, func(now algo.Ticks, cells []limit.Cell) error {
		if err := fn(now, cells); err != nil {
			return err
		}
		for i := range cells {
			if cells[i].Dirty {
				s.touch(&cells[i])
			}
		}
		return nil
	})
}

// touch gives c a new version.
func (s *server) touch(c *limit.Cell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions == nil {
		s.versions = make(map[string]int64)
	}
	s.changes++
	s.versions[c.Key], c.Version = s.changes, s.changes
}

// version returns the one of c, as it was found.
func (s *server) version(c limit.Cell) int64 {
	if c.State.Equal(algo.State{}) {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[c.Key]
}

// client is a limit.Store and nothing more. What more a store may be is added
// in front of it.
type client struct {
	server *server
	update updater
	closed atomic.Bool
	done   chan struct{} // closed with it
}

type change = func(now algo.Ticks, cells []limit.Cell) error

type updater func(ctx context.Context, keys []string, fn change) error

var errCut = errors.New("connection reset")

// call does what is asked. It loses now the request and now the answer if the
// connection is cut.
func (c *client) call(op string, do func() error) error {
	switch {
	case c.closed.Load():
		return &limit.StoreError{Store: "remote", Op: op, Err: limit.ErrClosed}
	case !c.server.cut.Load():
		return do()
	}
	sent := rand.N(2) == 0
	if sent {
		if err := do(); err != nil {
			return err
		}
	}
	return &limit.StoreError{Store: "remote", Op: op, Sent: sent && c.server.fault.denies != op, Err: errCut}
}

func (c *client) Update(ctx context.Context, keys []string, fn change) error {
	return c.update(ctx, keys, fn)
}

func (c *client) send(ctx context.Context, keys []string, fn change) error {
	return c.call("update", func() error { return c.server.commit(ctx, keys, fn) })
}

func (c *client) Delete(ctx context.Context, keys ...string) error {
	return c.call("delete", func() error { return c.server.states.Delete(ctx, keys...) })
}

func (c *client) Ping(ctx context.Context) error {
	return c.call("ping", func() error { return c.server.states.Ping(ctx) })
}

func (c *client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	close(c.done)
	if c.server.fault.leaks {
		go func() { select {} }()
	}
	return nil
}

func TestRemoteStore(t *testing.T) {
	for name, add := range map[string]func(*client) limit.Store{
		"plain":              nil,
		"with swaps":         swapping(fairly),
		"with takes in bulk": taking(truly),
		"with everything":    everything,
		"scattered":          apart,
	} {
		t.Run(name, func(t *testing.T) {
			limittest.Run(t, (&server{fault: fault{wrap: add}}).harness())
		})
	}
}

func BenchmarkRemoteStore(b *testing.B) {
	limittest.Bench(b, (&server{fault: fault{wrap: everything}}).harness())
}
