package limit

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ErrBusy: too many decisions wait for the store already.
var ErrBusy = errors.New("too many decisions wait for the store")

// combiner sends jobs to a store. While one flight is under way the jobs that
// arrive wait, and all that wait go together in the next one, so a store sees
// one call at a time however many goroutines ask, and many spends of one key
// are one row written once.
type combiner struct {
	flight     flight
	denials    *denials
	epochs     *epochs
	breaker    *breaker
	timeout    time.Duration
	maxBatch   int
	maxWaiting int

	mu      sync.Mutex
	waiting []*passenger
	flying  bool
}

// passenger is a job in line for a flight.
type passenger struct {
	job
	// settled is set once, by whoever decides what becomes of the job: the
	// flight that takes it along, or the caller who goes away before that.
	settled  atomic.Bool
	done     chan struct{} // told once, when the flight has ended
	err      error
	patience *time.Timer
}

// passengers are those to be used again. Each backend has its own.
type passengers struct{ pool sync.Pool }

func (ps *passengers) get() *passenger {
	if p, ok := ps.pool.Get().(*passenger); ok {
		return p
	}
	return &passenger{done: make(chan struct{}, 1)}
}

// put lets p be used again. Nobody else may know it any more.
func (ps *passengers) put(p *passenger) {
	p.clear()
	p.settled.Store(false)
	p.err = nil
	ps.pool.Put(p)
}

// limit makes p lose patience after d.
func (p *passenger) limit(d time.Duration) <-chan time.Time {
	if p.patience == nil {
		p.patience = time.NewTimer(d)
	} else {
		p.patience.Reset(d)
	}
	return p.patience.C
}

// do runs p in one of the next flights. If it returns an error p may still be
// on its way, with its full effect or none.
func (c *combiner) do(ctx context.Context, p *passenger) error {
	if !c.breaker.allows() {
		return &StoreError{Store: "limiter", Op: "wait", Err: ErrOpen}
	}
	if !c.board(p) {
		return &StoreError{Store: "limiter", Op: "wait", Err: ErrBusy}
	}
	patience := p.limit(c.timeout)
	defer p.patience.Stop()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.settled.CompareAndSwap(false, true)
		return ctx.Err()
	case <-patience:
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

// fly flies until nobody waits.
func (c *combiner) fly() {
	for {
		batch := c.next()
		if batch == nil {
			return
		}
		c.carry(batch)
		// Those who have just been served run first: if they ask again, they
		// come along, and a flight that would have carried one carries many.
		runtime.Gosched()
	}
}

// next takes the passengers of the next flight out of the line. It returns nil
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

// carry flies with batch and tells everyone of it how it ended.
func (c *combiner) carry(batch []*passenger) {
	// The flight serves many callers, so none of their contexts can end it.
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	began, forgotten := time.Now(), c.denials.mark()
	if c.breaker.allows() {
		c.breaker.report(c.flight.fly(ctx, batch))
	} else {
		for _, p := range batch {
			p.err = &StoreError{Store: "limiter", Op: "wait", Err: ErrOpen}
		}
	}
	took := time.Since(began)
	remembers := false
	for _, p := range batch {
		if p.err == nil {
			remembers = c.denials.learn(&p.job, began, took, forgotten) || remembers
			if p.givesBack() {
				c.epochs.bump(p.keys)
			}
		}
		p.done <- struct{}{} // and from here on p is its caller's
	}
	if remembers {
		c.epochs.listen()
	}
}
