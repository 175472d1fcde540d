package memory

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"pgregory.net/rapid"
)

// On any history the store answers like the pure algorithm over states that
// are never dropped: expiry loses nothing.
func TestTakeIsTheAlgorithm(t *testing.T) {
	for _, a := range algo.All {
		t.Run(a.Name, func(t *testing.T) {
			var expired uint64
			rapid.Check(t, func(t *rapid.T) {
				c := newClock()
				s, p := New(&Options{MaxKeys: 1000, Now: c.now}), &limit.Policy{
					Name:      "login",
					Algorithm: a,
					Quota:     rapid.Int64Range(0, 20).Draw(t, "quota"),
					Window:    time.Duration(rapid.IntRange(1, 100).Draw(t, "window")) * time.Millisecond,
					Burst:     rapid.Int64Range(0, 30).Draw(t, "burst"),
				}
				states := map[string]algo.State{}
				for i := range rapid.IntRange(1, 300).Draw(t, "spends") {
					c.advance(algo.Ticks(rapid.IntRange(0, 30_000).Draw(t, "pause")))
					key := fmt.Sprint("user:", rapid.IntRange(0, 20).Draw(t, "user"))
					cost := rapid.Int64Range(-5, 10).Draw(t, "cost")

					state, want := p.Decide(states[key], c.now(), cost)
					states[key] = state
					got, err := s.Take(t.Context(), p, key, cost)
					if err != nil || got != want {
						t.Fatalf("spend %d: %+v, %v, want %+v", i, got, err, want)
					}
				}
				n := s.Stats()
				if expired += n.Expired; n.Forgotten > 0 {
					t.Fatalf("%+v: a store with room has forgotten", n)
				}
			})
			if expired == 0 {
				t.Error("no state was dropped: this test has shown nothing")
			}
		})
	}
}

func TestTTL(t *testing.T) {
	for _, test := range []struct {
		ttl, later algo.Ticks
		kept       bool
	}{
		{-1, 0, false},
		{0, 0, false},
		{1, 0, true},
		{1, 1, false},
		{algo.Hour, algo.Hour - 1, true},
		{algo.Hour, algo.Hour, false},
		{math.MaxInt64, algo.Year, true},
	} {
		c := newClock()
		s := New(&Options{Now: c.now})
		change(t, s, func(cells []limit.Cell) {
			cells[0].State, cells[0].TTL, cells[0].Dirty = algo.State{A: 1}, test.ttl, true
		}, "a")
		c.advance(test.later)
		_, listed := list(t, s, "")["a"]
		if read := get(t, s, "a").A == 1; read != test.kept || listed != test.kept {
			t.Errorf("a TTL of %d, %d later: read %v, listed %v, want %v", test.ttl, test.later, read, listed, test.kept)
		}
	}
}

func TestMaxKeysIsNeverExceeded(t *testing.T) {
	for _, most := range []int{1, 2, 7, 1000, 2047, 2048, 5000} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			s, p := New(&Options{MaxKeys: most, Now: newClock().now}), login(nil)
			for i := range 10 * most {
				take(t, s, p, fmt.Sprint("user:", i), 1)
				if i%97 == 0 || i < 200 {
					if n := s.Stats().Keys; n > most {
						t.Fatalf("%d keys are kept after %d", n, i+1)
					}
				}
			}
			got := s.Stats()
			if got.Keys != most || got.Forgotten != uint64(9*most) || got.Expired != 0 {
				t.Errorf("%+v, want %d keys and the others forgotten", got, most)
			}
			if n := len(list(t, s, "")); n != most {
				t.Errorf("List yields %d keys, want %d", n, most)
			}
		})
	}
}

func TestMaxKeysIsShared(t *testing.T) {
	for _, test := range []struct{ most, shards int }{
		{0, 256}, {-1, 256}, {1, 1}, {2047, 1}, {2048, 2}, {10_000, 8}, {10_003, 8}, {1 << 20, 256}, {1 << 40, 256},
	} {
		s := New(&Options{MaxKeys: test.most})
		sum, least, most := 0, 1<<62, 0
		for i := range s.shards {
			n := s.shards[i].most
			sum, least, most = sum+n, min(least, n), max(most, n)
		}
		want := test.most
		if want <= 0 {
			want = 1 << 20
		}
		if want = min(want, 1<<30); sum != want || most-least > 1 || len(s.shards) != test.shards {
			t.Errorf("MaxKeys %d: %d shards of %d to %d keys, %d together; want %d shards", test.most, len(s.shards), least, most, sum, test.shards)
		}
	}
}

// Where the old have expired, a full store takes new keys and forgets nothing.
func TestExpiredMakeRoom(t *testing.T) {
	c := newClock()
	s, p := New(&Options{MaxKeys: 100, Now: c.now}), login(algo.Fixed)
	for round := range 20 {
		for i := range 100 {
			take(t, s, p, fmt.Sprint("user:", round, i), 1)
		}
		c.advance(algo.Minute)
	}
	if got, want := s.Stats(), (Stats{Keys: 100, Expired: 1900}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What a full store forgets is the state with the least to lose.
func TestForgetsTheSoonestToExpire(t *testing.T) {
	s, p := New(&Options{MaxKeys: 5, Now: newClock().now}), login(algo.GCRA)
	for i := range int64(5) {
		take(t, s, p, fmt.Sprint("user:", i), 5-i)
	}
	take(t, s, p, "a newcomer", 3)
	if v := take(t, s, p, "user:4", 0); v.Remaining != 5 {
		t.Errorf("user:4, who had spent the least, has %d left, want all 5", v.Remaining)
	}
	for i := range int64(4) {
		if v := take(t, s, p, fmt.Sprint("user:", i), 0); v.Remaining != i {
			t.Errorf("user:%d has %d left, want %d", i, v.Remaining, i)
		}
	}
	if got, want := s.Stats(), (Stats{Keys: 5, Forgotten: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Keys come and go; what is kept follows those that are live.
func TestMemoryFollowsLiveKeys(t *testing.T) {
	c := newClock()
	s, p := New(&Options{MaxKeys: 1 << 14, Now: c.now}), &limit.Policy{Name: "login", Quota: 1, Window: time.Second}
	const live = 5000 // insertions a second
	for i := range 20 * live {
		c.advance(algo.Second / live)
		take(t, s, p, fmt.Sprint("user:", i), 1)
		if i%100 == 0 {
			if n := s.Stats().Keys; n > live*3/2 {
				t.Fatalf("%d keys are kept for %d live ones", n, live)
			}
		}
	}
	if got := s.Stats(); got.Forgotten > 0 {
		t.Errorf("%+v: a store with room has forgotten", got)
	}
}
