package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// apply makes the changes.
func (t *ledgerTx) apply(c *slots.Changes) error {
	if c.Config != nil {
		if err := t.applyConfig(c.Config); err != nil {
			return err
		}
	}
	if err := t.applyEvents(c); err != nil {
		return err
	}
	if err := t.applyWindows(c.Windows); err != nil {
		return err
	}
	if err := t.cutRuns(c.Reopened); err != nil {
		return err
	}
	if err := t.cutRuns(c.Full); err != nil {
		return err
	}
	if err := t.addRuns(c.Full); err != nil {
		return err
	}
	return t.applyOutbox(c)
}

func (t *ledgerTx) applyConfig(c *slots.Config) error {
	stmts := &t.ledger.store.ledger
	if err := t.exec(stmts.revise, t.id, c.Revision, c.PausedUntil); err != nil {
		return err
	}
	known := len(t.config.Versions)
	if len(c.Versions) < known {
		return fmt.Errorf("the config has %d versions already and would have %d; none is ever taken out", known, len(c.Versions))
	}
	var args []any
	for i, v := range c.Versions[known:] {
		spec, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("version %d of the config: %w", known+i, err)
		}
		args = append(args, t.id, known+i, v.From, v.Max, v.Window, v.Made, string(spec))
	}
	return t.insert(&stmts.add, args)
}

func (t *ledgerTx) applyEvents(c *slots.Changes) error {
	stmts := &t.ledger.store.ledger
	if len(c.Freed) > 0 {
		var ids []string
		var buried []any
		for _, e := range c.Freed {
			ids = append(ids, e.ID)
			if e.Cancelled != 0 {
				buried = append(buried, t.id, e.ID, e.Requested, e.Era, e.Window, e.Phase, e.At, e.Booked, e.Cancelled)
			}
		}
		if err := t.exec(stmts.free, t.id, jsonOf(ids)); err != nil {
			return err
		}
		if err := t.insert(&stmts.bury, buried); err != nil {
			return err
		}
	}
	booked := make([]any, 0, len(c.Booked)*stmts.book.columns)
	for _, e := range c.Booked {
		booked = append(booked, t.id, e.ID, e.Requested, e.Era, e.Window, e.Phase, e.At, e.Booked)
	}
	return t.insert(&stmts.book, booked)
}

func (t *ledgerTx) applyWindows(windows []plan.Window) error {
	stmts := &t.ledger.store.ledger
	var kept []any
	for _, w := range windows {
		if len(w.Taken) > 0 {
			kept = append(kept, t.id, w.Era, w.Index, []byte(w.Taken))
		} else if err := t.exec(stmts.empty, t.id, w.Era, w.Index); err != nil {
			return err
		}
	}
	return t.insert(&stmts.keep, kept)
}

// cutRuns takes windows out of the runs of full ones.
func (t *ledgerTx) cutRuns(cuts []plan.Run) error {
	stmts := &t.ledger.store.ledger
	var rest []plan.Run
	for _, cut := range united(cuts) {
		err := t.each(stmts.cut, []any{t.id, cut.Era, cut.From, cut.To}, func(rows *sql.Rows) error {
			r := plan.Run{Era: cut.Era}
			err := rows.Scan(&r.From, &r.To)
			rest = append(rest, plan.Runs{r}.Cut(cut)...)
			return err
		})
		if err != nil {
			return err
		}
		if err := t.addRuns(rest); err != nil {
			return err
		}
		rest = rest[:0]
	}
	return nil
}

// addRuns adds runs, which overlap none that there are.
func (t *ledgerTx) addRuns(runs []plan.Run) error {
	var args []any
	for _, r := range united(runs) {
		args = append(args, t.id, r.Era, r.From, r.To)
	}
	return t.insert(&t.ledger.store.ledger.run, args)
}

// united returns runs without those that others cover.
func united(runs []plan.Run) (some []plan.Run) {
	if len(runs) < 2 {
		return runs
	}
	byEra := make(map[int]plan.Runs)
	for _, r := range runs {
		byEra[r.Era] = byEra[r.Era].Add(r)
	}
	for _, r := range byEra {
		some = append(some, r...)
	}
	return some
}

// insert inserts rows, of which args are the columns.
func (t *ledgerTx) insert(into *rowStatement, args []any) error {
	for len(args) > 0 {
		stmt, n := into.one, into.columns
		if len(args) >= manyRows*n {
			stmt, n = into.many, manyRows*n
		}
		if err := t.exec(stmt, args[:n]...); err != nil {
			return err
		}
		args = args[n:]
	}
	return nil
}
