package postgres

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// queue adds to a batch what makes the changes.
func (t *ledgerTx) queue(b *pgx.Batch, c *slots.Changes) error {
	sql := &t.ledger.sql
	if c.Config != nil {
		if err := t.queueConfig(b, c.Config); err != nil {
			return err
		}
	}
	if len(c.Freed) > 0 {
		b.Queue(sql.free, t.id, columnsOf(c.Freed).ids)
		moved := func(e slots.Event) bool { return e.Cancelled == 0 }
		if gone := columnsOf(slices.DeleteFunc(slices.Clone(c.Freed), moved)); len(gone.ids) > 0 {
			b.Queue(sql.bury, append(gone.arguments(t.id), gone.cancelled)...)
		}
	}
	if len(c.Booked) > 0 {
		b.Queue(sql.book, columnsOf(c.Booked).arguments(t.id)...)
	}
	t.queueWindows(b, c.Windows)
	if len(c.Reopened) > 0 {
		eras, from, to := runColumns(c.Reopened)
		b.Queue(sql.cut, t.id, eras, from, to, false)
	}
	if len(c.Full) > 0 {
		eras, from, to := runColumns(c.Full)
		b.Queue(sql.cut, t.id, eras, from, to, true)
		b.Queue(sql.extend, t.id, eras, from, to)
	}
	t.queueOutbox(b, c)
	return nil
}

func (t *ledgerTx) queueConfig(b *pgx.Batch, c *slots.Config) error {
	b.Queue(t.ledger.sql.revise, t.id, c.Revision, c.PausedUntil)
	known := t.versions
	if len(c.Versions) < known {
		return fmt.Errorf("the config has %d versions already and would have %d; none is ever taken out", known, len(c.Versions))
	}
	var numbers []int32
	var begins, most, width, made []int64
	var specs []string
	for i, v := range c.Versions[known:] {
		spec, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("version %d of the config: %w", known+i, err)
		}
		numbers, specs = append(numbers, int32(known+i)), append(specs, string(spec))
		begins, most = append(begins, int64(v.From)), append(most, int64(v.Max))
		width, made = append(width, int64(v.Window)), append(made, int64(v.Made))
	}
	t.versions = len(c.Versions)
	if len(specs) > 0 {
		b.Queue(t.ledger.sql.add, t.id, numbers, begins, most, width, made, specs)
	}
	return nil
}

func (t *ledgerTx) queueWindows(b *pgx.Batch, windows []plan.Window) {
	var eras, emptyEras []int32
	var indexes, emptyIndexes []int64
	var taken [][]byte
	for _, w := range windows {
		if len(w.Taken) == 0 {
			emptyEras, emptyIndexes = append(emptyEras, int32(w.Era)), append(emptyIndexes, w.Index)
			continue
		}
		eras, indexes, taken = append(eras, int32(w.Era)), append(indexes, w.Index), append(taken, w.Taken)
	}
	if len(eras) > 0 {
		b.Queue(t.ledger.sql.keep, t.id, eras, indexes, taken)
	}
	if len(emptyEras) > 0 {
		b.Queue(t.ledger.sql.empty, t.id, emptyEras, emptyIndexes)
	}
}

// eventColumns are events as columns of their table.
type eventColumns struct {
	ids                                       [][]byte
	requested, windows, at, booked, cancelled []int64
	eras, phases                              []int32
}

func columnsOf(events []slots.Event) *eventColumns {
	n := len(events)
	numbers, smaller := make([]int64, 5*n), make([]int32, 2*n)
	c := &eventColumns{
		make([][]byte, n),
		numbers[:n], numbers[n : 2*n], numbers[2*n : 3*n], numbers[3*n : 4*n], numbers[4*n:],
		smaller[:n], smaller[n:],
	}
	for i, e := range events {
		c.ids[i], c.requested[i], c.eras[i], c.windows[i], c.phases[i] = []byte(e.ID), int64(e.Requested), int32(e.Era), e.Window, int32(e.Phase)
		c.at[i], c.booked[i], c.cancelled[i] = int64(e.At), int64(e.Booked), int64(e.Cancelled)
	}
	return c
}

// arguments are those of sql.book, and the first of sql.bury.
func (c *eventColumns) arguments(config int64) []any {
	return []any{config, c.ids, c.requested, c.eras, c.windows, c.phases, c.at, c.booked}
}

func runColumns(runs []plan.Run) (eras []int32, from, to []int64) {
	for _, r := range runs {
		eras, from, to = append(eras, int32(r.Era)), append(from, r.From), append(to, r.To)
	}
	return eras, from, to
}
