package sqlite

import (
	"database/sql"

	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/readahead"
)

// Expect implements [slots.Tx]. There are no trips to save.
func (t *ledgerTx) Expect([]plan.Need) {}

// Load implements [plan.Occupancy].
func (t *ledgerTx) Load(n plan.Need) (plan.Chunk, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, err := t.load(n)
	return c, ledgerFault("load", false, err)
}

func (t *ledgerTx) load(n plan.Need) (c plan.Chunk, err error) {
	if err := t.open(); err != nil {
		return c, err
	}
	var runs []plan.Run // in ascending order: the first statement of the two comes first
	err = t.each(t.ledger.store.ledger.runs, []any{t.id, n.Era, n.From, readahead.MostRuns}, func(rows *sql.Rows) error {
		r := plan.Run{Era: n.Era}
		err := rows.Scan(&r.From, &r.To)
		runs = append(runs, r)
		return err
	})
	if err != nil {
		return c, err
	}
	all := len(runs) < readahead.MostRuns // or there may be more after the last
	c.To = n.From
	for left := int64(readahead.Bounded(int64(n.Windows), t.config)); ; {
		if len(runs) > 0 && runs[0].From <= c.To {
			c.Full, c.To, runs = append(c.Full, runs[0]), runs[0].To, runs[1:]
			continue
		}
		if left == 0 || len(runs) == 0 && !all {
			return c, nil
		}
		open := left
		if len(runs) > 0 {
			open = min(open, runs[0].From-c.To)
		}
		if err := t.loadWindows(n.Era, c.To, c.To+open, &c.Taken); err != nil {
			return c, err
		}
		c.To, left = c.To+open, left-open
	}
}

// loadWindows appends the windows of an era from one to before another.
func (t *ledgerTx) loadWindows(era int, from, to int64, taken *[]plan.Window) error {
	return t.each(t.ledger.store.ledger.windows, []any{t.id, era, from, to}, func(rows *sql.Rows) error {
		return addWindow(era, taken, rows)
	})
}

func addWindow(era int, taken *[]plan.Window, rows *sql.Rows) error {
	w := plan.Window{Era: era}
	var phases []byte
	err := rows.Scan(&w.Index, &phases)
	w.Taken = phases
	*taken = append(*taken, w)
	return err
}

// Taken implements [slots.Tx].
func (t *ledgerTx) Taken(era int, windows []int64) (taken []plan.Window, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err = t.open(); err == nil {
		err = t.each(t.ledger.store.ledger.taken, []any{t.id, era, jsonOf(windows)}, func(rows *sql.Rows) error {
			return addWindow(era, &taken, rows)
		})
	}
	return taken, ledgerFault("taken", false, err)
}

// Strays implements [plan.Occupancy].
func (t *ledgerTx) Strays(era, phase int, from, to plan.Ticks) (strays []plan.Slot, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err = t.open(); err == nil {
		err = t.each(t.ledger.store.ledger.strays, []any{t.id, era, phase, from, to}, func(rows *sql.Rows) error {
			var s plan.Slot
			err := rows.Scan(&s.Era, &s.Window, &s.Phase, &s.At)
			strays = append(strays, s)
			return err
		})
	}
	return strays, ledgerFault("strays", false, err)
}
