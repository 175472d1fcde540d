package mysql

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"sync"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/readahead"
)

// ledgerTx is a [slots.Tx].
//
// Whoever stops in the middle of it, with the network between gone or the process
// halted, does not keep its lock for ever: while it is under way the server ends a
// connection that says nothing for longer than the context of Begin would allow.
type ledgerTx struct {
	ledger *ledger
	ctx    context.Context // of Begin
	id     int64           // of the config; 0 if there is none
	config *slots.Config
	now    plan.Ticks
	known  map[string]slots.Event

	ahead readahead.Ahead // what Load need not ask the server for
	runs  map[int]*runs   // what is known of the runs of each era
	used  readahead.Use   // what it was asked for

	// mu is held by whoever uses conn, which is nil after the end.
	mu   sync.Mutex
	conn *conn
	// forget ends the watch over ctx.
	forget func() bool
}

// Begin implements [slots.Ledger], in one trip.
func (l *ledger) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	leave, err := l.enter(ctx, "begin")
	if err != nil {
		return nil, err
	}
	defer leave()
	for tries := 0; ; tries++ {
		c, err := l.store.acquire(ctx)
		if err != nil {
			return nil, l.fault("begin", err, false)
		}
		t := &ledgerTx{ledger: l, ctx: ctx, conn: c, runs: make(map[int]*runs)}
		err = t.begin(config, ids, cached)
		for again(err) { // the server ends a wait after a second
			if err = ctx.Err(); err == nil {
				err = t.begin(config, ids, cached)
			}
		}
		if err == nil {
			l.store.background.Add(1)
			t.mu.Lock() // the context may end at any time
			t.forget = context.AfterFunc(ctx, t.Rollback)
			t.mu.Unlock()
			return t, nil
		}
		t.leave()
		// The server may have closed the connection, which the pool did not know.
		if !errors.Is(err, driver.ErrBadConn) || tries == l.store.opts.PoolSize {
			return nil, l.fault("begin", err, false)
		}
	}
}

// begin locks the config, then reads the clock, and then everything else.
func (t *ledgerTx) begin(config string, ids []string, cached *slots.Config) error {
	t.id, t.known, t.config = 0, nil, &slots.Config{Name: config}
	revision := int64(-1)
	if cached != nil {
		revision = cached.Revision
	}
	var s script
	s.do("START TRANSACTION")
	s.do("SET SESSION wait_timeout = ", decimal(t.patience()))
	s.ask(func(row []driver.Value) error {
		t.id = row[0].(int64)
		t.config.Revision, t.config.PausedUntil = row[1].(int64), plan.Ticks(row[2].(int64))
		return nil
	}, "SELECT id, revision, paused_until FROM stint_slot_config WHERE name = ", hexed(config), " FOR UPDATE")
	s.ask(func(row []driver.Value) error {
		t.now = plan.Ticks(row[0].(int64))
		return nil
	}, "SELECT ", t.ledger.store.opts.lateClock)
	s.ask(func(row []driver.Value) error { return addVersion(t.config, row) },
		"SELECT revision, paused_until, spec FROM stint_slot_config AS c JOIN stint_slot_version AS v ON v.config = c.id",
		" WHERE c.name = ", hexed(config), " AND revision <> ", decimal(revision), " ORDER BY v.n")
	last := t.ledger.uses.Last(config)
	read := reading{config: last.Config, need: last.Guess(len(ids), cached)}
	if read.need.Windows > 0 {
		s.load(&read)
	}
	for i, page := range pages(ids) {
		if i > 0 {
			s = script{}
		}
		if len(page) > 0 {
			s.known(config, page, t.knows)
		}
		if err := t.conn.run(t.ctx, &s); err != nil {
			return err
		}
	}
	if t.id == 0 {
		return slots.ErrNoConfig
	}
	if cached != nil && t.config.Revision == cached.Revision {
		t.config = cached
	}
	if read.need.Windows > 0 && last.Config == t.id {
		found, _ := read.settle()
		t.read(found)
	}
	return nil
}

func (t *ledgerTx) knows(e slots.Event) {
	if t.known == nil {
		t.known = make(map[string]slots.Event)
	}
	t.known[e.ID] = e
}

// patience returns for how many seconds t may say nothing.
func (t *ledgerTx) patience() int {
	const most = 30 // also where the context has no end
	if end, ok := t.ctx.Deadline(); ok {
		return int(min(most, max(0, time.Until(end).Seconds())+1))
	}
	return most
}

// Now implements [slots.Tx].
func (t *ledgerTx) Now() plan.Ticks { return t.now }

// Config implements [slots.Tx].
func (t *ledgerTx) Config() *slots.Config { return t.config }

// Known implements [slots.Tx].
func (t *ledgerTx) Known() map[string]slots.Event { return t.known }

// Write implements [slots.Tx].
func (t *ledgerTx) Write(c *slots.Changes) error {
	t.ahead.Forget()
	err := t.do(func(conn *conn) error {
		w := writer{t: t, conn: conn}
		w.changes(c)
		return w.send()
	})
	return t.ledger.fault("write", err, false)
}

// Commit implements [slots.Tx], in one trip.
func (t *ledgerTx) Commit(c *slots.Changes) error {
	committing := false
	err := t.do(func(conn *conn) error {
		w := writer{t: t, conn: conn}
		if c != nil {
			w.changes(c)
		}
		w.text.add(restoreIdle, "; COMMIT")
		committing = w.err == nil
		return w.send()
	})
	if err == nil {
		if c != nil {
			t.ledger.uses.Remember(t.config.Name, t.used, c)
		}
		t.end(func() { t.conn.Close() })
	}
	return t.ledger.fault("commit", err, committing && sent(err))
}

// restoreIdle undoes what begin has set, see settings.
const restoreIdle = "SET SESSION wait_timeout = @idle"

// Rollback implements [slots.Tx].
func (t *ledgerTx) Rollback() { t.end(t.leave) }

// end ends t by a function, unless it has ended.
func (t *ledgerTx) end(by func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return
	}
	by()
	t.forget()
	t.conn = nil
	t.ledger.store.background.Done()
}

// leave gives the connection back, without a transaction.
func (t *ledgerTx) leave() {
	t.conn.rollback(t.ctx, restoreIdle)
	t.conn.Close()
}

// do calls f with the connection. If that fails, so has the transaction: of what
// was to be done, some may be.
func (t *ledgerTx) do(f func(c *conn) error) error {
	t.mu.Lock()
	if t.conn == nil || t.ctx.Err() != nil {
		t.mu.Unlock()
		return cmp.Or(t.ctx.Err(), errEnded)
	}
	err := f(t.conn)
	t.mu.Unlock()
	if err != nil {
		t.Rollback()
	}
	return err
}

var errEnded = errors.New("the transaction has ended")
