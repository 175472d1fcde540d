package postgres_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/store/postgres"
)

// answer returns the first column of what a statement answers.
func answer(t *testing.T, c *pgx.Conn, statement string) (text string) {
	t.Helper()
	rows, err := c.Query(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if len(rows.RawValues()) > 0 {
			text += string(rows.RawValues()[0]) + "\n"
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return text
}

// The plans that were made for an empty table are those that a full one needs:
// a connection keeps them.
func testPlans(t *testing.T, server string) {
	url := tables(t, server)
	c := connect(t, url)
	defer c.Close(t.Context())
	run := func(statement string) string { return answer(t, c, statement) }
	for setting := range strings.SplitSeq(postgres.Settings, ";") {
		run(setting)
	}
	const list, numbers = "'{key}'::bytea[]", "'{1}'::bigint[]"
	arguments := map[string][]string{
		"look":   {list},
		"commit": {list, numbers, numbers, numbers, numbers, numbers, list},
		"swap":   {list, numbers, numbers, numbers, numbers, numbers, list},
		"lock":   {list},
		"forget": {list},
		"take":   {list, numbers, numbers, numbers, numbers, numbers},
		"page":   {"'a'", "'b'", "500"},
		"sweep":  {"'(0,0)'", "'(32,0)'"},
	}
	statements := postgres.Statements()
	for name, statement := range statements {
		run("PREPARE " + name + " AS " + statement)
	}
	for _, rows := range []int{0, 100_000} {
		run(fmt.Sprintf("INSERT INTO stint_state SELECT convert_to('key ' || i, 'UTF8'), 1, 1, 1, i, 1, '' FROM generate_series(1, %d) AS i", rows))
		for name := range statements {
			plan := run(fmt.Sprintf("EXPLAIN EXECUTE %s (%s)", name, strings.Join(arguments[name], ", ")))
			for _, slow := range []string{"Seq Scan", "Bitmap", "Hash Join", "Merge"} {
				if strings.Contains(plan, slow) {
					t.Errorf("%s over %d rows: a %s in\n%s", name, rows, slow, plan)
				}
			}
			if fast := "Index Scan"; name != "sweep" && name != "lock" && name != "commit" && !strings.Contains(plan, fast) {
				t.Errorf("%s over %d rows: no %s in\n%s", name, rows, fast, plan)
			}
			if fast := "Tid"; (name == "sweep" || name == "take") && !strings.Contains(plan, fast) {
				t.Errorf("%s over %d rows: no %s scan in\n%s", name, rows, fast, plan)
			}
		}
	}
}

// The same holds for the statements of a ledger, of which none may get slower as
// more is booked, before the place that it looks at or after.
func testLedgerPlans(t *testing.T, server string) {
	url := tables(t, server)
	c := connect(t, url)
	defer c.Close(t.Context())
	for setting := range strings.SplitSeq(postgres.Settings, ";") {
		answer(t, c, setting)
	}
	const name, ids, eras, numbers = "'payments'", "'{event}'::bytea[]", "'{0}'::integer[]", "'{50000}'::bigint[]"
	arguments := map[string][]string{
		"hold":     {name},
		"known":    {name, ids},
		"versions": {name, "0"},
		"load":     {"1", "0", "50000", "64", "256"},
		"strays":   {"1", "0", "0", "50000", "50010"},
		"taken":    {"1", "0", numbers},
		"free":     {"1", ids},
		"book":     {"1", "'{other}'::bytea[]", numbers, eras, "'{-1}'::bigint[]", eras, numbers, numbers},
		"keep":     {"1", eras, numbers, ids},
		"empty":    {"1", eras, numbers},
		"cut":      {"1", eras, numbers, "'{50001}'::bigint[]", "false"},
		"extend":   {"1", eras, numbers, "'{50001}'::bigint[]"},
		"config":   {name},
		"configs":  {name, "10"},
		"events":   {name, "50000", "60000", "50000", "'event'", "10"},
		"count":    {name, "50000", "1", "50010"},

		"put":        {"1", "'{other}'::bytea[]", numbers, numbers, eras, eras, "'{busy}'::text[]"},
		"remove":     {"1", ids},
		"deliveries": {"1", "'{event 50000}'::bytea[]"},
		"claim":      {"-3000000000000000", "0", "10", "7", "1000000"},
		"deliver":    {name, "'{event 50001}'::bytea[]", "'{0}'::bigint[]"},
		"die":        {name, "'{event 50002}'::bytea[]", "'{0}'::bigint[]", eras, eras, "'{busy}'::text[]"},
		"release":    {name, "'{event 50003}'::bytea[]", "'{0}'::bigint[]"},
		"dead":       {name, "50000", "'event'", "10"},
		"settle":     {name, "'{event 50004}'::bytea[]"},
	}
	statements := postgres.LedgerStatements()
	for name, statement := range statements {
		answer(t, c, "PREPARE "+name+" AS "+statement)
		answer(t, c, fmt.Sprintf("EXPLAIN EXECUTE %s (%s)", name, strings.Join(arguments[name], ", ")))
	}
	for _, fill := range []string{
		"INSERT INTO stint_slot_config (name, revision, paused_until) VALUES ('payments', 1, 0)",
		"INSERT INTO stint_slot_config (name, revision, paused_until) SELECT convert_to('refunds ' || i, 'UTF8'), 1, 0 FROM generate_series(1, 20000) AS i",
		"INSERT INTO stint_slot_version (config, n, begins, max, width, made, spec) SELECT id, 0, 0, 1, 1, 0, '{}' FROM stint_slot_config",
		"INSERT INTO stint_slot (config, event, requested, era, win, phase, at, booked) SELECT 1, convert_to('event ' || i, 'UTF8'), i, 0, i, 0, i, i FROM generate_series(1, 100000) AS i",
		"INSERT INTO stint_slot_cancelled (config, event, requested, era, win, phase, at, booked, cancelled) SELECT 1, convert_to('cancelled ' || i, 'UTF8'), i, 0, i, 0, i, i, i FROM generate_series(1, 100000) AS i",
		"INSERT INTO stint_slot_window (config, era, win, taken) SELECT 1, 0, i, '\\x01' FROM generate_series(1, 100000) AS i",
		"INSERT INTO stint_slot_run (config, era, lo, hi) SELECT 1, 0, 3 * i, 3 * i + 2 FROM generate_series(1, 33333) AS i",
		"INSERT INTO stint_slot_delivery (config, event, requested, due, attempts, status, error, lease, leased_until, dead) SELECT 1, convert_to('event ' || i, 'UTF8'), i, i, 0, 0, '', 0, 0, CASE WHEN i % 2 = 0 THEN 0 ELSE i END FROM generate_series(1, 100000) AS i",
	} {
		answer(t, c, fill)
	}
	const most = 500 // pages; the least of the tables has 1000 with its index
	read := regexp.MustCompile(`Buffers: shared hit=(\d+)(?: read=(\d+))?`)
	for name := range statements {
		execute := fmt.Sprintf("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) EXECUTE %s (%s)", name, strings.Join(arguments[name], ", "))
		plan := answer(t, c, execute)
		found := read.FindStringSubmatch(plan)
		if found == nil {
			t.Fatalf("%s: no buffers in\n%s", name, plan)
		}
		hit, _ := strconv.Atoi(found[1])
		missed, _ := strconv.Atoi(found[2])
		if pages := hit + missed; pages > most {
			t.Errorf("%s reads %d pages, want %d at most:\n%s", name, pages, most, plan)
		}
	}
}
