package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/rules/rulestest"
	"github.com/stint-dev/stint/store/redis"
)

func TestCluster(t *testing.T) {
	s := &server{url: os.Getenv(servertest.RedisClusterURL)}
	var nodes *servertest.RedisCluster
	if s.url == "" {
		nodes = servertest.StartRedisCluster(t)
		s.url = nodes.Nodes[0].URL // one leads to the others
	}
	t.Run("conformance", func(t *testing.T) { limittest.Run(t, s.harness()) })
	t.Run("rules", func(t *testing.T) { rulestest.Run(t, s.rules()) })
	t.Run("rules with a hash tag in the prefix", func(t *testing.T) { rulestest.Run(t, (&server{url: s.url, tag: "{stint}"}).rules()) })
	t.Run("a caller's limits lie together", func(t *testing.T) { callersLimits(t, s) })
	t.Run("a hash tag in the prefix", func(t *testing.T) { oneSlot(t, &server{url: s.url, tag: "{stint}"}) })
	if nodes != nil {
		t.Run("failover", func(t *testing.T) { failover(t, &server{url: nodes.URL}, nodes) })
	}
}

func callersLimits(t *testing.T, s *server) {
	store := s.open(t)
	defer store.Close()
	second := &limit.Policy{Name: "second", Quota: 10, Window: time.Second}
	hour := &limit.Policy{Name: "hour", Algorithm: algo.Sliding, Quota: 100, Window: time.Hour}
	together := store.(limit.Scattered).Together
	for i := range 100 {
		user := fmt.Sprint("{user}", i)
		if keys := []string{limit.StoreKey(second, user), limit.StoreKey(hour, user)}; !together(keys) {
			t.Errorf("%q are not together", keys)
		}
	}
	apart := 0
	for i := range 100 {
		if !together([]string{limit.StoreKey(hour, "{user}"), limit.StoreKey(hour, fmt.Sprint("{user}", i))}) {
			apart++
		}
	}
	if apart < 90 {
		t.Errorf("only %d of 100 callers with the same braces lie apart", apart)
	}
	err := store.Update(t.Context(), []string{"one", "two"}, func(algo.Ticks, []limit.Cell) error {
		t.Error("fn is called with keys that cannot change together")
		return nil
	})
	const want = "redis: update: the keys lie in several slots of the cluster, which cannot change together"
	if err == nil || err.Error() != want {
		t.Errorf("update of keys that lie apart: %v, want %s", err, want)
	}
}

// oneSlot changes keys together that would lie apart without the prefix of s.
func oneSlot(t *testing.T, s *server) {
	store := s.open(t)
	defer store.Close()
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	if !store.(limit.Scattered).Together(keys) {
		t.Error("the keys are not together")
	}
	for want := range int64(3) {
		err := store.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
			for i := range cells {
				c := &cells[i]
				if c.State.A != want {
					t.Errorf("%q counts %d, want %d", c.Key, c.State.A, want)
				}
				c.State.A, c.TTL, c.Dirty = want+1, algo.Day, true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// failover kills a master under a load on keys of all masters. Calls fail in
// time until its replica has taken over, and what is counted then is what the
// callers were told, but for what the replica had not heard of yet.
func failover(t *testing.T, s *server, nodes *servertest.RedisCluster) {
	store := s.open(t).(*redis.Store)
	defer store.Close()
	p := &limit.Policy{Name: "year", Algorithm: algo.Fixed, Quota: 1_000_000_000, Window: 365 * 24 * time.Hour}
	books := make([]book, 60)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	for g := range 4 {
		load.Go(func() {
			for i := g; ctx.Err() == nil; i++ {
				at := i % len(books)
				books[at].take(t, store, p, limit.StoreKey(p, fmt.Sprint("user ", at)), i/len(books)%2 == 0)
			}
		})
	}
	wait := func(what string, done func() bool) {
		t.Helper()
		for began := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("after 30s still not: %s", what)
			}
		}
	}
	every := func(count func(b *book) int64) func() bool {
		before := make([]int64, len(books))
		for i := range books {
			before[i] = count(&books[i])
		}
		return func() bool {
			for i := range books {
				if count(&books[i]) <= before[i] {
					return false
				}
			}
			return true
		}
	}
	sure := func(b *book) int64 { return b.sure.Load() }
	wait("every key counts", every(sure))
	nodes.KillMaster(t)
	wait("calls fail", func() bool {
		failed := int64(0)
		for i := range books {
			failed += books[i].failed.Load()
		}
		return failed > 0
	})
	killed := time.Now()
	wait("every key counts again", every(sure))
	t.Logf("every key counts again %v after calls began to fail", time.Since(killed).Round(time.Millisecond))
	wait("a ping", func() bool { return store.Ping(t.Context()) == nil })
	stop()
	load.Wait()

	seen := map[string]int64{}
	for c, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		seen[c.Key] = c.State.A
	}
	for i := range books {
		b := &books[i]
		key := limit.StoreKey(p, fmt.Sprint("user ", i))
		if most := b.sure.Load() + b.unsure.Load(); seen[key] > most || seen[key] == 0 {
			t.Errorf("%q counts %d; %d takes succeeded and %d more were sent", key, seen[key], b.sure.Load(), b.unsure.Load())
		}
	}
}

// book is what the callers of one key were told.
type book struct{ sure, unsure, failed atomic.Int64 }

func (b *book) take(t *testing.T, s *redis.Store, p *limit.Policy, key string, bulk bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	var err error
	if bulk {
		err = s.TakeBulk(ctx, []limit.Take{{Policy: p, Key: key, Cost: 1, Times: 1}})
	} else {
		err = s.Update(ctx, []string{key}, func(now algo.Ticks, cells []limit.Cell) error {
			state, v := p.Decide(cells[0].State, now, 1)
			cells[0].State, cells[0].TTL, cells[0].Dirty = state, v.ResetAfter, true
			return nil
		})
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("a call of 1s came back after %v", took)
	}
	if err == nil {
		b.sure.Add(1)
		return
	}
	b.failed.Add(1)
	fault, ok := errors.AsType[*limit.StoreError](err)
	if !ok {
		t.Errorf("got error %v (%T), want a *limit.StoreError", err, err)
	} else if fault.Sent {
		b.unsure.Add(1)
	}
}
