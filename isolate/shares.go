package isolate

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

// Of the seats of shared plans.
const (
	// lookEvery is how often a node looks at the tenants of which it holds seats: so
	// late it learns that another node wants some.
	lookEvery = 500 * time.Millisecond
	// againAfter is how soon it looks again if it has not got what it needs, or still
	// holds what others should have.
	againAfter = 100 * time.Millisecond
	// atOnceAfter is how soon after a look the next one may be.
	atOnceAfter = 10 * time.Millisecond
	// keptFor is how long a node keeps the seats that it needed last.
	keptFor = 2 * time.Second
	// perLease is how many tenants are settled in one call.
	perLease = 256
	// maxShared bounds the tenants of shared plans that a node knows at a time.
	maxShared = 1 << 16
)

// SharedStats say how this node gets on with the seats that it shares with others.
type SharedStats struct {
	// Tenants are those of shared plans that are known here, Seats what this node
	// holds of theirs, and Busy what requests hold of these.
	Tenants, Seats, Busy int
	// Settled and Failed count calls of the Leaser. Away says that the last one
	// failed: the node goes on with what it has.
	Settled, Failed uint64
	Away            bool
}

// shares are this node's parts of the seats of shared plans. Everything is guarded by
// the Isolator's lock, but what only the loop uses.
type shares struct {
	leaser Leaser
	node   uint64
	wake   chan struct{}

	tenants map[string]*share
	hot     map[string]*share // those to look at before the next look at all
	running bool
	closing sync.Mutex // one leaves at a time
	leaving bool
	done    chan struct{} // closed when the loop has ended
	stats   SharedStats
	retry   time.Duration // not before that, after a failure
}

// share is the part of one tenant.
type share struct {
	tenant string
	cap    int // of all nodes together
	most   int // that may be used here
	held   int
	peak   int           // of what it lately wanted
	peaked time.Duration // and when
	at     time.Duration // when it is to be looked at, if it is hot
	looked time.Duration
	unsure bool
	full   bool // there is nothing more to be had
	word   word
}

func newShares(l Leaser) *shares {
	var name [8]byte
	rand.Read(name[:])
	return &shares{
		leaser: l, node: binary.BigEndian.Uint64(name[:]) | 1, wake: make(chan struct{}, 1),
		tenants: make(map[string]*share), hot: make(map[string]*share),
	}
}

// alone returns c for a node that shares with nobody: each cap is its own.
func alone(c Config) Config {
	plans := make(map[string]Plan, len(c.Plans))
	for name, p := range c.Plans {
		if p.Shared {
			p.Shared = false
			p.MaxSeats = min(p.MaxSeats, c.Seats)
		}
		plans[name] = p
	}
	if len(plans) > 0 {
		c.Plans = plans
	}
	return c
}

// enter makes the tenant of a shared plan known before its request arrives. The lock
// is held.
func (i *Isolator) enter(tenant string) error {
	s := i.shares
	if s.tenants[tenant] != nil || s.leaving {
		return nil
	}
	if len(s.tenants) >= maxShared {
		return fmt.Errorf("there are %d tenants of shared plans; no more are allowed", len(s.tenants))
	}
	decided, err := i.room.SetLease(i.now(), tenant, 0)
	if err != nil {
		return err
	}
	i.wake(decided)
	e := &share{tenant: tenant, looked: -atOnceAfter}
	s.tenants[tenant] = e
	if !s.running {
		s.running, s.done = true, make(chan struct{})
		go i.share(s.done)
	}
	return nil
}

// lacks is called when a request of the tenant waits: it may be for the lease. The lock
// is held.
func (i *Isolator) lacks(tenant string) {
	s := i.shares
	e := s.tenants[tenant]
	if e == nil || e.full || s.hot[tenant] != nil || !i.room.Short(tenant) {
		return
	}
	e.at = max(i.now(), e.looked+atOnceAfter)
	s.hot[tenant] = e
	s.ring()
}

func (s *shares) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// share settles what is due until there are no tenants of shared plans.
func (i *Isolator) share(done chan struct{}) {
	defer close(done)
	s := i.shares
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	var next time.Duration // look at all
	for {
		i.mu.Lock()
		now := i.now()
		var due []*share
		if !s.leaving && now < s.retry {
			// not yet
		} else if now >= next {
			for _, e := range s.tenants {
				due = append(due, e)
			}
			clear(s.hot)
			next = now + lookEvery
		} else {
			for tenant, e := range s.hot {
				if e.at <= now {
					due = append(due, e)
					delete(s.hot, tenant)
				}
			}
		}
		i.mu.Unlock()
		i.settleAll(due)
		i.mu.Lock()
		if len(s.tenants) == 0 || s.leaving {
			s.running = false
			i.mu.Unlock()
			return
		}
		now = i.now()
		at := next
		for _, e := range s.hot {
			at = min(at, e.at)
		}
		pause := max(at-now, s.retry-now)
		i.mu.Unlock()
		if pause <= 0 {
			continue
		}
		timer.Reset(pause)
		select {
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// settleAll has a word about each of due, until a call fails: then the others have to
// wait for the next time.
func (i *Isolator) settleAll(due []*share) {
	for ok := true; ok && len(due) > 0; {
		n := min(len(due), perLease)
		ok = i.settle(due[:n])
		due = due[n:]
	}
}

// settle has a word about each of due, in one call, and reports whether it was heard.
func (i *Isolator) settle(due []*share) bool {
	s := i.shares
	i.mu.Lock()
	began := i.now()
	ttl := i.room.LeaseTime()
	tenants := make([]string, len(due))
	for n, e := range due {
		tenants[n] = e.tenant
		i.speak(e, began, ttl)
	}
	i.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), min(ttl/5, 2*time.Second))
	err := s.leaser.Lease(ctx, tenants, func(n int, now time.Time, holders []Holder) ([]Holder, bool) {
		return due[n].word.settle(now, holders)
	})
	cancel()

	i.mu.Lock()
	now := i.now()
	was := s.stats.Away
	s.stats.Settled++
	s.stats.Away = err != nil
	if err != nil {
		s.stats.Failed++
	}
	i.hear(due, err, now, ttl)
	i.mu.Unlock()
	switch {
	case err != nil && !was:
		i.log().Warn("shared seats: the store does not answer; this node goes on with its last share", "error", err)
	case err == nil && was:
		i.log().Info("shared seats: the store answers again")
	}
	return err == nil
}

// hear takes in what came of a call about due. The lock is held.
func (i *Isolator) hear(due []*share, err error, now, ttl time.Duration) {
	s := i.shares
	if err != nil {
		s.retry = now + min(time.Second, ttl/5)
		for _, e := range due {
			e.unsure = true
			e.at = s.retry
			s.hot[e.tenant] = e
		}
		return
	}
	s.retry = 0
	for _, e := range due {
		i.take(e, now)
	}
}

// speak fills in e's word. The lock is held.
func (i *Isolator) speak(e *share, now, ttl time.Duration) {
	d := i.room.Demand(e.tenant)
	if d.Known {
		e.cap, e.most = d.Cap, min(d.Cap, d.Most)
	}
	if d.Peak >= e.peak || now-e.peaked >= keptFor {
		e.peak, e.peaked = d.Peak, now
	}
	want, spare := min(e.peak, e.most), 0
	if i.shares.leaving {
		want = min(d.Use, e.most)
		d.Leased = min(d.Leased, d.Use)
		i.lease(e.tenant, d.Leased)
	} else if want > 0 {
		spare = min(1+want/4, e.most-want)
	}
	e.word = word{
		node: i.shares.node, cap: e.cap, want: want, spare: spare, first: min(d.First, e.most),
		use: d.Use, keep: max(d.Use, d.Leased), ttl: ttl, unsure: e.unsure,
	}
}

// take takes what e has got. The lock is held.
func (i *Isolator) take(e *share, now time.Duration) {
	s, w := i.shares, &e.word
	e.unsure, e.looked, e.held = false, now, w.held
	e.full = w.limit >= e.most
	i.lease(e.tenant, w.limit)
	d := i.room.Demand(e.tenant)
	if e.peak < d.Peak {
		e.peak, e.peaked = d.Peak, now
	}
	switch short := d.First > 0 && w.limit-d.Use < d.First; {
	case w.want == 0 && w.held == 0 && e.peak == 0:
		i.lease(e.tenant, -1)
		delete(s.tenants, e.tenant)
		delete(s.hot, e.tenant)
	case w.held > w.limit || short && !e.full:
		if s.hot[e.tenant] == nil {
			e.at = now + againAfter
			s.hot[e.tenant] = e
		}
		if short && min(d.Peak, e.most) > w.want { // more than was asked for is wanted by now
			e.at = now + atOnceAfter
		}
	}
}

// lease makes seats hold here. The lock is held.
func (i *Isolator) lease(tenant string, seats int) {
	decided, err := i.room.SetLease(i.now(), tenant, seats)
	if err != nil { // it has a lease, so there is no bound that could be passed
		panic(err)
	}
	i.wake(decided)
}

// Shared says how this node gets on with the seats that it shares with others.
func (i *Isolator) Shared() SharedStats {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.shares == nil {
		return SharedStats{}
	}
	s := i.shares.stats
	s.Tenants = len(i.shares.tenants)
	for _, e := range i.shares.tenants {
		s.Seats += e.held
		s.Busy += i.room.Use(e.tenant)
	}
	return s
}

// leave gives back what the node holds, but for what requests still hold. The lock is
// not held.
func (i *Isolator) leave() {
	s := i.shares
	if s == nil {
		return
	}
	s.closing.Lock()
	defer s.closing.Unlock()
	i.mu.Lock()
	s.leaving = true
	done := s.done
	i.mu.Unlock()
	if done == nil {
		return
	}
	s.ring()
	<-done
	i.mu.Lock()
	var rest []*share
	for _, e := range s.tenants {
		rest = append(rest, e)
	}
	away := s.stats.Away
	i.mu.Unlock()
	if !away {
		i.settleAll(rest)
	}
}

// expect makes all shares be looked at, since the plans have changed. The lock is held.
func (s *shares) expect(now time.Duration) {
	for tenant, e := range s.tenants {
		e.full = false
		if s.hot[tenant] == nil {
			e.at = now
			s.hot[tenant] = e
		}
	}
	s.ring()
}
