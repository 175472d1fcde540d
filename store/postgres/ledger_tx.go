package postgres

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/readahead"
)

// ledgerTx is a [slots.Tx].
type ledgerTx struct {
	ledger *ledger
	ctx    context.Context // of Begin
	id     int64           // of the config
	config *slots.Config
	now    plan.Ticks
	known  map[string]slots.Event
	// versions is how many the config has, with those that were written.
	versions int

	ahead readahead.Ahead // what Load need not ask the server for
	used  readahead.Use   // what it was asked for

	// mu is held by whoever uses conn, which is nil after the end, or forget,
	// which ends the watch over ctx.
	mu     sync.Mutex
	conn   *pgxpool.Conn
	forget func() bool
}

// Begin implements [slots.Ledger], in one trip.
func (l *ledger) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	leave, err := l.enter(ctx, "begin")
	if err != nil {
		return nil, err
	}
	defer leave()
	conn, err := l.store.acquire(ctx)
	if err != nil {
		return nil, l.fault("begin", err, false)
	}
	t := &ledgerTx{ledger: l, ctx: ctx, conn: conn}
	if err := t.begin(config, ids, cached); err != nil {
		t.Rollback()
		return nil, l.fault("begin", err, false)
	}
	t.mu.Lock() // the context may end at any time
	defer t.mu.Unlock()
	t.forget = context.AfterFunc(ctx, t.Rollback)
	return t, nil
}

func (t *ledgerTx) begin(config string, ids []string, cached *slots.Config) error {
	name, sql := []byte(config), &t.ledger.sql
	t.config = &slots.Config{Name: config}
	var batch pgx.Batch
	batch.Queue("BEGIN")
	batch.Queue(sql.hold, name).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&t.id, &t.config.Revision, &t.config.PausedUntil, &t.now)
		if errors.Is(err, pgx.ErrNoRows) {
			return slots.ErrNoConfig
		}
		return err
	})
	revision := int64(-1)
	if cached != nil {
		revision = cached.Revision
	}
	batch.Queue(sql.versions, name, revision).Query(func(rows pgx.Rows) error {
		specs, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err == nil {
			t.config.Versions, err = versionsOf(specs)
		}
		return err
	})
	if len(ids) > 0 {
		batch.Queue(sql.known, name, binary(ids)).Query(func(rows pgx.Rows) error {
			return eachEvent(rows, func(e slots.Event) {
				if t.known == nil {
					t.known = make(map[string]slots.Event)
				}
				t.known[e.ID] = e
			})
		})
	}
	last := t.ledger.uses.Last(config)
	guess := last.Guess(len(ids), cached)
	var found readahead.Windows
	if guess.Windows > 0 {
		queueLoad(&batch, sql, last.Config, guess, &found)
	}
	if err := t.conn.Conn().SendBatch(t.ctx, &batch).Close(); err != nil {
		return err
	}
	if cached != nil && t.config.Revision == cached.Revision {
		t.config = cached
	}
	t.versions = len(t.config.Versions)
	if last.Config == t.id {
		t.ahead.Read(found)
	}
	return nil
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
	err := t.do(func(conn *pgx.Conn) error {
		var batch pgx.Batch
		if err := t.queue(&batch, c); err != nil {
			return err
		}
		return conn.SendBatch(t.ctx, &batch).Close()
	})
	return t.ledger.fault("write", err, false)
}

// Commit implements [slots.Tx], in one trip.
func (t *ledgerTx) Commit(c *slots.Changes) error {
	committing := false
	err := t.do(func(conn *pgx.Conn) error {
		var batch pgx.Batch
		if c != nil {
			if err := t.queue(&batch, c); err != nil {
				return err
			}
		}
		var outcome string
		batch.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
			outcome = tag.String()
			return nil
		})
		committing = true
		err := conn.SendBatch(t.ctx, &batch).Close()
		if err == nil && outcome != "COMMIT" {
			committing = false // it had failed before, and the server rolls it back
			err = errFailed
		}
		return err
	})
	if err == nil && c != nil {
		t.ledger.uses.Remember(t.config.Name, t.used, c)
	}
	t.Rollback()
	return t.ledger.fault("commit", err, committing && sent(err))
}

// Rollback implements [slots.Tx]. It gives the connection back, in any case.
func (t *ledgerTx) Rollback() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return
	}
	if t.forget != nil {
		t.forget()
	}
	if c := t.conn.Conn(); !c.IsClosed() && c.PgConn().TxStatus() != idle {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), rollbackTime)
		defer cancel()
		c.Exec(ctx, "ROLLBACK") // if it fails the connection is closed, which does the same
	}
	t.conn.Release()
	t.conn = nil
}

const (
	idle = 'I' // no transaction is under way
	// rollbackTime bounds a rollback.
	rollbackTime = time.Second
)

// do calls f with the connection.
func (t *ledgerTx) do(f func(c *pgx.Conn) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil {
		return cmp.Or(t.ctx.Err(), errEnded)
	}
	return f(t.conn.Conn())
}

var (
	errEnded  = errors.New("the transaction has ended")
	errFailed = errors.New("something in the transaction had failed")
)
