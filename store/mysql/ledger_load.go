package mysql

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"math"
	"slices"
	"strings"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// Bounds of what is read at once: so many windows, of so many bytes together
// unless it is one, and so many runs of full ones. A window that is empty is not
// read at all, so few are no fewer than that.
const (
	mostWindows = 4096
	mostBytes   = 64 << 10
	mostRuns    = 256
	fewWindows  = 64
)

// bounded returns n windows or, if those of a config may be too large, fewer.
func bounded(n int64, c *slots.Config) int {
	bytes := 1
	for _, v := range c.Versions {
		bytes = max(bytes, (v.Max+7)/8)
	}
	return int(max(1, min(max(n, fewWindows), mostWindows, int64(mostBytes/bytes))))
}

// ahead is what is known of the windows of an era from one on.
type ahead struct {
	era  int
	from int64
	plan.Chunk
}

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
	t.ask(read, "SELECT lo, hi FROM ", of, " AND lo > ", from, " ORDER BY lo LIMIT ", decimal(mostRuns))
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
func (r *reading) settle() (a ahead, gaps []plan.Run) {
	a = ahead{r.need.Era, r.need.From, plan.Chunk{To: r.need.From}}
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
		if left == 0 || len(runs) == 0 && len(r.runs) >= mostRuns {
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

// Load implements [plan.Occupancy]. What was read ahead takes no trip, and what
// lies between many runs two.
func (t *ledgerTx) Load(n plan.Need) (plan.Chunk, error) {
	a := &t.ahead
	if a.era != n.Era || n.From < a.from || n.From >= a.To {
		n.Windows = bounded(int64(n.Windows), t.config)
		if err := t.do(func(c *conn) error { return t.load(c, n) }); err != nil {
			return plan.Chunk{}, t.ledger.fault("load", err, false)
		}
	}
	if !t.loaded {
		t.loaded, t.used = true, use{t.id, n.Era, n.From, n.From + 1}
	}
	i, _ := slices.BinarySearchFunc(a.Taken, n.From, func(w plan.Window, k int64) int { return cmp.Compare(w.Index, k) })
	return plan.Chunk{To: a.To, Full: plan.Runs(a.Full).From(n.From), Taken: a.Taken[i:]}, nil
}

func (t *ledgerTx) load(c *conn, n plan.Need) error {
	t.ahead = ahead{}
	r := reading{config: t.id, need: n}
	var s script
	s.load(&r)
	if err := c.run(t.ctx, &s); err != nil {
		return err
	}
	found, gaps := r.settle()
	if len(gaps) > 0 {
		within := make([]string, len(gaps))
		for i, g := range gaps {
			within[i] = "win >= " + decimal(g.From) + " AND win < " + decimal(g.To)
		}
		s = script{}
		s.windows(&r, "AND ("+strings.Join(within, " OR ")+")")
		if err := c.run(t.ctx, &s); err != nil {
			return err
		}
		r.whole = true
		found, _ = r.settle()
	}
	t.ahead = found
	t.saw(&t.ahead)
	return nil
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

// use is which windows the last transactions of a config have used. The next one
// reads them ahead, which saves it a trip if it uses the same.
type use struct {
	config   int64
	era      int
	from, to int64
}

// guess returns what a transaction for so many events will need; of no windows if
// that can't be guessed.
func (u use) guess(events int, c *slots.Config) plan.Need {
	if u.config == 0 || events == 0 || c == nil || len(c.Versions) == 0 {
		return plan.Need{}
	}
	most := c.Versions[len(c.Versions)-1].Max
	n := max(u.to-u.from, int64(events/most+2))
	return plan.Need{Era: u.era, From: u.from, Windows: bounded(n, c)}
}

// then returns what u becomes by the use of a transaction: all of it, and of what
// it did not use seven eighths.
func (u use) then(now use) use {
	if u.config != now.config || u.era != now.era {
		return now
	}
	return use{u.config, u.era, min(now.from, u.from+(now.from-u.from+7)/8), max(now.to, u.to-(u.to-now.to+7)/8)}
}

// mostUses bounds of how many configs the use is remembered.
const mostUses = 1000

func (l *ledger) lastUse(config string) use {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.uses[config]
}

// remember notes what t has used, which was committed with changes.
func (l *ledger) remember(t *ledgerTx, c *slots.Changes) {
	if !t.loaded {
		return
	}
	for _, w := range c.Windows {
		if w.Era == t.used.era {
			t.used.to = max(t.used.to, w.Index+1)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.uses) >= mostUses {
		clear(l.uses)
	}
	l.uses[t.config.Name] = l.uses[t.config.Name].then(t.used)
}
