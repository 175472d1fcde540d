package sqlite

import (
	"context"
	"database/sql"
	"strings"
)

// ledgerStatements are those of a ledger's transaction. In all but the first, the
// first argument is the config's number.
type ledgerStatements struct {
	config, versions, known *sql.Stmt

	runs, windows, strays, taken *sql.Stmt

	revise, free, empty, cut   *sql.Stmt
	add, bury, book, keep, run rowStatement

	deliveries, remove *sql.Stmt
	put                rowStatement
}

// rowStatement inserts rows, one or many at a time.
type rowStatement struct {
	columns   int
	one, many *sql.Stmt
}

// manyRows is how many rows go in one statement. More don't make it faster.
const manyRows = 32

// knownEvents goes from the ids to the events: SQLite might do it the other way,
// and read all of them.
const knownEvents = `
SELECT event, requested, era, win, phase, at, booked, 0
FROM json_each(?2) CROSS JOIN stint_slot ON config = ?1 AND event = value
UNION ALL
SELECT event, requested, era, win, phase, at, booked, cancelled
FROM json_each(?2) CROSS JOIN stint_slot_cancelled ON config = ?1 AND event = value`

// texts are those of the statements that insert no rows.
func (s *ledgerStatements) texts() map[**sql.Stmt]string {
	return map[**sql.Stmt]string{
		&s.config:   "SELECT id, revision, paused_until FROM stint_slot_config WHERE name = ?",
		&s.versions: "SELECT spec FROM stint_slot_version WHERE config = ? ORDER BY n",
		&s.known:    knownEvents,
		// The run that lies at window ?3 or before, and some of those after.
		&s.runs: `
SELECT lo, hi FROM (SELECT lo, hi FROM stint_slot_run WHERE config = ?1 AND era = ?2 AND lo <= ?3 ORDER BY lo DESC LIMIT 1) WHERE hi > ?3
UNION ALL
SELECT lo, hi FROM (SELECT lo, hi FROM stint_slot_run WHERE config = ?1 AND era = ?2 AND lo > ?3 ORDER BY lo LIMIT ?4)`,
		&s.windows: "SELECT win, taken FROM stint_slot_window WHERE config = ? AND era = ? AND win >= ? AND win < ? ORDER BY win",
		&s.strays:  "SELECT era, win, phase, at FROM stint_slot WHERE config = ?1 AND at >= ?4 AND at < ?5 AND (era <> ?2 OR phase >= ?3) ORDER BY at, era",
		&s.taken:   "SELECT win, taken FROM stint_slot_window WHERE config = ? AND era = ? AND win IN (SELECT value FROM json_each(?))",
		&s.revise:  "UPDATE stint_slot_config SET revision = ?2, paused_until = ?3 WHERE id = ?1",
		&s.free: `
DELETE FROM stint_slot WHERE (config, era, win, phase) IN (
	SELECT config, era, win, phase FROM json_each(?2) CROSS JOIN stint_slot ON config = ?1 AND event = value
)`,
		&s.empty: "DELETE FROM stint_slot_window WHERE config = ? AND era = ? AND win = ?",
		// The runs that overlap windows ?3 to before ?4.
		&s.cut: `
DELETE FROM stint_slot_run
WHERE config = ?1 AND era = ?2 AND lo < ?4 AND hi > ?3
	AND lo >= coalesce((SELECT max(lo) FROM stint_slot_run WHERE config = ?1 AND era = ?2 AND lo <= ?3), ?3)
RETURNING lo, hi`,
		&s.deliveries: "SELECT " + deliveryColumns + " FROM json_each(?2) CROSS JOIN stint_slot_delivery ON config = ?1 AND event = value",
		&s.remove:     "DELETE FROM stint_slot_delivery WHERE config = ? AND event IN (SELECT value FROM json_each(?))",
	}
}

func (s *ledgerStatements) prepare(ctx context.Context, db *sql.DB) (err error) {
	for stmt, text := range s.texts() {
		if *stmt, err = db.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	for stmt, text := range map[*rowStatement]string{
		&s.add:  "stint_slot_version (config, n, begins, max, width, made, spec)",
		&s.bury: "stint_slot_cancelled (config, event, requested, era, win, phase, at, booked, cancelled)",
		&s.book: "stint_slot (config, event, requested, era, win, phase, at, booked)",
		&s.keep: "stint_slot_window (config, era, win, taken)",
		&s.run:  "stint_slot_run (config, era, lo, hi)",
		&s.put:  "stint_slot_delivery (config, event, requested, due, attempts, status, error, lease, leased_until, dead)",
	} {
		stmt.columns = strings.Count(text, ",") + 1
		after := ""
		if stmt == &s.keep {
			after = " ON CONFLICT (config, era, win) DO UPDATE SET taken = excluded.taken"
		}
		if stmt == &s.put {
			after = " ON CONFLICT (config, event) DO UPDATE SET requested = excluded.requested, due = excluded.due, attempts = excluded.attempts," +
				" status = excluded.status, error = excluded.error, lease = 0, leased_until = 0, dead = 0"
		}
		row := "(?" + strings.Repeat(", ?", stmt.columns-1) + ")"
		if stmt.one, err = db.PrepareContext(ctx, "INSERT INTO "+text+" VALUES "+row+after); err != nil {
			return err
		}
		if stmt.many, err = db.PrepareContext(ctx, "INSERT INTO "+text+" VALUES "+row+strings.Repeat(", "+row, manyRows-1)+after); err != nil {
			return err
		}
	}
	return nil
}
