package loadtest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// OpenLoop calls do for each of due, at start plus that, whether or not those
// before it are done: a server that gets slow is not spared. workers bounds how
// many run at one time; where all are busy, do comes later than it should, and
// whoever measures how long something took counts from when it was due, so
// that no wait is left out. OpenLoop returns when all are done or, with what is
// left not begun, when ctx ends.
//
// A timer may fire a millisecond late, which is more than many a decision takes. So
// where there is time enough between two of due, whoever comes next wakes up early
// and looks at the clock until it is time.
func OpenLoop(ctx context.Context, start time.Time, due []time.Duration, workers int, do func(n int, due time.Time)) {
	openLoop(ctx, start, due, workers, 2*time.Millisecond, do)
}

// openLoop is OpenLoop where timers fire at most lag too late. If that is 0 nobody
// looks at the clock, which would keep a fake one from moving on.
func openLoop(ctx context.Context, start time.Time, due []time.Duration, workers int, lag time.Duration, do func(n int, due time.Time)) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(workers, len(due)) {
		running.Go(func() {
			timer := time.NewTimer(0)
			defer timer.Stop()
			for {
				n := int(next.Add(1)) - 1
				if n >= len(due) {
					return
				}
				at := start.Add(due[n])
				early := at
				if n == 0 || due[n]-due[n-1] >= 2*lag {
					early = at.Add(-lag)
				}
				if !sleepUntil(ctx, timer, early) {
					return
				}
				for time.Until(at) > 0 {
					runtime.Gosched()
				}
				do(n, at)
			}
		})
	}
	running.Wait()
}

// sleepUntil reports whether it is at, and ctx has not ended.
func sleepUntil(ctx context.Context, timer *time.Timer, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer.Reset(wait)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
