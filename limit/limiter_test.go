package limit_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/memory"
)

// database is the memory store as a store that does not decide by itself, so
// that a Limiter combines in front of it. It can be slow and it can fail.
type database struct {
	limit.Store
	updates atomic.Int64
	latency time.Duration
	failure atomic.Pointer[error]
}

func newDatabase() *database { return &database{Store: memory.New(nil)} }

func (d *database) Update(ctx context.Context, keys []string, fn func(algo.Ticks, []limit.Cell) error) error {
	d.updates.Add(1)
	if d.latency > 0 {
		select {
		case <-time.After(d.latency):
		case <-ctx.Done():
			return &limit.StoreError{Store: "database", Op: "update", Sent: true, Err: ctx.Err()}
		}
	}
	if err := d.failure.Load(); err != nil && *err != nil {
		return &limit.StoreError{Store: "database", Op: "update", Err: *err}
	}
	return d.Store.Update(ctx, keys, fn)
}

func (d *database) fail(err error) { d.failure.Store(&err) }

// open returns a Limiter that is closed when the test ends.
func open(t testing.TB, s limit.Store, o *limit.Options) *limit.Limiter {
	l := limit.New(s, o)
	t.Cleanup(func() { l.Close() })
	return l
}

// inBubble runs test in virtual time.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// overBoth runs test on a Limiter over a store that decides by itself and on
// one that combines.
func overBoth(t *testing.T, test func(t *testing.T, l *limit.Limiter)) {
	inBubble(t, "taker", func(t *testing.T) { test(t, open(t, memory.New(nil), nil)) })
	inBubble(t, "combining", func(t *testing.T) { test(t, open(t, newDatabase(), nil)) })
}

var (
	five = &limit.Policy{Name: "five", Quota: 5, Window: 10 * time.Second}
	two  = &limit.Policy{Name: "two", Quota: 2, Window: 10 * time.Second}
)

func TestTake(t *testing.T) {
	overBoth(t, func(t *testing.T, l *limit.Limiter) {
		for i, want := range []limit.Decision{
			{Policy: "five", Allowed: true, Limit: 5, Remaining: 2, ResetAfter: 6 * time.Second},
			{Policy: "five", Allowed: false, Limit: 5, Remaining: 2, RetryAfter: 2 * time.Second, ResetAfter: 6 * time.Second},
		} {
			cost := []int64{3, 3}[i]
			got, err := l.Take(t.Context(), five, "alex", cost)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("take %d (-want +got):\n%s", i, diff)
			}
		}
		time.Sleep(2 * time.Second)
		if d, err := l.Take(t.Context(), five, "alex", 3); err != nil || !d.Allowed {
			t.Errorf("after RetryAfter: %+v, %v; want allowed", d, err)
		}
		if d, err := l.Take(t.Context(), five, "kim", 5); err != nil || !d.Allowed {
			t.Errorf("another key: %+v, %v; want allowed", d, err)
		}
	})
}

func TestTakeAllSpendsAllOrNothing(t *testing.T) {
	overBoth(t, func(t *testing.T, l *limit.Limiter) {
		both := []limit.Spend{{Policy: five, Key: "alex", Cost: 1}, {Policy: two, Key: "alex", Cost: 1}}
		for range 2 {
			ds, err := l.TakeAll(t.Context(), both)
			if err != nil || !ds[0].Allowed || !ds[1].Allowed {
				t.Fatalf("%+v, %v; want both allowed", ds, err)
			}
		}
		for range 10 {
			ds, err := l.TakeAll(t.Context(), both)
			if err != nil || !ds[0].Allowed || ds[0].Remaining != 3 || ds[1].Allowed {
				t.Fatalf("%+v, %v; want five allowed with 3 remaining, two denied", ds, err)
			}
		}
		if d, _ := l.Peek(t.Context(), five, "alex", 3); !d.Allowed {
			t.Errorf("denials of two have spent five: %+v", d)
		}
	})
}

func TestTakeAllOfOneKeyTwice(t *testing.T) {
	overBoth(t, func(t *testing.T, l *limit.Limiter) {
		twice := []limit.Spend{{Policy: five, Key: "alex", Cost: 3}, {Policy: five, Key: "alex", Cost: 3}}
		ds, err := l.TakeAll(t.Context(), twice)
		if err != nil || ds[1].Allowed {
			t.Fatalf("%+v, %v; want the second denied", ds, err)
		}
		if d, err := l.Take(t.Context(), five, "alex", 5); err != nil || !d.Allowed {
			t.Errorf("%+v, %v: the denied spends left something behind", d, err)
		}
	})
}

func TestLocalIsGivenBackWhenExactDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, newDatabase(), &limit.Options{Local: memory.New(nil)})
		here := &limit.Policy{Name: "here", Quota: 10, Window: time.Minute, Mode: limit.Local}
		both := []limit.Spend{{Policy: two, Key: "k", Cost: 1}, {Policy: here, Key: "k", Cost: 1}}
		for range 5 {
			if _, err := l.TakeAll(t.Context(), both); err != nil {
				t.Fatal(err)
			}
		}
		ds, err := l.TakeAll(t.Context(), both)
		if err != nil {
			t.Fatal(err)
		}
		if ds[0].Policy != "two" || ds[0].Allowed || ds[1].Policy != "here" || !ds[1].Allowed || ds[1].Remaining != 8 {
			t.Errorf("%+v; want two denied and here with 8 remaining", ds)
		}
	})
}

func TestPeekRefundReset(t *testing.T) {
	overBoth(t, func(t *testing.T, l *limit.Limiter) {
		ctx := t.Context()
		take := func(cost int64) limit.Decision {
			d, err := l.Take(ctx, five, "alex", cost)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		take(5)
		if take(1).Allowed {
			t.Fatal("6th unit allowed")
		}
		if d, err := l.Peek(ctx, five, "alex", 1); err != nil || d.Allowed || d.RetryAfter != 2*time.Second {
			t.Errorf("peek: %+v, %v; want denied for 2s", d, err)
		}
		// The denial is remembered by now; what was given back must count at once.
		if d, err := l.Refund(ctx, five, "alex", 2); err != nil || d.Remaining != 2 {
			t.Errorf("refund: %+v, %v; want 2 remaining", d, err)
		}
		if !take(2).Allowed || take(1).Allowed {
			t.Error("a refund of 2 admits exactly 2")
		}
		if err := l.Reset(ctx, five, "alex"); err != nil {
			t.Fatal(err)
		}
		if d := take(5); !d.Allowed {
			t.Errorf("after reset: %+v", d)
		}
		if d, err := l.Refund(ctx, five, "alex", 1000); err != nil || d.Remaining != 5 {
			t.Errorf("a refund of more than is in use: %+v, %v; want 5 remaining", d, err)
		}
	})
}

func TestErrors(t *testing.T) {
	l := open(t, memory.New(nil), nil)
	for _, tt := range []struct {
		policy limit.Policy
		key    string
		cost   int64
		want   string
	}{
		{limit.Policy{Name: "p", Quota: 5, Window: time.Second}, "k", 6, `limit: policy "p": cost can never be admitted: 6 is more than fits at once, 5`},
		{limit.Policy{Name: "p", Quota: 5, Window: time.Second, Burst: 2}, "k", 3, `limit: policy "p": cost can never be admitted: 3 is more than fits at once, 2`},
		{limit.Policy{Name: "p", Quota: 5, Window: time.Second}, "k", -1, `limit: policy "p": cost can never be admitted: -1 is negative; give units back with Refund`},
		{limit.Policy{Name: "p", Quota: -1, Window: time.Second}, "k", 1, `limit: policy "p": quota: -1 is negative; 0 (admit nothing) or more is allowed`},
		{limit.Policy{Name: "p", Quota: 1}, "k", 1, `limit: policy "p": window: 0s is out of bounds; 1ms to 365d is allowed`},
		{limit.Policy{Quota: 1, Window: time.Second}, "k", 1, `limit: policy "": name: "" has 0 bytes; 1 to 128 are allowed`},
		{limit.Policy{Name: "p", Quota: 1, Window: time.Second}, strings.Repeat("k", 510), 1, `limit: policy "p": key must have 1 to 512 bytes: with its policy's name this one has 513`},
	} {
		_, err := l.Take(t.Context(), &tt.policy, tt.key, tt.cost)
		if err == nil || err.Error() != tt.want {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
	zero := &limit.Policy{Name: "none", Window: time.Second}
	if d, err := l.Take(t.Context(), zero, "k", 1); err != nil || d.Allowed || d.RetryAfter != time.Second {
		t.Errorf("quota 0: %+v, %v; want denied", d, err)
	}
	if _, err := l.Wait(t.Context(), zero, "k", 1); !errors.Is(err, limit.ErrCost) {
		t.Errorf("waiting for a quota of 0: %v; want ErrCost", err)
	}
}

func TestCombining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		db.latency = 5 * time.Millisecond
		l := open(t, db, nil)
		p := &limit.Policy{Name: "p", Quota: 300, Window: time.Hour}

		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				d, err := l.Take(t.Context(), p, "hot", 1)
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					admitted.Add(1)
				}
			})
		}
		wg.Wait()
		if n := admitted.Load(); n != 300 {
			t.Errorf("%d admitted, want 300", n)
		}
		if n := db.updates.Load(); n > 3 {
			t.Errorf("%d updates for 1000 concurrent spends, want at most 2 and a look at the epochs", n)
		}
	})
}

func TestDenialsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		l := open(t, db, nil)
		take := func(p *limit.Policy) limit.Decision {
			d, err := l.Take(t.Context(), p, "alex", 1)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		for range 6 {
			take(five)
		}
		synctest.Wait() // the epochs are known
		take(five)
		synctest.Wait()
		before := db.updates.Load()
		for i := range 100 {
			d := take(five)
			if want := 2*time.Second - time.Duration(i)*time.Millisecond; d.Allowed || d.RetryAfter != want {
				t.Fatalf("denial %d: %+v; want denied for %v", i, d, want)
			}
			time.Sleep(time.Millisecond)
		}
		if n := db.updates.Load(); n != before {
			t.Errorf("%d updates for remembered denials, want none", n-before)
		}
		if _, err := l.Peek(t.Context(), five, "alex", 1); err != nil { // asks the store
			t.Fatal(err)
		}
		before = db.updates.Load()
		if take(five); db.updates.Load() != before {
			t.Error("a peek makes the limiter forget a denial")
		}
		raised := *five
		raised.Quota = 6
		if d := take(&raised); !d.Allowed {
			t.Errorf("with a raised quota: %+v; want allowed at once", d)
		}
		time.Sleep(10 * time.Second)
		if d := take(five); !d.Allowed {
			t.Errorf("after the wait: %+v; want allowed", d)
		}
	})
}

func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		db.latency = 100 * time.Millisecond
		l := open(t, db, nil)
		go l.Take(t.Context(), five, "other", 1) // keeps the store busy
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := l.Take(ctx, five, "alex", 5)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Millisecond {
			t.Errorf("%v after %v; want the caller's deadline after 10ms", err, time.Since(began))
		}
		time.Sleep(time.Second)
		if d, err := l.Take(t.Context(), five, "alex", 5); err != nil || !d.Allowed {
			t.Errorf("%+v, %v: what was given up in line was spent", d, err)
		}
	})
}

// TestSpendsAreTheCallersAgain: once TakeAll has returned, whatever the caller
// does to the slice does not reach an update that is still under way.
func TestSpendsAreTheCallersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		db.latency = 100 * time.Millisecond
		l := open(t, db, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		spends := []limit.Spend{{Policy: five, Key: "alex", Cost: 1}, {Policy: two, Key: "alex", Cost: 1}}
		if _, err := l.TakeAll(ctx, spends); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		spends[0].Cost, spends[1] = 5, limit.Spend{Policy: five, Key: "kim", Cost: 5}
		time.Sleep(time.Second)
		for p, want := range map[*limit.Policy]int64{five: 4, two: 1} {
			if d, err := l.Peek(t.Context(), p, "alex", 0); err != nil || d.Remaining != want {
				t.Errorf("%s: %+v, %v; want %d remaining", p.Name, d, err, want)
			}
		}
	})
}

func TestStoreFails(t *testing.T) {
	with := func(f limit.OnStoreError) *limit.Policy {
		return &limit.Policy{Name: "p", Quota: 2, Window: time.Minute, OnStoreError: f}
	}
	down := errors.New("connection refused")
	for _, tt := range []struct {
		name    string
		policy  *limit.Policy
		allowed []bool // nil: an error
	}{
		{"error", with(limit.FailError), nil},
		{"allow", with(limit.FailAllow), []bool{true, true, true}},
		{"local", with(limit.FailLocal), []bool{true, true, false}},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			db := newDatabase()
			db.fail(down)
			l := open(t, db, &limit.Options{Local: memory.New(nil)})
			if tt.allowed == nil {
				_, err := l.Take(t.Context(), tt.policy, "k", 1)
				se, ok := errors.AsType[*limit.StoreError](err)
				if !ok || !errors.Is(err, down) || se.Sent {
					t.Errorf("got %v, want a StoreError that was not sent", err)
				}
			}
			for i, want := range tt.allowed {
				d, err := l.Take(t.Context(), tt.policy, "k", 1)
				if err != nil || d.Allowed != want || !d.Degraded || d.Policy != "p" || d.Limit != 2 {
					t.Errorf("take %d: %+v, %v; want allowed=%v, degraded", i, d, err, want)
				}
			}
			db.fail(nil)
			time.Sleep(300 * time.Millisecond) // the store is pinged
			if d, err := l.Take(t.Context(), tt.policy, "k", 1); err != nil || !d.Allowed || d.Degraded {
				t.Errorf("with the store back: %+v, %v; want allowed", d, err)
			}
		})
	}
}

func TestStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		db.latency = time.Minute
		l := open(t, db, &limit.Options{Timeout: 50 * time.Millisecond, MaxWaiting: 3})
		began := time.Now()
		var wg sync.WaitGroup
		var busy atomic.Int64
		for range 10 {
			synctest.Wait() // the first is under way when the others come
			wg.Go(func() {
				_, err := l.Take(t.Context(), five, "k", 1)
				if _, ok := errors.AsType[*limit.StoreError](err); !ok {
					t.Errorf("got %v, want a StoreError", err)
				}
				if errors.Is(err, limit.ErrBusy) {
					busy.Add(1)
				}
			})
		}
		wg.Wait()
		if d := time.Since(began); d != 50*time.Millisecond {
			t.Errorf("answered after %v, want the timeout, 50ms", d)
		}
		if n := busy.Load(); n != 6 {
			t.Errorf("%d were turned away, want 6: one is under way and there are 3 places", n)
		}
		time.Sleep(time.Second) // the update that nobody waits for ends, too
	})
}

func TestWait(t *testing.T) {
	overBoth(t, func(t *testing.T, l *limit.Limiter) {
		began := time.Now()
		var order []int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if _, err := l.Wait(t.Context(), two, "k", 1); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		wg.Wait()
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4}, order); diff != "" {
			t.Errorf("order of service (-want +got):\n%s", diff)
		}
		if d := time.Since(began); d != 15*time.Second {
			t.Errorf("2 at once and one every 5s: took %v, want 15s", d)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		began = time.Now()
		_, err := l.Wait(ctx, two, "k", 1)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 0 {
			t.Errorf("%v after %v; want DeadlineExceeded at once", err, time.Since(began))
		}
	})
}
