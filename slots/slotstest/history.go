package slotstest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// history makes random changes, by two clients in turn, to the ledger and to a
// Memory, and compares what the two tell.
func history(t *testing.T, h Harness) {
	clients := h.clients(t)
	create(t, clients[0], "payments")
	m := NewMemory(nil)
	create(t, m, "payments")
	kept := func() *book { return m.configs["payments"].book }
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := &draw{rand.New(rand.NewPCG(seed, 0)), 0}
	began := time.Now()
	for round := 0; round < 200 && !t.Failed() && time.Since(began) < 3*time.Second; round++ {
		l := clients[round%2]
		ids := append(d.some(slices.Collect(maps.Keys(kept().events))), d.some(slices.Collect(maps.Keys(kept().cancelled)))...)
		mine, theirs := begin(t, m, "payments", ids...), begin(t, l, "payments", append(ids, "nobody")...)
		same(t, "Known", mine.Known(), theirs.Known())
		if d.IntN(2) == 0 {
			c := d.changes(kept())
			if err := mine.Write(c); err != nil {
				t.Fatal(err)
			}
			if err := theirs.Write(c); err != nil {
				t.Fatal(err)
			}
			d.look(t, mine.(*memoryTx).book, theirs)
			if d.IntN(4) == 0 {
				mine.Rollback()
				theirs.Rollback()
				continue
			}
			if err := mine.Commit(nil); err != nil {
				t.Fatal(err)
			}
			if err := theirs.Commit(nil); err != nil {
				t.Fatal(err)
			}
			continue
		}
		d.look(t, kept(), theirs)
		c := d.changes(kept())
		if err := mine.Commit(c); err != nil {
			t.Fatal(err)
		}
		if err := theirs.Commit(c); err != nil {
			t.Fatal(err)
		}
		if round%10 == 0 {
			same(t, "Events", list(t, m, "payments"), list(t, clients[1-round%2], "payments"))
		}
	}
}

// draw draws changes.
type draw struct {
	*rand.Rand
	n int // of events so far
}

// some returns a few of ids.
func (d *draw) some(ids []string) []string {
	slices.Sort(ids)
	d.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:min(len(ids), d.IntN(5))]
}

func (d *draw) changes(b *book) *slots.Changes {
	c := new(slots.Changes)
	free := func() (e slots.Event) {
		for {
			d.n++
			e = event(fmt.Sprint("event ", d.n), int64(d.IntN(40)), d.IntN(1000))
			e.Era = d.IntN(2)
			e.At += plan.Ticks(e.Era) * plan.Second / 2 // no two slots have one instant
			if _, taken := b.taken[placeOf(e.Slot)]; !taken && !slices.ContainsFunc(c.Booked, func(o slots.Event) bool { return placeOf(o.Slot) == placeOf(e.Slot) }) {
				return e
			}
		}
	}
	for _, id := range d.some(slices.Collect(maps.Keys(b.events))) {
		old := b.events[id]
		if d.IntN(2) == 0 {
			c.Freed = append(c.Freed, cancelled(old))
			continue
		}
		moved := free()
		moved.ID = id
		c.Freed, c.Booked = append(c.Freed, old), append(c.Booked, moved)
	}
	for range d.IntN(6) {
		c.Booked = append(c.Booked, free())
	}
	for k := int64(d.IntN(30)); k < 200; k += 1 + int64(d.IntN(60)) {
		w := plan.Window{Era: d.IntN(2), Index: k}
		if d.IntN(3) > 0 {
			w.Taken = bits(d.IntN(30), d.IntN(30))
		}
		c.Windows = append(c.Windows, w)
	}
	c.Reopened, c.Full = d.runs(), d.runs()
	return c
}

// runs draws runs that do not overlap.
func (d *draw) runs() (runs []plan.Run) {
	for from, n := int64(d.IntN(20)), d.IntN(3); n > 0; n-- {
		r := plan.Run{Era: d.IntN(2), From: from, To: from + 1 + int64(d.IntN(30))}
		runs, from = append(runs, r), r.To+int64(d.IntN(20))
	}
	return runs
}

// needs draws some of one era, in order.
func (d *draw) needs(era int) (needs []plan.Need) {
	for from, n := int64(d.IntN(20)), d.IntN(6); n > 0; n-- {
		needs = append(needs, plan.Need{Era: era, From: from, Windows: 1 + d.IntN(3)})
		from += 1 + int64(d.IntN(60))
	}
	return needs
}

// look compares what tx tells with b.
func (d *draw) look(t *testing.T, b *book, tx slots.Tx) {
	t.Helper()
	for range 3 {
		era := d.IntN(2)
		byIndex := make(map[int64]plan.Bits)
		var windows []plan.Window
		for p, taken := range b.windows {
			if p.era == era {
				byIndex[p.window] = taken
				windows = append(windows, plan.Window{Era: era, Index: p.window, Taken: taken})
			}
		}
		var indexes []int64
		for k := range int64(200) {
			indexes = append(indexes, k)
		}
		taken(t, tx, era, indexes, settled(windows)...)
		expected := d.needs(era)
		tx.Expect(expected)
		for _, n := range append(expected, plan.Need{Era: era, From: int64(d.IntN(200)), Windows: 1 + d.IntN(100)}) {
			checkLoad(t, tx, n, b.full[era], byIndex)
		}
		tx.Expect(nil)
		from := noon + plan.Ticks(d.IntN(40))*plan.Second
		phase := d.IntN(1000)
		want, _ := b.Strays(era, phase, from, from+10*plan.Second)
		got, err := tx.Strays(era, phase, from, from+10*plan.Second)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "Strays", want, got)
	}
}
