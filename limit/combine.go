package limit

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// ErrBusy: too many decisions wait for the store already.
var ErrBusy = errors.New("too many decisions wait for the store")

// combiner sends jobs to a store. While one update is under way the jobs that
// arrive wait, and all that wait go together in the next one, so a store sees
// one update at a time however many goroutines ask, and many spends of one key
// are one row written once.
type combiner struct {
	store      Store
	denials    *denials
	timeout    time.Duration
	maxBatch   int
	maxWaiting int
	observer   Observer

	mu      sync.Mutex
	waiting []*passenger
	flying  bool
}

// passenger is a job in line for an update.
type passenger struct {
	*job
	// settled is set once, by whoever decides what becomes of the job: the
	// update that takes it along, or the caller who goes away before that.
	settled atomic.Bool
	done    chan struct{}
	err     error
}

// do runs j in one of the next updates. If it returns before that update does,
// because ctx ended or the store took too long, j has its full effect or none.
func (c *combiner) do(ctx context.Context, j *job) error {
	p := &passenger{job: j, done: make(chan struct{})}
	if !c.board(p) {
		return &StoreError{Store: "limiter", Op: "wait", Err: ErrBusy}
	}
	patience := time.NewTimer(c.timeout)
	defer patience.Stop()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.settled.CompareAndSwap(false, true)
		return ctx.Err()
	case <-patience.C:
		left := p.settled.CompareAndSwap(false, true)
		return &StoreError{Store: "limiter", Op: "wait", Sent: !left, Err: context.DeadlineExceeded}
	}
}

// board puts p in line, unless the line is full, and sees to it that somebody flies.
func (c *combiner) board(p *passenger) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) >= c.maxWaiting {
		return false
	}
	c.waiting = append(c.waiting, p)
	if !c.flying {
		c.flying = true
		go c.fly()
	}
	return true
}

// fly runs updates until nobody waits.
func (c *combiner) fly() {
	for {
		batch := c.next()
		if batch == nil {
			return
		}
		c.update(batch)
		// Those who have just been served run first: if they ask again, they
		// come along, and an update that would have carried one carries many.
		runtime.Gosched()
	}
}

// next takes the passengers of the next update out of the line. It returns nil
// if there are none, and then whoever boards next must fly.
func (c *combiner) next() []*passenger {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*passenger
	spends := 0
	for len(c.waiting) > 0 && (spends == 0 || spends+len(c.waiting[0].spends) <= c.maxBatch) {
		p := c.waiting[0]
		c.waiting[0] = nil
		c.waiting = c.waiting[1:]
		if p.settled.CompareAndSwap(false, true) {
			batch = append(batch, p)
			spends += len(p.spends)
		}
	}
	if batch == nil {
		c.flying = false
		c.waiting = nil
	}
	return batch
}

func (c *combiner) update(batch []*passenger) {
	var keys []string
	index := make(map[string]int)
	spends := 0
	for _, p := range batch {
		keys = p.enlist(keys, index)
		spends += len(p.spends)
	}
	// The update serves many callers, so none of their contexts can end it.
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	began := time.Now()
	err := c.store.Update(ctx, keys, func(now algo.Ticks, cells []Cell) error {
		for _, p := range batch {
			p.run(now, cells)
		}
		return nil
	})
	took := time.Since(began)
	if c.observer != nil {
		c.observer.Updated(spends, took, err)
	}
	for _, p := range batch {
		if err == nil {
			c.denials.learn(p.job, began, took)
		}
		p.err = err
		close(p.done)
	}
}
