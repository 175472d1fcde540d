package limittest

import (
	"context"
	"sync"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// adder counts one key up in its own way. What the key counts is compared with
// what the adder has reported.
type adder struct {
	name string
	key  string
	// add adds one. It reports whether it has, or an error.
	add func(ctx context.Context) (bool, error)
	// read returns what a State of key counts.
	read func(algo.State) int64
}

// adders returns one for each way in which s can change a State.
func adders(s limit.Store) []adder {
	total := func(s algo.State) int64 { return s.A }
	all := []adder{{"update", "by update", func(ctx context.Context) (bool, error) { return addByUpdate(ctx, s, "by update", nil) }, total}}
	if swapper, ok := s.(limit.Swapper); ok {
		known := &lastKnown{cell: limit.Cell{Key: "by swap"}}
		all = append(all, adder{"swap", "by swap", func(ctx context.Context) (bool, error) { return known.addBySwap(ctx, swapper) }, total})
	}
	if bulk, ok := s.(limit.BulkTaker); ok && countable(bulk) != nil {
		all = append(all, bulkAdder(bulk, countable(bulk)))
	}
	return all
}

// addByUpdate counts key up. inside, if not nil, is called by fn.
func addByUpdate(ctx context.Context, s limit.Store, key string, inside func()) (bool, error) {
	err := s.Update(ctx, []string{key}, func(_ algo.Ticks, cells []limit.Cell) error {
		countUp(cells)
		if inside != nil {
			inside()
		}
		return nil
	})
	return err == nil, err
}

// lastKnown is a cell as it was when it was last loaded or committed.
type lastKnown struct {
	mu   sync.Mutex
	cell limit.Cell
}

// addBySwap tries once to count the cell up. After an error it knows no better
// than before: if that one was committed, the next one will not be.
func (k *lastKnown) addBySwap(ctx context.Context, s limit.Swapper) (bool, error) {
	k.mu.Lock()
	cells := []limit.Cell{k.cell}
	k.mu.Unlock()
	countUp(cells)
	if _, err := s.Swap(ctx, cells); err != nil {
		return false, err
	}
	added := cells[0].Dirty
	cells[0].Dirty = false
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cell = cells[0]
	return added, nil
}

func bulkAdder(s limit.BulkTaker, p *limit.Policy) adder {
	const key = "by take"
	return adder{
		name: "take bulk",
		key:  limit.StoreKey(p, key),
		add: func(ctx context.Context) (bool, error) {
			v, err := spendInBulk(ctx, s, p, key, 1)
			return v.OK, err
		},
		read: func(s algo.State) int64 {
			_, v := p.Decide(s, s.At, 0)
			return p.Capacity() - v.Remaining
		},
	}
}

// countable returns a policy that s takes in bulk and under which units are
// only spent while a test runs; nil if there is none.
func countable(s limit.BulkTaker) *limit.Policy {
	const plenty = 1e6
	for _, a := range algo.All {
		p := year(a, plenty)
		if a.Bursts { // the window has no frames that could end meanwhile, so it can be smaller
			p.Quota, p.Burst, p.Window = 1, plenty, time.Hour
		}
		if a != algo.Proportional && p.Check() == nil && s.TakesBulk(p, 1) {
			return p
		}
	}
	return nil
}
