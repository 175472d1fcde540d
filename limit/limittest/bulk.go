package limittest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

func bulkTaker(t *testing.T, h Harness) {
	s, ok := h.open(t).(limit.BulkTaker)
	if !ok {
		t.Skip("the store is no limit.BulkTaker")
	}
	var usual []*limit.Policy // what it takes of everyday policies
	for _, a := range algo.All {
		if p := year(a, 100); s.TakesBulk(p, 1) {
			usual = append(usual, p)
		}
	}
	if len(usual) == 0 {
		t.Fatal("TakesBulk is false for every algorithm with a quota of 100 and a cost of 1: then it has no use")
	}
	t.Run("random histories", func(t *testing.T) { bulkHistories(t, h) })
	t.Run("a denied take writes nothing", func(t *testing.T) { deniedInBulk(t, h, usual) })
	for _, p := range usual {
		t.Run("side by side/"+p.Algorithm.Name, func(t *testing.T) { bulkSideBySide(t, h, p) })
	}
	t.Run("keys", func(t *testing.T) { bulkKeys(t, h, usual[0]) })
}

// takeBulk calls TakeBulk and returns how many spends of each take it has
// admitted, and what it must have left.
func takeBulk(t testing.TB, s limit.BulkTaker, takes []limit.Take) (admitted []int, left []limit.Cell) {
	t.Helper()
	if err := s.TakeBulk(t.Context(), takes); err != nil {
		t.Fatalf("take bulk of %d takes: %v", len(takes), err)
	}
	for _, take := range takes {
		n, c := replay(take)
		admitted, left = append(admitted, n), append(left, c)
	}
	return admitted, left
}

// replay spends what t asks for from what it has found. The cell is dirty if
// that has changed it.
func replay(t limit.Take) (admitted int, c limit.Cell) {
	c = limit.Cell{Key: t.Key, State: t.Before}
	for ; admitted < t.Times; admitted++ {
		if v := decide(t.Policy, &c, t.Now, t.Cost); !v.OK {
			break
		}
	}
	return admitted, c
}

// deniedInBulk has States that end soon, and are denied for longer. A denial that
// wrote one again would make it live on.
func deniedInBulk(t *testing.T, h Harness, policies []*limit.Policy) {
	s := h.open(t)
	takes := make([]limit.Take, len(policies))
	var end algo.Ticks
	for i, p := range policies {
		takes[i] = limit.Take{Policy: p, Key: limit.StoreKey(p, "alice"), Cost: 1, Times: 3}
		err := s.Update(timeout(t), []string{takes[i].Key}, func(now algo.Ticks, cells []limit.Cell) error {
			for v := decide(p, &cells[0], now, 1); v.Remaining > 0; {
				v = decide(p, &cells[0], now, v.Remaining)
			}
			cells[0].TTL, end = algo.Second, now+algo.Second
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	admitted, _ := takeBulk(t, s.(limit.BulkTaker), takes)
	for i, n := range admitted {
		if n > 0 {
			t.Errorf("%s: %d spends of a quota that was spent are admitted", policies[i].Algorithm, n)
		}
	}
	for _, now := look(t, s, "the clock"); now < end+1100*algo.Millisecond; _, now = look(t, s, "the clock") {
		h.pause(t, 100*time.Millisecond)
	}
	for i, take := range takes {
		if got, _ := look(t, s, take.Key); !got.Equal(algo.State{}) {
			t.Errorf("%s: more than a second after the end of its TTL there is still %s: a denial has written it anew", policies[i].Algorithm, brief(got))
		}
	}
}

// bulkSideBySide has several callers of two clients spend from the same keys,
// by takes and by updates, until all are denied.
func bulkSideBySide(t *testing.T, h Harness, p *limit.Policy) {
	if p.Algorithm == algo.Proportional {
		t.Skip("admits more than a quota to a young frame, by design")
	}
	const callers, n = 8, 10
	clients := h.clients(t)
	var spent [n]atomic.Int64
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for denied := 0; denied < n; {
				denied = 0
				var takes []limit.Take
				order := rand.Perm(n)
				for _, k := range order {
					takes = append(takes, limit.Take{Policy: p, Key: limit.StoreKey(p, fmt.Sprint(k)), Cost: 1, Times: 1 + rand.N(3)})
				}
				if err := clients[g%2].(limit.BulkTaker).TakeBulk(timeout(t), takes); err != nil {
					t.Error(err)
					return
				}
				for i, take := range takes {
					admitted, _ := replay(take)
					spent[order[i]].Add(int64(admitted))
					if admitted < take.Times {
						denied++
					}
				}
				k := order[0]
				v, err := spend(timeout(t), clients[g%2], p, fmt.Sprint(k), 1)
				if err != nil {
					t.Error(err)
					return
				}
				if v.OK {
					spent[k].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for k := range spent {
		if got := spent[k].Load(); got != p.Quota {
			t.Errorf("%d units of key %d admitted, want exactly %d", got, k, p.Quota)
		}
	}
}

// bulkKeys takes from hostile keys at once, each so often that it is told apart.
func bulkKeys(t *testing.T, h Harness, p *limit.Policy) {
	clients := h.clients(t)
	keys := append(longKeys(), hostile...)
	takes := make([]limit.Take, len(keys))
	for i, key := range keys {
		takes[i] = limit.Take{Policy: p, Key: key, Cost: 1, Times: 1 + i%7}
	}
	for round := range 2 {
		_, left := takeBulk(t, clients[round].(limit.BulkTaker), takes)
		for i, take := range takes {
			if take.Key != keys[i] || take.Cost != 1 || take.Times != 1+i%7 || take.Policy != p {
				t.Fatalf("take %d has become %+v", i, take)
			}
			if (round == 0) != take.Before.Equal(algo.State{}) {
				t.Errorf("round %d: under %q there was %s", round, take.Key, brief(take.Before))
			}
			if got, _ := look(t, clients[1-round], take.Key); !got.Equal(left[i].State) {
				t.Errorf("under %q there is %s, want %s", take.Key, brief(got), brief(left[i].State))
			}
		}
	}
}
