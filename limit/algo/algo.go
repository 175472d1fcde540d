// Package algo decides rate limits with pure functions over a small state.
//
// An [Algorithm] looks at a [Limit], the [State] kept for one key and the
// present instant, and answers with a [Verdict] and the State to keep. It does
// no I/O, reads no clock, starts no goroutine and takes no lock, so the same
// function decides in memory, inside a database transaction and in a replay of
// yesterday's log.
//
// All arithmetic is exact. Where a product does not fit 64 bits it is carried
// in 128 (math/bits), and what a division leaves over is kept in the State, so
// nothing drifts: the millionth window admits what the second did.
package algo

import (
	"fmt"
	"math"
)

// Bounds of a Limit.
const (
	MinWindow = Millisecond
	MaxWindow = Year
	MaxQuota  = math.MaxInt64
)

// Limit is what a policy allows: Quota units in every Window.
type Limit struct {
	// Quota is how many units a window admits. 0 admits nothing.
	Quota int64
	// Window is the span that Quota is counted over, from MinWindow to MaxWindow.
	Window Ticks
	// Burst is the most that can be spent at one instant. Only GCRA uses it;
	// the others admit a whole Quota at once.
	Burst int64
}

// State is all that is kept for one key. The zero State is a key never seen.
// What the fields mean is the algorithm's own affair. States are equal if
// Equal says so; == may tell apart two that are, but never the other way round.
//
// It is four words, so that it travels in registers.
type State struct {
	At   Ticks
	A, B int64
	// Log points to the sliding log's entries, which never change. It is nil
	// for every other algorithm.
	Log *string
}

// Equal reports whether s and o say the same.
func (s State) Equal(o State) bool {
	return s.At == o.At && s.A == o.A && s.B == o.B && s.Entries() == o.Entries()
}

// Entries returns what Log points to, or "".
func (s State) Entries() string {
	if s.Log == nil {
		return ""
	}
	return *s.Log
}

// WithEntries returns s with a Log of entries; nil if there are none.
func (s State) WithEntries(entries string) State {
	s.Log = nil
	if entries != "" {
		s.Log = &entries
	}
	return s
}

// Verdict is what an algorithm says about one spend.
type Verdict struct {
	// OK reports whether the cost may be spent now.
	OK bool
	// Remaining is how many units could still be spent at this instant, after
	// this spend if it is OK.
	Remaining int64
	// RetryAfter is 0 if OK. Otherwise it is the shortest wait after which the
	// same cost is admitted, provided nobody else spends meanwhile. It says
	// nothing where waiting does not help: with a cost above the algorithm's
	// Capacity, or a Quota of 0.
	RetryAfter Ticks
	// ResetAfter is how long it takes until the State equals a key never seen,
	// if nothing more is spent. A store may drop the State after that.
	// It and RetryAfter stop at 1<<63-1, which is as good as never.
	ResetAfter Ticks
}

// Func reports whether cost may be spent at now, and the State to keep.
//
// A cost of 0 looks without spending and is always OK. A negative cost gives
// that many units back, never more than the State holds, and is always OK. If
// the Verdict is not OK, the State returned equals the one given.
//
// An instant before State's own is taken as State's own: a clock that was
// stepped back admits nothing extra, and the wait until it has caught up is
// part of RetryAfter and ResetAfter.
//
// The Limit must have passed the algorithm's Check; 0 <= now.
type Func func(l Limit, s State, now Ticks, cost int64) (State, Verdict)

// ChargeFunc returns the State after units were spent at the instant at,
// whether or not they were admitted: it is how one node takes in what others
// have admitted. Charging what Decide has admitted, in its order, gives the State
// that Decide gave.
//
// at may lie before State's own instant, for a spend that is told of late. It is
// charged to the frame that it belongs to, or not at all if it counts no more.
// Sums that do not fit are cut off at 1<<63-1.
//
// The Limit must have passed the algorithm's Check; 0 <= at, 0 <= units.
type ChargeFunc func(l Limit, s State, at Ticks, units int64) State

// Algorithm is one way of counting, to be found in [All].
type Algorithm struct {
	// Name is how configurations call it.
	Name string
	// ID marks the algorithm's States in a store. It never changes.
	ID byte
	// Decide is the algorithm.
	Decide Func
	// Charge is Decide for units that are spent already.
	Charge ChargeFunc
	// Used reports how much of the quota is in use at now, in units, as
	// Decide counts it. It is for people: Decide itself never rounds.
	Used func(l Limit, s State, now Ticks) float64
	// MaxQuota is the largest Quota that the algorithm can work with.
	MaxQuota int64
	// Bursts says that the algorithm uses Limit.Burst.
	Bursts bool
}

// String returns the Name.
func (a *Algorithm) String() string { return a.Name }

// Capacity returns the largest cost that can ever be admitted under l.
func (a *Algorithm) Capacity(l Limit) int64 {
	if a.Bursts {
		return l.Burst
	}
	return l.Quota
}

// Check returns an error that names the field of l which the algorithm cannot
// work with, and what is allowed.
func (a *Algorithm) Check(l Limit) error {
	if l.Quota < 0 || l.Quota > a.MaxQuota || l.Window < MinWindow || l.Window > MaxWindow || a.Bursts && l.Quota > 0 && l.Burst < 1 {
		return a.explain(l)
	}
	return nil
}

func (a *Algorithm) explain(l Limit) error {
	switch {
	case l.Quota < 0:
		return fmt.Errorf("quota: %d is negative; 0 (admit nothing) or more is allowed", l.Quota)
	case l.Quota > a.MaxQuota:
		return fmt.Errorf("quota: %d is too large for the %s algorithm; at most %d is allowed (sliding has no such bound)", l.Quota, a.Name, a.MaxQuota)
	case l.Window < MinWindow || l.Window > MaxWindow:
		return fmt.Errorf("window: %v is out of bounds; 1ms to 365d is allowed", l.Window)
	}
	return fmt.Errorf("burst: %d is too small; at least 1 is allowed", l.Burst)
}

// All lists the algorithms. A new one is a file beside the others and a row here.
var All = []*Algorithm{GCRA, Sliding, Proportional, Log, Fixed}

// ByName returns the algorithm called name, or nil.
func ByName(name string) *Algorithm {
	for _, a := range All {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// sum adds counts, saturating.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
