package limittest

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// bulkHistories spends on random histories, now through TakeBulk and now through
// Update. The store must find what the pure algorithm has left, and leave what
// the pure algorithm makes of that.
func bulkHistories(t *testing.T, h Harness) {
	s, stride := h.open(t), &stride{h: h}
	histories := 0
	randomly(t, func(r *rapid.T) {
		histories++
		keys := make([]*history, rapid.IntRange(1, 8).Draw(r, "keys"))
		for i := range keys {
			a := rapid.SampledFrom(algo.All).Draw(r, "algorithm")
			keys[i] = &history{policy: drawPolicy(r, a)}
			keys[i].key = limit.StoreKey(keys[i].policy, fmt.Sprintf("history %d of key %d", histories, i))
		}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			if h.Advance != nil {
				stride.take(t, r, keys[0].policy)
			}
			bulkStep(t, r, s, keys)
		}
	})
}

// history is what is known of one key.
type history struct {
	policy  *limit.Policy
	key     string
	kept    algo.State
	expires algo.Ticks // the store may drop kept from then on
	seen    algo.Ticks // the store's clock when last looked at
}

// bulkStep spends from some of keys and checks what was found and what is left.
func bulkStep(t *testing.T, r *rapid.T, s limit.Store, keys []*history) {
	bulk := s.(limit.BulkTaker)
	var takes []limit.Take
	var taken []*history
	for _, k := range keys {
		switch rapid.IntRange(0, 9).Draw(r, "what") {
		case 0:
			k.policy = drawPolicy(r, k.policy.Algorithm)
		case 1:
			k.plant(t, r, s)
		case 2:
			k.update(r, s, k.drawCost(r))
			continue
		}
		cost := max(1, k.drawCost(r))
		if !bulk.TakesBulk(k.policy, cost) {
			k.update(r, s, cost)
			continue
		}
		times := rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 5), rapid.IntRange(1, 1000)).Draw(r, "times")
		takes = append(takes, limit.Take{Policy: k.policy, Key: k.key, Cost: cost, Times: times})
		taken = append(taken, k)
	}
	if len(takes) > 0 {
		_, left := takeBulk(t, bulk, takes)
		for i, k := range taken {
			k.found(r, takes[i].Before, takes[i].Now)
			k.leaves(left[i], takes[i].Now)
		}
	}
	for _, k := range keys {
		k.look(t, r, s)
	}
}

// found checks what the store found at now.
func (k *history) found(r *rapid.T, before algo.State, now algo.Ticks) {
	if now < k.seen {
		r.Fatalf("%q: the store's clock reads %d, and read %d before that", k.key, now, k.seen)
	}
	k.seen = now
	gone := before.Equal(algo.State{}) && now >= k.expires
	if !gone && !before.Equal(k.kept) {
		r.Fatalf("%q under %+v: at %d there is %s, want %s, to be kept until %d", k.key, k.policy.Limit(), now, brief(before), brief(k.kept), k.expires)
	}
	if !before.Equal(algo.State{}) && now > add(k.expires, algo.Second) {
		r.Fatalf("%q under %+v: at %d there is still %s, to be kept until %d", k.key, k.policy.Limit(), now, brief(before), k.expires)
	}
	k.kept = before
}

// leaves takes note of what an update or a take at now leaves.
func (k *history) leaves(c limit.Cell, now algo.Ticks) {
	if c.Dirty {
		k.kept, k.expires = c.State, add(now, c.TTL)
	}
}

// look sees what there is through Update.
func (k *history) look(t testing.TB, r *rapid.T, s limit.Store) {
	state, now := look(t, s, k.key)
	k.found(r, state, now)
}

// update spends through Update.
func (k *history) update(r *rapid.T, s limit.Store, cost int64) {
	var before, after limit.Cell
	var at algo.Ticks
	err := s.Update(r.Context(), []string{k.key}, func(now algo.Ticks, cells []limit.Cell) error {
		before, at = cells[0], now
		decide(k.policy, &cells[0], now, cost)
		after = cells[0]
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	k.found(r, before.State, at)
	k.leaves(after, at)
}

// plant puts a State there that another limit has left, long ago or by a clock
// that was ahead.
func (k *history) plant(t testing.TB, r *rapid.T, s limit.Store) {
	other := drawPolicy(r, k.policy.Algorithm)
	if rapid.IntRange(0, 4).Draw(r, "huge") == 0 {
		other.Quota, other.Burst = k.policy.Algorithm.MaxQuota, math.MaxInt64
	}
	cost := rapid.Int64Range(1, max(1, other.Capacity())).Draw(r, "spent")
	window := int64(max(other.Limit().Window, k.policy.Limit().Window))
	away := algo.Ticks(rapid.OneOf(rapid.Int64Range(-2*window, 0), rapid.Int64Range(-10, 10), rapid.Int64Range(0, window)).Draw(r, "away"))
	k.look(t, r, s)
	state, _ := other.Decide(algo.State{}, max(0, k.seen+away), cost)
	put(t, s, state, algo.Day, k.key)
	k.kept, k.expires = state, k.seen+algo.Day // a little later, in fact
}

// drawCost often draws one that just fits, or just does not.
func (k *history) drawCost(r *rapid.T) int64 {
	_, peek := k.policy.Decide(k.kept, k.seen, 0)
	capacity := k.policy.Capacity()
	return rapid.OneOf(
		rapid.Just(int64(1)),
		rapid.Just(peek.Remaining),
		rapid.Just(min(peek.Remaining, capacity-1)+1),
		rapid.Int64Range(1, max(1, capacity/100)),
		rapid.Int64Range(-capacity, capacity),
	).Draw(r, "cost")
}
