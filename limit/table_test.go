package limit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/store/mongodb"
	"github.com/stint-dev/stint/store/postgres"
)

// watched is a store that tells of every swap, and of how many cells it was
// refused, while the limiter has not heard of it yet.
type watched struct {
	limit.Store
	limit.Swapper
	seen func(refused int)
}

func (w *watched) Swap(ctx context.Context, cells []limit.Cell) (algo.Ticks, error) {
	dirty := 0
	for _, c := range cells {
		if c.Dirty {
			dirty++
		}
	}
	if dirty > 0 {
		w.seen(-1)
	}
	now, err := w.Swapper.Swap(ctx, cells)
	for _, c := range cells {
		if c.Dirty {
			dirty--
		}
	}
	w.seen(dirty)
	return now, err
}

// TestTwoNodesStepByStep follows two nodes, A and B, that spend one key, and what
// each knows of it: the units that the store has told of and its own since.
// When A tells the store of its second hit, B has been faster: A's write is refused,
// and A charges its hit to what B has left there.
func TestTwoNodesStepByStep(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		db := &scattered{database: &database{Store: memory.New(nil)}}
		stepByStep(t, db, db)
	})
	t.Run("postgres", func(t *testing.T) {
		url := servertest.StartPostgres(t).URL
		if _, err := postgres.Migrate(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		open := func() *postgres.Store {
			s, err := postgres.Open(t.Context(), url, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}
		stepByStep(t, open(), open())
	})
	t.Run("mongodb", func(t *testing.T) {
		url := servertest.StartMongoDB(t).URL
		if _, err := mongodb.Migrate(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		open := func() *mongodb.Store {
			s, err := mongodb.Open(t.Context(), url, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		}
		stepByStep(t, open(), open())
	})
}

type swappingStore interface {
	limit.Store
	limit.Swapper
}

func stepByStep(t *testing.T, storeA, storeB swappingStore) {
	p := &limit.Policy{Name: "tokens", Algorithm: algo.Fixed, Quota: 100, Window: 365 * 24 * time.Hour, Mode: limit.Synced}
	const key = "one"
	inStore := storeA.Update
	seen := func(int) {}
	a := open(t, &watched{storeA, storeA, func(refused int) { seen(refused) }}, rarely)
	b := open(t, &watched{storeB, storeB, func(int) {}}, rarely)

	total := 0
	var got []string
	note := func(step int) {
		var stored float64
		err := inStore(t.Context(), []string{limit.StoreKey(p, key)}, func(now algo.Ticks, cells []limit.Cell) error {
			stored = p.Algorithm.Used(p.Limit(), cells[0].State, now)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		globalA, ownA := a.Known(p, key)
		globalB, ownB := b.Known(p, key)
		got = append(got, fmt.Sprintf("%d: A %d/%d  B %d/%d  store %v  total %d", step, globalA, ownA, globalB, ownB, stored, total))
	}
	spend := func(l *limit.Limiter, hits int) {
		for range hits {
			take(t, l, p, key, 1)
			total++
		}
	}
	sync := func(l *limit.Limiter) {
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	note(1)
	spend(a, 1)
	note(2)
	sync(a)
	note(3)
	take(t, b, p, key, 0) // B sees the key for the first time
	note(4)
	spend(a, 1)
	spend(b, 3)
	note(5)
	sync(b)
	note(6)
	writes, refusals := 0, 0
	seen = func(refused int) {
		switch {
		case refused < 0: // a write begins
			if writes++; writes == 2 {
				note(8)
			}
		case refused > 0:
			refusals++
			note(7)
		}
	}
	sync(a)
	note(9)
	take(t, b, p, key, 0) // B still uses the key, so it is told of it
	sync(b)
	note(10)

	want := []string{
		"1: A 0/0  B 0/0  store 0  total 0",
		"2: A 0/1  B 0/0  store 0  total 1",
		"3: A 1/0  B 0/0  store 1  total 1",
		"4: A 1/0  B 1/0  store 1  total 1",
		"5: A 1/1  B 1/3  store 1  total 5",
		"6: A 1/1  B 4/0  store 4  total 5",
		"7: A 1/1  B 4/0  store 4  total 5",
		"8: A 4/1  B 4/0  store 4  total 5",
		"9: A 5/0  B 4/0  store 5  total 5",
		"10: A 5/0  B 5/0  store 5  total 5",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("global/own units of each node (-want +got):\n%s", diff)
	}
	if refusals != 1 {
		t.Errorf("%d writes were refused, want 1", refusals)
	}
}
