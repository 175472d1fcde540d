package slotstest_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/slotstest"
)

// server is a database as the suite sees one: data that outlive their clients, a
// clock that can be set, and a connection that can be cut.
type server struct {
	data  *slotstest.Memory
	now   atomic.Int64
	cut   atomic.Bool
	fault faultyLedger // of its clients
}

// faultyLedger puts a mistake in front of a ledger.
type faultyLedger func(s *server, l slots.Ledger) slots.Ledger

func (s *server) clock() plan.Ticks { return plan.Ticks(s.now.Load()) }

func (s *server) harness() slotstest.Harness {
	s.now.Store(time.Date(2026, 1, 14, 8, 0, 0, 0, time.UTC).UnixMicro())
	return slotstest.Harness{
		Open: func(t testing.TB) (slots.Ledger, io.Closer) {
			s.data = slotstest.NewMemory(s.clock)
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

func (s *server) connect(testing.TB) (slots.Ledger, io.Closer) {
	c := &client{server: s, Memory: s.data}
	if s.fault == nil {
		return c, c
	}
	l := s.fault(s, c)
	if store, ok := l.(io.Closer); ok {
		return l, store
	}
	return l, c
}

// client is a Ledger at the other end of a connection.
type client struct {
	*slotstest.Memory
	server *server
	closed atomic.Bool
}

func (c *client) Close() error {
	c.closed.Store(true)
	return nil
}

var errCut = errors.New("connection reset")

// call returns why nothing can be asked of the server.
func (c *client) call(op string) error {
	if c.closed.Load() {
		return &slots.LedgerError{Store: "remote", Op: op, Err: slots.ErrClosed}
	}
	if c.server.cut.Load() {
		return &slots.LedgerError{Store: "remote", Op: op, Err: errCut}
	}
	return nil
}

func (c *client) Create(ctx context.Context, config string) error {
	if err := c.call("create"); err != nil {
		return err
	}
	return c.Memory.Create(ctx, config)
}

func (c *client) Configs(ctx context.Context, after string, limit int) ([]slots.Config, error) {
	if err := c.call("configs"); err != nil {
		return nil, err
	}
	return c.Memory.Configs(ctx, after, limit)
}

func (c *client) Config(ctx context.Context, name string) (slots.Config, plan.Ticks, error) {
	if err := c.call("config"); err != nil {
		return slots.Config{}, 0, err
	}
	return c.Memory.Config(ctx, name)
}

func (c *client) Event(ctx context.Context, config, id string) (slots.Event, error) {
	if err := c.call("event"); err != nil {
		return slots.Event{}, err
	}
	return c.Memory.Event(ctx, config, id)
}

func (c *client) Events(ctx context.Context, config string, q slots.Query) ([]slots.Event, error) {
	if err := c.call("events"); err != nil {
		return nil, err
	}
	return c.Memory.Events(ctx, config, q)
}

func (c *client) Count(ctx context.Context, config string, from, step plan.Ticks, n int) ([]int64, error) {
	if err := c.call("count"); err != nil {
		return nil, err
	}
	return c.Memory.Count(ctx, config, from, step, n)
}

func (c *client) Claim(ctx context.Context, claim slots.Claim) ([]slots.Delivery, plan.Ticks, error) {
	if err := c.call("claim"); err != nil {
		return nil, 0, err
	}
	return c.Memory.Claim(ctx, claim)
}

func (c *client) Settle(ctx context.Context, config string, settled []slots.Settled) error {
	if err := c.call("settle"); err != nil {
		return err
	}
	return c.Memory.Settle(ctx, config, settled)
}

func (c *client) Dead(ctx context.Context, config string, after *slots.Delivery, limit int) ([]slots.Delivery, error) {
	if err := c.call("dead"); err != nil {
		return nil, err
	}
	return c.Memory.Dead(ctx, config, after, limit)
}

func (c *client) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	if err := c.call("begin"); err != nil {
		return nil, err
	}
	tx, err := c.Memory.Begin(ctx, config, ids, cached)
	if err != nil {
		return nil, err
	}
	return &remoteTx{tx.(slots.OutboxTx), c}, nil
}

type remoteTx struct {
	slots.OutboxTx
	client *client
}

// Commit loses now the request and now the answer if the connection is cut.
func (t *remoteTx) Commit(c *slots.Changes) error {
	err := t.client.call("commit")
	if err == nil {
		travel()
		err = t.client.call("commit")
	}
	if err == nil {
		return t.OutboxTx.Commit(c)
	}
	if errors.Is(err, errCut) && rand.IntN(2) == 0 {
		if err := t.OutboxTx.Commit(c); err != nil {
			return err
		}
		return &slots.LedgerError{Store: "remote", Op: "commit", Sent: true, Err: errCut}
	}
	return err
}

// travel takes as long as a network may, so that others get between.
func travel() { time.Sleep(rand.N(300 * time.Microsecond)) }
