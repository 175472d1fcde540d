package limit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrOpen: the store has failed again and again, and is not asked until it has
// answered a ping.
var ErrOpen = errors.New("store is not asked, because it failed and has not recovered yet")

const (
	// breakAfter is how many calls must fail one after another.
	breakAfter = 3
	// probeEvery is the pause between two pings of a store that failed.
	probeEvery = 250 * time.Millisecond
)

// breaker keeps decisions from waiting for a store that does not answer. After
// breakAfter failures in a row it is open: nothing goes to the store but a ping
// from time to time. A ping that is answered makes it half open: calls pass
// again, and the next failure opens it at once.
type breaker struct {
	store    Store
	timeout  time.Duration
	observer BreakerObserver // nil if nobody is told
	tasks    *tasks

	mu       sync.Mutex
	failures int // in a row
	open     bool
}

// BreakerObserver is an Observer that is also told about the store's breaker.
type BreakerObserver interface {
	// Breaker: from now on the store is not asked, or is asked again.
	Breaker(open bool)
}

// allows reports whether the store may be asked.
func (b *breaker) allows() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.open
}

// report takes note of how a call of the store ended.
func (b *breaker) report(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil || errors.Is(err, ErrKeyLen):
		b.failures = 0
		return
	case errors.Is(err, ErrClosed):
		return
	}
	if b.failures++; b.failures < breakAfter || b.open {
		return
	}
	if b.tasks.start(b.probe) {
		b.set(true)
	}
}

// probe pings the store until it answers.
func (b *breaker) probe(ctx context.Context) {
	for {
		if !pause(ctx, probeEvery) {
			return
		}
		ping, cancel := context.WithTimeout(ctx, b.timeout)
		err := b.store.Ping(ping)
		cancel()
		if err == nil || errors.Is(err, ErrClosed) {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = breakAfter - 1
	b.set(false)
}

func (b *breaker) set(open bool) {
	b.open = open
	if b.observer != nil {
		b.observer.Breaker(open)
	}
}
