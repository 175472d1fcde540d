package postgres

import "strings"

// statements are the SQL of a Store, with its clock in place of {now}.
type statements struct{ look, commit, swap, lock, forget, take, page, sweep string }

// serverClock is the server's clock in microseconds. They fit a double, and the
// rounding puts right what the division by a million has lost.
const serverClock = `(date_part('epoch', clock_timestamp()) * 1000000)::bigint`

func statementsWith(clock string) statements {
	with := func(text string) string { return strings.ReplaceAll(text, "{now}", clock) }
	return statements{with(look), with(commit), with(swap), with(lock), with(forget), with(take), with(page), with(sweep)}
}

// look reads keys.
const look = `
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT now, coalesce(s.at, 0), coalesce(s.a, 0), coalesce(s.b, 0), coalesce(s.expires, 0), coalesce(s.version, 0), coalesce(s.log, '')
FROM clock CROSS JOIN unnest($1::bytea[]) WITH ORDINALITY AS k (key, i) LEFT JOIN stint_state AS s ON s.key = k.key
ORDER BY i`

// insert proposes rows, to be inserted in the order of their keys: whoever locks
// several rows does it in that order. The version proposed says what is to be
// overwritten: that version, as a negative number, or nothing that is alive.
const insert = `
WITH clock AS MATERIALIZED (SELECT {now} AS now)
INSERT INTO stint_state AS s (key, at, a, b, expires, version, log)
SELECT w.key, w.at, w.a, w.b, CASE WHEN ttl > 0 THEN now + least(ttl, 9223372036854775807 - now) ELSE 0 END,
	CASE w.version WHEN 0 THEN now ELSE -w.version END, w.log
FROM clock CROSS JOIN unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[])
	AS w (key, at, a, b, ttl, version, log)`

const (
	// set overwrites a row by the one that was proposed.
	set = `at = excluded.at, a = excluded.a, b = excluded.b, expires = excluded.expires, log = excluded.log`
	// same holds if a row is as the proposed version says.
	same = `CASE WHEN s.expires > {now} THEN s.version = -excluded.version ELSE excluded.version > 0 END`
	// overtaken is a number that cannot be worked out, which is how a statement
	// fails. The server's log says why. What is cast depends on the row, so
	// that it does not fail before there is one.
	overtaken = `('stint was overtaken by version ' || s.version)::bigint`
	// kept is the version of a row that was written. One that was to be
	// overwritten is inserted if it has expired and was swept meanwhile.
	kept = `CASE WHEN s.version > 0 THEN s.version ELSE ` + overtaken + ` END`
)

// commit writes all rows or, if one is not as it was, fails.
const commit = insert + `
ORDER BY w.key
ON CONFLICT (key) DO UPDATE SET ` + set + `, version = CASE WHEN ` + same + ` THEN s.version + 1 ELSE ` + overtaken + ` END
RETURNING ` + kept

// swap writes the rows that are as they were, and returns which. It looks before
// it locks.
const swap = insert + `
WHERE w.version = 0 OR EXISTS (SELECT FROM stint_state AS t WHERE t.key = w.key AND t.version = w.version AND expires > now)
ORDER BY w.key
ON CONFLICT (key) DO UPDATE SET ` + set + `, version = s.version + 1
WHERE ` + same + `
RETURNING key, ` + kept

// lock locks the rows of keys until the transaction ends, and makes those that
// are missing, as states that have expired.
const lock = `
INSERT INTO stint_state AS s (key, at, a, b, expires, version, log)
SELECT key, 0, 0, 0, 0, {now}, '' FROM unnest($1::bytea[]) AS key ORDER BY key
ON CONFLICT (key) DO UPDATE SET version = s.version WHERE false`

// forget makes keys expire.
const forget = `
WITH held AS MATERIALIZED (
	SELECT key FROM stint_state WHERE key = ANY ($1::bytea[]) AND expires > 0 ORDER BY key FOR UPDATE
)
UPDATE stint_state AS s SET expires = 0, version = s.version + 1, log = ''
FROM held WHERE s.key = held.key`
