package mysql

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/readahead"
)

// Ledger returns a [slots.Ledger] in the database of s, whose connections it
// uses. It ends with s, and Close of s waits for its transactions.
//
// A transaction holds the lock of its config's row, and takes two trips, at best: one to
// begin, in which the windows that the last transaction has used are read, too,
// and one to commit. Between them is one for all other windows that its events begin
// to look in, and one for each run of full ones that this leads into. Lists of ids,
// and changes, of more than about a megabyte take more.
func (s *Store) Ledger() slots.Ledger {
	return &ledger{store: s}
}

// ledger is a [slots.Ledger].
type ledger struct {
	store *Store
	uses  readahead.Uses
}

// fault returns err as op's. What was written may have been committed if sent.
func (l *ledger) fault(op string, err error, sent bool) error {
	if err == nil || errors.Is(err, slots.ErrNoConfig) || errors.Is(err, slots.ErrNoEvent) {
		return err
	}
	l.store.leaveReplica(err)
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

// Create implements [slots.Ledger]. It waits for no transaction of a config that
// there is.
func (l *ledger) Create(ctx context.Context, config string) error {
	leave, err := l.enter(ctx, "create")
	if err != nil {
		return err
	}
	defer leave()
	creating := false
	err = l.store.do(ctx, func(c *conn) error {
		for {
			err := c.create(ctx, config, &creating)
			if !again(err) {
				return err
			}
		}
	})
	return l.fault("create", err, creating && sent(err))
}

// create makes a config if it finds none. creating says that it tries to.
func (c *conn) create(ctx context.Context, config string, creating *bool) error {
	var t script
	found := false
	t.ask(func([]driver.Value) error {
		found = true
		return nil
	}, configID, hexed(config))
	if err := c.run(ctx, &t); err != nil || found {
		return err
	}
	*creating = true
	err := c.exec(ctx, "INSERT INTO stint_slot_config (name, revision, paused_until) VALUES ("+hexed(config)+", 0, 0)")
	if number(err) == duplicate {
		return nil // somebody else was faster
	}
	return err
}

// Configs implements [slots.Ledger].
func (l *ledger) Configs(ctx context.Context, after string, limit int) (configs []slots.Config, err error) {
	err = l.read(ctx, "configs", func(c *conn) error {
		configs = nil
		var t script
		t.ask(func(row []driver.Value) error {
			n := len(configs)
			if name := row[0].([]byte); n == 0 || configs[n-1].Name != string(name) {
				configs = append(configs, slots.Config{Name: string(name)})
				n++
			}
			return addVersion(&configs[n-1], row[1:])
		}, `SELECT c.name, revision, paused_until, spec FROM (
	SELECT id, name, revision, paused_until FROM stint_slot_config AS c
	WHERE name > `, hexed(after), ` AND EXISTS (SELECT 1 FROM stint_slot_version AS v WHERE v.config = c.id)
	ORDER BY name LIMIT `, decimal(limit), `
) AS c JOIN stint_slot_version AS v ON v.config = c.id ORDER BY c.name, v.n`)
		return c.run(ctx, &t)
	})
	return configs, err
}

// Config implements [slots.Ledger].
func (l *ledger) Config(ctx context.Context, name string) (config slots.Config, now plan.Ticks, err error) {
	err = l.read(ctx, "config", func(c *conn) error {
		config = slots.Config{}
		var t script
		t.ask(func(row []driver.Value) error { return addVersion(&config, row) },
			"SELECT revision, paused_until, spec FROM stint_slot_config AS c JOIN stint_slot_version AS v ON v.config = c.id",
			" WHERE c.name = ", hexed(name), " ORDER BY v.n")
		t.ask(func(row []driver.Value) error {
			now = plan.Ticks(row[0].(int64))
			return nil
		}, "SELECT ", l.store.opts.lateClock)
		if err := c.run(ctx, &t); err != nil {
			return err
		}
		if len(config.Versions) == 0 {
			return slots.ErrNoConfig
		}
		config.Name = name
		return nil
	})
	return config, now, err
}

// addVersion adds to a config what a row has: its revision, until when it is
// paused, and a version.
func addVersion(c *slots.Config, row []driver.Value) error {
	c.Revision, c.PausedUntil = row[0].(int64), plan.Ticks(row[1].(int64))
	var v slots.Version
	if err := json.Unmarshal(row[2].([]byte), &v); err != nil {
		return fmt.Errorf("version %d of the config: %w", len(c.Versions), err)
	}
	c.Versions = append(c.Versions, v)
	return nil
}

// Event implements [slots.Ledger].
func (l *ledger) Event(ctx context.Context, config, id string) (event slots.Event, err error) {
	found := false
	err = l.find(ctx, "event", config, func(t *script) {
		found = false
		t.known(config, []string{id}, func(e slots.Event) {
			if !found { // it may have been cancelled just now
				event, found = e, true
			}
		})
	})
	if err == nil && !found {
		err = slots.ErrNoEvent
	}
	return event, err
}

// Events implements [slots.Ledger].
func (l *ledger) Events(ctx context.Context, config string, q slots.Query) (events []slots.Event, err error) {
	from, after, id := q.From, plan.Ticks(math.MinInt64), ""
	if q.After != nil {
		from, after, id = max(q.From, q.After.At), q.After.At, q.After.ID
	}
	err = l.find(ctx, "events", config, func(t *script) {
		events = nil
		t.ask(eachEvent(func(e slots.Event) { events = append(events, e) }),
			"SELECT ", eventColumns, ", 0", in("stint_slot", "at", config),
			" AND e.at >= ", decimal(from), " AND e.at < ", decimal(q.Until),
			" AND (e.at > ", decimal(after), " OR e.event > ", hexed(id), ")",
			" ORDER BY e.at, e.event LIMIT ", decimal(q.Limit))
	})
	return events, err
}

// Count implements [slots.Ledger].
func (l *ledger) Count(ctx context.Context, config string, from, step plan.Ticks, n int) (counts []int64, err error) {
	if step < 1 || n < 0 {
		return nil, l.fault("count", fmt.Errorf("%d spans of %d microseconds; 0 spans or more, of 1 or more are allowed", n, step), false)
	}
	until := plan.Ticks(math.MaxInt64)
	if plan.Ticks(n) <= (until-max(0, from))/step {
		until = from + plan.Ticks(n)*step
	}
	err = l.find(ctx, "count", config, func(t *script) {
		counts = make([]int64, n)
		t.ask(func(row []driver.Value) error {
			counts[row[0].(int64)] = row[1].(int64)
			return nil
		}, "SELECT (e.at - ", decimal(from), ") DIV ", decimal(step), " AS i, COUNT(*)", in("stint_slot", "at", config),
			" AND e.at >= ", decimal(from), " AND e.at < ", decimal(until), " GROUP BY i ORDER BY NULL")
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// find runs what ask adds to a script, which writes nothing, if there is the config.
func (l *ledger) find(ctx context.Context, op, config string, ask func(t *script)) error {
	return l.read(ctx, op, func(c *conn) error {
		var t script
		found := false
		t.ask(func([]driver.Value) error {
			found = true
			return nil
		}, configID, hexed(config))
		ask(&t)
		err := c.run(ctx, &t)
		if err == nil && !found {
			return slots.ErrNoConfig
		}
		return err
	})
}

// read calls f, which writes nothing, with a connection.
func (l *ledger) read(ctx context.Context, op string, f func(c *conn) error) error {
	leave, err := l.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	return l.fault(op, l.store.do(ctx, f), false)
}
