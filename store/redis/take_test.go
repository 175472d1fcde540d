package redis_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/redis"
)

// TestTakeBulkDecidesLikeTheAlgorithms takes from many keys at once, each with a
// history of its own, now in bulk and now through Update. What the store finds,
// and so what it has left, must be what the pure functions make.
func TestTakeBulkDecidesLikeTheAlgorithms(t *testing.T) {
	s := single(t).frozen(t)
	store := s.open(t).(*redis.Store)
	defer store.Close()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))

	const rounds, width, steps = 20, 100, 12
	bulk := 0
	for round := range rounds {
		histories := make([]history, width)
		for i := range histories {
			a := []*algo.Algorithm{algo.GCRA, algo.Fixed, algo.Sliding}[i%3]
			histories[i] = history{policy: drawPolicy(r, a), subject: fmt.Sprint("history ", round, " ", i)}
		}
		for range steps {
			some := histories[r.IntN(width)].policy.Limit().Window
			s.advance(t, time.Duration(drawGap(r, algo.Ticks(s.now(t)), some))*time.Microsecond)
			var takes []limit.Take
			var by []*history
			for i := range histories {
				h := &histories[i]
				if r.IntN(10) == 0 {
					h.policy = drawPolicy(r, h.policy.Algorithm)
				}
				take := limit.Take{Policy: h.policy, Key: limit.StoreKey(h.policy, h.subject), Cost: h.drawCost(r), Times: 1 + r.IntN(4)*r.IntN(4)}
				if store.TakesBulk(h.policy, take.Cost) && r.IntN(8) > 0 {
					takes, by = append(takes, take), append(by, h)
				} else {
					h.update(t, store, take)
				}
			}
			if err := store.TakeBulk(t.Context(), takes); err != nil {
				t.Fatal(err)
			}
			bulk += len(takes)
			for i, take := range takes {
				by[i].check(t, take)
			}
		}
	}
	if bulk < rounds*width*steps/4 {
		t.Errorf("only %d of %d takes went in bulk", bulk, rounds*width*steps)
	}
}

// history is what the pure function makes of one key.
type history struct {
	policy  *limit.Policy
	subject string
	state   algo.State
	expires algo.Ticks
	now     algo.Ticks // of the last take
}

// check compares what the store found with h, and has h go on from there.
func (h *history) check(t *testing.T, take limit.Take) {
	t.Helper()
	if take.Now >= h.expires && take.Before.Equal(algo.State{}) {
		h.state = algo.State{} // dropped; under another limit that may be before its reset
	}
	if !take.Before.Equal(h.state) {
		t.Fatalf("%s, %s %+v: at %d the store finds %+v, want %+v", h.subject, h.policy.Algorithm, h.policy.Limit(), take.Now, take.Before, h.state)
	}
	h.now = take.Now
	for range take.Times {
		state, v := h.policy.Decide(h.state, take.Now, take.Cost)
		if !v.OK {
			break
		}
		h.state, h.expires = state, take.Now+v.ResetAfter
	}
}

// update does take through Update.
func (h *history) update(t *testing.T, s *redis.Store, take limit.Take) {
	t.Helper()
	err := s.Update(t.Context(), []string{take.Key}, func(now algo.Ticks, cells []limit.Cell) error {
		c := &cells[0]
		take.Before, take.Now = c.State, now
		for range take.Times {
			if state, v := h.policy.Decide(c.State, now, take.Cost); v.OK {
				c.State, c.TTL, c.Dirty = state, v.ResetAfter, true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.check(t, take)
}

// drawCost draws one that is often close to what remains.
func (h *history) drawCost(r *rand.Rand) int64 {
	_, peek := h.policy.Decide(h.state, h.now, 0)
	most := h.policy.Capacity()
	switch r.IntN(4) {
	case 0:
		return 1
	case 1:
		return max(1, peek.Remaining)
	case 2:
		return min(peek.Remaining, most-1) + 1
	}
	return 1 + r.Int64N(most)
}

func drawPolicy(r *rand.Rand, a *algo.Algorithm) *limit.Policy {
	windows := []algo.Ticks{algo.Millisecond, algo.Second, algo.Minute, algo.Hour, algo.Day, algo.Year, algo.Millisecond + algo.Ticks(r.Int64N(int64(algo.Hour)))}
	window := windows[r.IntN(len(windows))]
	units := func() int64 {
		switch r.IntN(5) {
		case 0:
			return 1 + r.Int64N(10)
		case 1:
			return 1 + r.Int64N(max(1, 1<<52/int64(window))) // as much as Lua counts
		case 2:
			return []int64{60, 100, 1000, 3600, 10_000, 86_400, 1_000_000}[r.IntN(7)]
		case 3:
			return 1 + r.Int64N(1_000_000)
		}
		return 1 + r.Int64N(1<<uint(10+r.IntN(52))) // more than Lua counts
	}
	return &limit.Policy{Name: "drawn", Algorithm: a, Quota: units(), Window: time.Duration(window) * time.Microsecond, Burst: units()}
}

// drawGap draws how far the clock moves, at times to where a window begins, at
// times backwards.
func drawGap(r *rand.Rand, now, window algo.Ticks) algo.Ticks {
	switch r.IntN(8) {
	case 0:
		return algo.Ticks(r.IntN(2))
	case 1:
		return -algo.Ticks(r.IntN(2000))
	case 2:
		return algo.Ticks(r.Int64N(int64(algo.Millisecond)))
	case 3:
		return algo.Ticks(r.Int64N(int64(algo.Hour)))
	case 4:
		return algo.Ticks(r.Int64N(int64(3 * algo.Day)))
	case 5:
		return algo.Ticks(r.Int64N(int64(window)))
	}
	return window - now%window
}

func TestTakeBulkSpendsAQuotaExactlyOnce(t *testing.T) {
	s := single(t)
	clients := []*redis.Store{s.open(t).(*redis.Store), s.reopen(t).(*redis.Store)}
	for _, a := range []*algo.Algorithm{algo.GCRA, algo.Fixed, algo.Sliding} {
		t.Run(a.Name, func(t *testing.T) {
			p := &limit.Policy{Name: "year", Algorithm: a, Quota: 1000, Window: 365 * 24 * time.Hour}
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					for range 40 {
						admitted.Add(takeAll(t, clients[i%2], p, []string{"a", "b", "c"}, 3))
					}
				})
			}
			wg.Wait()
			if n := admitted.Load(); n != 3*p.Quota {
				t.Errorf("%d units of 3 keys admitted, want exactly %d", n, 3*p.Quota)
			}
		})
	}
	for _, c := range clients {
		c.Close()
	}
}

// takeAll takes one unit of each of keys, so many times, and returns how many
// were admitted.
func takeAll(t *testing.T, s *redis.Store, p *limit.Policy, keys []string, times int) (admitted int64) {
	takes := make([]limit.Take, len(keys))
	for i, key := range keys {
		takes[i] = limit.Take{Policy: p, Key: limit.StoreKey(p, key), Cost: 1, Times: times}
	}
	if err := s.TakeBulk(t.Context(), takes); err != nil {
		t.Error(err)
		return 0
	}
	for _, take := range takes {
		for range times {
			state, v := p.Decide(take.Before, take.Now, 1)
			if v.OK {
				admitted++
			}
			take.Before = state
		}
	}
	return admitted
}

// TestTakeBulkAtTheEdges puts a state, moves the clock, and takes.
func TestTakeBulkAtTheEdges(t *testing.T) {
	const huge = 1<<53 + 1 // the first whole number that a double does not hold
	policy := func(a *algo.Algorithm, quota int64, window algo.Ticks, burst int64) *limit.Policy {
		return &limit.Policy{Name: "edge", Algorithm: a, Quota: quota, Window: time.Duration(window) * time.Microsecond, Burst: burst}
	}
	second := func(a *algo.Algorithm) *limit.Policy { return policy(a, 10, algo.Second, 10) }
	s := single(t).frozen(t)
	store := s.open(t).(*redis.Store)
	defer store.Close()
	for _, test := range []struct {
		name   string
		policy *limit.Policy
		ago    algo.Ticks // when the state was put, with a TTL of a second
		state  algo.State // At is 0 for that instant
	}{
		{"a second ago", second(algo.GCRA), algo.Second - 1, algo.State{A: 10}},
		{"expired", second(algo.Fixed), algo.Second, algo.State{A: 10}},
		{"more is missing than a double holds", policy(algo.GCRA, 1<<50, 1024, 1<<52), 7 * 1024, algo.State{A: huge}},
		{"a part that a double does not hold", second(algo.GCRA), 1, algo.State{A: 9, B: huge}},
		{"a part of a longer window", second(algo.GCRA), 0, algo.State{A: 8, B: int64(algo.Hour)}},
		{"a negative count", second(algo.Fixed), 0, algo.State{A: -5}},
		{"a negative part", second(algo.GCRA), 1, algo.State{A: 9, B: -5}},
		{"an instant before the epoch", second(algo.Sliding), 1, algo.State{At: -5, A: 10, B: 10}},
		{"an instant that is too long ago for a double", policy(algo.GCRA, 1, algo.Year, 1<<52), 1, algo.State{At: -huge << 8, A: 1_000_000}},
		{"an instant that a double does not hold", second(algo.Fixed), 1, algo.State{At: huge, A: 5}},
		{"more in the frame before than a double holds", second(algo.Sliding), algo.Second - 1, algo.State{B: 1 << 62}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.advance(t, time.Minute-time.Duration(s.now(t)%int64(algo.Minute))*time.Microsecond)
			key := limit.StoreKey(test.policy, test.name)
			h := history{policy: test.policy, subject: test.name, state: test.state, expires: algo.Ticks(s.now(t)) + algo.Second}
			if h.state.At == 0 {
				h.state.At = algo.Ticks(s.now(t))
			}
			err := store.Update(t.Context(), []string{key}, func(_ algo.Ticks, cells []limit.Cell) error {
				cells[0].State, cells[0].TTL, cells[0].Dirty = h.state, algo.Second, true
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			s.advance(t, time.Duration(test.ago)*time.Microsecond)
			if algo.Ticks(s.now(t)) >= h.expires {
				h.state = algo.State{}
			}
			if !store.TakesBulk(test.policy, 1) {
				t.Fatalf("%+v is not taken in bulk", test.policy)
			}
			for _, cost := range []int64{1, 1, max(1, test.policy.Capacity()-2), 1} {
				takes := []limit.Take{{Policy: test.policy, Key: key, Cost: cost, Times: 2}}
				if err := store.TakeBulk(t.Context(), takes); err != nil {
					t.Fatal(err)
				}
				h.check(t, takes[0])
			}
		})
	}
}

func TestTakesBulk(t *testing.T) {
	var s redis.Store
	for _, test := range []struct {
		algorithm *algo.Algorithm
		quota     int64
		window    time.Duration
		cost      int64
		want      bool
	}{
		{nil, 100, time.Minute, 1, true},
		{algo.GCRA, 1_000_000_000, 24 * time.Hour, 1, true},
		{algo.GCRA, 1_000_000, 365 * 24 * time.Hour, 1, true},
		{algo.GCRA, 1_000_003, 24 * time.Hour, 1, false},
		{algo.GCRA, 1 << 53, time.Second, 1, false},
		{algo.GCRA, 0, time.Second, 1, false},
		{algo.GCRA, 100, time.Second, 0, false},
		{algo.GCRA, 100, time.Second, -1, false},
		{algo.Fixed, 1 << 52, 365 * 24 * time.Hour, 1, true},
		{algo.Sliding, 1_000_000, time.Hour, 1, true},
		{algo.Sliding, 1_000_000, 24 * time.Hour, 1, false},
		{algo.Proportional, 1, time.Second, 1, false},
		{algo.Log, 1, time.Second, 1, false},
	} {
		p := &limit.Policy{Name: "p", Algorithm: test.algorithm, Quota: test.quota, Window: test.window}
		if got := s.TakesBulk(p, test.cost); got != test.want {
			t.Errorf("%v %d/%v, cost %d: takes bulk is %t, want %t", test.algorithm, test.quota, test.window, test.cost, got, test.want)
		}
	}
}
