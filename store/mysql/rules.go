package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// Rules returns a [rules.Source] in the database of s, whose connections it uses.
// It ends with s.
//
// There are no triggers, which many a user may not make: a change is seen by the
// instants at which rows were modified, which the server keeps by itself. A
// statement that sets modified to what it was is not seen.
func (s *Store) Rules() rules.Source { return &source{s} }

// source is a [rules.Source].
type source struct{ store *Store }

// isRuleAnswer reports whether err is no fault of the database.
func isRuleAnswer(err error) bool {
	_, row := errors.AsType[*rules.RowError](err)
	return row || errors.Is(err, rules.ErrNoRow) || errors.Is(err, rules.ErrChanged) || errors.Is(err, rules.ErrNameTaken) || errors.Is(err, rules.ErrPathTaken)
}

// do calls f, which may be run again, with a connection. write says that f commits.
func (r *source) do(ctx context.Context, op string, write bool, f func(c *conn) error) error {
	if err := r.store.enter(ctx, op); err != nil {
		err = errors.Unwrap(err)
		if errors.Is(err, limit.ErrClosed) {
			err = rules.ErrSourceClosed
		}
		return &rules.SourceError{Store: name, Op: op, Err: err}
	}
	defer r.store.inside.RUnlock()
	err := r.store.do(ctx, f)
	if err == nil || isRuleAnswer(err) {
		return err
	}
	r.store.leaveReplica(err)
	return &rules.SourceError{Store: name, Op: op, Sent: write && sent(err), Err: explain(err)}
}

// micros is an instant of the table as a number.
func micros(column string) string {
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + column + ")"
}

// instant writes what micros reads.
func instant(n int64) string {
	return "TIMESTAMPADD(MICROSECOND, " + decimal(n) + ", '1970-01-01')"
}

// Version implements [rules.Source]. MAX alone would not see a transaction that
// is committed after a later one.
func (r *source) Version(ctx context.Context) (version int64, err error) {
	err = r.do(ctx, "version", false, func(c *conn) error {
		var t script
		t.ask(func(row []driver.Value) error {
			h := fnv.New64a()
			for _, value := range row {
				fmt.Fprintf(h, "%s ", asBytes(value))
			}
			version = int64(h.Sum64())
			return nil
		}, "SELECT COUNT(*), MAX(modified), SUM(CRC32(CONCAT(id, ' ', modified))) FROM stint_rule FORCE INDEX (modified)")
		return c.run(ctx, &t)
	})
	return version, err
}

// asBytes is a value as text.
func asBytes(value driver.Value) []byte {
	if b, ok := value.([]byte); ok {
		return b
	}
	return fmt.Append(nil, value)
}

// ruleFields are the columns that eachRow reads after those of its caller. NULL
// for calls must not be taken for 0, where the server looks at no CHECK.
const ruleFields = `id, COALESCE(name, ''), enabled, COALESCE(rule, ''), COALESCE(path, ''),
	COALESCE(calls, IF(path IS NULL, 0, -1)), COALESCE(period_ms, 0)`

// rowColumns are those of stint_rule.
var rowColumns = ruleFields + ", " + micros("modified") + ", IF(changed_at = modified, COALESCE(changed_by, ''), '')"

func readRow(row []driver.Value) rules.Row {
	text := func(i int) string { return string(row[i].([]byte)) }
	number := func(i int) int64 { return row[i].(int64) }
	return rules.Row{
		ID: number(0), Name: text(1), Enabled: number(2) != 0, Rule: text(3), Path: text(4), Calls: number(5), PeriodMS: number(6),
		Revision: number(7), Modified: time.UnixMicro(number(7)).UTC(), By: text(8),
	}
}

// List implements [rules.Source].
func (r *source) List(ctx context.Context, after int64, limit int) (rows []rules.Row, err error) {
	err = r.do(ctx, "list", false, func(c *conn) error {
		rows = nil
		var t script
		t.ask(func(row []driver.Value) error {
			rows = append(rows, readRow(row))
			return nil
		}, "SELECT ", rowColumns, " FROM stint_rule WHERE id > ", decimal(after), " ORDER BY id LIMIT ", decimal(limit))
		return c.run(ctx, &t)
	})
	return rows, err
}

// Get implements [rules.Source].
func (r *source) Get(ctx context.Context, id int64) (row rules.Row, err error) {
	err = r.do(ctx, "get", false, func(c *conn) error {
		var t script
		t.askRow(id, "", &row)
		if err := c.run(ctx, &t); err != nil {
			return err
		}
		if row.ID == 0 {
			return rules.ErrNoRow
		}
		return nil
	})
	return row, err
}

// askRow asks for one row. It stays empty if there is none.
func (t *script) askRow(id int64, lock string, row *rules.Row) {
	*row = rules.Row{}
	t.ask(func(values []driver.Value) error {
		*row = readRow(values)
		return nil
	}, "SELECT ", rowColumns, " FROM stint_rule WHERE id = ", decimal(id), lock)
}

// Put implements [rules.Source].
func (r *source) Put(ctx context.Context, row rules.Row, by string) (put rules.Row, err error) {
	if err := errors.Join(row.Check(), rules.CheckBy(by)); err != nil {
		return rules.Row{}, err
	}
	err = r.change(ctx, "put", row.ID, row.Revision, func(c *conn, found rules.Row, at int64) error {
		values := []string{
			"name = " + nullable(row.Name), "enabled = " + boolean(row.Enabled), "rule = " + nullable(row.Rule), "path = " + nullable(row.Path),
			"calls = NULL", "period_ms = NULL",
			"modified = " + instant(at), "changed_at = " + instant(at), "changed_by = " + hexed(by),
		}
		if row.IsPlain() {
			values[4], values[5] = "calls = "+decimal(row.Calls), "period_ms = "+decimal(row.PeriodMS)
		}
		if row.ID != 0 {
			values = append(values, "id = "+decimal(row.ID))
		}
		var t script
		id := "LAST_INSERT_ID()"
		if found.ID != 0 {
			id = decimal(row.ID)
			t.do("UPDATE stint_rule SET ", strings.Join(values, ", "), " WHERE id = ", id)
		} else {
			t.do("INSERT INTO stint_rule SET ", strings.Join(values, ", "))
			if row.ID != 0 {
				id = decimal(row.ID)
			}
		}
		t.ask(func(values []driver.Value) error {
			put = readRow(values)
			return nil
		}, "SELECT ", rowColumns, " FROM stint_rule WHERE id = ", id)
		if err := c.run(ctx, &t); err != nil {
			return taken(err)
		}
		var done script
		done.note(put, by, at, false)
		done.do("COMMIT")
		return c.run(ctx, &done)
	})
	if err != nil {
		return rules.Row{}, err
	}
	return put, nil
}

// Delete implements [rules.Source].
func (r *source) Delete(ctx context.Context, id, revision int64, by string) error {
	if err := rules.CheckBy(by); err != nil {
		return err
	}
	return r.change(ctx, "delete", id, revision, func(c *conn, found rules.Row, at int64) error {
		if found.ID == 0 {
			return rules.ErrNoRow
		}
		var t script
		t.do("DELETE FROM stint_rule WHERE id = ", decimal(id))
		t.note(found, by, at, true)
		t.do("COMMIT")
		return c.run(ctx, &t)
	})
}

// change calls f in a transaction that has the lock of a row, if there is one,
// and has found it with this revision. at is when the change is made.
func (r *source) change(ctx context.Context, op string, id, revision int64, f func(c *conn, found rules.Row, at int64) error) error {
	return r.do(ctx, op, true, func(c *conn) error {
		for {
			err := r.try(ctx, c, id, revision, f)
			if err == nil {
				return nil
			}
			c.rollback(ctx)
			if !again(err) || ctx.Err() != nil {
				return err
			}
		}
	})
}

func (r *source) try(ctx context.Context, c *conn, id, revision int64, f func(c *conn, found rules.Row, at int64) error) error {
	var found rules.Row
	var now, last int64
	var t script
	t.do("START TRANSACTION")
	t.askRow(id, " FOR UPDATE", &found)
	t.ask(func(row []driver.Value) error {
		last = row[0].(int64)
		return nil
	}, "SELECT COALESCE(MAX(revision), 0) FROM stint_rule_change WHERE id = ", decimal(id))
	t.ask(func(row []driver.Value) error {
		now = row[0].(int64)
		return nil
	}, "SELECT ", r.store.opts.lateClock)
	if err := c.run(ctx, &t); err != nil {
		return err
	}
	switch {
	case revision != 0 && found.ID == 0:
		return rules.ErrNoRow
	case revision != found.Revision:
		return rules.ErrChanged
	}
	if found.ID != 0 && found.By == "" {
		var t script
		t.note(found, "", found.Revision, false)
		if err := c.run(ctx, &t); err != nil {
			return err
		}
	}
	return f(c, found, max(now, found.Revision+1, last+1))
}

// note adds a change to the history.
func (t *script) note(row rules.Row, by string, at int64, deleted bool) {
	calls, period := "NULL", "NULL"
	if row.IsPlain() {
		calls, period = decimal(row.Calls), decimal(row.PeriodMS)
	}
	t.do("INSERT INTO stint_rule_change (at, changed_by, deleted, id, revision, name, enabled, rule, path, calls, period_ms) VALUES (",
		strings.Join([]string{
			instant(at), nullable(by), boolean(deleted), decimal(row.ID), decimal(max(at, row.Revision)), nullable(row.Name), boolean(row.Enabled),
			nullable(row.Rule), nullable(row.Path), calls, period,
		}, ", "), ")")
}

// nullable writes a text, and an empty one as NULL.
func nullable(text string) string {
	if text == "" {
		return "NULL"
	}
	return hexed(text)
}

func boolean(b bool) string {
	if b {
		return "TRUE"
	}
	return "FALSE"
}

// taken says which of its unique columns a row has in common with another one.
func taken(err error) error {
	switch text := message(err); {
	case number(err) != duplicate:
		return err
	case strings.HasSuffix(text, "name'"):
		return rules.ErrNameTaken
	case strings.HasSuffix(text, "path'"):
		return rules.ErrPathTaken
	default: // its id
		return rules.ErrChanged
	}
}

// History implements [rules.Source].
func (r *source) History(ctx context.Context, q rules.HistoryQuery) (changes []rules.Change, err error) {
	err = r.do(ctx, "history", false, func(c *conn) error {
		changes = nil
		var t script
		t.add("SELECT ", ruleFields, ", revision, COALESCE(changed_by, ''), n, ", micros("at"), ", deleted FROM stint_rule_change WHERE TRUE")
		if q.Row != 0 {
			t.add(" AND id = ", decimal(q.Row))
		}
		if q.Before != 0 {
			t.add(" AND n < ", decimal(q.Before))
		}
		t.ask(func(row []driver.Value) error {
			number := func(i int) int64 { return row[i].(int64) }
			change := rules.Change{Row: readRow(row), N: number(9), At: time.UnixMicro(number(10)).UTC(), Deleted: number(11) != 0}
			change.By = change.Row.By
			changes = append(changes, change)
			return nil
		}, " ORDER BY n DESC LIMIT ", decimal(q.Limit))
		return c.run(ctx, &t)
	})
	return changes, err
}
