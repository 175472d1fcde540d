package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-dev/stint/store/postgres"
)

// The plans that were made for an empty table are those that a full one needs:
// a connection keeps them.
func testPlans(t *testing.T, server string) {
	url := tables(t, server)
	c := connect(t, url)
	defer c.Close(t.Context())
	run := func(statement string) (text string) {
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
