package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/readahead"
)

// Ledger returns a [slots.Ledger] in the database of s, whose connections it
// uses. It ends with s.
//
// A transaction holds the lock of its config's row, and takes two trips, at best: one to
// begin, in which the windows that the last transaction has used are read, too,
// and one to commit. Between them is one for all other windows that its events begin
// to look in, and one for each run of full ones that this leads into.
func (s *Store) Ledger() slots.Ledger {
	return &ledger{store: s, sql: ledgerStatementsWith(s.opts.clock), outbox: outboxStatementsWith(s.opts.clock)}
}

// ledger is a [slots.Ledger].
type ledger struct {
	store  *Store
	sql    ledgerStatements
	outbox outboxStatements

	uses readahead.Uses
}

// fault returns err as op's. What was written may have been committed if sent.
func (l *ledger) fault(op string, err error, sent bool) error {
	if err == nil || errors.Is(err, slots.ErrNoConfig) || errors.Is(err, slots.ErrNoEvent) {
		return err
	}
	l.store.leaveStandby(err)
	return &slots.LedgerError{Store: name, Op: op, Sent: sent, Err: explain(err)}
}

// enter holds the store open for op, until leave is called.
func (l *ledger) enter(ctx context.Context, op string) (leave func(), err error) {
	if err := l.store.enter(ctx, op); err != nil {
		err = err.(*limit.StoreError).Err
		if err == limit.ErrClosed {
			err = slots.ErrClosed
		}
		return nil, &slots.LedgerError{Store: name, Op: op, Err: err}
	}
	return l.store.inside.RUnlock, nil
}

// Create implements [slots.Ledger].
func (l *ledger) Create(ctx context.Context, config string) error {
	leave, err := l.enter(ctx, "create")
	if err != nil {
		return err
	}
	defer leave()
	err = l.store.do(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, l.sql.create, []byte(config))
		return err
	})
	return l.fault("create", err, sent(err))
}

// Configs implements [slots.Ledger].
func (l *ledger) Configs(ctx context.Context, after string, limit int) (configs []slots.Config, err error) {
	err = l.read(ctx, "configs", func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, l.sql.configs, []byte(after), limit)
		if err != nil {
			return err
		}
		var config slots.Config
		var name []byte
		var specs []string
		_, err = pgx.ForEachRow(rows, []any{&name, &config.Revision, &config.PausedUntil, &specs}, func() (err error) {
			config.Name = string(name)
			config.Versions, err = versionsOf(specs)
			configs = append(configs, config)
			return err
		})
		return err
	})
	return configs, err
}

// Config implements [slots.Ledger].
func (l *ledger) Config(ctx context.Context, name string) (config slots.Config, now plan.Ticks, err error) {
	err = l.read(ctx, "config", func(c *pgx.Conn) error {
		var specs []string
		err := c.QueryRow(ctx, l.sql.config, []byte(name)).Scan(&config.Revision, &config.PausedUntil, &specs, &now)
		if errors.Is(err, pgx.ErrNoRows) {
			return slots.ErrNoConfig
		}
		if err != nil {
			return err
		}
		config.Name = name
		config.Versions, err = versionsOf(specs)
		return err
	})
	return config, now, err
}

// Event implements [slots.Ledger].
func (l *ledger) Event(ctx context.Context, config, id string) (event slots.Event, err error) {
	events, err := l.list(ctx, "event", config, l.sql.known, []byte(config), binary([]string{id}))
	if err == nil && len(events) == 0 {
		return slots.Event{}, slots.ErrNoEvent
	}
	if err != nil {
		return slots.Event{}, err
	}
	return events[0], nil
}

// Events implements [slots.Ledger].
func (l *ledger) Events(ctx context.Context, config string, q slots.Query) ([]slots.Event, error) {
	at, id := plan.Ticks(math.MinInt64), []byte{}
	if q.After != nil {
		at, id = q.After.At, []byte(q.After.ID)
	}
	return l.list(ctx, "events", config, l.sql.events, []byte(config), q.From, q.Until, at, id, q.Limit)
}

// list returns the events of a config that a query finds.
func (l *ledger) list(ctx context.Context, op, config, sql string, args ...any) (events []slots.Event, err error) {
	err = l.find(ctx, op, config, func(rows pgx.Rows) error {
		return eachEvent(rows, func(e slots.Event) { events = append(events, e) })
	}, sql, args...)
	return events, err
}

// Count implements [slots.Ledger].
func (l *ledger) Count(ctx context.Context, config string, from, step plan.Ticks, n int) ([]int64, error) {
	if step < 1 || n < 0 {
		return nil, l.fault("count", fmt.Errorf("%d spans of %d microseconds; 0 spans or more, of 1 or more are allowed", n, step), false)
	}
	until := plan.Ticks(math.MaxInt64)
	if plan.Ticks(n) <= (until-max(0, from))/step {
		until = from + plan.Ticks(n)*step
	}
	counts := make([]int64, n)
	err := l.find(ctx, "count", config, func(rows pgx.Rows) error {
		var i, count int64
		_, err := pgx.ForEachRow(rows, []any{&i, &count}, func() error {
			counts[i] = count
			return nil
		})
		return err
	}, l.sql.count, []byte(config), from, step, until)
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// find has f read what a query finds of a config, if there is one, in one trip.
func (l *ledger) find(ctx context.Context, op, config string, f func(pgx.Rows) error, sql string, args ...any) error {
	return l.read(ctx, op, func(c *pgx.Conn) error {
		var batch pgx.Batch
		batch.Queue(l.sql.exists, []byte(config)).QueryRow(func(row pgx.Row) error {
			var id int32
			err := row.Scan(&id)
			if errors.Is(err, pgx.ErrNoRows) {
				return slots.ErrNoConfig
			}
			return err
		})
		batch.Queue(sql, args...).Query(f)
		return c.SendBatch(ctx, &batch).Close()
	})
}

// read calls f, which writes nothing, with a connection.
func (l *ledger) read(ctx context.Context, op string, f func(c *pgx.Conn) error) error {
	leave, err := l.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	return l.fault(op, l.store.do(ctx, f), false)
}

// eachEvent calls f with the events that rows tell of.
func eachEvent(rows pgx.Rows, f func(slots.Event)) error {
	var e slots.Event
	var id []byte
	_, err := pgx.ForEachRow(rows, []any{&id, &e.Requested, &e.Era, &e.Window, &e.Phase, &e.At, &e.Booked, &e.Cancelled}, func() error {
		e.ID = string(id)
		f(e)
		return nil
	})
	return err
}

// versionsOf reads what a config's versions were written as.
func versionsOf(specs []string) ([]slots.Version, error) {
	versions := make([]slots.Version, len(specs))
	for i, spec := range specs {
		if err := json.Unmarshal([]byte(spec), &versions[i]); err != nil {
			return nil, fmt.Errorf("version %d of the config: %w", i, err)
		}
	}
	return versions, nil
}
