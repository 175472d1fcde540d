package limit

import (
	"context"
	"sync"
	"time"
)

// tasks are the goroutines that a Limiter has in the background. They end by
// themselves when there is nothing left to do, and when the Limiter is closed.
type tasks struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

func newTasks() *tasks {
	t := new(tasks)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// start runs task in the background, and reports whether it could.
func (t *tasks) start(task func(ctx context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.running.Go(func() { task(t.ctx) })
	return true
}

// close ends all tasks and waits for them.
func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.running.Wait()
}

// pause waits for d and reports whether ctx is still going on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
