package isolate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/isolate/fair"
)

// canaryTenant is whose requests the canary's are.
const canaryTenant = "stint canary"

const (
	probeEvery = 250 * time.Millisecond
	// remembered is for how long a probe counts.
	remembered = time.Minute
	maxProbes  = int(remembered / probeEvery)
)

// Canary measures how long a well-behaved tenant would wait now: it asks for a seat four
// times a second, in the name of a tenant of the default plan that does nothing else,
// waits for its turn like any other, and takes no seat when it has come. The zero Canary
// has measured nothing. It is safe for concurrent use.
type Canary struct {
	mu      sync.Mutex
	probes  []probe // of the last minute, in order
	typical time.Duration
	waiting time.Time // since when the present probe waits; zero if there is none
}

type probe struct {
	at      time.Time
	waited  time.Duration
	refused bool
}

// Reading is what a Canary says of the last minute.
type Reading struct {
	// Ratio is how many times as long as its work takes a request of a
	// well-behaved tenant takes with 99 of 100 waits: (Typical + Wait) / Typical. 1 is
	// perfect isolation. It is 0 as long as nothing is known, and where no canary
	// is.
	Ratio float64
	// Wait is the 99th percentile of the canary's waits, the present one among
	// them.
	Wait time.Duration
	// Typical is how long a request of a typical tenant runs: the median over the
	// tenants.
	Typical time.Duration
	// Probes is how many waits are counted, of which Refused got no seat at all.
	Probes, Refused int
}

// Watch asks until ctx ends. now returns whom; nil if nobody is to be asked at present.
func (c *Canary) Watch(ctx context.Context, now func() *Isolator) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if i := now(); i != nil {
			c.probe(ctx, i)
		} else {
			c.mu.Lock()
			c.probes, c.typical = nil, 0
			c.mu.Unlock()
		}
	}
}

// probe asks once. Of a wait that is so long that others should have begun meanwhile,
// what those would have waited counts too.
func (c *Canary) probe(ctx context.Context, i *Isolator) {
	began := time.Now()
	c.mu.Lock()
	c.waiting = began
	c.mu.Unlock()
	refused, again := i.probe(ctx)
	waited := max(time.Since(began), again)
	if ctx.Err() != nil {
		return
	}
	typical := i.typical()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = time.Time{}
	if typical > 0 {
		c.typical = typical
	}
	if waited < time.Millisecond && !refused {
		waited = 0 // what it takes to ask
	}
	for at, rest := began, waited; ; at, rest = at.Add(probeEvery), rest-probeEvery {
		c.probes = append(c.probes, probe{at, rest, refused})
		if rest <= probeEvery || time.Since(at) < probeEvery {
			break // what comes next asks for itself
		}
	}
	c.probes = c.probes[max(0, len(c.probes)-maxProbes):]
}

// Reading returns what was measured.
func (c *Canary) Reading() Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	r := Reading{Typical: c.typical}
	var waits []time.Duration
	for _, p := range c.probes {
		if now.Sub(p.at) <= remembered {
			waits = append(waits, p.waited)
			if p.refused {
				r.Refused++
			}
		}
	}
	if !c.waiting.IsZero() && now.Sub(c.waiting) > probeEvery {
		for rest := now.Sub(c.waiting); rest > 0 && len(waits) < 2*maxProbes; rest -= probeEvery {
			waits = append(waits, rest)
		}
	}
	if r.Probes = len(waits); r.Probes == 0 {
		return r
	}
	slices.Sort(waits)
	r.Wait = waits[len(waits)*99/100]
	if r.Typical > 0 {
		r.Ratio = float64(r.Typical+r.Wait) / float64(r.Typical)
	}
	return r
}

// probe waits until it would get a seat. If it would get none, it returns when it would
// if it came back.
func (i *Isolator) probe(ctx context.Context) (refused bool, again time.Duration) {
	i.mu.Lock()
	h := i.newHold(Request{Tenant: canaryTenant})
	h.Probe = true
	others, err := i.room.Arrive(i.now(), &h.Request)
	if err != nil { // there is nothing in it that could be wrong
		panic(err)
	}
	i.wake(others)
	if h.State == fair.Waiting {
		if h.decided == nil {
			h.decided = make(chan struct{}, 1)
		}
		i.mu.Unlock()
		gone := false
		select {
		case <-h.decided:
		case <-ctx.Done():
			gone = true
		}
		i.mu.Lock()
		if gone {
			if h.State == fair.Waiting {
				i.wake(i.room.Cancel(i.now(), &h.Request))
			}
			select {
			case <-h.decided:
			default:
			}
		}
	}
	if h.State == fair.Refused {
		refused, again = true, h.RetryAfter
	}
	i.recycle(h)
	i.mu.Unlock()
	return refused, again
}

// typical is that of the room.
func (i *Isolator) typical() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.room.Typical()
}
