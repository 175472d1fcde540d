package fair

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Bounds of a Config.
const (
	MaxSeats   = 1 << 16
	MaxWeight  = 1000
	MaxQueue   = 1 << 16
	MaxTimeout = 24 * time.Hour
	MaxPlans   = 1000
	MaxNameLen = 128 // bytes of a plan's name
)

// DefaultPlan is the plan of requests that name none, if Config.Default is empty.
const DefaultPlan = "default"

// Config says how many seats there are, and who gets them.
type Config struct {
	// Seats is how many there are, 1 to MaxSeats.
	Seats int
	// Plans by their names. Defaults to one, DefaultPlan: weight 1, a queue of 100
	// and a queue timeout of 10s.
	Plans map[string]Plan
	// Default names the plan of requests that name none. Defaults to DefaultPlan.
	Default string
	// Guarantee is the dial from fair to strict: the quantile of their recent
	// demand for which the others must find seats free, when a tenant wants more
	// than its share. 0 holds no seat idle. 0.5 is the mean; 0.99 is strict.
	// At most 0.999.
	Guarantee float64
	// Memory is how long demand is remembered, 100ms to 1h. Defaults to 5s.
	Memory time.Duration
	// Patience is how long a request that needs more seats than are free is passed
	// by others, 1ms to 1m. Defaults to 100ms.
	Patience time.Duration
	// MaxWaiting bounds the requests that wait, of all tenants together, 1 to
	// 1<<20. Defaults to 16384.
	MaxWaiting int
	// LeaseTime is how long a Room may use its part of the seats of a Shared plan
	// after its last word to the others, 1s to 5m. Defaults to 10s. A Room keeps it
	// for whoever calls SetLease.
	LeaseTime time.Duration
	// Adaptive lets Seats shrink and grow with the time that requests take. nil
	// leaves it as it is.
	Adaptive *Adaptive
}

// Plan says what each tenant of it gets.
type Plan struct {
	// Weight is the tenant's share against that of others, 1 to MaxWeight.
	Weight int
	// MaxSeats is the most that the tenant holds at once, 1 to Config.Seats. 0 is
	// Config.Seats.
	MaxSeats int
	// Shared says that MaxSeats, up to the package's MaxSeats, are those of all rooms
	// together. A tenant may hold what SetLease has given it in this one, and nothing
	// before that; so its Queue must not be 0.
	Shared bool
	// Queue is how many of its requests may wait, 0 to MaxQueue. With 0, what
	// cannot start at once is refused.
	Queue int
	// QueueTimeout is how long one may wait, up to MaxTimeout. It must not be 0,
	// unless Queue is.
	QueueTimeout time.Duration
	// Timeout is how long a request may take from its arrival, waiting and running
	// together, up to MaxTimeout. 0 is any time. A Room stops nothing that runs; who
	// asks it for seats answers the caller in time.
	Timeout time.Duration
	// Target is the delay that CoDel keeps the queue at, up to MaxTimeout. 0 is
	// without CoDel.
	Target time.Duration
}

// Adaptive bounds the number of seats that are given out, which follows the time that
// requests take against what each tenant's took in the long run.
type Adaptive struct {
	// Min is the least number of seats, 1 to Config.Seats, which is the most.
	Min int
	// Tolerance is how many times longer than in the long run requests may take
	// before seats are taken away, 1 to 10. Defaults to 1.5.
	Tolerance float64
}

// withDefaults returns c with the defaults put in.
func (c Config) withDefaults() Config {
	c.Default = orDefault(c.Default, DefaultPlan)
	c.Memory = orDefault(c.Memory, 5*time.Second)
	c.Patience = orDefault(c.Patience, 100*time.Millisecond)
	c.MaxWaiting = orDefault(c.MaxWaiting, 16384)
	c.LeaseTime = orDefault(c.LeaseTime, 10*time.Second)
	if len(c.Plans) == 0 {
		c.Plans = map[string]Plan{c.Default: {Weight: 1, Queue: 100, QueueTimeout: 10 * time.Second}}
	}
	if c.Adaptive != nil {
		a := *c.Adaptive
		a.Tolerance = orDefault(a.Tolerance, 1.5)
		c.Adaptive = &a
	}
	return c
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Check returns an error that names the first field which is out of bounds, its
// value, and what is allowed.
func (c Config) Check() error {
	c = c.withDefaults()
	switch {
	case c.Seats < 1 || c.Seats > MaxSeats:
		return outOfBounds("seats", c.Seats, 1, MaxSeats)
	case !(c.Guarantee >= 0 && c.Guarantee <= 0.999):
		return fmt.Errorf("guarantee: %v; 0 to 0.999 are allowed", c.Guarantee)
	case c.Memory < 100*time.Millisecond || c.Memory > time.Hour:
		return outOfBounds("memory", c.Memory, 100*time.Millisecond, time.Hour)
	case c.Patience < time.Millisecond || c.Patience > time.Minute:
		return outOfBounds("patience", c.Patience, time.Millisecond, time.Minute)
	case c.MaxWaiting < 1 || c.MaxWaiting > 1<<20:
		return outOfBounds("max waiting", c.MaxWaiting, 1, 1<<20)
	case c.LeaseTime < time.Second || c.LeaseTime > 5*time.Minute:
		return outOfBounds("lease time", c.LeaseTime, time.Second, 5*time.Minute)
	case len(c.Plans) > MaxPlans:
		return outOfBounds("number of plans", len(c.Plans), 1, MaxPlans)
	}
	if a := c.Adaptive; a != nil {
		if a.Min < 1 || a.Min > c.Seats {
			return outOfBounds("adaptive.min", a.Min, 1, c.Seats)
		}
		if !(a.Tolerance >= 1 && a.Tolerance <= 10) {
			return fmt.Errorf("adaptive.tolerance: %v; 1 to 10 are allowed", a.Tolerance)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Plans)) {
		if len(name) < 1 || len(name) > MaxNameLen {
			return fmt.Errorf("plans: the name %.40q has %d bytes; 1 to %d are allowed", name, len(name), MaxNameLen)
		}
		if err := c.Plans[name].check(c.Seats); err != nil {
			return fmt.Errorf("plans.%s.%w", name, err)
		}
	}
	if _, ok := c.Plans[c.Default]; !ok {
		return fmt.Errorf("default: there is no plan %.40q; %s", c.Default, known(c.Plans))
	}
	return nil
}

func (p Plan) check(seats int) error {
	switch {
	case p.Weight < 1 || p.Weight > MaxWeight:
		return outOfBounds("weight", p.Weight, 1, MaxWeight)
	case p.Shared && (p.MaxSeats < 1 || p.MaxSeats > MaxSeats):
		return outOfBounds("max seats of a shared plan", p.MaxSeats, 1, MaxSeats)
	case p.Shared && p.Queue == 0:
		return fmt.Errorf("queue: 0, with a shared plan; 1 to %d are allowed: requests wait while seats are brought here", MaxQueue)
	case !p.Shared && (p.MaxSeats < 0 || p.MaxSeats > seats):
		return fmt.Errorf("max seats: %d; 1 to %d, which are all that there are, or 0 for as many, are allowed", p.MaxSeats, seats)
	case p.Queue < 0 || p.Queue > MaxQueue:
		return outOfBounds("queue", p.Queue, 0, MaxQueue)
	case p.QueueTimeout == 0 && p.Queue > 0:
		return fmt.Errorf("queue timeout: 0s, with a queue of %d; more than 0 and up to %s are allowed", p.Queue, MaxTimeout)
	case p.QueueTimeout < 0 || p.QueueTimeout > MaxTimeout:
		return outOfBounds("queue timeout", p.QueueTimeout, 0, MaxTimeout)
	case p.Timeout < 0 || p.Timeout > MaxTimeout:
		return outOfBounds("timeout", p.Timeout, 0, MaxTimeout)
	case p.Target < 0 || p.Target > MaxTimeout:
		return outOfBounds("target", p.Target, 0, MaxTimeout)
	}
	return nil
}

func outOfBounds[T any](field string, v, least, most T) error {
	return fmt.Errorf("%s: %v; %v to %v are allowed", field, v, least, most)
}

func known[T any](plans map[string]T) string {
	names := slices.Sorted(maps.Keys(plans))
	if len(names) > 10 {
		names = append(names[:10], "...")
	}
	return "there are " + strings.Join(names, ", ")
}

// quantile returns how many standard deviations above the mean a normal variable is
// with probability 1-p.
func quantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
