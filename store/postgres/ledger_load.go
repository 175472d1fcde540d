package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5"

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

// Load implements [plan.Occupancy]. What was read ahead takes no trip.
func (t *ledgerTx) Load(n plan.Need) (plan.Chunk, error) {
	a := &t.ahead
	if a.era != n.Era || n.From < a.from || n.From >= a.To {
		n.Windows = bounded(int64(n.Windows), t.config)
		if err := t.load(n); err != nil {
			return plan.Chunk{}, t.ledger.fault("load", err, false)
		}
	}
	if !t.loaded {
		t.loaded, t.used = true, use{t.id, n.Era, n.From, n.From + 1}
	}
	i, _ := slices.BinarySearchFunc(a.Taken, n.From, func(w plan.Window, k int64) int { return cmp.Compare(w.Index, k) })
	return plan.Chunk{To: a.To, Full: plan.Runs(a.Full).From(n.From), Taken: a.Taken[i:]}, nil
}

func (t *ledgerTx) load(n plan.Need) error {
	t.ahead = ahead{}
	return t.do(func(c *pgx.Conn) error {
		var batch pgx.Batch
		queueLoad(&batch, &t.ledger.sql, t.id, n, &t.ahead)
		return c.SendBatch(t.ctx, &batch).Close()
	})
}

// queueLoad adds to a batch what reads the windows that n says into a.
func queueLoad(b *pgx.Batch, sql *ledgerStatements, config int32, n plan.Need, a *ahead) {
	b.Queue(sql.load, config, n.Era, n.From, int64(n.Windows), mostRuns).Query(func(rows pgx.Rows) error {
		var found plan.Chunk
		var from, to int64
		var taken []byte
		_, err := pgx.ForEachRow(rows, []any{&from, &to, &taken}, func() error {
			if taken == nil {
				found.Full = append(found.Full, plan.Run{Era: n.Era, From: from, To: to})
			} else {
				found.Taken = append(found.Taken, plan.Window{Era: n.Era, Index: from, Taken: taken})
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found.Full, func(a, b plan.Run) int { return cmp.Compare(a.From, b.From) })
		slices.SortFunc(found.Taken, func(a, b plan.Window) int { return cmp.Compare(a.Index, b.Index) })
		found.To = n.From
		runs := found.Full
		for left := int64(n.Windows); ; {
			if len(runs) > 0 && runs[0].From <= found.To {
				found.To, runs = runs[0].To, runs[1:]
				continue
			}
			if left == 0 || len(runs) == 0 && len(found.Full) >= mostRuns {
				break // there may be runs after the last that was read
			}
			open := left
			if len(runs) > 0 {
				open = min(open, runs[0].From-found.To)
			}
			found.To, left = found.To+open, left-open
		}
		found.Full = found.Full[:len(found.Full)-len(runs)] // the others begin after it
		for n := len(found.Taken); n > 0 && found.Taken[n-1].Index >= found.To; n-- {
			found.Taken = found.Taken[:n-1]
		}
		*a = ahead{n.Era, n.From, found}
		return nil
	})
}

// Strays implements [plan.Occupancy].
func (t *ledgerTx) Strays(era, phase int, from, to plan.Ticks) (strays []plan.Slot, err error) {
	err = t.do(func(c *pgx.Conn) error {
		rows, err := c.Query(t.ctx, t.ledger.sql.strays, t.id, era, int64(phase), from, to)
		if err != nil {
			return err
		}
		var s plan.Slot
		_, err = pgx.ForEachRow(rows, []any{&s.Era, &s.Window, &s.Phase, &s.At}, func() error {
			strays = append(strays, s)
			return nil
		})
		return err
	})
	return strays, t.ledger.fault("strays", err, false)
}

// Taken implements [slots.Tx].
func (t *ledgerTx) Taken(era int, windows []int64) (taken []plan.Window, err error) {
	err = t.do(func(c *pgx.Conn) error {
		rows, err := c.Query(t.ctx, t.ledger.sql.taken, t.id, era, windows)
		if err != nil {
			return err
		}
		var k int64
		var phases []byte
		_, err = pgx.ForEachRow(rows, []any{&k, &phases}, func() error {
			taken = append(taken, plan.Window{Era: era, Index: k, Taken: phases})
			return nil
		})
		return err
	})
	return taken, t.ledger.fault("taken", err, false)
}

// use is which windows the last transactions of a config have used. The next one
// reads them ahead, which saves it a trip if it uses the same.
type use struct {
	config   int32
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
