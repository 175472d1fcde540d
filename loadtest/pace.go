package loadtest

import (
	"context"
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
func OpenLoop(ctx context.Context, start time.Time, due []time.Duration, workers int, do func(n int, due time.Time)) {
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
				if wait := time.Until(at); wait > 0 {
					timer.Reset(wait)
					select {
					case <-timer.C:
					case <-ctx.Done():
						return
					}
				} else if ctx.Err() != nil {
					return
				}
				do(n, at)
			}
		})
	}
	running.Wait()
}
