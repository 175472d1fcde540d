package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/readahead"
)

// Expect implements [slots.Tx].
func (t *ledgerTx) Expect(needs []plan.Need) { t.ahead.Expect(needs) }

// Load implements [plan.Occupancy]. What was read ahead takes no trip.
func (t *ledgerTx) Load(n plan.Need) (plan.Chunk, error) {
	chunk, known := t.ahead.Answer(n)
	if !known {
		if err := t.load(t.ahead.Next(n, t.config)); err != nil {
			return plan.Chunk{}, t.ledger.fault("load", err, false)
		}
		chunk, _ = t.ahead.Answer(n)
	}
	if !t.ahead.Scattered() {
		t.used.Add(t.id, n)
	}
	return chunk, nil
}

func (t *ledgerTx) load(needs []plan.Need) error {
	return t.do(func(c *pgx.Conn) error {
		var batch pgx.Batch
		found := make([]readahead.Windows, len(needs))
		for i, n := range needs {
			queueLoad(&batch, &t.ledger.sql, t.id, n, &found[i])
		}
		err := c.SendBatch(t.ctx, &batch).Close()
		if err == nil {
			t.ahead.Read(found...)
		}
		return err
	})
}

// queueLoad adds to a batch what reads the windows that n says into a.
func queueLoad(b *pgx.Batch, sql *ledgerStatements, config int64, n plan.Need, a *readahead.Windows) {
	b.Queue(sql.load, config, n.Era, n.From, int64(n.Windows), readahead.MostRuns).Query(func(rows pgx.Rows) error {
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
			if left == 0 || len(runs) == 0 && len(found.Full) >= readahead.MostRuns {
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
		*a = readahead.Windows{Era: n.Era, From: n.From, Chunk: found}
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
