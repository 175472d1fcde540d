package fair

import (
	"math"
	"slices"
	"time"
)

const (
	maxPairs   = 128
	maxWaiters = 32 // of a sweep
	maxHolders = 8
	halfLife   = time.Minute
)

// Behind says for how long requests of one tenant waited while another held the seats.
// All of it counts, and half of what is a minute old.
type Behind struct {
	Waiter, Holder string
	Waited         time.Duration
	// Error is by how much Waited may be too great, as only the greatest are kept.
	Error time.Duration
}

// behind keeps the pairs of tenants of which one waited longest behind the other. In a
// sweep, the time that a tenant's requests waited since the last one is shared out among
// those who held seats, by how much seat-time each had.
type behind struct {
	pairs   []Behind
	waiters ranking
	holders ranking
}

func (b *behind) sweep(all []*tenant, past time.Duration) {
	fade := math.Exp2(-float64(past) / float64(halfLife))
	for i := range b.pairs {
		p := &b.pairs[i]
		p.Waited = time.Duration(float64(p.Waited) * fade)
		p.Error = time.Duration(float64(p.Error) * fade)
	}
	b.waiters.reset(maxWaiters)
	b.holders.reset(maxHolders)
	var total time.Duration
	for _, t := range all {
		held := t.held - t.heldAt
		total += held
		b.waiters.add(t, int64(t.waited-t.waitAt))
		b.holders.add(t, int64(held))
		t.heldAt, t.waitAt = t.held, t.waited
	}
	for _, w := range b.waiters.best {
		for _, h := range b.holders.best {
			b.add(w.t.id, h.t.id, time.Duration(float64(w.score)*float64(h.score)/float64(total)))
		}
	}
}

// add keeps the greatest sums, as in Metwally's space-saving.
func (b *behind) add(waiter, holder string, d time.Duration) {
	if d == 0 {
		return
	}
	least := 0
	for i := range b.pairs {
		if p := &b.pairs[i]; p.Waiter == waiter && p.Holder == holder {
			p.Waited += d
			return
		} else if p.Waited < b.pairs[least].Waited {
			least = i
		}
	}
	if len(b.pairs) < maxPairs {
		b.pairs = append(b.pairs, Behind{Waiter: waiter, Holder: holder, Waited: d})
		return
	}
	was := b.pairs[least].Waited
	b.pairs[least] = Behind{waiter, holder, was + d, was}
}

// ranking keeps the tenants of greatest score, in order. Those of 0 have no rank.
type ranking struct {
	best []ranked
	most int
}

type ranked struct {
	t     *tenant
	score int64
}

func (r *ranking) reset(most int) {
	clear(r.best)
	r.best, r.most = r.best[:0], most
}

func (r *ranking) add(t *tenant, score int64) {
	if score <= 0 || len(r.best) == r.most && score <= r.best[r.most-1].score {
		return
	}
	if len(r.best) == r.most {
		r.best = r.best[:r.most-1]
	}
	i, _ := slices.BinarySearchFunc(r.best, score, func(a ranked, s int64) int {
		if a.score >= s {
			return -1
		}
		return 1
	})
	r.best = slices.Insert(r.best, i, ranked{t, score})
}
