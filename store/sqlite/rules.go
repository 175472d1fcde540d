package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// Rules returns a [rules.Source] in the file of s. It ends with s.
//
// Triggers count changes, also those by SQL.
func (s *Store) Rules() rules.Source { return &source{s} }

// source is a [rules.Source].
type source struct{ store *Store }

// sourceFault returns err as op's, unless it is the caller's. What was written may
// have been committed if sent.
func sourceFault(op string, sent bool, err error) error {
	if err == nil || errors.Is(err, rules.ErrNoRow) || errors.Is(err, rules.ErrChanged) || errors.Is(err, rules.ErrNameTaken) || errors.Is(err, rules.ErrPathTaken) {
		return err
	}
	return &rules.SourceError{Store: "sqlite", Op: op, Sent: sent, Err: err}
}

// enter holds the store open for op, until leave is called.
func (r *source) enter(ctx context.Context, op string) (leave func(), err error) {
	if err := r.store.enter(ctx, op, nil); err != nil {
		err = errors.Unwrap(err)
		if errors.Is(err, limit.ErrClosed) {
			err = rules.ErrSourceClosed
		}
		return nil, sourceFault(op, false, err)
	}
	return r.store.inside.RUnlock, nil
}

// query calls each with every row of an answer.
func (r *source) query(ctx context.Context, op, text string, args []any, each func(rows *sql.Rows) error) error {
	leave, err := r.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	return sourceFault(op, false, r.store.retry(ctx, func() error {
		return eachRow(ctx, r.store.db, text, args, each)
	}))
}

// eachRow calls each with every row of an answer.
func eachRow(ctx context.Context, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, text string, args []any, each func(rows *sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Version implements [rules.Source].
func (r *source) Version(ctx context.Context) (version int64, err error) {
	err = r.query(ctx, "version", "SELECT n FROM stint_rule_version", nil, func(rows *sql.Rows) error { return rows.Scan(&version) })
	return version, err
}

const (
	ruleFields = "id, coalesce(name, ''), enabled, coalesce(rule, ''), coalesce(path, ''), coalesce(calls, 0), coalesce(period_ms, 0), revision"
	rowColumns = ruleFields + ", modified, iif(changed_rev = revision, coalesce(changed_by, ''), '')"
)

// scanRow reads the columns of a row, and then others.
func scanRow(rows *sql.Rows, row *rules.Row, others ...any) error {
	var modified int64
	err := rows.Scan(append([]any{&row.ID, &row.Name, &row.Enabled, &row.Rule, &row.Path, &row.Calls, &row.PeriodMS, &row.Revision, &modified, &row.By}, others...)...)
	row.Modified = time.UnixMicro(modified).UTC()
	return err
}

// List implements [rules.Source].
func (r *source) List(ctx context.Context, after int64, limit int) (all []rules.Row, err error) {
	err = r.query(ctx, "list", "SELECT "+rowColumns+" FROM stint_rule WHERE id > ? ORDER BY id LIMIT ?", []any{after, limit}, func(rows *sql.Rows) error {
		var row rules.Row
		err := scanRow(rows, &row)
		all = append(all, row)
		return err
	})
	return all, err
}

const rowOf = "SELECT " + rowColumns + " FROM stint_rule WHERE id = ?"

// Get implements [rules.Source].
func (r *source) Get(ctx context.Context, id int64) (row rules.Row, err error) {
	err = r.query(ctx, "get", rowOf, []any{id}, func(rows *sql.Rows) error { return scanRow(rows, &row) })
	if err == nil && row.ID == 0 {
		err = rules.ErrNoRow
	}
	return row, err
}

// Put implements [rules.Source].
func (r *source) Put(ctx context.Context, row rules.Row, by string) (put rules.Row, err error) {
	if err := errors.Join(row.Check(), rules.CheckBy(by)); err != nil {
		return rules.Row{}, err
	}
	err = r.change(ctx, "put", row.ID, row.Revision, func(tx *sql.Tx, found rules.Row) error {
		values := append(rowValues(&row), sql.NullInt64{Int64: row.ID, Valid: row.ID != 0})
		query := "INSERT INTO stint_rule (name, enabled, rule, path, calls, period_ms, id) VALUES (?, ?, ?, ?, ?, ?, ?)"
		if found.ID != 0 {
			query = "UPDATE stint_rule SET name = ?, enabled = ?, rule = ?, path = ?, calls = ?, period_ms = ? WHERE id = ?"
		}
		done, err := tx.ExecContext(ctx, query, values...)
		if err != nil {
			return taken(err)
		}
		id := row.ID
		if id == 0 {
			if id, err = done.LastInsertId(); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "UPDATE stint_rule SET changed_by = ?, changed_rev = revision WHERE id = ?", by, id); err != nil {
			return err
		}
		if err := eachRow(ctx, tx, rowOf, []any{id}, func(rows *sql.Rows) error { return scanRow(rows, &put) }); err != nil {
			return err
		}
		return note(ctx, tx, put, by, false)
	})
	if err != nil {
		return rules.Row{}, err
	}
	return put, nil
}

// rowValues are those of the columns that people edit, with NULL for what is not given.
func rowValues(row *rules.Row) []any {
	text := func(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }
	number := func(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: row.IsPlain()} }
	return []any{text(row.Name), row.Enabled, text(row.Rule), text(row.Path), number(row.Calls), number(row.PeriodMS)}
}

// Delete implements [rules.Source].
func (r *source) Delete(ctx context.Context, id, revision int64, by string) error {
	if err := rules.CheckBy(by); err != nil {
		return err
	}
	return r.change(ctx, "delete", id, revision, func(tx *sql.Tx, found rules.Row) error {
		if found.ID == 0 {
			return rules.ErrNoRow
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM stint_rule WHERE id = ?", id); err != nil {
			return err
		}
		return note(ctx, tx, found, by, true)
	})
}

// change calls f in a transaction that has found a row with this revision.
func (r *source) change(ctx context.Context, op string, id, revision int64, f func(tx *sql.Tx, found rules.Row) error) error {
	leave, err := r.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	tx, err := r.store.begin(ctx)
	if err != nil {
		return sourceFault(op, false, err)
	}
	defer tx.Rollback()
	var found rules.Row
	err = eachRow(ctx, tx, rowOf, []any{id}, func(rows *sql.Rows) error { return scanRow(rows, &found) })
	switch {
	case err != nil:
		return sourceFault(op, false, err)
	case revision != 0 && found.ID == 0:
		return rules.ErrNoRow
	case revision != found.Revision:
		return rules.ErrChanged
	}
	if found.ID != 0 && found.By == "" {
		if err := note(ctx, tx, found, "", false); err != nil {
			return sourceFault(op, false, err)
		}
	}
	if err := f(tx, found); err != nil {
		return sourceFault(op, false, err)
	}
	return sourceFault(op, true, tx.Commit())
}

// note adds a change to the history. What was found has its own time.
func note(ctx context.Context, tx *sql.Tx, row rules.Row, by string, deleted bool) error {
	at := row.Modified.UnixMicro()
	if deleted {
		at = max(at, time.Now().UnixMicro())
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO stint_rule_change (name, enabled, rule, path, calls, period_ms, at, changed_by, deleted, id, revision)
VALUES (?, ?, ?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?)`, append(rowValues(&row), at, by, deleted, row.ID, row.Revision)...)
	return err
}

// taken says which of its unique columns a row has in common with another one.
func taken(err error) error {
	e, ok := errors.AsType[*driver.Error](err)
	switch {
	case ok && e.Code() == codes.SQLITE_CONSTRAINT_PRIMARYKEY:
		return rules.ErrChanged
	case !ok || e.Code() != codes.SQLITE_CONSTRAINT_UNIQUE:
		return err
	case strings.Contains(e.Error(), "stint_rule.path"):
		return rules.ErrPathTaken
	}
	return rules.ErrNameTaken
}

// History implements [rules.Source].
func (r *source) History(ctx context.Context, q rules.HistoryQuery) (changes []rules.Change, err error) {
	const some = "SELECT " + ruleFields + `, at, coalesce(changed_by, ''), n, deleted FROM stint_rule_change
WHERE (?1 = 0 OR id = ?1) AND (?2 = 0 OR n < ?2) ORDER BY n DESC LIMIT ?3`
	err = r.query(ctx, "history", some, []any{q.Row, q.Before, q.Limit}, func(rows *sql.Rows) error {
		var c rules.Change
		err := scanRow(rows, &c.Row, &c.N, &c.Deleted)
		c.At, c.By = c.Row.Modified, c.Row.By
		changes = append(changes, c)
		return err
	})
	return changes, err
}
