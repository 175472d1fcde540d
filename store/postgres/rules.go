package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// Rules returns a [rules.Source] in the database of s, whose connections it uses.
// It is a [rules.Watcher], too, and ends with s.
//
// Triggers count changes and tell of them, also of those by SQL. Changes are made
// one after the other.
func (s *Store) Rules() rules.Source { return &source{s} }

// source is a [rules.Source].
type source struct{ store *Store }

var _ rules.Watcher = (*source)(nil)

// isRuleAnswer reports whether err is no fault of the database.
func isRuleAnswer(err error) bool {
	return errors.Is(err, rules.ErrNoRow) || errors.Is(err, rules.ErrChanged) || errors.Is(err, rules.ErrNameTaken) || errors.Is(err, rules.ErrPathTaken)
}

// enter holds the store open for op, until leave is called.
func (r *source) enter(ctx context.Context, op string) (leave func(), err error) {
	if err := r.store.enter(ctx, op); err != nil {
		err = errors.Unwrap(err)
		if errors.Is(err, limit.ErrClosed) {
			err = rules.ErrSourceClosed
		}
		return nil, &rules.SourceError{Store: name, Op: op, Err: err}
	}
	return r.store.inside.RUnlock, nil
}

// fault returns err as op's. What was written may have been committed if sent.
func (r *source) fault(op string, err error, sent bool) error {
	if err == nil || isRuleAnswer(err) {
		return err
	}
	r.store.leaveStandby(err)
	return &rules.SourceError{Store: name, Op: op, Sent: sent, Err: explain(err)}
}

// read calls f, which writes nothing, with a connection.
func (r *source) read(ctx context.Context, op string, f func(c *pgx.Conn) error) error {
	leave, err := r.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	return r.fault(op, r.store.do(ctx, f), false)
}

// Version implements [rules.Source].
func (r *source) Version(ctx context.Context) (version int64, err error) {
	err = r.read(ctx, "version", func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT n FROM stint_rule_version").Scan(&version)
	})
	return version, err
}

const (
	ruleFields = "id, coalesce(name, ''), enabled, coalesce(rule, ''), coalesce(path, ''), coalesce(calls, 0), coalesce(period_ms, 0), revision, coalesce(changed_by, '')"
	rowColumns = ruleFields + ", modified"

	insertRow   = "INSERT INTO stint_rule (name, enabled, rule, path, calls, period_ms) VALUES (nullif($1, ''), $2, nullif($3, ''), nullif($4, ''), $5, $6) RETURNING " + rowColumns
	insertRowAs = "INSERT INTO stint_rule (name, enabled, rule, path, calls, period_ms, id) VALUES (nullif($1, ''), $2, nullif($3, ''), nullif($4, ''), $5, $6, $7) RETURNING " + rowColumns
	updateRow   = "UPDATE stint_rule SET name = nullif($1, ''), enabled = $2, rule = nullif($3, ''), path = nullif($4, ''), calls = $5, period_ms = $6 WHERE id = $7 RETURNING " + rowColumns
)

func readRow(rows pgx.CollectableRow) (row rules.Row, err error) {
	err = rows.Scan(&row.ID, &row.Name, &row.Enabled, &row.Rule, &row.Path, &row.Calls, &row.PeriodMS, &row.Revision, &row.By, &row.Modified)
	row.Modified = row.Modified.UTC()
	return row, err
}

// List implements [rules.Source].
func (r *source) List(ctx context.Context, after int64, limit int) (rows []rules.Row, err error) {
	err = r.read(ctx, "list", func(c *pgx.Conn) error {
		answer, err := c.Query(ctx, "SELECT "+rowColumns+" FROM stint_rule WHERE id > $1 ORDER BY id LIMIT $2", after, limit)
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(answer, readRow)
		return err
	})
	return rows, err
}

// Get implements [rules.Source].
func (r *source) Get(ctx context.Context, id int64) (row rules.Row, err error) {
	err = r.read(ctx, "get", func(c *pgx.Conn) error {
		row, err = one(ctx, c, "SELECT "+rowColumns+" FROM stint_rule WHERE id = $1", id)
		return err
	})
	return row, err
}

// one returns the row that a query answers, or ErrNoRow.
func one(ctx context.Context, c *pgx.Conn, query string, args ...any) (rules.Row, error) {
	answer, err := c.Query(ctx, query, args...)
	if err != nil {
		return rules.Row{}, err
	}
	row, err := pgx.CollectExactlyOneRow(answer, readRow)
	if errors.Is(err, pgx.ErrNoRows) {
		err = rules.ErrNoRow
	}
	return row, err
}

// Put implements [rules.Source].
func (r *source) Put(ctx context.Context, row rules.Row, by string) (put rules.Row, err error) {
	if err := errors.Join(row.Check(), rules.CheckBy(by)); err != nil {
		return rules.Row{}, err
	}
	calls, period := plainColumns(&row)
	err = r.change(ctx, "put", row.ID, row.Revision, by, func(c *pgx.Conn, found rules.Row) error {
		values := []any{row.Name, row.Enabled, row.Rule, row.Path, calls, period}
		query := insertRow
		if row.ID != 0 {
			query, values = insertRowAs, append(values, row.ID)
		}
		if found.ID != 0 {
			query = updateRow
		}
		put, err = one(ctx, c, query, values...)
		if err != nil {
			return taken(err)
		}
		return note(ctx, c, put, by, false)
	})
	if err != nil {
		return rules.Row{}, err
	}
	return put, nil
}

// plainColumns are NULL in a row that has a rule.
func plainColumns(row *rules.Row) (calls, period *int64) {
	if !row.IsPlain() {
		return nil, nil
	}
	return &row.Calls, &row.PeriodMS
}

// Delete implements [rules.Source].
func (r *source) Delete(ctx context.Context, id, revision int64, by string) error {
	if err := rules.CheckBy(by); err != nil {
		return err
	}
	return r.change(ctx, "delete", id, revision, by, func(c *pgx.Conn, found rules.Row) error {
		if found.ID == 0 {
			return rules.ErrNoRow
		}
		if _, err := c.Exec(ctx, "DELETE FROM stint_rule WHERE id = $1", id); err != nil {
			return err
		}
		return note(ctx, c, found, by, true)
	})
}

// change calls f in a transaction that has the lock of a row, if there is one,
// and has found it with this revision.
func (r *source) change(ctx context.Context, op string, id, revision int64, by string, f func(c *pgx.Conn, found rules.Row) error) error {
	leave, err := r.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	for {
		committing := false
		err := r.store.do(ctx, func(c *pgx.Conn) error {
			tx, err := c.Begin(ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(context.WithoutCancel(ctx))
			if err := find(ctx, c, id, revision, by, f); err != nil {
				return err
			}
			committing = true
			return tx.Commit(ctx)
		})
		if !again(err) || ctx.Err() != nil {
			return r.fault(op, err, committing && sent(err))
		}
	}
}

func find(ctx context.Context, c *pgx.Conn, id, revision int64, by string, f func(c *pgx.Conn, found rules.Row) error) error {
	if _, err := c.Exec(ctx, "SELECT set_config('stint.by', $1, true)", by); err != nil {
		return err
	}
	found, err := one(ctx, c, "SELECT "+rowColumns+" FROM stint_rule WHERE id = $1 FOR UPDATE", id)
	switch {
	case err != nil && !errors.Is(err, rules.ErrNoRow):
		return err
	case revision != 0 && found.ID == 0:
		return rules.ErrNoRow
	case revision != found.Revision:
		return rules.ErrChanged
	}
	if found.ID != 0 && found.By == "" {
		if err := note(ctx, c, found, "", false); err != nil {
			return err
		}
	}
	return f(c, found)
}

// note adds a change to the history. What was found has its own time.
func note(ctx context.Context, c *pgx.Conn, row rules.Row, by string, deleted bool) error {
	calls, period := plainColumns(&row)
	at := &row.Modified
	if deleted {
		at = nil
	}
	_, err := c.Exec(ctx, `
INSERT INTO stint_rule_change (at, changed_by, deleted, id, revision, name, enabled, rule, path, calls, period_ms)
VALUES (coalesce($1, clock_timestamp()), nullif($2, ''), $3, $4, $5, nullif($6, ''), $7, nullif($8, ''), nullif($9, ''), $10, $11)`,
		at, by, deleted, row.ID, row.Revision, row.Name, row.Enabled, row.Rule, row.Path, calls, period)
	return err
}

// taken says which of its unique columns a row has in common with another one.
func taken(err error) error {
	if code(err) != duplicate {
		return err
	}
	switch constraint(err) {
	case "stint_rule_name_key":
		return rules.ErrNameTaken
	case "stint_rule_path_key":
		return rules.ErrPathTaken
	default: // its id
		return rules.ErrChanged
	}
}

// History implements [rules.Source].
func (r *source) History(ctx context.Context, q rules.HistoryQuery) (changes []rules.Change, err error) {
	err = r.read(ctx, "history", func(c *pgx.Conn) error {
		answer, err := c.Query(ctx, "SELECT "+ruleFields+`, at, n, deleted FROM stint_rule_change
WHERE ($1::bigint = 0 OR id = $1) AND ($2::bigint = 0 OR n < $2) ORDER BY n DESC LIMIT $3`, q.Row, q.Before, q.Limit)
		if err != nil {
			return err
		}
		changes, err = pgx.CollectRows(answer, readChange)
		return err
	})
	return changes, err
}

func readChange(rows pgx.CollectableRow) (rules.Change, error) {
	var c rules.Change
	row, at := &c.Row, time.Time{}
	err := rows.Scan(&row.ID, &row.Name, &row.Enabled, &row.Rule, &row.Path, &row.Calls, &row.PeriodMS, &row.Revision, &row.By, &at, &c.N, &c.Deleted)
	c.At, row.Modified, c.By = at.UTC(), at.UTC(), row.By
	return c, err
}

// Watch implements [rules.Watcher] by LISTEN, on a connection of its own.
func (r *source) Watch(ctx context.Context, changed func()) error {
	const channel = "SELECT 'stint_rules_' || 'stint_rule'::regclass::oid"
	err := r.store.hear(ctx, "watch", channel, func(string) { changed() })
	fault, ok := errors.AsType[*limit.StoreError](err)
	if !ok {
		return err
	}
	return &rules.SourceError{Store: name, Op: "watch", Err: fault.Err}
}
