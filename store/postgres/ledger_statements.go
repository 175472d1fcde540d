package postgres

import "strings"

// ledgerStatements are the SQL of a ledger, with its clock in place of {now}. A
// config is found by its name, $1, until its number is known.
//
// A connection keeps the plans that it has made while the tables were empty, or
// nearly so. What is looked up is therefore written as the one row, or the rows of
// one range, of an index for each thing asked for, behind a LIMIT or OFFSET: then
// there is no other way to look it up.
type ledgerStatements struct {
	hold, known, versions, load, strays, taken string

	free, bury, book, keep, empty, cut, extend, revise, add string

	create, exists, config, configs, events, count string
}

func ledgerStatementsWith(clock string) ledgerStatements {
	with := func(text string) string { return strings.ReplaceAll(text, "{now}", clock) }
	return ledgerStatements{
		hold: with(holdConfig), known: knownEvents, versions: readVersions, load: loadWindows, strays: straySlots, taken: takenPhases,
		free: freeSlots, bury: buryEvents, book: bookSlots, keep: keepWindows, empty: emptyWindows, cut: cutRuns, extend: extendRuns,
		revise: reviseConfig, add: addVersions,
		create: createConfig, exists: configExists, config: with(oneConfig), configs: someConfigs, events: someEvents, count: countEvents,
	}
}

// What a transaction reads.

// holdConfig locks a config until the transaction ends. The clock is read after
// the lock was had: what a locking SELECT lists is worked out before.
const holdConfig = `
WITH held AS MATERIALIZED (
	SELECT id, revision, paused_until FROM stint_slot_config WHERE name = $1 FOR UPDATE
)
SELECT id, revision, paused_until, {now} FROM held`

// knownEvents looks for ids among those that were cancelled only if any was.
const knownEvents = `
SELECT e.* FROM unnest($2::bytea[]) AS k (id) CROSS JOIN LATERAL (
	SELECT event, requested, era, win, phase, at, booked, 0::bigint FROM stint_slot
	WHERE config = (SELECT id FROM stint_slot_config WHERE name = $1) AND event = k.id LIMIT 1
) AS e
UNION ALL
SELECT e.* FROM unnest($2::bytea[]) AS k (id) CROSS JOIN LATERAL (
	SELECT event, requested, era, win, phase, at, booked, cancelled FROM stint_slot_cancelled
	WHERE config = (SELECT id FROM stint_slot_config WHERE name = $1) AND event = k.id LIMIT 1
) AS e WHERE (SELECT EXISTS (SELECT FROM stint_slot_cancelled WHERE config = (SELECT id FROM stint_slot_config WHERE name = $1)))`

// readVersions reads nothing if the config has the revision $2.
const readVersions = `
SELECT spec FROM stint_slot_version
WHERE config = (SELECT id FROM stint_slot_config WHERE name = $1 AND revision <> $2)
ORDER BY n`

// loadWindows reads the runs that end after window $3, $5 of those that begin
// after it at most; then, of the first $4 windows from $3 on that lie in none of
// them, those that are not empty. before is how many windows there are in the
// gaps between the runs that came before.
const loadWindows = `
WITH runs AS MATERIALIZED (
	SELECT lo, hi FROM (
		SELECT lo, hi FROM stint_slot_run WHERE config = $1 AND era = $2 AND lo <= $3 ORDER BY lo DESC LIMIT 1
	) AS first WHERE hi > $3
	UNION ALL
	(SELECT lo, hi FROM stint_slot_run WHERE config = $1 AND era = $2 AND lo > $3 ORDER BY lo LIMIT $5)
), gaps AS (
	SELECT hi AS lo, coalesce(lead(lo) OVER (ORDER BY hi), hi + $4) AS hi
	FROM (SELECT $3::bigint AS lo, $3::bigint AS hi UNION ALL SELECT lo, hi FROM runs) AS ends
), sized AS (
	SELECT lo, hi, coalesce(sum(hi - lo) OVER (ORDER BY lo ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
	FROM gaps WHERE lo < hi
), wanted AS MATERIALIZED (
	SELECT lo, least(hi, lo + $4 - before)::bigint AS hi FROM sized WHERE before < $4
)
SELECT lo, hi, NULL::bytea FROM runs
UNION ALL
SELECT win, win + 1, taken FROM wanted CROSS JOIN LATERAL (
	SELECT win, taken FROM stint_slot_window WHERE config = $1 AND era = $2 AND win >= lo AND win < hi OFFSET 0
) AS w`

const straySlots = `
SELECT era, win, phase, at FROM stint_slot
WHERE config = $1 AND at >= $4 AND at < $5 AND (era <> $2 OR phase >= $3::bigint)
ORDER BY at, era`

const takenPhases = `
SELECT w.* FROM unnest($3::bigint[]) AS k CROSS JOIN LATERAL (
	SELECT win, taken FROM stint_slot_window WHERE config = $1 AND era = $2 AND win = k LIMIT 1
) AS w`

// What a transaction writes. No statement hides that a key is there already.

const freeSlots = `
DELETE FROM stint_slot WHERE ctid = ANY (ARRAY(
	SELECT place FROM unnest($2::bytea[]) AS k (id) CROSS JOIN LATERAL (
		SELECT ctid AS place FROM stint_slot WHERE config = $1 AND event = k.id LIMIT 1
	) AS s
))`

const buryEvents = `
INSERT INTO stint_slot_cancelled (config, event, requested, era, win, phase, at, booked, cancelled)
SELECT $1, * FROM unnest($2::bytea[], $3::bigint[], $4::integer[], $5::bigint[], $6::integer[], $7::bigint[], $8::bigint[], $9::bigint[])`

const bookSlots = `
INSERT INTO stint_slot (config, event, requested, era, win, phase, at, booked)
SELECT $1, * FROM unnest($2::bytea[], $3::bigint[], $4::integer[], $5::bigint[], $6::integer[], $7::bigint[], $8::bigint[])`

const keepWindows = `
INSERT INTO stint_slot_window (config, era, win, taken)
SELECT $1, * FROM unnest($2::integer[], $3::bigint[], $4::bytea[])
ON CONFLICT (config, era, win) DO UPDATE SET taken = excluded.taken`

const emptyWindows = `
DELETE FROM stint_slot_window WHERE ctid = ANY (ARRAY(
	SELECT place FROM unnest($2::integer[], $3::bigint[]) AS e (era, win) CROSS JOIN LATERAL (
		SELECT ctid AS place FROM stint_slot_window AS w WHERE w.config = $1 AND w.era = e.era AND w.win = e.win LIMIT 1
	) AS w
))`

// cutRuns takes windows out of the runs. If $5, a run that a cut covers and that
// begins where it does is left, for extendRuns to write over.
const cutRuns = `
WITH cuts AS MATERIALIZED (
	SELECT era, lo, hi, coalesce((
		SELECT r.lo FROM stint_slot_run AS r WHERE r.config = $1 AND r.era = c.era AND r.lo <= c.lo ORDER BY r.lo DESC LIMIT 1
	), lo) AS first
	FROM unnest($2::integer[], $3::bigint[], $4::bigint[]) AS c (era, lo, hi)
), was AS (
	DELETE FROM stint_slot_run WHERE ctid = ANY (ARRAY(
		SELECT place FROM cuts AS c CROSS JOIN LATERAL (
			SELECT ctid AS place FROM stint_slot_run AS r
			WHERE r.config = $1 AND r.era = c.era AND r.lo >= c.first AND r.lo < c.hi AND r.hi > c.lo
				AND NOT ($5 AND r.lo = c.lo AND r.hi <= c.hi)
			OFFSET 0
		) AS r
	))
	RETURNING era, lo, hi
), rest AS (
	SELECT era, unnest(range_agg(int8range(lo, hi))
		- (SELECT range_agg(int8range(c.lo, c.hi)) FROM cuts AS c WHERE c.era = was.era)) AS r
	FROM was GROUP BY era
)
INSERT INTO stint_slot_run (config, era, lo, hi) SELECT $1, era, lower(r), upper(r) FROM rest`

const extendRuns = `
INSERT INTO stint_slot_run (config, era, lo, hi)
SELECT $1, * FROM unnest($2::integer[], $3::bigint[], $4::bigint[])
ON CONFLICT (config, era, lo) DO UPDATE SET hi = excluded.hi`

const reviseConfig = `
UPDATE stint_slot_config SET revision = $2, paused_until = $3 WHERE id = $1`

const addVersions = `
INSERT INTO stint_slot_version (config, n, begins, max, width, made, spec)
SELECT $1, * FROM unnest($2::integer[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])`

// What needs no transaction.

// createConfig looks before it inserts, which takes a number in any case.
const createConfig = `
INSERT INTO stint_slot_config (name, revision, paused_until)
SELECT $1::bytea, 0, 0 WHERE NOT EXISTS (SELECT FROM stint_slot_config WHERE name = $1)
ON CONFLICT (name) DO NOTHING`

const configExists = `
SELECT id FROM stint_slot_config WHERE name = $1`

const oneConfig = `
SELECT revision, paused_until, specs, {now} FROM stint_slot_config AS c,
	LATERAL (SELECT array_agg(spec ORDER BY n) AS specs FROM stint_slot_version WHERE config = c.id) AS v
WHERE name = $1 AND specs IS NOT NULL`

const someConfigs = `
SELECT name, revision, paused_until, specs FROM stint_slot_config AS c,
	LATERAL (SELECT array_agg(spec ORDER BY n) AS specs FROM stint_slot_version WHERE config = c.id) AS v
WHERE name > $1 AND specs IS NOT NULL
ORDER BY name LIMIT $2`

// someEvents reads those that come after the instant $4 and, of it, the id $5.
const someEvents = `
SELECT event, requested, era, win, phase, at, booked, 0::bigint FROM stint_slot
WHERE config = (SELECT id FROM stint_slot_config WHERE name = $1)
	AND at >= greatest($2::bigint, $4) AND at < $3 AND (at > $4 OR event > $5::bytea)
ORDER BY at, event LIMIT $6`

const countEvents = `
SELECT (at - $2) / $3, count(*) FROM stint_slot
WHERE config = (SELECT id FROM stint_slot_config WHERE name = $1) AND at >= $2 AND at < $4
GROUP BY 1`
