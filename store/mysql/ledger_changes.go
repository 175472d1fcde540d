package mysql

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// writer writes changes, by statements that go in one trip as long as that does
// not become too long. After an error it does nothing more.
//
// All rows are found by their whole keys, so that none is locked that may be
// another config's.
type writer struct {
	t    *ledgerTx
	conn *conn
	text statement
	err  error
}

// send sends what there is to be sent.
func (w *writer) send() error {
	if w.err == nil && len(w.text) > 0 {
		w.err = w.conn.exec(w.t.ctx, string(w.text))
	}
	w.text = w.text[:0]
	return w.err
}

// rows adds statements for n rows: what they begin with, the rows with commas
// between, and what they end with.
func (w *writer) rows(n int, begin string, row func(i int), end string) {
	for i := range n {
		if w.err != nil {
			return
		}
		if i == 0 || len(w.text) == 0 {
			w.text.add(begin)
		} else {
			w.text.add(", ")
		}
		row(i)
		if i == n-1 || len(w.text) > maxStatement {
			w.text.add(end, "; ")
		}
		if len(w.text) > maxStatement {
			w.send()
		}
	}
}

// of returns text with the number of the config in it.
func (w *writer) of(before, after string) string { return before + decimal(w.t.id) + after }

// row adds a row of the config, with numbers and then perhaps bytes.
func (w *writer) row(numbers ...int64) {
	w.text.add("(")
	w.text.number(w.t.id)
	for _, n := range numbers {
		w.text.add(", ")
		w.text.number(n)
	}
	w.text.add(")")
}

// and adds bytes to the row that was added last.
func (w *writer) and(b string) {
	w.text = w.text[:len(w.text)-1]
	w.text.add(", ")
	w.text.bytes(b)
	w.text.add(")")
}

func (w *writer) changes(c *slots.Changes) {
	if c.Config != nil {
		w.config(c.Config)
	}
	w.rows(len(c.Freed), w.of("DELETE e FROM stint_slot AS e FORCE INDEX (event) WHERE e.config = ", " AND e.event IN ("),
		func(i int) { w.text.bytes(c.Freed[i].ID) }, ")")
	moved := func(e slots.Event) bool { return e.Cancelled == 0 }
	w.events("stint_slot_cancelled (config, requested, era, win, phase, at, booked, cancelled, event)", slices.DeleteFunc(slices.Clone(c.Freed), moved))
	w.events("stint_slot (config, requested, era, win, phase, at, booked, event)", c.Booked)
	w.windows(c.Windows)
	w.runs(c)
	w.outbox(c)
}

func (w *writer) config(c *slots.Config) {
	w.text.add(w.of("UPDATE stint_slot_config SET revision = "+decimal(c.Revision)+", paused_until = "+decimal(c.PausedUntil)+" WHERE id = ", "; "))
	known := len(w.t.config.Versions)
	if len(c.Versions) < known {
		w.err = fmt.Errorf("the config has %d versions already and would have %d; none is ever taken out", known, len(c.Versions))
		return
	}
	added := c.Versions[known:]
	w.rows(len(added), "INSERT INTO stint_slot_version (config, n, begins, max, width, made, spec) VALUES ", func(i int) {
		v := added[i]
		spec, err := json.Marshal(v)
		if err != nil {
			w.err = fmt.Errorf("version %d of the config: %w", known+i, err)
			return
		}
		w.row(int64(known+i), int64(v.From), int64(v.Max), int64(v.Window), int64(v.Made))
		w.and(string(spec))
	}, "")
}

// events inserts events into a table with these columns. A key that is there
// already is an error.
func (w *writer) events(into string, events []slots.Event) {
	w.rows(len(events), "INSERT INTO "+into+" VALUES ", func(i int) {
		e := &events[i]
		numbers := [...]int64{int64(e.Requested), int64(e.Era), e.Window, int64(e.Phase), int64(e.At), int64(e.Booked), int64(e.Cancelled)}
		if e.Cancelled == 0 {
			w.row(numbers[:6]...)
		} else {
			w.row(numbers[:]...)
		}
		w.and(e.ID)
	}, "")
}

func (w *writer) windows(windows []plan.Window) {
	var some []plan.Window
	empty := make(map[int][]int64) // by era
	for _, v := range windows {
		if len(v.Taken) > 0 {
			some = append(some, v)
		} else {
			empty[v.Era] = append(empty[v.Era], v.Index)
		}
	}
	w.rows(len(some), "INSERT INTO stint_slot_window (config, era, win, taken) VALUES ", func(i int) {
		w.row(int64(some[i].Era), some[i].Index)
		w.and(string(some[i].Taken))
	}, " ON DUPLICATE KEY UPDATE taken = VALUES(taken)")
	for era, indexes := range empty {
		w.rows(len(indexes), w.of("DELETE w FROM stint_slot_window AS w FORCE INDEX (PRIMARY) WHERE w.config = ", " AND w.era = "+decimal(era)+" AND w.win IN ("),
			func(i int) { w.text.number(indexes[i]) }, ")")
	}
}
