package limittest_test

import (
	"context"
	"errors"
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
	calls  atomic.Int64
	fault  fault // of its clients
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
			return func() { s.cut.Store(false) }
		},
	}
}

func (s *server) start() {
	s.states = memory.New(&memory.Options{Now: func() algo.Ticks { return algo.Ticks(s.now.Load()) }})
}

func (s *server) connect(testing.TB) limit.Store {
	c := &client{server: s}
	c.update = c.send
	if s.fault.update != nil {
		c.update = s.fault.update(c.send)
	}
	if s.fault.wrap != nil {
		return s.fault.wrap(c)
	}
	return c
}

// client is a limit.Store and nothing more.
type client struct {
	server *server
	update updater
	closed atomic.Bool
}

type change = func(now algo.Ticks, cells []limit.Cell) error

type updater func(ctx context.Context, keys []string, fn change) error

func (c *client) Update(ctx context.Context, keys []string, fn change) error {
	if c.closed.Load() {
		return &limit.StoreError{Store: "remote", Op: "update", Err: limit.ErrClosed}
	}
	return c.update(ctx, keys, fn)
}

var errCut = errors.New("connection reset")

// send loses now the request and now the answer if the connection is cut.
func (c *client) send(ctx context.Context, keys []string, fn change) error {
	if !c.server.cut.Load() {
		return c.server.states.Update(ctx, keys, fn)
	}
	sent := c.server.calls.Add(1)%2 == 0
	if sent {
		if err := c.server.states.Update(ctx, keys, fn); err != nil {
			return err
		}
	}
	return &limit.StoreError{Store: "remote", Op: "update", Sent: sent && !c.server.fault.denies, Err: errCut}
}

func (c *client) Delete(ctx context.Context, keys ...string) error {
	if c.closed.Load() {
		return &limit.StoreError{Store: "remote", Op: "delete", Err: limit.ErrClosed}
	}
	return c.server.states.Delete(ctx, keys...)
}

func (c *client) Ping(ctx context.Context) error {
	switch {
	case c.closed.Load():
		return &limit.StoreError{Store: "remote", Op: "ping", Err: limit.ErrClosed}
	case c.server.cut.Load():
		return &limit.StoreError{Store: "remote", Op: "ping", Err: errCut}
	}
	return c.server.states.Ping(ctx)
}

func (c *client) Close() error {
	if !c.closed.Swap(true) && c.server.fault.leaks {
		go func() { select {} }()
	}
	return nil
}

func TestRemoteStore(t *testing.T) { limittest.Run(t, new(server).harness()) }
