package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// Ledger returns a [slots.Ledger] in the file of s. It ends with s.
//
// SQLite has one writer at a time: a transaction holds the locks of all configs,
// and whoever uses s waits for it. What it commits is on the disk: a slot that was
// given is kept also if the machine loses power, whether Options.Full is set or
// not.
func (s *Store) Ledger() slots.Ledger { return &ledger{s} }

// ledger is a [slots.Ledger].
type ledger struct{ store *Store }

// ledgerFault returns err as op's, unless it is the caller's. What was written may
// have been committed if sent.
func ledgerFault(op string, sent bool, err error) error {
	if err == nil || errors.Is(err, slots.ErrNoConfig) || errors.Is(err, slots.ErrNoEvent) {
		return err
	}
	return &slots.LedgerError{Store: "sqlite", Op: op, Sent: sent, Err: err}
}

// enter holds the store open for op, until leave is called.
func (l *ledger) enter(ctx context.Context, op string) (leave func(), err error) {
	if err := l.store.enter(ctx, op, nil); err != nil {
		err = errors.Unwrap(err)
		if errors.Is(err, limit.ErrClosed) {
			err = slots.ErrClosed
		}
		return nil, ledgerFault(op, false, err)
	}
	return l.store.inside.RUnlock, nil
}

func (l *ledger) now() plan.Ticks { return plan.Ticks(l.store.opts.Now()) }

// Create implements [slots.Ledger].
func (l *ledger) Create(ctx context.Context, config string) error {
	leave, err := l.enter(ctx, "create")
	if err != nil {
		return err
	}
	defer leave()
	tx, err := l.store.begin(ctx)
	if err != nil {
		return ledgerFault("create", false, err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO stint_slot_config (name, revision, paused_until) VALUES (?, 0, 0) ON CONFLICT (name) DO NOTHING", config); err != nil {
		return ledgerFault("create", false, err)
	}
	return ledgerFault("create", true, tx.Commit())
}

// Configs implements [slots.Ledger].
func (l *ledger) Configs(ctx context.Context, after string, limit int) (configs []slots.Config, err error) {
	const some = `
SELECT name, revision, paused_until, spec FROM stint_slot_version JOIN stint_slot_config ON id = config
WHERE name IN (
	SELECT name FROM stint_slot_config
	WHERE name > ? AND EXISTS (SELECT 1 FROM stint_slot_version WHERE config = id)
	ORDER BY name LIMIT ?
) ORDER BY name, n`
	err = l.query(ctx, "configs", some, []any{after, limit}, func(rows *sql.Rows) error {
		return addVersion(&configs, rows)
	})
	return configs, err
}

// addVersion reads one version of a config, which is the last one or new.
func addVersion(configs *[]slots.Config, rows *sql.Rows) error {
	var c slots.Config
	var spec string
	if err := rows.Scan(&c.Name, &c.Revision, &c.PausedUntil, &spec); err != nil {
		return err
	}
	if n := len(*configs); n == 0 || (*configs)[n-1].Name != c.Name {
		*configs = append(*configs, c)
	}
	last := &(*configs)[len(*configs)-1]
	v, err := versionOf(spec)
	last.Versions = append(last.Versions, v)
	return err
}

func versionOf(spec string) (v slots.Version, err error) {
	err = json.Unmarshal([]byte(spec), &v)
	return v, err
}

// Config implements [slots.Ledger].
func (l *ledger) Config(ctx context.Context, name string) (slots.Config, plan.Ticks, error) {
	const one = `
SELECT name, revision, paused_until, spec FROM stint_slot_version JOIN stint_slot_config ON id = config
WHERE name = ? ORDER BY n`
	var configs []slots.Config
	err := l.query(ctx, "config", one, []any{name}, func(rows *sql.Rows) error {
		return addVersion(&configs, rows)
	})
	if err == nil && len(configs) == 0 {
		err = slots.ErrNoConfig
	}
	if err != nil {
		return slots.Config{}, 0, err
	}
	return configs[0], l.now(), nil
}

// Event implements [slots.Ledger].
func (l *ledger) Event(ctx context.Context, config, id string) (slots.Event, error) {
	events, err := l.events(ctx, "event", config, knownEvents, jsonOf([]string{id}))
	if err == nil && len(events) == 0 {
		err = slots.ErrNoEvent
	}
	if err != nil {
		return slots.Event{}, err
	}
	return events[0], nil
}

// Events implements [slots.Ledger].
func (l *ledger) Events(ctx context.Context, config string, q slots.Query) ([]slots.Event, error) {
	const some = `
SELECT event, requested, era, win, phase, at, booked, 0 FROM stint_slot
WHERE config = ?1 AND at >= ?2 AND at < ?3 AND (at > ?4 OR event > ?5)
ORDER BY at, event LIMIT ?6`
	from, at, id := q.From, plan.Ticks(math.MinInt64), ""
	if q.After != nil {
		from, at, id = max(q.From, q.After.At), q.After.At, q.After.ID
	}
	return l.events(ctx, "events", config, some, from, q.Until, at, id, q.Limit)
}

// events returns the events of a config that a query finds.
func (l *ledger) events(ctx context.Context, op, config, query string, args ...any) (events []slots.Event, err error) {
	err = l.find(ctx, op, config, query, args, func(rows *sql.Rows) error {
		e, err := scanEvent(rows)
		events = append(events, e)
		return err
	})
	return events, err
}

func scanEvent(rows *sql.Rows) (e slots.Event, err error) {
	err = rows.Scan(&e.ID, &e.Requested, &e.Era, &e.Window, &e.Phase, &e.At, &e.Booked, &e.Cancelled)
	return e, err
}

// Count implements [slots.Ledger].
func (l *ledger) Count(ctx context.Context, config string, from, step plan.Ticks, n int) ([]int64, error) {
	if step < 1 || n < 0 {
		return nil, ledgerFault("count", false, fmt.Errorf("%d spans of %d microseconds; 0 spans or more, of 1 or more are allowed", n, step))
	}
	until := plan.Ticks(math.MaxInt64)
	if plan.Ticks(n) <= (until-max(0, from))/step {
		until = from + plan.Ticks(n)*step
	}
	counts := make([]int64, n)
	const each = "SELECT (at - ?2) / ?3, count(*) FROM stint_slot WHERE config = ?1 AND at >= ?2 AND at < ?4 GROUP BY 1"
	err := l.find(ctx, "count", config, each, []any{from, step, until}, func(rows *sql.Rows) error {
		var i, count int64
		if err := rows.Scan(&i, &count); err != nil {
			return err
		}
		counts[i] = count
		return nil
	})
	return counts, err
}

// find calls row with each row that a query finds of a config, whose number is its
// first argument.
func (l *ledger) find(ctx context.Context, op, config, query string, args []any, row func(*sql.Rows) error) error {
	id := 0
	err := l.query(ctx, op, "SELECT id FROM stint_slot_config WHERE name = ?", []any{config}, func(rows *sql.Rows) error {
		return rows.Scan(&id)
	})
	if err != nil {
		return err
	}
	if id == 0 {
		return slots.ErrNoConfig
	}
	return l.query(ctx, op, query, append([]any{id}, args...), row)
}

// query calls row with each row that a query finds.
func (l *ledger) query(ctx context.Context, op, query string, args []any, row func(*sql.Rows) error) error {
	leave, err := l.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	var rows *sql.Rows
	err = l.store.retry(ctx, func() (err error) {
		rows, err = l.store.db.QueryContext(ctx, query, args...)
		return err
	})
	if err != nil {
		return ledgerFault(op, false, err)
	}
	return ledgerFault(op, false, each(rows, row))
}

// each calls row with each of rows, and closes them.
func each(rows *sql.Rows, row func(*sql.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// jsonOf writes ids or numbers as a statement takes a set of them.
func jsonOf[T string | int64](set []T) string {
	text, err := json.Marshal(set)
	if err != nil {
		panic(err) // there is nothing that could fail
	}
	return string(text)
}
