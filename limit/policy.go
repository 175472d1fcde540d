package limit

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// Policy is one limit: so many units in every window, counted per key.
//
// A Policy is a plain value; set its fields and pass a pointer to it. It must
// not change while it is in use. Two policies with the same Name and Algorithm
// share their counters, so a new quota takes effect in the middle of a window
// on what has been spent already.
type Policy struct {
	// Name is how decisions, headers and metrics call the policy, and the
	// space that its keys live in. 1 to MaxNameLen bytes.
	Name string
	// Algorithm counts. Defaults to algo.GCRA.
	Algorithm *algo.Algorithm
	// Quota is how many units each window admits. 0 admits nothing.
	Quota int64
	// Window is the span that Quota is counted over, from 1ms to 365 days, in
	// steps of a microsecond.
	Window time.Duration
	// Burst is the most that can be spent at one instant under GCRA.
	// Defaults to Quota.
	Burst int64
	// Mode says where the policy is counted. Defaults to Exact.
	Mode Mode
	// OnStoreError says what a decision is when the store cannot answer.
	// Defaults to FailError.
	OnStoreError OnStoreError
	// MaxOvershoot bounds, in Synced mode, by how many units all nodes together
	// may pass the limit: a node asks the store as soon as the spends that it
	// has not told the others about reach its share of that. 0 is no bound; for
	// none at all use Exact.
	MaxOvershoot int64
}

// MaxNameLen is the most bytes that a policy's name may have.
const MaxNameLen = 128

// Mode says where a policy is counted.
type Mode uint8

const (
	// Exact counts in the limiter's store and never goes above the limit,
	// however many nodes share that store.
	Exact Mode = iota
	// Local counts in this process alone, in the limiter's Local store.
	Local
	// Synced decides in this process, by what the store has told of the other
	// nodes and what this one has spent since, and tells the store in the
	// background. It goes above the limit by what the nodes spend between two
	// such talks, see MaxOvershoot.
	Synced
)

// OnStoreError says what a decision is when the store cannot answer in time.
// It is never a denial.
type OnStoreError uint8

const (
	// FailError returns the *StoreError; nothing is decided.
	FailError OnStoreError = iota
	// FailAllow allows the spend and marks the decision Degraded.
	FailAllow
	// FailLocal decides by the limiter's Local store and marks the decision
	// Degraded.
	FailLocal
)

func (p *Policy) algorithm() *algo.Algorithm {
	if p.Algorithm == nil {
		return algo.GCRA
	}
	return p.Algorithm
}

// Limit returns what p allows in the algorithm's terms.
func (p *Policy) Limit() algo.Limit {
	l := algo.Limit{Quota: p.Quota, Window: ticks(p.Window), Burst: p.Burst}
	if l.Burst == 0 {
		l.Burst = l.Quota
	}
	return l
}

// Check returns an error that names the first field which is out of bounds,
// and what is allowed.
func (p *Policy) Check() error {
	if n := len(p.Name); n == 0 || n > MaxNameLen {
		return fmt.Errorf("name: %q has %d bytes; 1 to %d are allowed", p.Name, n, MaxNameLen)
	}
	return p.algorithm().Check(p.Limit())
}

// Decide runs the policy's algorithm: see [algo.Func].
func (p *Policy) Decide(s algo.State, now algo.Ticks, cost int64) (algo.State, algo.Verdict) {
	return p.algorithm().Decide(p.Limit(), s, now, cost)
}

// Capacity returns the largest cost that p can ever admit.
func (p *Policy) Capacity() int64 { return p.algorithm().Capacity(p.Limit()) }

// AppendStoreKey appends to b the key under which a store keeps p's State for
// key: the algorithm's ID, the length of p.Name, p.Name, key. No two
// (algorithm, name, key) share one.
func AppendStoreKey(b []byte, p *Policy, key string) []byte {
	b = append(b, p.algorithm().ID, byte(len(p.Name)))
	b = append(b, p.Name...)
	return append(b, key...)
}

// StoreKey returns what AppendStoreKey appends.
func StoreKey(p *Policy, key string) string {
	return string(AppendStoreKey(make([]byte, 0, 2+len(p.Name)+len(key)), p, key))
}

// ErrCost: a cost is negative, or larger than the policy can ever admit.
// Waiting would not help, so it is an error and not a denial.
var ErrCost = errors.New("cost can never be admitted")

// Pace returns how long it takes until cost more units are admitted, at the
// policy's steady rate.
func (p *Policy) Pace(cost int64) time.Duration {
	if p.Quota == 0 {
		return p.Window
	}
	pace := float64(p.Window) / float64(p.Quota) * float64(cost)
	return time.Duration(min(pace, float64(1<<62)))
}

// checkSpend returns an error if cost can never be charged to key under p. It
// is on the way of every decision, so it says what is wrong elsewhere.
func (p *Policy) checkSpend(key string, cost int64) error {
	a, l := p.algorithm(), p.Limit()
	n := len(p.Name)
	if n == 0 || n > MaxNameLen || 2+n+len(key) > MaxKeyLen || cost < 0 || cost > a.Capacity(l) && l.Quota > 0 || a.Check(l) != nil {
		return fmt.Errorf("limit: policy %q: %w", p.Name, p.explain(key, cost))
	}
	return nil
}

func (p *Policy) explain(key string, cost int64) error {
	if err := p.Check(); err != nil {
		return err
	}
	switch n := 2 + len(p.Name) + len(key); {
	case n > MaxKeyLen:
		return fmt.Errorf("%w: with its policy's name this one has %d", ErrKeyLen, n)
	case cost < 0:
		return fmt.Errorf("%w: %d is negative; give units back with Refund", ErrCost, cost)
	}
	return fmt.Errorf("%w: %d is more than fits at once, %d", ErrCost, cost, p.Capacity())
}

func ticks(d time.Duration) algo.Ticks { return algo.Ticks(d / time.Microsecond) }

// duration converts t, saturating where a time.Duration cannot hold it.
func duration(t algo.Ticks) time.Duration {
	const most = algo.Ticks((1<<63 - 1) / int64(time.Microsecond))
	return time.Duration(min(t, most)) * time.Microsecond
}
