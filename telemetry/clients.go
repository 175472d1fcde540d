package telemetry

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/rules"
)

// What becomes of a request of a client.
const (
	allowed = iota
	denied
	wouldDeny // let through, though a rule in shadow would not have
	outcomes  = iota
)

var outcomeNames = [outcomes]string{"allowed", "denied", "would_deny"}

const (
	// followedPerShown is how many clients are followed for each that is
	// shown: the more, the less of a client that just came up was missed.
	followedPerShown = 10
	// halfLife is how long it takes until a request counts half as much for
	// who is at the top.
	halfLife = 5 * time.Minute
)

// topClients counts the requests of the clients that have the most, and shows
// them. It implements gate.Observer and prometheus.Collector.
//
// What it shows of a client is what it has seen since it began to follow it,
// so it is never too much, rises by one for each request, and starts again
// from 0 when a client comes back to the list.
type topClients struct {
	attribute string
	size      int
	series    *prometheus.Desc

	mu       sync.Mutex
	frequent *frequent
	faded    time.Time
}

// TopClients returns an observer that shows, as stint_client_decisions_total,
// what becomes of the requests of the size clients that have the most of them
// at present. A client is told by an attribute, as far as rules count by it.
// The series of a client that leaves the list end.
func (m *Metrics) TopClients(attribute string, size int) gate.Observer {
	c := &topClients{
		attribute: attribute,
		size:      size,
		series: prometheus.NewDesc("stint_client_decisions_total",
			"Requests of the clients that have the most of them at present, since they came to this list: an estimate that is never too high.", []string{"client", "outcome"}, nil),
		frequent: newFrequent(size * followedPerShown),
		faded:    time.Now(),
	}
	m.registry.MustRegister(c)
	return c
}

// Decided implements gate.Observer.
func (c *topClients) Decided(out *gate.Outcome, _ time.Duration) {
	enforced, shadow := out.Decisions, []gate.Decision(nil)
	if i := slices.IndexFunc(enforced, func(d gate.Decision) bool { return d.Rule.Shadow }); i >= 0 {
		enforced, shadow = enforced[:i], enforced[i:]
	}
	for len(enforced)+len(shadow) > 0 {
		var e, s []gate.Decision
		request := math.MaxInt
		for _, ds := range [][]gate.Decision{enforced, shadow} {
			if len(ds) > 0 {
				request = min(request, ds[0].Request)
			}
		}
		e, enforced = cut(enforced, request)
		s, shadow = cut(shadow, request)
		c.count(out.Allowed, e, s)
	}
}

// cut splits off the decisions of a request from the beginning of ds.
func cut(ds []gate.Decision, request int) (head, rest []gate.Decision) {
	n := 0
	for n < len(ds) && ds[n].Request == request {
		n++
	}
	return ds[:n], ds[n:]
}

// count counts one request, which has these decisions.
func (c *topClients) count(admitted bool, enforced, shadow []gate.Decision) {
	client, ok := c.client(enforced)
	if !ok {
		client, ok = c.client(shadow)
	}
	if !ok {
		return
	}
	what := allowed
	switch {
	case !admitted:
		what = denied
	case slices.ContainsFunc(shadow, func(d gate.Decision) bool { return !d.Allowed }):
		what = wouldDeny
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fade(halfLife / 16)
	c.frequent.add(client).seen[what]++
}

// client returns whose request it is that has these decisions.
func (c *topClients) client(ds []gate.Decision) (string, bool) {
	for i := range ds {
		if client, ok := rules.KeyAttribute(ds[i].Key, c.attribute); ok {
			return client, true
		}
	}
	return "", false
}

// Describe implements prometheus.Collector.
func (c *topClients) Describe(to chan<- *prometheus.Desc) { to <- c.series }

// Collect implements prometheus.Collector.
func (c *topClients) Collect(to chan<- prometheus.Metric) {
	for _, client := range c.present() {
		for i, n := range client.seen {
			to <- prometheus.MustNewConstMetric(c.series, prometheus.CounterValue, float64(n), client.name, outcomeNames[i])
		}
	}
}

// present returns the clients at the top.
func (c *topClients) present() []followed {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fade(0)
	return c.frequent.top(c.size)
}

// fade lets what came before count for less, by the time that has passed since
// it last did, if that is step or more. It requires that c.mu is held.
func (c *topClients) fade(step time.Duration) {
	now := time.Now()
	if passed := now.Sub(c.faded); passed >= step {
		c.frequent.fade(math.Exp2(-float64(passed) / float64(halfLife)))
		c.faded = now
	}
}
