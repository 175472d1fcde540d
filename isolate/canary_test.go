package isolate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/isolate"
)

// watched runs f beside a canary of i, in virtual time.
func watched(t *testing.T, c isolate.Config, f func(t *testing.T, i *isolate.Isolator, c *isolate.Canary)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		i := mustNew(t, c, nil)
		ctx, cancel := context.WithCancel(t.Context())
		canary := &isolate.Canary{}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			canary.Watch(ctx, func() *isolate.Isolator { return i })
		}()
		f(t, i, canary)
		cancel()
		<-ended
		if s := i.Snapshot(0); s.Busy != 0 || s.Waiting != 0 {
			t.Errorf("%d seats held and %d requests waiting in the end", s.Busy, s.Waiting)
		}
	})
}

func plan() isolate.Config {
	return one(2, isolate.Plan{Weight: 1, Queue: 1000, QueueTimeout: time.Minute})
}

// keep has a tenant do one thing after another, of that length.
func keep(t *testing.T, i *isolate.Isolator, tenant string, length, until time.Duration) {
	for began := time.Now(); time.Since(began) < until; {
		s, err := i.Acquire(t.Context(), tenant, 1)
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(length)
		s.Release()
	}
}

func TestCanaryOfAQuietRoom(t *testing.T) {
	watched(t, plan(), func(t *testing.T, i *isolate.Isolator, c *isolate.Canary) {
		if r := c.Reading(); r != (isolate.Reading{}) {
			t.Errorf("before anything was measured: %+v", r)
		}
		time.Sleep(time.Second)
		if r := c.Reading(); r.Ratio != 0 || r.Wait != 0 || r.Probes < 3 {
			t.Errorf("while nothing has run: %+v", r)
		}
		keep(t, i, "ann", 100*time.Millisecond, 70*time.Second)
		if r := c.Reading(); r.Ratio != 1 || r.Wait != 0 || r.Typical != 100*time.Millisecond || r.Probes < 230 || r.Probes > 240 || r.Refused != 0 {
			t.Errorf("beside one request at a time: %+v", r)
		}
		s := i.Snapshot(10)
		if len(s.BySeatTime) != 1 || s.BySeatTime[0].ID != "ann" {
			t.Errorf("operators see the canary: %+v", s.BySeatTime)
		}
	})
}

// A canary waits its turn among others, and holds no seat when it has come: what it says is
// what another tenant finds.
func TestCanaryWaitsLikeATenant(t *testing.T) {
	watched(t, plan(), func(t *testing.T, i *isolate.Isolator, c *isolate.Canary) {
		for range 10 {
			go keep(t, i, "noisy", time.Second, 20*time.Second)
		}
		time.Sleep(10 * time.Second)
		began := time.Now()
		s, err := i.Acquire(t.Context(), "another", 1)
		if err != nil {
			t.Fatal(err)
		}
		waited := time.Since(began)
		s.Release()
		r := c.Reading()
		if r.Wait < waited || r.Wait > time.Second || r.Wait < 500*time.Millisecond || r.Ratio != 1+r.Wait.Seconds() {
			t.Errorf("another waited %v; the canary says %+v", waited, r)
		}
		time.Sleep(30 * time.Second)
		if s := i.Snapshot(10); s.Refused != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// One wait that is long stands for all that would have begun meanwhile, also while it
// lasts.
func TestCanaryLeavesNoWaitOut(t *testing.T) {
	watched(t, plan(), func(t *testing.T, i *isolate.Isolator, c *isolate.Canary) {
		time.Sleep(9*time.Second + 900*time.Millisecond)
		a, _ := i.Acquire(t.Context(), "a", 1)
		b, _ := i.Acquire(t.Context(), "b", 1)
		time.Sleep(5 * time.Second)
		if r := c.Reading(); r.Wait < 4*time.Second || r.Probes < 55 {
			t.Errorf("while it waits: %+v", r)
		}
		a.Release()
		b.Release()
		time.Sleep(time.Second)
		if r := c.Reading(); r.Wait < 4*time.Second || r.Wait > 5*time.Second || r.Probes < 55 || r.Probes > 65 || r.Typical != 5*time.Second {
			t.Errorf("after a wait of 5s: %+v", r)
		}
		time.Sleep(time.Minute)
		if r := c.Reading(); r.Wait != 0 {
			t.Errorf("a minute later: %+v", r)
		}
	})
}

func TestCanaryIsRefused(t *testing.T) {
	c := one(1, isolate.Plan{Weight: 1, Queue: 0})
	watched(t, c, func(t *testing.T, i *isolate.Isolator, c *isolate.Canary) {
		s, _ := i.Acquire(t.Context(), "a", 1)
		time.Sleep(3 * time.Second)
		if r := c.Reading(); r.Refused < 10 || r.Refused != r.Probes || r.Wait < time.Millisecond {
			t.Errorf("%+v", r)
		}
		if s := i.Snapshot(1); s.Refused != 0 {
			t.Errorf("the canary's refusals are counted: %d", s.Refused)
		}
		s.Release()
	})
}
