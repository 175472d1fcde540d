package isolate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/isolate"
)

// ledger is a Leaser in memory, with a clock of its own. Its links are how nodes get at
// it.
type ledger struct {
	mu      sync.Mutex
	ahead   time.Duration
	holders map[string][]isolate.Holder
	// versions grow with each change.
	versions map[string]int
	away     bool
}

func newLedger() *ledger {
	return &ledger{ahead: -time.Hour, holders: make(map[string][]isolate.Holder), versions: make(map[string]int)}
}

func (l *ledger) settle(tenants []string, settle func(int, time.Time, []isolate.Holder) ([]isolate.Holder, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, tenant := range tenants {
		if next, keep := settle(n, time.Now().Add(l.ahead), l.holders[tenant]); keep {
			l.keep(tenant, next)
		}
	}
}

// settleLate settles what is there now, and keeps that later if nothing has changed.
func (l *ledger) settleLate(tenants []string, settle func(int, time.Time, []isolate.Holder) ([]isolate.Holder, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, tenant := range tenants {
		version := l.versions[tenant]
		next, keep := settle(n, time.Now().Add(l.ahead), l.holders[tenant])
		if keep {
			time.AfterFunc(time.Duration(1+n)*300*time.Millisecond, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				if l.versions[tenant] == version {
					l.keep(tenant, next)
				}
			})
		}
	}
}

func (l *ledger) keep(tenant string, next []isolate.Holder) {
	l.versions[tenant]++
	l.holders[tenant] = next
	if len(next) == 0 {
		delete(l.holders, tenant)
	}
}

func (l *ledger) set(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

// link is a node's way to the ledger: slow, and with faults.
type link struct {
	*ledger
	mu      sync.Mutex
	random  *rand.Rand
	slowest time.Duration
	faults  int // of 100 calls
	dead    bool
	calls   int
	asked   int // tenants
}

var errAway = errors.New("the store is away")

func (l *link) Lease(ctx context.Context, tenants []string, settle func(int, time.Time, []isolate.Holder) ([]isolate.Holder, bool)) error {
	l.mu.Lock()
	l.calls++
	l.asked += len(tenants)
	there, back := l.delay(), l.delay()
	fault := l.random.IntN(100) < l.faults
	kind := l.random.IntN(3)
	dead := l.dead
	l.mu.Unlock()
	l.ledger.mu.Lock()
	away := l.away
	l.ledger.mu.Unlock()
	if dead || away {
		return errAway
	}
	if err := wait(ctx, there); err != nil {
		return err
	}
	if fault {
		switch kind {
		case 0: // it never arrives
			return errAway
		case 1: // it is done, and nobody learns of it
			l.settle(tenants, settle)
			return errAway
		case 2: // it is done late, unless somebody else is faster
			l.settleLate(tenants, settle)
			return errAway
		}
	}
	l.settle(tenants, settle)
	return wait(ctx, back)
}

func (l *link) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

func (l *link) delay() time.Duration {
	if l.slowest == 0 {
		return 0
	}
	return time.Duration(l.random.Int64N(int64(l.slowest)))
}

// wait does not wait for nothing: channels of timers that are due at once, in several
// goroutines of a bubble, are more than the race detector bears.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cluster is nodes that share the seats of tenants, and a gauge of what runs on all of
// them.
type cluster struct {
	t      *testing.T
	ledger *ledger
	nodes  []*node

	mu      sync.Mutex
	running map[string]int
	most    map[string]int
	allowed int
	faults  []string
}

type node struct {
	*cluster
	name  int
	seats *isolate.Isolator
	link  *link
	mine  map[string]int // what runs here
	had   time.Duration  // seat-time
	dead  bool
	work  sync.WaitGroup
}

const ttl = 10 * time.Second

func config(cap int) isolate.Config {
	return isolate.Config{
		Seats: 4096, LeaseTime: ttl,
		Plans: map[string]isolate.Plan{"default": {Weight: 1, MaxSeats: cap, Shared: true, Queue: 1000, QueueTimeout: time.Hour}},
	}
}

func newCluster(t *testing.T, nodes, cap int, change func(l *link)) *cluster {
	c := &cluster{t: t, ledger: newLedger(), running: make(map[string]int), most: make(map[string]int), allowed: cap}
	for range nodes {
		c.add(cap, change)
	}
	return c
}

func (c *cluster) add(cap int, change func(l *link)) *node {
	n := &node{cluster: c, name: len(c.nodes), link: &link{ledger: c.ledger, random: rand.New(rand.NewPCG(1, uint64(len(c.nodes))))}, mine: make(map[string]int)}
	if change != nil {
		change(n.link)
	}
	var err error
	if n.seats, err = isolate.New(config(cap), &isolate.Options{Leaser: n.link}); err != nil {
		c.t.Fatal(err)
	}
	c.nodes = append(c.nodes, n)
	return n
}

// start counts a request that runs from now on.
func (n *node) start(tenant string, cost int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return
	}
	n.mine[tenant] += cost
	n.running[tenant] += cost
	n.most[tenant] = max(n.most[tenant], n.running[tenant])
	if n.running[tenant] > n.allowed {
		n.cluster.faults = append(n.cluster.faults, fmt.Sprintf("%v: %d seats of tenant %s are held, and %d are allowed", time.Now().Format("04:05.000"), n.running[tenant], tenant, n.allowed))
	}
}

func (n *node) end(tenant string, cost int, held time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.had += held * time.Duration(cost)
	if !n.dead {
		n.mine[tenant] -= cost
		n.running[tenant] -= cost
	}
}

// load sends requests, so many at a time, until ctx ends.
func (n *node) load(ctx context.Context, tenant string, workers, cost int, hold, think time.Duration) {
	for range workers {
		n.work.Go(func() {
			for ctx.Err() == nil {
				seat, err := n.seats.AcquireFor(ctx, isolate.Request{Tenant: tenant, Cost: cost})
				if err != nil {
					return
				}
				n.start(tenant, cost)
				time.Sleep(hold)
				n.end(tenant, cost, hold)
				seat.Release()
				if think > 0 {
					wait(ctx, think)
				}
			}
		})
	}
}

// kill ends a node as kill -9 does.
func (n *node) kill() {
	n.link.mu.Lock()
	n.link.dead = true
	n.link.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead {
		return
	}
	n.dead = true
	for tenant, seats := range n.mine {
		n.running[tenant] -= seats
	}
}

// now returns what runs of a tenant.
func (c *cluster) now(tenant string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[tenant]
}

// close ends all nodes, and with that all goroutines.
func (c *cluster) close() {
	for _, n := range c.nodes {
		n.seats.Close(context.Background())
		n.work.Wait()
	}
}

func TestSharedByTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, 4, func(l *link) { l.slowest = 5 * time.Millisecond })
		ctx, cancel := context.WithCancel(t.Context())
		one, other := c.nodes[0], c.nodes[1]
		one.load(ctx, "a", 8, 1, 50*time.Millisecond, 0)
		time.Sleep(50 * time.Millisecond)
		if got := c.now("a"); got != 4 {
			t.Errorf("a node alone runs %d after 50ms, want 4", got)
		}
		other.load(ctx, "a", 8, 1, 50*time.Millisecond, 0)
		time.Sleep(time.Second)
		c.mu.Lock()
		if one.mine["a"] != 2 || other.mine["a"] != 2 {
			t.Errorf("a second later they run %v and %v, want 2 each", one.mine, other.mine)
		}
		c.mu.Unlock()
		before := one.link.count() + other.link.count()
		time.Sleep(10 * time.Second)
		// Each says a word every 100ms, and at each look at all, and may have more to say
		// at once.
		if calls := one.link.count() + other.link.count() - before; calls > 2*10*14 {
			t.Errorf("%d calls in 10s of two nodes that both want more", calls)
		}
		other.kill()
		time.Sleep(ttl + 200*time.Millisecond)
		if got := c.now("a"); got != 4 {
			t.Errorf("%v after the other was killed %d run, want 4", ttl+200*time.Millisecond, got)
		}
		c.ledger.set(true)
		time.Sleep(time.Minute)
		if got := c.now("a"); got != 4 {
			t.Errorf("while the store is away %d run, want 4", got)
		}
		cancel()
		c.close()
		for _, f := range c.faults {
			t.Error(f)
		}
	})
}

// Whoever wants more than there is gets its turn, however few seats there are, however
// long requests take and however many seats one needs.
func TestSharedInTurns(t *testing.T) {
	for _, tt := range []struct {
		cap   int
		cost  []int // of each node's requests
		hold  time.Duration
		least float64 // of the seat-time that there is, all nodes together
		equal float64 // of an equal part, each
	}{
		{1, []int{1, 1}, 10 * time.Millisecond, 0.85, 0.8},
		{1, []int{1, 1, 1}, 300 * time.Millisecond, 0.85, 0.8},
		{1, []int{1, 1}, 2 * time.Second, 0.9, 0.8},
		{4, []int{1, 1, 1}, 50 * time.Millisecond, 0.9, 0.8},
		{4, []int{1, 1, 1, 1, 1, 1}, 50 * time.Millisecond, 0.8, 0.8},
		{4, []int{3, 3}, 500 * time.Millisecond, 0.6, 0.8},
		{4, []int{4, 1}, 500 * time.Millisecond, 0.6, 0.2},
	} {
		t.Run(fmt.Sprint(tt.cap, tt.cost, tt.hold), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, len(tt.cost), tt.cap, func(l *link) { l.slowest = 2 * time.Millisecond })
				ctx, cancel := context.WithCancel(t.Context())
				for n, cost := range tt.cost {
					c.nodes[n].load(ctx, "a", 8, cost, tt.hold, 0)
				}
				const long = 4 * time.Minute
				time.Sleep(long)
				cancel()
				c.close()
				var had []float64
				all := 0.0
				for _, n := range c.nodes {
					part := n.had.Seconds() / (long.Seconds() * float64(tt.cap))
					had = append(had, part)
					all += part
				}
				t.Logf("%.3f, together %.3f", had, all)
				for _, part := range had {
					if part < tt.equal*all/float64(len(had)) {
						t.Errorf("parts %.3f of the seat-time: one had less than %.1f of an equal part", had, tt.equal)
					}
				}
				if all < tt.least {
					t.Errorf("of the seat-time %.3f was used, want %.2f", all, tt.least)
				}
				for _, f := range c.faults {
					t.Error(f)
				}
			})
		})
	}
}

// What is idle is given back, and forgotten; then nothing is asked any more.
func TestSharedIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 4, nil)
		n := c.nodes[0]
		const tenants = 1000
		var seats []isolate.Seat
		for k := range tenants {
			seat, err := n.seats.Acquire(t.Context(), fmt.Sprint(k), 1)
			if err != nil {
				t.Fatal(err)
			}
			if k%2 == 0 {
				seat.Release()
			} else {
				seats = append(seats, seat)
			}
		}
		time.Sleep(3 * time.Second)
		if s := n.seats.Shared(); s.Tenants != tenants/2 || s.Seats < tenants/2 || s.Busy != tenants/2 || len(c.ledger.holders) != tenants/2 {
			t.Errorf("%+v; %d in the ledger", s, len(c.ledger.holders))
		}
		calls := n.link.count()
		time.Sleep(10 * time.Second)
		if got := n.link.count() - calls; got > 45 {
			t.Errorf("%d calls in 10s for %d tenants", got, tenants/2)
		}
		for _, s := range seats {
			s.Release()
		}
		time.Sleep(3 * time.Second)
		calls = n.link.count()
		time.Sleep(time.Hour)
		if s := n.seats.Shared(); s.Tenants != 0 || len(c.ledger.holders) != 0 || n.link.count() != calls {
			t.Errorf("idle: %+v; %d in the ledger, %d calls in an hour", s, len(c.ledger.holders), n.link.count()-calls)
		}
	})
}

// A node that has forgotten a tenant before it could say a word takes nothing from the
// others.
func TestSharedGoneBeforeItsWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, 4, nil)
		ctx, cancel := context.WithCancel(t.Context())
		c.nodes[0].load(ctx, "a", 8, 1, 50*time.Millisecond, 0)
		time.Sleep(time.Second)
		c.ledger.set(true)
		short, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := c.nodes[1].seats.Acquire(short, "a", 1); err == nil {
			t.Error("a node without a share gave a seat")
		}
		end()
		time.Sleep(700 * time.Millisecond)
		c.ledger.set(false)
		time.Sleep(3 * time.Millisecond) // requests begin and end at full tens of them
		for n := range 50 {
			time.Sleep(110 * time.Millisecond)
			// For two seconds one seat may be kept for a request that comes again.
			if got := c.now("a"); got < 3 || n > 30 && got < 4 {
				t.Errorf("%d: the other node runs %d", n, got)
			}
		}
		cancel()
		c.close()
	})
}

// Whoever waits for a free seat, and not for the lease, asks nobody for more.
func TestSharedButBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		n := &link{ledger: l, random: rand.New(rand.NewPCG(1, 1))}
		for k := range 4 { // another node holds half of each tenant's seats
			now := time.Now().Add(l.ahead)
			l.holders[fmt.Sprint(k)] = []isolate.Holder{{Node: 2, Seats: 4, Want: 4, Cap: 8, Turn: now, Seen: now, TTL: time.Hour}}
		}
		c := config(8)
		c.Seats = 8
		seats, err := isolate.New(c, &isolate.Options{Leaser: n})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for k := range 40 {
			work.Go(func() {
				for {
					seat, err := seats.Acquire(ctx, fmt.Sprint(k%4), 1)
					if err != nil {
						return
					}
					time.Sleep(5 * time.Millisecond)
					seat.Release()
				}
			})
		}
		time.Sleep(time.Second)
		before := n.count()
		time.Sleep(10 * time.Second)
		if calls := n.count() - before; calls > 25 {
			t.Errorf("%d calls in 10s", calls)
		}
		cancel()
		work.Wait()
		seats.Close(context.Background())
	})
}

// history is a random one of a cluster.
type history struct {
	nodes, cap int
	slowest    time.Duration
	faults     int
	loads      []load
	events     []event
}

type load struct {
	node, workers, cost int
	tenant              string
	hold, think         time.Duration
}

type event struct {
	after time.Duration
	what  string
	node  int
	last  time.Duration
	cap   int
}

func drawHistory(t *rapid.T) (h history) {
	h.nodes = rapid.IntRange(2, 5).Draw(t, "nodes")
	h.cap = rapid.IntRange(1, 6).Draw(t, "cap")
	h.slowest = rapid.SampledFrom([]time.Duration{0, time.Millisecond, 20 * time.Millisecond, 500 * time.Millisecond}).Draw(t, "slowest")
	h.faults = rapid.SampledFrom([]int{0, 0, 5, 50}).Draw(t, "faults")
	for node := range h.nodes {
		for range rapid.IntRange(0, 2).Draw(t, "loads") {
			h.loads = append(h.loads, load{
				node: node, workers: rapid.IntRange(1, 6).Draw(t, "workers"), cost: rapid.IntRange(1, min(3, h.cap)).Draw(t, "cost"),
				tenant: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"),
				hold:   rapid.SampledFrom([]time.Duration{time.Millisecond, 37 * time.Millisecond, 400 * time.Millisecond, 3 * time.Second}).Draw(t, "hold"),
				think:  rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, 2500 * time.Millisecond}).Draw(t, "think"),
			})
		}
	}
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		h.events = append(h.events, event{
			after: time.Duration(rapid.IntRange(0, 8000).Draw(t, "after")) * time.Millisecond,
			what:  rapid.SampledFrom([]string{"kill", "away", "join", "raise", "lower"}).Draw(t, "what"),
			node:  rapid.IntRange(1, h.nodes-1).Draw(t, "node"),
			last:  time.Duration(rapid.IntRange(1, 100_000).Draw(t, "last")) * time.Millisecond,
			cap:   rapid.IntRange(1, 6).Draw(t, "new cap"),
		})
	}
	return h
}

func (h history) run(t *testing.T) (faults []string) {
	change := func(l *link) { l.slowest, l.faults = h.slowest, h.faults }
	c := newCluster(t, h.nodes, h.cap, change)
	ctx, cancel := context.WithCancel(t.Context())
	for _, l := range h.loads {
		c.nodes[l.node].load(ctx, l.tenant, l.workers, l.cost, l.hold, l.think)
	}
	cap := h.cap
	for _, e := range h.events {
		time.Sleep(e.after)
		switch e.what {
		case "kill":
			c.nodes[e.node].kill()
		case "away":
			c.ledger.set(true)
			time.Sleep(e.last)
			c.ledger.set(false)
			time.Sleep(time.Second)
		case "join":
			c.add(cap, change).load(ctx, "a", 3, 1, 37*time.Millisecond, 0)
		case "raise", "lower":
			if e.cap > cap == (e.what == "raise") {
				cap = e.cap
				c.reconfigure(cap)
			}
		}
	}
	time.Sleep(5 * time.Second)
	cancel()
	for _, n := range c.nodes {
		n.work.Wait()
	}
	// All is idle; one that is alone then gets it all.
	c.nodes[0].link.mu.Lock()
	c.nodes[0].link.faults = 0
	c.nodes[0].link.mu.Unlock()
	again, stop := context.WithCancel(t.Context())
	c.nodes[0].load(again, "a", cap+1, 1, time.Minute, 0)
	time.Sleep(2 * ttl)
	if got := c.now("a"); got != cap {
		c.faults = append(c.faults, fmt.Sprintf("in the end, alone, %d run, want %d", got, cap))
	}
	stop()
	c.close()
	return c.faults
}

// reconfigure gives all nodes another cap, one after another within a second. What runs
// goes on, so a lower one holds when that has ended.
func (c *cluster) reconfigure(cap int) {
	c.mu.Lock()
	was := c.allowed
	c.allowed = max(c.allowed, cap)
	c.mu.Unlock()
	for _, n := range c.nodes {
		if !n.dead {
			n.seats.Reconfigure(config(cap))
		}
		time.Sleep(200 * time.Millisecond)
	}
	if cap < was {
		time.Sleep(10 * time.Second) // requests that have begun take 3s, and a call up to 2s
	}
	c.mu.Lock()
	c.allowed = cap
	c.mu.Unlock()
}

func TestSharedHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := drawHistory(r)
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = h.run(t) })
		if len(faults) > 0 {
			r.Fatalf("%d faults: %s", len(faults), faults[0])
		}
	})
}
