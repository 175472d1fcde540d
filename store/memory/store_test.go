package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// noon is where the clocks of these tests begin: the last tick of a minute,
// at which sliding-proportional too admits a quota and no more.
const noon = 1_800_000_000*algo.Second - 1

// clock is a clock that stands still until it is moved.
type clock struct{ ticks atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ticks.Store(int64(noon))
	return c
}

func (c *clock) now() algo.Ticks      { return algo.Ticks(c.ticks.Load()) }
func (c *clock) advance(t algo.Ticks) { c.ticks.Add(int64(t)) }

func login(a *algo.Algorithm) *limit.Policy {
	return &limit.Policy{Name: "login", Algorithm: a, Quota: 5, Window: time.Minute}
}

func take(t *testing.T, s *Store, p *limit.Policy, key string, cost int64) algo.Verdict {
	t.Helper()
	v, err := s.Take(t.Context(), p, key, cost)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func change(t *testing.T, s *Store, fn func(cells []limit.Cell), keys ...string) {
	t.Helper()
	err := s.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
		fn(cells)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// set keeps state for keys for an hour.
func set(t *testing.T, s *Store, state algo.State, keys ...string) {
	t.Helper()
	change(t, s, func(cells []limit.Cell) {
		for i := range cells {
			cells[i].State, cells[i].TTL, cells[i].Dirty = state, algo.Hour, true
		}
	}, keys...)
}

func get(t *testing.T, s *Store, key string) (state algo.State) {
	t.Helper()
	change(t, s, func(cells []limit.Cell) { state = cells[0].State }, key)
	return state
}

func list(t *testing.T, s *Store, prefix string) map[string]algo.State {
	t.Helper()
	found := map[string]algo.State{}
	for c, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[c.Key]; twice {
			t.Errorf("List yields %q twice", c.Key)
		}
		found[c.Key] = c.State
	}
	return found
}

func TestTakeAndUpdateSeeTheSameCells(t *testing.T) {
	for _, a := range algo.All {
		t.Run(a.Name, func(t *testing.T) {
			s, p := New(&Options{Now: newClock().now}), login(a)
			for i := range 100 {
				key := fmt.Sprintf("user:%d", i)
				want, _ := p.Decide(algo.State{}, noon, 2)

				take(t, s, p, key, 2)
				if got := get(t, s, limit.StoreKey(p, key)); !got.Equal(want) {
					t.Fatalf("after a Take, Update sees %+v, want %+v", got, want)
				}
				full, _ := p.Decide(algo.State{}, noon, 5)
				set(t, s, full, limit.StoreKey(p, key))
				if v := take(t, s, p, key, 1); v.OK {
					t.Fatal("Take admits what Update has spent")
				}
			}
			if n := s.Stats().Keys; n != 100 {
				t.Errorf("%d keys are kept, want 100", n)
			}
		})
	}
}

func TestTakeKeepsNothingNeedless(t *testing.T) {
	for _, a := range algo.All {
		t.Run(a.Name, func(t *testing.T) {
			s, p := New(nil), login(a)
			closed := &limit.Policy{Name: "closed", Algorithm: a, Window: time.Minute}
			take(t, s, p, "looks", 0)
			take(t, s, p, "asks for too much", 6)
			take(t, s, p, "has nothing to give back", -1)
			take(t, s, closed, "is never admitted", 1)
			take(t, s, p, "gives all back", 3)
			take(t, s, p, "gives all back", -3)
			if kept := list(t, s, ""); len(kept) > 0 {
				t.Errorf("kept %+v, want nothing", kept)
			}
		})
	}
}

// A policy whose quota is 0 for a while keeps what was spent before.
func TestQuotaZeroForgetsNothing(t *testing.T) {
	for _, a := range algo.All {
		t.Run(a.Name, func(t *testing.T) {
			s, p := New(&Options{Now: newClock().now}), login(a)
			closed := *p
			closed.Quota = 0
			take(t, s, p, "alice", 5)
			if v := take(t, s, &closed, "alice", 1); v.OK {
				t.Error("a quota of 0 admits")
			}
			if v := take(t, s, p, "alice", 1); v.OK {
				t.Error("what was spent is forgotten")
			}
		})
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	for _, a := range algo.All {
		if a == algo.Log {
			continue // its State is a string, made anew by each spend
		}
		t.Run(a.Name, func(t *testing.T) {
			s, p := New(nil), &limit.Policy{Name: "login", Algorithm: a, Quota: 1e9, Window: time.Hour}
			ctx := context.Background()
			n := testing.AllocsPerRun(1000, func() {
				if v, err := s.Take(ctx, p, "alice", 1); err != nil || !v.OK {
					t.Fatalf("%+v, %v", v, err)
				}
			})
			if n > 0 {
				t.Errorf("%v allocations for a known key, want 0", n)
			}
		})
	}
}

func TestUpdateIsAllOrNothing(t *testing.T) {
	s := New(nil)
	set(t, s, algo.State{A: 1}, "a", "b")
	before := list(t, s, "")

	full := errors.New("the second is full")
	err := s.Update(t.Context(), []string{"a", "b", "c"}, func(_ algo.Ticks, cells []limit.Cell) error {
		for i := range cells {
			cells[i] = limit.Cell{State: algo.State{A: 2}, TTL: algo.Hour, Dirty: true}
		}
		return full
	})
	if err != full {
		t.Errorf("Update returned %v, want fn's own error", err)
	}
	if diff := cmp.Diff(before, list(t, s, "")); diff != "" {
		t.Errorf("an Update that failed changed (-before +after):\n%s", diff)
	}

	change(t, s, func(cells []limit.Cell) {
		cells[0].State.A = 7 // not dirty
		cells[1].State, cells[1].TTL, cells[1].Dirty = algo.State{A: 3}, algo.Hour, true
		cells[2].State, cells[2].TTL, cells[2].Dirty = algo.State{A: 4}, 0, true
		cells[3].State, cells[3].TTL, cells[3].Dirty = algo.State{}, algo.Hour, true
	}, "a", "b", "c", "d")
	want := map[string]algo.State{"a": {A: 1}, "b": {A: 3}}
	if diff := cmp.Diff(want, list(t, s, "")); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if n := s.Stats().Keys; n != 2 {
		t.Errorf("%d keys are kept, want 2: neither a TTL of 0 nor the zero State takes room", n)
	}
}

func TestUpdateSurvivesAPanic(t *testing.T) {
	s := New(nil)
	func() {
		defer func() { recover() }()
		_ = s.Update(t.Context(), []string{"a", "b"}, func(algo.Ticks, []limit.Cell) error { panic("a broken algorithm") })
	}()
	set(t, s, algo.State{A: 1}, "a", "b") // would wait for ever if a lock were held
}

func TestKeepsWholeStates(t *testing.T) {
	s := New(nil)
	states := map[string]algo.State{
		"extreme": {At: -1 << 63, A: 1<<63 - 1, B: -1 << 63},
		"log":     algo.State{At: 1}.WithEntries(strings.Repeat("\x00\xff", 4096)),
		"only B":  {B: 1},
	}
	for key, state := range states {
		set(t, s, algo.State{A: 9}.WithEntries("overwritten"), key)
		set(t, s, state, key)
		if got := get(t, s, key); !got.Equal(state) {
			t.Errorf("%s: %+v came back as %+v", key, state, got)
		}
	}
	if diff := cmp.Diff(states, list(t, s, "")); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

func TestKeysAreCopied(t *testing.T) {
	// A key may be cut from a large header, which must not live as long.
	s := New(nil)
	header := strings.Repeat("x", 1<<20)
	before := heap()
	for i := range 32 {
		set(t, s, algo.State{A: 1}, strings.Clone(header)[:8+i])
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("32 short keys hold %d bytes", grown)
	}
	if n := s.Stats().Keys; n != 32 {
		t.Errorf("%d keys are kept, want 32", n)
	}
}

func TestOddKeys(t *testing.T) {
	s := New(nil)
	keys := []string{"\x00", "g", "g\x00", "g\x05login", "g\x06login", "g\xff", "g\x05loginalice", "G\x05loginalice",
		"g\x05login\x00", "é", "e\u0301", " ", "  ", strings.Repeat("k", limit.MaxKeyLen)}
	for i, key := range keys {
		set(t, s, algo.State{A: int64(i + 1)}, key)
	}
	for i, key := range keys {
		if got := get(t, s, key).A; got != int64(i+1) {
			t.Errorf("%q holds %d, want %d", key, got, i+1)
		}
	}
	if err := s.Delete(t.Context(), append(keys[1:], "unknown")...); err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(maps.Keys(list(t, s, ""))); !slices.Equal(got, keys[:1]) {
		t.Errorf("after Delete %q are left, want %q", got, keys[:1])
	}
}

func TestListPrefix(t *testing.T) {
	c := newClock()
	s := New(&Options{Now: c.now})
	p, other := login(nil), &limit.Policy{Name: "logi", Quota: 5, Window: time.Minute}
	var want []string
	for i := range 3000 {
		key := fmt.Sprintf("user:%04d", i)
		take(t, s, p, key, 1)
		take(t, s, other, key, 1)
		want = append(want, limit.StoreKey(p, key))
	}
	got := slices.Sorted(maps.Keys(list(t, s, limit.StoreKey(p, ""))))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	for range s.List(t.Context(), "") {
		break // a loop that ends early is no fault
	}
	c.advance(algo.Minute)
	if kept := list(t, s, ""); len(kept) > 0 {
		t.Errorf("List yields %d expired cells", len(kept))
	}
}

func TestErrors(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	long := strings.Repeat("k", limit.MaxKeyLen+1)
	look := func(algo.Ticks, []limit.Cell) error { return nil }
	tests := []struct {
		name string
		call func(*Store) error
		want error
		text string
	}{
		{"update, empty key", func(s *Store) error { return s.Update(t.Context(), []string{"a", ""}, look) },
			limit.ErrKeyLen, "memory: update: key must have 1 to 512 bytes"},
		{"update, long key", func(s *Store) error { return s.Update(t.Context(), []string{long}, look) },
			limit.ErrKeyLen, "memory: update: key must have 1 to 512 bytes"},
		{"delete, long key", func(s *Store) error { return s.Delete(t.Context(), "a", long) },
			limit.ErrKeyLen, "memory: delete: key must have 1 to 512 bytes"},
		{"take, long key", func(s *Store) error {
			_, err := s.Take(t.Context(), login(nil), long[:limit.MaxKeyLen-6], 1)
			return err
		},
			limit.ErrKeyLen, "memory: take: key must have 1 to 512 bytes"},
		{"update, cancelled", func(s *Store) error { return s.Update(done, []string{"a"}, look) },
			context.Canceled, "memory: update: context canceled"},
		{"ping, cancelled", func(s *Store) error { return s.Ping(done) },
			context.Canceled, "memory: ping: context canceled"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := New(nil)
			set(t, s, algo.State{A: 1}, "a")
			err := test.call(s)
			if e, ok := errors.AsType[*limit.StoreError](err); !ok || e.Sent || !errors.Is(err, test.want) || err.Error() != test.text {
				t.Errorf("%v, want a *limit.StoreError: %s", err, test.text)
			}
			if got := list(t, s, ""); len(got) != 1 {
				t.Errorf("%+v is left, want what was there", got)
			}
		})
	}
	if _, err := New(nil).Take(t.Context(), login(nil), long[:limit.MaxKeyLen-7], 1); err != nil {
		t.Errorf("the longest key: %v", err)
	}
}

func TestClosed(t *testing.T) {
	s := New(nil)
	take(t, s, login(nil), "alice", 1)
	if err := errors.Join(s.Ping(t.Context()), s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, takeErr := s.Take(t.Context(), login(nil), "alice", 1)
	var listErr error
	for _, err := range s.List(t.Context(), "") {
		listErr = err
	}
	for op, err := range map[string]error{
		"take":   takeErr,
		"list":   listErr,
		"ping":   s.Ping(t.Context()),
		"delete": s.Delete(t.Context(), "a"),
		"update": s.Update(t.Context(), []string{"a"}, func(algo.Ticks, []limit.Cell) error { return nil }),
	} {
		if want := "memory: " + op + ": store is closed"; !errors.Is(err, limit.ErrClosed) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("a closed store holds %d keys", n)
	}
}

func TestConcurrentTakesAdmitTheQuota(t *testing.T) {
	const quota = 1000
	for _, a := range algo.All {
		t.Run(a.Name, func(t *testing.T) {
			s, p := New(&Options{Now: newClock().now}), &limit.Policy{Name: "login", Algorithm: a, Quota: quota, Window: time.Minute}
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for g := range 32 {
				wg.Go(func() {
					for i := range quota / 16 {
						if g%2 == 0 { // half of them through Update
							change(t, s, func(cells []limit.Cell) {
								c := &cells[0]
								state, v := p.Decide(c.State, noon, 1)
								c.State, c.TTL, c.Dirty = state, v.ResetAfter, v.OK
								if v.OK {
									admitted.Add(1)
								}
							}, limit.StoreKey(p, "alice"), fmt.Sprint(g, i))
						} else if v, err := s.Take(t.Context(), p, "alice", 1); err != nil {
							t.Error(err)
						} else if v.OK {
							admitted.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if n := admitted.Load(); n != quota {
				t.Errorf("%d admitted, want exactly %d", n, quota)
			}
		})
	}
}

// Two Updates that name the same keys in opposite orders do not wait for each
// other, and neither loses what the other wrote.
func TestOppositeOrders(t *testing.T) {
	s := New(nil)
	keys := make([]string, 50)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	count := func(cells []limit.Cell) {
		for i := range cells {
			cells[i].State.A++
			cells[i].TTL, cells[i].Dirty = algo.Hour, true
		}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			own := slices.Clone(keys)
			if g%2 == 0 {
				slices.Reverse(own)
			}
			for range 200 {
				change(t, s, count, own...)
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		if n := get(t, s, key).A; n != 8*200 {
			t.Errorf("%s counts %d updates, want %d", key, n, 8*200)
		}
	}
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := New(nil), login(algo.Fixed)
		change(t, s, func([]limit.Cell) {}, "a")
		err := s.Update(t.Context(), []string{"a"}, func(now algo.Ticks, _ []limit.Cell) error {
			if want := algo.Ticks(time.Now().UnixMicro()); now != want {
				t.Errorf("the store's clock reads %d, want the system's %d", now, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if v := take(t, s, p, "alice", 5); !v.OK || v.ResetAfter != algo.Minute {
			t.Fatalf("%+v, want a whole window spent at its beginning", v)
		}
		time.Sleep(time.Minute - time.Microsecond)
		if v := take(t, s, p, "alice", 1); v.OK || v.RetryAfter != 1 {
			t.Errorf("%+v, want a denial for one tick", v)
		}
		time.Sleep(time.Microsecond)
		if v := take(t, s, p, "alice", 1); !v.OK || v.Remaining != 4 {
			t.Errorf("%+v, want a new window", v)
		}
	})
}
