package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// ledgerTx is a [slots.Tx].
type ledgerTx struct {
	ledger *ledger
	ctx    context.Context // of Begin
	id     int64           // of the config
	config *slots.Config
	now    plan.Ticks
	known  map[string]slots.Event

	// mu is held by whoever uses tx, which is nil after the end.
	mu     sync.Mutex
	tx     *sql.Tx
	failed bool // something that was to be written
	// leave gives back the connection and the store, forget ends the watch over
	// ctx.
	leave  func()
	forget func() bool
}

// Begin implements [slots.Ledger].
func (l *ledger) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	leave, err := l.enter(ctx, "begin")
	if err != nil {
		return nil, err
	}
	tx, giveBack, err := l.store.beginDurable(ctx)
	if err != nil {
		leave()
		return nil, ledgerFault("begin", false, err)
	}
	t := &ledgerTx{ledger: l, ctx: ctx, now: l.now(), tx: tx, leave: func() { giveBack(); leave() }}
	if err := t.read(config, ids, cached); err != nil {
		t.Rollback()
		return nil, ledgerFault("begin", false, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget = context.AfterFunc(ctx, t.Rollback)
	return t, nil
}

// beginDurable is begin for a transaction that is on the disk when it is committed.
// giveBack is to be called after its end.
func (s *Store) beginDurable(ctx context.Context) (tx *sql.Tx, giveBack func(), err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	giveBack = func() { conn.Close() }
	// What is under way is left to end: to break it off would cost the connection.
	whole := context.WithoutCancel(ctx)
	if !s.opts.Full {
		if _, err := conn.ExecContext(whole, "PRAGMA synchronous = FULL"); err != nil {
			conn.Close()
			return nil, nil, err
		}
		giveBack = func() {
			if _, err := conn.ExecContext(whole, "PRAGMA synchronous = NORMAL"); err != nil {
				conn.Raw(func(any) error { return driver.ErrBadConn })
			}
			conn.Close()
		}
	}
	err = s.retry(ctx, func() error {
		tx, err = conn.BeginTx(whole, nil)
		return err
	})
	if err != nil {
		giveBack()
		return nil, nil, err
	}
	return tx, giveBack, nil
}

// read reads what a transaction begins with.
func (t *ledgerTx) read(config string, ids []string, cached *slots.Config) error {
	stmts := &t.ledger.store.ledger
	c := slots.Config{Name: config}
	found := false
	err := t.each(stmts.config, []any{config}, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(&t.id, &c.Revision, &c.PausedUntil)
	})
	if err == nil && !found {
		err = slots.ErrNoConfig
	}
	if err != nil {
		return err
	}
	if t.config = cached; cached == nil || cached.Revision != c.Revision {
		t.config = &c
		err := t.each(stmts.versions, []any{t.id}, func(rows *sql.Rows) error {
			var spec string
			if err := rows.Scan(&spec); err != nil {
				return err
			}
			v, err := versionOf(spec)
			c.Versions = append(c.Versions, v)
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	t.known = make(map[string]slots.Event)
	return t.each(stmts.known, []any{t.id, jsonOf(ids)}, func(rows *sql.Rows) error {
		e, err := scanEvent(rows)
		t.known[e.ID] = e
		return err
	})
}

// Now implements [slots.Tx].
func (t *ledgerTx) Now() plan.Ticks { return t.now }

// Config implements [slots.Tx].
func (t *ledgerTx) Config() *slots.Config { return t.config }

// Known implements [slots.Tx].
func (t *ledgerTx) Known() map[string]slots.Event { return t.known }

// Write implements [slots.Tx].
func (t *ledgerTx) Write(c *slots.Changes) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return ledgerFault("write", false, t.write(c))
}

func (t *ledgerTx) write(c *slots.Changes) error {
	if err := t.open(); err != nil {
		return err
	}
	err := t.apply(c)
	t.failed = t.failed || err != nil
	return err
}

// Commit implements [slots.Tx].
func (t *ledgerTx) Commit(c *slots.Changes) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.end()
	if err := t.open(); err != nil {
		return ledgerFault("commit", false, err)
	}
	if t.failed {
		return ledgerFault("commit", false, errFailed)
	}
	if c != nil {
		if err := t.write(c); err != nil {
			return ledgerFault("commit", false, err)
		}
	}
	return ledgerFault("commit", true, t.tx.Commit())
}

// Rollback implements [slots.Tx].
func (t *ledgerTx) Rollback() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end()
}

// open returns why the transaction is over, if it is.
func (t *ledgerTx) open() error {
	if t.tx == nil {
		return cmp.Or(t.ctx.Err(), errEnded)
	}
	return t.ctx.Err()
}

// end rolls back what was not committed.
func (t *ledgerTx) end() {
	if t.tx == nil {
		return
	}
	if t.forget != nil {
		t.forget()
	}
	t.tx.Rollback()
	t.tx = nil
	t.leave()
}

var (
	errEnded  = errors.New("the transaction has ended")
	errFailed = errors.New("something in the transaction had failed")
)

// stmt returns a statement of the transaction.
func (t *ledgerTx) stmt(s *sql.Stmt) *sql.Stmt { return t.tx.Stmt(s) }

// each calls row with each row that a statement finds.
func (t *ledgerTx) each(s *sql.Stmt, args []any, row func(*sql.Rows) error) error {
	found, err := t.stmt(s).Query(args...)
	if err != nil {
		return err
	}
	return each(found, row)
}

func (t *ledgerTx) exec(s *sql.Stmt, args ...any) error {
	_, err := t.stmt(s).Exec(args...)
	return err
}
