package mysql

import (
	"bytes"
	"database/sql/driver"
	"math"
	"slices"
	"strings"

	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/readahead"
)

// reading is what is read of the windows that are needed: the run that need.From
// lies in, or the last before it; the next ones; and need.Windows windows from
// need.From on or, if that lies in a run, from the end of that.
type reading struct {
	config int64
	need   plan.Need
	runs   plan.Runs
	taken  []plan.Window
	whole  bool // the gaps were read, too, see settle
}

// of is the part of a table that r is about.
func (r *reading) of(table string) string {
	return table + " WHERE config = " + decimal(r.config) + " AND era = " + decimal(r.need.Era)
}

// load adds what reads r.
func (t *script) load(r *reading) {
	of, from := r.of("stint_slot_run"), decimal(r.need.From)
	t.do("SET @now = COALESCE((SELECT hi FROM ", of, " AND lo <= ", from, " ORDER BY lo DESC LIMIT 1), ", from, ")")
	t.do("SET @now = GREATEST(@now, ", from, ")")
	r.runs, r.taken = nil, nil
	read := func(row []driver.Value) error {
		r.runs = append(r.runs, plan.Run{Era: r.need.Era, From: row[0].(int64), To: row[1].(int64)})
		return nil
	}
	t.ask(read, "SELECT lo, hi FROM ", of, " AND lo <= ", from, " ORDER BY lo DESC LIMIT 1")
	t.ask(read, "SELECT lo, hi FROM ", of, " AND lo > ", from, " ORDER BY lo LIMIT ", decimal(readahead.MostRuns))
	t.windows(r, "AND win >= @now AND win < @now + "+decimal(r.need.Windows))
}

// windows adds what reads the windows of r for which something is so.
func (t *script) windows(r *reading, so string) {
	t.ask(func(row []driver.Value) error {
		r.taken = append(r.taken, plan.Window{Era: r.need.Era, Index: row[0].(int64), Taken: bytes.Clone(row[1].([]byte))})
		return nil
	}, "SELECT win, taken FROM ", r.of("stint_slot_window"), " ", so, " ORDER BY win")
}

// settle returns what r says. gaps are the windows after that which would have to
// be read so that it says of need.Windows that they are not full.
func (r *reading) settle() (a readahead.Windows, gaps []plan.Run) {
	a = readahead.Windows{Era: r.need.Era, From: r.need.From, Chunk: plan.Chunk{To: r.need.From}}
	runs, read := r.runs.From(r.need.From), int64(math.MaxInt64) // to where windows were read
	if !r.whole {
		read = r.need.From
		if len(runs) > 0 && runs[0].From <= read {
			read = runs[0].To
		}
		read += int64(r.need.Windows)
	}
	to := a.To
	for left := int64(r.need.Windows); ; {
		if len(runs) > 0 && runs[0].From <= to {
			if len(gaps) == 0 {
				a.Full, a.To = append(a.Full, runs[0]), runs[0].To
			}
			to, runs = runs[0].To, runs[1:]
			continue
		}
		if left == 0 || len(runs) == 0 && len(r.runs) >= readahead.MostRuns {
			break // there may be runs after the last that was read
		}
		open := left
		if len(runs) > 0 {
			open = min(open, runs[0].From-to)
		}
		if len(gaps) == 0 {
			a.To = min(to+open, max(to, read))
		}
		if to+open > read {
			gaps = append(gaps, plan.Run{Era: r.need.Era, From: max(to, read), To: to + open})
		}
		to, left = to+open, left-open
	}
	for _, w := range r.taken {
		if covering := plan.Runs(a.Full).From(w.Index); w.Index < a.To && (len(covering) == 0 || covering[0].From > w.Index) {
			a.Taken = append(a.Taken, w)
		}
	}
	return a, gaps
}

// Expect implements [slots.Tx].
func (t *ledgerTx) Expect(needs []plan.Need) { t.ahead.Expect(needs) }

// Load implements [plan.Occupancy]. What was read ahead takes no trip, and what
// lies between many runs two.
func (t *ledgerTx) Load(n plan.Need) (plan.Chunk, error) {
	chunk, known := t.ahead.Answer(n)
	if !known {
		if err := t.do(func(c *conn) error { return t.load(c, t.ahead.Next(n, t.config)) }); err != nil {
			return plan.Chunk{}, t.ledger.fault("load", err, false)
		}
		chunk, _ = t.ahead.Answer(n)
	}
	if !t.ahead.Scattered() {
		t.used.Add(t.id, n)
	}
	return chunk, nil
}

func (t *ledgerTx) load(c *conn, needs []plan.Need) error {
	var s script
	all := make([]reading, len(needs))
	for i, n := range needs {
		all[i] = reading{config: t.id, need: n}
		s.load(&all[i])
	}
	if err := c.run(t.ctx, &s); err != nil {
		return err
	}
	found := make([]readahead.Windows, len(needs))
	for i := range all {
		var gaps []plan.Run
		if found[i], gaps = all[i].settle(); len(gaps) == 0 || len(all) > 1 {
			continue
		}
		within := make([]string, len(gaps))
		for i, g := range gaps {
			within[i] = "win >= " + decimal(g.From) + " AND win < " + decimal(g.To)
		}
		s = script{}
		s.windows(&all[i], "AND ("+strings.Join(within, " OR ")+")")
		if err := c.run(t.ctx, &s); err != nil {
			return err
		}
		all[i].whole = true
		found[i], _ = all[i].settle()
	}
	t.read(found...)
	return nil
}

// read notes what was read.
func (t *ledgerTx) read(found ...readahead.Windows) {
	for i := range found {
		t.saw(&found[i])
	}
	t.ahead.Read(found...)
}

// Strays implements [plan.Occupancy].
func (t *ledgerTx) Strays(era, phase int, from, to plan.Ticks) (strays []plan.Slot, err error) {
	var s script
	s.ask(func(row []driver.Value) error {
		n := func(i int) int64 { return row[i].(int64) }
		strays = append(strays, plan.Slot{Era: int(n(0)), Window: n(1), Phase: int(n(2)), At: plan.Ticks(n(3))})
		return nil
	}, "SELECT era, win, phase, at FROM stint_slot FORCE INDEX (at) WHERE config = ", decimal(t.id),
		" AND at >= ", decimal(from), " AND at < ", decimal(to),
		" AND (era <> ", decimal(era), " OR phase >= ", decimal(phase), ") ORDER BY at, era")
	err = t.do(func(c *conn) error { return c.run(t.ctx, &s) })
	if err != nil {
		return nil, t.ledger.fault("strays", err, false)
	}
	return strays, nil
}

// Taken implements [slots.Tx].
func (t *ledgerTx) Taken(era int, windows []int64) ([]plan.Window, error) {
	r := reading{config: t.id, need: plan.Need{Era: era}}
	const most = 10_000 // that are named in one trip
	err := t.do(func(c *conn) error {
		for some := range slices.Chunk(windows, most) {
			list := make([]string, len(some))
			for i, k := range some {
				list[i] = decimal(k)
			}
			var s script
			s.windows(&r, "AND win IN ("+strings.Join(list, ", ")+")")
			if err := c.run(t.ctx, &s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, t.ledger.fault("taken", err, false)
	}
	return r.taken, nil
}
