package limit_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/memory"
)

// notifying is a database that also calls out to its clients.
type notifying struct {
	*database
	mu        sync.Mutex
	listeners []chan string
}

func (n *notifying) Notify(_ context.Context, message string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.listeners {
		l <- message
	}
	return nil
}

func (n *notifying) Listen(ctx context.Context, heard func(string)) error {
	messages := make(chan string, 100)
	n.mu.Lock()
	n.listeners = append(n.listeners, messages)
	n.mu.Unlock()
	heard("")
	for {
		select {
		case m := <-messages:
			heard(m)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestGivingBackIsNoticedOnOtherNodes(t *testing.T) {
	giveBack := map[string]func(ctx context.Context, l *limit.Limiter) error{
		"reset": func(ctx context.Context, l *limit.Limiter) error { return l.Reset(ctx, five, "alex") },
		"refund": func(ctx context.Context, l *limit.Limiter) error {
			_, err := l.Refund(ctx, five, "alex", 5)
			return err
		},
	}
	stores := map[string]struct {
		open   func() limit.Store
		within time.Duration
	}{
		"looking":   {func() limit.Store { return newDatabase() }, 500 * time.Millisecond},
		"notifying": {func() limit.Store { return &notifying{database: newDatabase()} }, 0},
	}
	for how, s := range stores {
		for what, do := range giveBack {
			inBubble(t, how+"/"+what, func(t *testing.T) {
				db := s.open()
				here, there := open(t, db, nil), open(t, db, nil)
				for range 3 { // the epochs are known from the second on
					if d, err := here.Take(t.Context(), five, "alex", 5); err != nil {
						t.Fatal(d, err)
					}
					synctest.Wait()
				}
				if err := do(t.Context(), there); err != nil {
					t.Fatal(err)
				}
				time.Sleep(s.within)
				synctest.Wait()
				if d, err := here.Take(t.Context(), five, "alex", 5); err != nil || !d.Allowed {
					t.Errorf("%v after a %s elsewhere: %+v, %v; want allowed", s.within, what, d, err)
				}
			})
		}
	}
}

// breakers writes down when the breaker opens and closes.
type breakers struct {
	mu    sync.Mutex
	heard []bool
}

func (b *breakers) Updated(int, time.Duration, error) {}
func (b *breakers) Remembered()                       {}
func (b *breakers) Breaker(open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, open)
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		seen := new(breakers)
		l := open(t, db, &limit.Options{Observer: seen})
		take := func() error {
			_, err := l.Take(t.Context(), five, "alex", 1)
			return err
		}
		down := errors.New("connection refused")
		db.fail(down)
		for range 3 {
			if err := take(); !errors.Is(err, down) {
				t.Fatalf("got %v, want %v", err, down)
			}
		}
		before := db.updates.Load()
		err := take()
		fault, ok := errors.AsType[*limit.StoreError](err)
		if !ok || !errors.Is(err, limit.ErrOpen) || fault.Sent {
			t.Errorf("after three failures: %v, want one that is ErrOpen and was not sent", err)
		}
		if n := db.updates.Load() - before; n != 0 {
			t.Errorf("an open breaker lets %d updates through", n)
		}

		time.Sleep(300 * time.Millisecond) // the ping is answered; updates still fail
		if err := take(); !errors.Is(err, down) {
			t.Errorf("half open: %v, want the store's own error", err)
		}
		if err := take(); !errors.Is(err, limit.ErrOpen) {
			t.Errorf("after one more failure: %v, want ErrOpen", err)
		}
		db.fail(nil)
		time.Sleep(300 * time.Millisecond)
		for range 5 {
			if err := take(); err != nil {
				t.Errorf("with the store back: %v", err)
			}
		}
		if want := []bool{true, false, true, false}; !slices.Equal(seen.heard, want) {
			t.Errorf("the observer heard %v, want %v", seen.heard, want)
		}
	})
}

func TestLocalShareOfLiveNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		nodes := make([]*limit.Limiter, 3)
		for i := range nodes {
			nodes[i] = open(t, db, &limit.Options{Local: memory.New(nil)})
		}
		policies := map[int64]*limit.Policy{}
		for _, quota := range []int64{9, 10, 1, 0} {
			policies[quota] = &limit.Policy{Name: fmt.Sprint("quota-", quota), Quota: quota, Window: time.Hour, OnStoreError: limit.FailLocal}
		}
		for _, l := range nodes {
			if _, err := l.Take(t.Context(), policies[9], "another", 1); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second) // they get to know of each other
		db.fail(errors.New("down"))
		for quota, each := range map[int64]int{9: 3, 10: 4, 1: 1, 0: 0} {
			for i, l := range nodes {
				admitted := 0
				for range 20 {
					d, err := l.Take(t.Context(), policies[quota], "alex", 1)
					if err != nil || !d.Degraded {
						t.Fatalf("%+v, %v; want a degraded decision", d, err)
					}
					if d.Allowed {
						admitted++
					}
				}
				if admitted != each {
					t.Errorf("node %d of 3 admits %d of a quota of %d, want %d", i, admitted, quota, each)
				}
			}
		}
	})
}

// bulk is a database that decides spends by itself.
type bulk struct {
	*database
	takes, spends atomic.Int64
}

func (b *bulk) TakesBulk(p *limit.Policy, cost int64) bool { return cost < 3 }

func (b *bulk) TakeBulk(ctx context.Context, takes []limit.Take) error {
	b.takes.Add(1)
	for i := range takes {
		k := &takes[i]
		b.spends.Add(int64(k.Times))
		err := b.Store.Update(ctx, []string{k.Key}, func(now algo.Ticks, cells []limit.Cell) error {
			k.Before, k.Now = cells[0].State, now
			for range k.Times {
				s, v := k.Policy.Decide(cells[0].State, now, k.Cost)
				if v.OK {
					cells[0].State, cells[0].TTL, cells[0].Dirty = s, v.ResetAfter, true
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	time.Sleep(time.Millisecond) // the others come along
	return nil
}

func TestBulkTaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &bulk{database: newDatabase()}
		l := open(t, db, &limit.Options{MaxDenials: -1})
		p := &limit.Policy{Name: "p", Quota: 100, Window: time.Hour}
		var wg sync.WaitGroup
		admitted := make([]atomic.Int64, 10)
		for i := range 4000 {
			wg.Go(func() {
				key, cost := i%10, int64(1+i/10%4) // 1 and 2 in bulk, 3 and 4 not
				d, err := l.Take(t.Context(), p, fmt.Sprint(key), cost)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					admitted[key].Add(cost)
				}
			})
		}
		wg.Wait()
		for key := range admitted {
			if n := admitted[key].Load(); n != 100 {
				t.Errorf("key %d: %d units admitted, want the quota of 100", key, n)
			}
		}

		db.takes.Store(0)
		db.spends.Store(0)
		updates := db.updates.Load()
		for i := range 1000 {
			wg.Go(func() {
				if d, err := l.Take(t.Context(), p, fmt.Sprint("cold ", i%100), 1); err != nil || !d.Allowed || d.Remaining < 90 {
					t.Errorf("%+v, %v; want allowed", d, err)
				}
			})
		}
		wg.Wait()
		if takes, spends := db.takes.Load(), db.spends.Load(); takes > 3 || spends != 1000 || db.updates.Load() != updates {
			t.Errorf("%d bulk takes of %d spends and %d updates; want 1000 spends in at most 3, and no update", takes, spends, db.updates.Load()-updates)
		}
	})
}

// scattered is a database that changes one key at a time.
type scattered struct {
	*database
	swaps atomic.Int64
}

func (*scattered) Together(keys []string) bool { return len(keys) == 1 }

func (s *scattered) Update(ctx context.Context, keys []string, fn func(algo.Ticks, []limit.Cell) error) error {
	if len(keys) > 1 {
		return &limit.StoreError{Store: "scattered", Op: "update", Err: errors.New("several keys")}
	}
	return s.database.Update(ctx, keys, fn)
}

// Swap takes the State's hash for a version: equal States are as good as
// unchanged ones.
func (s *scattered) Swap(ctx context.Context, cells []limit.Cell) (now algo.Ticks, err error) {
	s.swaps.Add(1)
	for i := range cells {
		c := &cells[i]
		err = s.database.Update(ctx, []string{c.Key}, func(at algo.Ticks, kept []limit.Cell) error {
			now = at
			k := &kept[0]
			version := hash(k.State)
			if c.Dirty && c.Version == version {
				k.State, k.TTL, k.Dirty = c.State, c.TTL, true
				c.Version = hash(c.State)
				return nil
			}
			c.State, c.Version, c.Dirty = k.State, version, false
			return nil
		})
	}
	return now, err
}

func hash(s algo.State) int64 {
	if s.Equal(algo.State{}) {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprint(h, s.At, s.A, s.B, s.Entries())
	return int64(h.Sum64())
}

func TestKeysThatLieApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &scattered{database: newDatabase()}
		nodes := []*limit.Limiter{open(t, db, nil), open(t, db, nil)}
		hundred := &limit.Policy{Name: "hundred", Quota: 100, Window: time.Hour}
		fifty := &limit.Policy{Name: "fifty", Quota: 50, Window: time.Hour}
		both := []limit.Spend{{Policy: hundred, Key: "alex", Cost: 1}, {Policy: fifty, Key: "alex", Cost: 1}}
		admitted := 0
		for range 60 {
			for _, l := range nodes {
				ds, err := l.TakeAll(t.Context(), both)
				if err != nil {
					t.Fatal(err)
				}
				if ds[0].Allowed && ds[1].Allowed {
					admitted++
				}
			}
		}
		if admitted != 50 {
			t.Errorf("%d admitted, want 50", admitted)
		}
		if d, err := nodes[0].Peek(t.Context(), hundred, "alex", 50); err != nil || !d.Allowed || d.Remaining != 50 {
			t.Errorf("%+v, %v: what fifty denied was spent under hundred", d, err)
		}
		synctest.Wait()
		time.Sleep(time.Second) // each node has heard what the other gave back
		for _, l := range nodes {
			l.TakeAll(t.Context(), both)
		}
		synctest.Wait()
		calls := db.updates.Load() + db.swaps.Load()
		for range 100 {
			for _, l := range nodes {
				if ds, err := l.TakeAll(t.Context(), both); err != nil || ds[1].Allowed || !ds[0].Allowed || ds[0].Remaining != 50 {
					t.Fatalf("%+v, %v; want fifty denied", ds, err)
				}
			}
		}
		if n := db.updates.Load() + db.swaps.Load() - calls; n != 0 {
			t.Errorf("%d calls of the store for remembered denials, want none", n)
		}
	})
}

func TestConcurrentSpendsOfKeysThatLieApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &scattered{database: newDatabase()}
		db.latency = time.Millisecond
		nodes := []*limit.Limiter{open(t, db, nil), open(t, db, nil), open(t, db, nil)}
		p := &limit.Policy{Name: "p", Algorithm: algo.Sliding, Quota: 100, Window: time.Hour}
		var wg sync.WaitGroup
		admitted := make([]atomic.Int64, 3)
		for i := range 1500 {
			wg.Go(func() {
				d, err := nodes[i%3].Take(t.Context(), p, fmt.Sprint(i/3%3), 1)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					admitted[i/3%3].Add(1)
				}
			})
		}
		wg.Wait()
		for key := range admitted {
			if n := admitted[key].Load(); n != 100 {
				t.Errorf("key %d: %d admitted, want 100", key, n)
			}
		}
	})
}
