package mysql

import (
	"database/sql/driver"
	"maps"
	"slices"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/readahead"
)

// runs is what a transaction knows of the runs of full windows of an era. A
// statement that looked for those that a change overlaps would lock the rows
// beside them, which may be another config's; so they are read without a lock, if
// Load has not told of them, and then written by their keys.
type runs struct {
	// known are the windows of which it is known whether a run covers them.
	known plan.Runs
	full  plan.Runs
}

// see notes that of windows in from to before to only these runs cover any.
func (s *runs) see(era int, from, to int64, full []plan.Run) {
	for _, r := range full {
		s.full = s.full.Add(r)
		from, to = min(from, r.From), max(to, r.To)
	}
	s.known = s.known.Add(plan.Run{Era: era, From: from, To: to})
}

// knows reports whether it is known which runs overlap r.
func (s *runs) knows(r plan.Run) bool {
	at := r.From
	for _, k := range s.known.From(at) {
		if k.From > at {
			break
		}
		if at = k.To; at >= r.To {
			return true
		}
	}
	return false
}

// saw notes what a says of runs.
func (t *ledgerTx) saw(a *readahead.Windows) { t.runsOf(a.Era).see(a.Era, a.From, a.To, a.Full) }

func (t *ledgerTx) runsOf(era int) *runs {
	if t.runs[era] == nil {
		t.runs[era] = new(runs)
	}
	return t.runs[era]
}

// learn reads the runs of an era that overlap some others, unless they are known.
func (t *ledgerTx) learn(c *conn, era int, others []plan.Run) error {
	s := t.runsOf(era)
	others = slices.DeleteFunc(slices.Clone(others), s.knows)
	if len(others) == 0 {
		return nil
	}
	from, to := others[0].From, others[0].To
	for _, r := range others {
		from, to = min(from, r.From), max(to, r.To)
	}
	var found []plan.Run
	read := func(row []driver.Value) error {
		if r := (plan.Run{Era: era, From: row[0].(int64), To: row[1].(int64)}); r.To > from {
			found = append(found, r)
		}
		return nil
	}
	r := reading{config: t.id, need: plan.Need{Era: era}}
	of := r.of("stint_slot_run")
	var text script
	text.ask(read, "SELECT lo, hi FROM ", of, " AND lo <= ", decimal(from), " ORDER BY lo DESC LIMIT 1")
	text.ask(read, "SELECT lo, hi FROM ", of, " AND lo > ", decimal(from), " AND lo < ", decimal(to))
	if err := c.run(t.ctx, &text); err != nil {
		return err
	}
	s.see(era, from, to, found)
	return nil
}

// runs writes what becomes of the runs.
func (w *writer) runs(c *slots.Changes) {
	touched := make(map[int][]plan.Run) // by era
	for _, some := range [][]plan.Run{c.Reopened, c.Full} {
		for _, r := range some {
			touched[r.Era] = append(touched[r.Era], r)
		}
	}
	for _, era := range slices.Sorted(maps.Keys(touched)) {
		if w.err == nil {
			w.err = w.t.learn(w.conn, era, touched[era])
		}
		before := slices.Clone(w.t.runsOf(era).full)
		w.t.runsOf(era).change(era, c)
		w.replace(era, before, w.t.runsOf(era).full)
	}
}

// change makes the changes of one era.
func (s *runs) change(era int, c *slots.Changes) {
	for _, r := range c.Reopened {
		if r.Era == era {
			s.full = s.full.Cut(r)
		}
	}
	for _, r := range c.Full {
		if r.Era == era {
			s.full = s.full.Add(r)
		}
	}
}

// replace writes the difference between runs as they were and as they are.
func (w *writer) replace(era int, before, after plan.Runs) {
	had := make(map[int64]int64, len(before))
	for _, r := range before {
		had[r.From] = r.To
	}
	var put plan.Runs
	for _, r := range after {
		if to, has := had[r.From]; !has || to != r.To {
			put = append(put, r)
		}
		delete(had, r.From)
	}
	gone := slices.Sorted(maps.Keys(had))
	w.rows(len(gone), w.of("DELETE r FROM stint_slot_run AS r FORCE INDEX (PRIMARY) WHERE r.config = ", " AND r.era = "+decimal(era)+" AND r.lo IN ("),
		func(i int) { w.text.number(gone[i]) }, ")")
	w.rows(len(put), "INSERT INTO stint_slot_run (config, era, lo, hi) VALUES ",
		func(i int) { w.row(int64(era), put[i].From, put[i].To) }, " ON DUPLICATE KEY UPDATE hi = VALUES(hi)")
}
