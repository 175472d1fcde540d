package limit

import (
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// flight brings jobs to a store and back, in as few trips as the store allows.
type flight struct {
	store    Store
	bulk     BulkTaker // nil if the store has no such path
	apart    Scattered // nil if the store can change any keys together
	observer Observer  // nil if nobody is told

	index map[string]int // used by one flight after another
}

// fly does every job of batch and sets its err. It returns the first error.
func (f *flight) fly(ctx context.Context, batch []*passenger) error {
	rest := batch
	var failed error
	if f.bulk != nil {
		var takes []bulkTake
		takes, rest = f.sort(batch)
		failed = f.take(ctx, takes)
	}
	if len(rest) > 0 {
		if err := f.update(ctx, rest); failed == nil {
			failed = err
		}
	}
	return failed
}

// update does batch by one update of all its cells or, where they cannot be
// changed together, by one for each job that needs several and a swap of the rest.
func (f *flight) update(ctx context.Context, batch []*passenger) error {
	keys := f.enlist(batch)
	if f.apart == nil || f.apart.Together(keys) {
		return f.together(ctx, keys, batch)
	}
	var single []*passenger
	var failed error
	for _, p := range batch {
		own := p.enlist(nil, nil)
		if len(own) == 1 || p.verb == peek {
			single = append(single, p)
		} else if err := f.together(ctx, own, []*passenger{p}); failed == nil {
			failed = err
		}
	}
	if len(single) > 0 {
		if err := f.swap(ctx, f.enlist(single), single); failed == nil {
			failed = err
		}
	}
	return failed
}

// enlist returns the keys of batch, each once.
func (f *flight) enlist(batch []*passenger) []string {
	if f.index == nil {
		f.index = make(map[string]int)
	}
	clear(f.index)
	keys := make([]string, 0, len(batch))
	for _, p := range batch {
		keys = p.job.enlist(keys, f.index)
	}
	return keys
}

func (f *flight) together(ctx context.Context, keys []string, batch []*passenger) error {
	began := time.Now()
	err := f.store.Update(ctx, keys, func(now algo.Ticks, cells []Cell) error {
		for _, p := range batch {
			p.run(now, cells)
		}
		return nil
	})
	spends := 0
	for _, p := range batch {
		p.err = err
		spends += len(p.spends)
	}
	f.tell(spends, began, err)
	return err
}

func (f *flight) tell(spends int, began time.Time, err error) {
	if f.observer != nil {
		f.observer.Updated(spends, time.Since(began), err)
	}
}

// bulkTake is the part of a flight that one key has in a TakeBulk.
type bulkTake struct {
	Take
	passengers []*passenger
}

// sort divides batch into what the store decides by itself and the rest. It
// decides by itself the keys of which all that is asked in this flight is to
// spend the same cost under the same policy, once or often.
func (f *flight) sort(batch []*passenger) (takes []bulkTake, rest []*passenger) {
	const spoiled = -1
	if f.index == nil {
		f.index = make(map[string]int)
	}
	clear(f.index)
	takes = make([]bulkTake, 0, len(batch))
	for _, p := range batch {
		if !f.sortable(p) {
			for _, k := range p.keys {
				f.index[k] = spoiled
			}
			continue
		}
		s, key := p.spends[0], p.keys[0]
		at, known := f.index[key]
		switch {
		case !known:
			f.index[key] = len(takes)
			takes = append(takes, bulkTake{Take: Take{Policy: s.Policy, Key: key, Cost: s.Cost}})
		case at != spoiled && (takes[at].Policy != s.Policy || takes[at].Cost != s.Cost):
			f.index[key] = spoiled
		}
	}
	for _, p := range batch {
		at := f.index[p.keys[0]]
		if len(p.keys) > 1 || at == spoiled {
			rest = append(rest, p)
			continue
		}
		takes[at].Times++
		takes[at].passengers = append(takes[at].passengers, p)
	}
	return slices.DeleteFunc(takes, func(t bulkTake) bool { return t.Times == 0 }), rest
}

func (f *flight) sortable(p *passenger) bool {
	return p.verb == take && len(p.spends) == 1 && p.spends[0].Cost > 0 && f.bulk.TakesBulk(p.spends[0].Policy, p.spends[0].Cost)
}

// take lets the store decide takes by itself. What it found and when says what
// it has decided, so the passengers learn that from the pure function.
func (f *flight) take(ctx context.Context, takes []bulkTake) error {
	if len(takes) == 0 {
		return nil
	}
	asked := make([]Take, len(takes))
	spends := 0
	for i, t := range takes {
		asked[i] = t.Take
		spends += t.Times
	}
	began := time.Now()
	err := f.bulk.TakeBulk(ctx, asked)
	f.tell(spends, began, err)
	var cell [1]Cell
	for i, t := range takes {
		cell[0] = Cell{Key: t.Key, State: asked[i].Before}
		for _, p := range t.passengers {
			if p.err = err; err == nil {
				p.cells[0] = 0
				p.run(asked[i].Now, cell[:])
			}
		}
	}
	return err
}

// swap does batch by a swap of each cell. A job that writes has only one key;
// where somebody else was faster it runs again on what they have left.
func (f *flight) swap(ctx context.Context, keys []string, batch []*passenger) error {
	cells := make([]Cell, len(keys))
	for i, k := range keys {
		cells[i].Key = k
	}
	began, undone := time.Now(), batch
	now, err := f.apart.Swap(ctx, cells)
	for err == nil && len(undone) > 0 {
		for _, p := range undone {
			p.run(now, cells)
		}
		var lost []bool
		now, lost, err = f.commit(ctx, cells)
		if err == nil {
			undone = slices.DeleteFunc(slices.Clone(undone), func(p *passenger) bool { return !lost[p.cells[0]] })
		}
	}
	for _, p := range undone {
		p.err = err
	}
	f.tell(len(batch), began, err)
	return err
}

// commit swaps the Dirty ones of cells, makes all of them clean, and reports
// for which of them somebody else was faster.
func (f *flight) commit(ctx context.Context, cells []Cell) (now algo.Ticks, lost []bool, err error) {
	lost = make([]bool, len(cells))
	var changed []Cell
	var at []int
	for i, c := range cells {
		if c.Dirty {
			changed, at = append(changed, c), append(at, i)
		}
	}
	if len(changed) == 0 {
		return 0, lost, nil
	}
	now, err = f.apart.Swap(ctx, changed)
	for i, c := range changed {
		lost[at[i]] = !c.Dirty
		c.Dirty = false
		cells[at[i]] = c
	}
	return now, lost, err
}
