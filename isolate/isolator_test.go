package isolate_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/isolate"
)

func mustNew(t testing.TB, c isolate.Config, o *isolate.Options) *isolate.Isolator {
	t.Helper()
	i, err := isolate.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// one returns a config with one plan.
func one(seats int, p isolate.Plan) isolate.Config {
	return isolate.Config{Seats: seats, Plans: map[string]isolate.Plan{"default": p}}
}

func mustAcquire(t testing.TB, i *isolate.Isolator, tenant string) isolate.Seat {
	t.Helper()
	s, err := i.Acquire(t.Context(), tenant, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func reasonOf(err error) isolate.Reason {
	if r, ok := errors.AsType[*isolate.Rejection](err); ok {
		return r.Reason
	}
	return 0
}

func mustBeEmpty(t testing.TB, i *isolate.Isolator) {
	t.Helper()
	if s := i.Snapshot(10); s.Busy != 0 || s.Waiting != 0 {
		t.Errorf("%d seats are held and %d requests wait; want none", s.Busy, s.Waiting)
	}
}

// The plan OneAtATime: one runs, 50 wait, in order, and the next is refused at once.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := mustNew(t, one(10, isolate.OneAtATime), nil)
		var order []int
		var mu sync.Mutex
		var done sync.WaitGroup
		for n := range 51 {
			done.Go(func() {
				err := i.Do(t.Context(), isolate.Request{Tenant: "pos"}, func(context.Context) error {
					time.Sleep(time.Second)
					mu.Lock()
					order = append(order, n)
					mu.Unlock()
					return nil
				})
				if err != nil {
					t.Errorf("%d: %v", n, err)
				}
			})
			synctest.Wait()
		}
		_, err := i.Acquire(t.Context(), "pos", 1)
		if reasonOf(err) != isolate.QueueFull {
			t.Errorf("the 52nd: %v", err)
		}
		if s := i.Snapshot(1); s.Busy != 1 || s.Waiting != 50 {
			t.Errorf("%d run and %d wait", s.Busy, s.Waiting)
		}
		mustAcquire(t, i, "another").Release()
		done.Wait()
		for n, m := range order {
			if n != m {
				t.Fatalf("not in order: %v", order)
			}
		}
		mustBeEmpty(t, i)
	})
}

// A minute over waiting and running: the first takes 45 s, so the second has 15 left.
// It keeps its seat until it returns, though its caller was answered.
func TestTimeoutCountsWaitingAndRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := mustNew(t, one(10, isolate.OneAtATime), nil)
		go i.Do(t.Context(), isolate.Request{}, func(context.Context) error {
			time.Sleep(45 * time.Second)
			return nil
		})
		synctest.Wait()
		start := time.Now()
		err := i.Do(t.Context(), isolate.Request{}, func(context.Context) error {
			time.Sleep(30 * time.Second) // it does not heed its ctx
			return nil
		})
		if took := time.Since(start); took != time.Minute || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v after %s", err, took)
		}
		if s := i.Snapshot(1); s.Busy != 1 {
			t.Errorf("%d seats are held while it runs on", s.Busy)
		}
		time.Sleep(15*time.Second + 1)
		mustBeEmpty(t, i)
	})
}

func TestWhoHasWaitedTooLongNeverStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := mustNew(t, one(1, isolate.Plan{Weight: 1, Queue: 50, QueueTimeout: 200 * time.Millisecond}), nil)
		s := mustAcquire(t, i, "a")
		start := time.Now()
		err := i.Do(t.Context(), isolate.Request{Tenant: "a"}, func(context.Context) error {
			t.Error("it started")
			return nil
		})
		if took := time.Since(start); reasonOf(err) != isolate.TimedOut || took != 200*time.Millisecond {
			t.Errorf("%v after %s", err, took)
		}
		s.Release()
		mustBeEmpty(t, i)
	})
}

func TestCancelledWaiterGivesUpItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := mustNew(t, one(1, isolate.Plan{Weight: 1, Queue: 1, QueueTimeout: time.Hour}), nil)
		s := mustAcquire(t, i, "a")
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := i.Acquire(ctx, "a", 1); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := i.Acquire(ended, "b", 1); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		s.Release()
		mustBeEmpty(t, i)
	})
}

func TestReleaseCountsOnce(t *testing.T) {
	i := mustNew(t, isolate.Config{Seats: 2}, nil)
	first := mustAcquire(t, i, "a")
	if !first.Release() || first.Release() {
		t.Error("the first release must count, the second must not")
	}
	second := mustAcquire(t, i, "b") // uses what the first left
	if first.Release() {
		t.Error("a released seat released that of another")
	}
	if s := i.Snapshot(1); s.Busy != 1 || s.ReleasedTwice != 2 {
		t.Errorf("%d are held, %d released twice", s.Busy, s.ReleasedTwice)
	}
	second.Release()
	if (isolate.Seat{}).Release() {
		t.Error("the zero Seat")
	}
	mustBeEmpty(t, i)
}

func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		i := mustNew(t, one(1, isolate.OneAtATime), &isolate.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.Contains(p.(string), "at once") {
					t.Errorf("came out: %v", p)
				}
			}()
			i.Do(t.Context(), isolate.Request{}, func(context.Context) error { panic("at once") })
		}()
		mustBeEmpty(t, i)
		if err := i.Do(t.Context(), isolate.Request{}, func(context.Context) error {
			time.Sleep(2 * time.Minute)
			panic("late")
		}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if !strings.Contains(log.String(), "late") {
			t.Errorf("logged: %s", log.String())
		}
		if err := i.Do(t.Context(), isolate.Request{}, func(context.Context) error {
			runtime.Goexit()
			return nil
		}); !errors.Is(err, isolate.ErrExited) {
			t.Error(err)
		}
		mustBeEmpty(t, i)
	})
}

// With two seats and 100 requests that each need another of the same process.
func TestChildrenShareTheirParentsSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := mustNew(t, one(2, isolate.Plan{Weight: 1, Queue: 100, QueueTimeout: time.Hour}), nil)
		var done sync.WaitGroup
		for range 100 {
			done.Go(func() {
				err := i.Do(t.Context(), isolate.Request{Tenant: "a"}, func(ctx context.Context) error {
					return i.Do(ctx, isolate.Request{Tenant: "a"}, func(context.Context) error {
						time.Sleep(time.Second)
						return nil
					})
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		start := time.Now()
		done.Wait()
		if took := time.Since(start); took != 50*time.Second {
			t.Errorf("100 times a second on 2 seats took %s", took)
		}
		mustBeEmpty(t, i)
	})
}

func TestSeatIsHeldUntilTheLastChildIsDone(t *testing.T) {
	i := mustNew(t, isolate.Config{Seats: 1}, nil)
	parent := mustAcquire(t, i, "a")
	ctx := parent.Context(t.Context())
	child, err := i.Acquire(ctx, "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	if !parent.Release() || parent.Release() {
		t.Error("the parent's release must count once")
	}
	if s := i.Snapshot(1); s.Busy != 1 {
		t.Errorf("%d seats are held while the child runs", s.Busy)
	}
	if !child.Release() || child.Release() {
		t.Error("the child's release must count once")
	}
	mustBeEmpty(t, i)
	again, err := i.Acquire(ctx, "a", 1) // the seat in ctx is gone: this is another
	if s := i.Snapshot(1); err != nil || s.Busy != 1 {
		t.Errorf("%v; %d seats", err, s.Busy)
	}
	again.Release()
}

func TestLimitsChangeWhileRequestsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := isolate.Plan{Weight: 1, Queue: 200, QueueTimeout: time.Hour}
		i := mustNew(t, one(100, plan), nil)
		var running []isolate.Seat
		for range 100 {
			running = append(running, mustAcquire(t, i, "a"))
		}
		if err := i.Reconfigure(one(10, plan)); err != nil {
			t.Fatal(err)
		}
		var got atomic.Int64
		seats := make(chan isolate.Seat, 100)
		for range 100 {
			go func() {
				s, err := i.Acquire(t.Context(), "a", 1)
				if err != nil {
					t.Error(err)
				}
				got.Add(1)
				seats <- s
			}()
		}
		synctest.Wait()
		for n, s := range running {
			s.Release()
			synctest.Wait()
			if want := max(0, n+1-90); int(got.Load()) != want {
				t.Fatalf("%d released, %d started, want %d", n+1, got.Load(), want)
			}
		}
		if err := i.Reconfigure(one(100, plan)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got.Load() != 100 {
			t.Errorf("%d started after the limit was raised", got.Load())
		}
		for range 100 {
			(<-seats).Release()
		}
		mustBeEmpty(t, i)
	})
}

func TestCapOfOneTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := mustNew(t, one(10, isolate.Plan{Weight: 1, Queue: 10, QueueTimeout: time.Hour}), nil)
		if err := i.SetCap("a", 0); err != nil {
			t.Fatal(err)
		}
		var got atomic.Int64
		for range 5 {
			go func() {
				s, _ := i.Acquire(t.Context(), "a", 1)
				got.Add(1)
				time.Sleep(time.Minute)
				s.Release()
			}()
		}
		for _, step := range []struct{ cap, want int }{{0, 0}, {2, 2}, {1, 2}, {4, 4}, {-1, 5}} {
			if err := i.SetCap("a", step.cap); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if int(got.Load()) != step.want {
				t.Errorf("cap %d: %d have started, want %d", step.cap, got.Load(), step.want)
			}
		}
		mustAcquire(t, i, "b").Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		mustBeEmpty(t, i)
	})
}

func TestCloseAnswersWhoWaitsAndWaitsForWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := mustNew(t, one(1, isolate.OneAtATime), nil)
		s := mustAcquire(t, i, "a")
		waiter := make(chan error)
		go func() {
			_, err := i.Acquire(t.Context(), "a", 1)
			waiter <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := i.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed while a request runs: %v", err)
		}
		if err := <-waiter; reasonOf(err) != isolate.Closed {
			t.Errorf("who waited: %v", err)
		}
		if _, err := i.Acquire(t.Context(), "b", 1); reasonOf(err) != isolate.Closed {
			t.Errorf("who came: %v", err)
		}
		time.AfterFunc(time.Second, func() { s.Release() })
		if err := i.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestBadInputIsNamed(t *testing.T) {
	fine := isolate.Plan{Weight: 1, Queue: 10, QueueTimeout: time.Second}
	with := func(change func(*isolate.Plan)) isolate.Config {
		p := fine
		change(&p)
		return one(10, p)
	}
	for want, c := range map[string]isolate.Config{
		"seats: 0; 1 to 65536":                                           one(0, fine),
		"plans.default.weight: 0; 1 to 1000":                             with(func(p *isolate.Plan) { p.Weight = 0 }),
		"plans.default.queue: -1; 0 to":                                  with(func(p *isolate.Plan) { p.Queue = -1 }),
		"plans.default.max seats: 11; 1 to 10":                           with(func(p *isolate.Plan) { p.MaxSeats = 11 }),
		"plans.default.queue timeout: 0s, with a queue of 10; more than": with(func(p *isolate.Plan) { p.QueueTimeout = 0 }),
		"plans.default.timeout: -1s; 0s to 24h0m0s":                      with(func(p *isolate.Plan) { p.Timeout = -time.Second }),
		"guarantee: 1; 0 to 0.999":                                       {Seats: 1, Guarantee: 1},
		"memory: 1ns; 100ms to 1h0m0s":                                   {Seats: 1, Memory: 1},
		`default: there is no plan "gold"; there are default`:            {Seats: 1, Default: "gold", Plans: map[string]isolate.Plan{"default": fine}},
		"adaptive.min: 2; 1 to 1":                                        {Seats: 1, Adaptive: &isolate.Adaptive{Min: 2}},
	} {
		if _, err := isolate.New(c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	i := mustNew(t, one(10, fine), nil)
	for want, r := range map[string]isolate.Request{
		"the tenant's id has 1048576 bytes; up to 256": {Tenant: strings.Repeat("x", 1<<20)},
		`plan: there is no "gold"; there are default`:  {Plan: "gold"},
		"cost: -1; 1 to 10":                            {Cost: -1},
		"priority: 2; -1 to 1":                         {Priority: 2},
		`no seat for tenant "a": too wide`:             {Tenant: "a", Cost: 11},
		"timeout: -1ns; 0s to 24h0m0s are allowed":     {Timeout: -1},
	} {
		if _, err := i.AcquireFor(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	mustAcquire(t, i, "").Release() // those who give no id are one tenant
	if err := i.Reconfigure(isolate.Config{}); err == nil {
		t.Error("a wrong config was taken")
	}
	mustBeEmpty(t, i)
}

// counter is an Observer.
type counter struct{ acquired, rejected, released atomic.Int64 }

func (c *counter) Acquired(isolate.Request, time.Duration)                 { c.acquired.Add(1) }
func (c *counter) Rejected(isolate.Request, isolate.Reason, time.Duration) { c.rejected.Add(1) }
func (c *counter) Released(isolate.Request, time.Duration)                 { c.released.Add(1) }

func TestNeverMoreThanTheCap(t *testing.T) {
	var running, most, ran atomic.Int64
	i := mustNew(t, one(300, isolate.Plan{Weight: 1, MaxSeats: 100, Queue: 10_000, QueueTimeout: time.Minute}), nil)
	var done sync.WaitGroup
	for range 10_000 {
		done.Go(func() {
			s, err := i.Acquire(t.Context(), "a", 1)
			if err != nil {
				t.Error(err)
				return
			}
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			runtime.Gosched()
			ran.Add(1)
			running.Add(-1)
			s.Release()
		})
	}
	done.Wait()
	if most.Load() > 100 || ran.Load() != 10_000 {
		t.Errorf("%d at once, %d ran", most.Load(), ran.Load())
	}
	mustBeEmpty(t, i)
}

// Whatever becomes of requests, no seat and no place is lost, and no goroutine left.
func TestNothingLeaks(t *testing.T) {
	n := 1_000_000
	if testing.Short() || raceEnabled {
		n = 50_000
	}
	before := runtime.NumGoroutine()
	var seen counter
	i := mustNew(t, isolate.Config{Seats: 8, Guarantee: 0.5, Plans: map[string]isolate.Plan{
		"default": {Weight: 1, MaxSeats: 6, Queue: 20, QueueTimeout: 2 * time.Millisecond},
		"run":     {Weight: 3, Queue: 5, QueueTimeout: time.Millisecond, Timeout: time.Millisecond, Target: 100 * time.Microsecond},
	}}, &isolate.Options{Observer: &seen, Logger: slog.New(slog.DiscardHandler)})
	var workers sync.WaitGroup
	for w := range 64 {
		workers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range n / 64 {
				misbehave(i, random)
			}
		})
	}
	workers.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for (i.Snapshot(0).Busy > 0 || seen.acquired.Load() != seen.released.Load()) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // what runs on after its caller was answered
	}
	mustBeEmpty(t, i)
	if seen.acquired.Load() != seen.released.Load() || seen.rejected.Load() == 0 {
		t.Errorf("%d acquired, %d released, %d rejected", seen.acquired.Load(), seen.released.Load(), seen.rejected.Load())
	}
	t.Logf("%d acquired, %d rejected", seen.acquired.Load(), seen.rejected.Load())
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if now := runtime.NumGoroutine(); now > before {
		t.Errorf("%d goroutines, %d before", now, before)
	}
}

// misbehave does one of the things that a caller may do.
func misbehave(i *isolate.Isolator, random *rand.Rand) {
	defer func() { recover() }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := isolate.Request{Tenant: string(rune('a' + random.IntN(10))), Cost: random.IntN(4), Priority: isolate.Priority(random.IntN(3) - 1)}
	if random.IntN(2) == 0 {
		r.Plan = "run"
	}
	act, pause := random.IntN(5), time.Duration(random.IntN(100))*time.Microsecond
	switch act {
	case 0:
		cancel()
	case 1:
		time.AfterFunc(time.Duration(random.IntN(1000))*time.Microsecond, cancel)
	}
	if random.IntN(2) == 0 {
		i.Do(ctx, r, func(ctx context.Context) error {
			if act == 2 {
				panic("a fault of the handler")
			}
			if act == 3 {
				time.Sleep(pause)
			}
			return nil
		})
		return
	}
	s, err := i.AcquireFor(ctx, r)
	if err != nil {
		return
	}
	defer s.Release()
	switch act {
	case 2:
		panic("a fault of the handler")
	case 3:
		s.Release()
	case 4:
		if child, err := i.AcquireFor(s.Context(ctx), r); err == nil {
			child.Release()
		}
	}
}
