package mysql

import (
	"context"
	"database/sql/driver"
	"encoding/hex"
	"strconv"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// script is statements that go in one trip, and what reads their answers.
type script struct {
	statement
	reads []func(row []driver.Value) error
}

// do adds a statement that answers nothing.
func (t *script) do(parts ...string) {
	t.add(parts...)
	t.add("; ")
}

// ask adds a statement whose rows are for read, each until read returns.
func (t *script) ask(read func(row []driver.Value) error, parts ...string) {
	t.do(parts...)
	t.reads = append(t.reads, read)
}

// run runs a script.
func (c *conn) run(ctx context.Context, t *script) error {
	return c.answers(ctx, t.statement, func(answer int, row []driver.Value) error { return t.reads[answer](row) })
}

// hexed and decimal write values as SQL.
func hexed(b string) string { return "x'" + hex.EncodeToString([]byte(b)) + "'" }

func decimal[T ~int | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// configID looks for the config of the name that follows.
const configID = "SELECT id FROM stint_slot_config WHERE name = "

// in selects the rows e of a table that are of the config of a name, by an index
// whatever the server's statistics say. The server reads the one row of the config
// before it chooses how to look for the others.
func in(table, index, config string) string {
	return " FROM stint_slot_config AS c JOIN " + table + " AS e FORCE INDEX (" + index + ") ON e.config = c.id WHERE c.name = " + hexed(config)
}

// eventColumns are those that eachEvent reads, before the instant of a cancellation.
const eventColumns = "e.event, e.requested, e.era, e.win, e.phase, e.at, e.booked"

// known asks for those of ids that are known in a config.
func (t *script) known(config string, ids []string, f func(slots.Event)) {
	for _, from := range [...]string{
		"SELECT " + eventColumns + ", 0" + in("stint_slot", "event", config),
		"SELECT " + eventColumns + ", e.cancelled" + in("stint_slot_cancelled", "PRIMARY", config),
	} {
		t.add(from, " AND e.event IN ")
		t.list(ids)
		t.ask(eachEvent(f))
	}
}

// eachEvent reads rows of events.
func eachEvent(f func(slots.Event)) func(row []driver.Value) error {
	return func(row []driver.Value) error {
		n := func(i int) int64 { return row[i].(int64) }
		f(slots.Event{
			ID:        string(row[0].([]byte)),
			Requested: plan.Ticks(n(1)),
			Slot:      plan.Slot{Era: int(n(2)), Window: n(3), Phase: int(n(4)), At: plan.Ticks(n(5))},
			Booked:    plan.Ticks(n(6)),
			Cancelled: plan.Ticks(n(7)),
		})
		return nil
	}
}
