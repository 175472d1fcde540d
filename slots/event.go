// Package slots decides when a thing may happen: it books, for each event, the
// earliest free slot at or after the time that is asked for, such that no window
// of a config, wherever it begins, holds more than the config's maximum.
//
// What is booked is kept by a [Ledger], whose schema alone makes it impossible to
// book a slot twice. A [Scheduler] books, cancels and reschedules; many of them may
// share a Ledger. Which slot is next is worked out by package slots/plan.
package slots

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/stint-dev/stint/slots/plan"
)

// Bounds of what a caller may name.
const (
	MaxIDLen   = 512 // bytes of an event's id
	MaxNameLen = 128 // bytes of a config's name
)

// Request asks for a slot for an event.
type Request struct {
	ID string
	// At is the instant that the slot must not lie before. One in the past is
	// taken for now.
	At plan.Ticks
	// MaxDelay is how long after At, or after now if that is later, the slot may
	// lie. 0 is what the config says.
	MaxDelay plan.Ticks
}

// Result answers a Request.
type Result struct {
	// Event is what is booked, now or by an earlier request of that id. It is
	// the zero Event if Err is not nil and the id is not known.
	Event
	// Repeated says that the id was known, and Conflict that it was by another
	// Requested instant.
	Repeated, Conflict bool
	// Err is a *[Refused], [ErrCancelled], or that the request is not allowed.
	Err error
}

// Refused is the error of a request that gets no slot. Nothing was booked.
type Refused struct {
	Reason plan.Refusal
	// At is when the earliest free slot lies, unless Reason is plan.Never.
	At plan.Ticks
	// Windows is how many windows lie between that and the instant asked for.
	Windows int64
	// Wait is how long it takes, counted from now, until the same request would
	// get the slot at At, if nobody else does. It is 0 if Reason is plan.Never.
	Wait plan.Ticks
}

func (r *Refused) Error() string {
	switch r.Reason {
	case plan.TooLate:
		return fmt.Sprintf("the earliest free slot is at %s, later than the maximum delay allows", r.At.Time().Format(time.RFC3339Nano))
	case plan.TooFar:
		return fmt.Sprintf("the earliest free slot is at %s, beyond the config's horizon", r.At.Time().Format(time.RFC3339Nano))
	}
	return "there is no free slot at that time or later"
}

// Event is one that is known: it has a slot, or had one.
type Event struct {
	ID string
	// Requested is the instant that was asked for.
	Requested plan.Ticks
	// Slot is where the event is booked; where it was, if it is Cancelled.
	plan.Slot
	// Booked is when it was, by the database's clock.
	Booked plan.Ticks
	// Cancelled is when it was; 0 if it is not.
	Cancelled plan.Ticks
}

// Delay is how long after the instant that was asked for the event's slot lies.
func (e Event) Delay() plan.Ticks { return e.At - e.Requested }

// Config is a named schedule. Configs share nothing.
type Config struct {
	Name string
	// Revision moves on with every change of the config.
	Revision int64
	// Versions are all that there have been, in the order in which they were
	// made. Each holds from its From on.
	Versions []Version
	// PausedUntil is the instant before which nothing new is booked; 0 if the
	// config is not paused.
	PausedUntil plan.Ticks
}

// Version is a plan.Version, and what holds for requests that do not say otherwise.
type Version struct {
	plan.Version
	// MaxDelay and Horizon bound how late a slot may lie: after the instant that
	// was asked for, and after now. 0 is any time.
	MaxDelay, Horizon plan.Ticks
	// DeliverTo is the URL to which events are delivered that are booked while the
	// version is in force, see Outbox. "" is nowhere.
	DeliverTo string
	// Made is when the version was.
	Made plan.Ticks
}

// Current returns the version in force at an instant: the last made of those that
// have begun. ok is false if none has.
func (c *Config) Current(at plan.Ticks) (v Version, ok bool) {
	for _, w := range c.Versions {
		if w.From <= at {
			v, ok = w, true
		}
	}
	return v, ok
}

// Capacity returns how many slots the config has, free or not, in each of n spans of
// time, each step long, the first of them beginning at from. It is what the versions
// in force then say, without what has to make room after a change.
func (c *Config) Capacity(from, step plan.Ticks, n int) ([]int64, error) {
	t, err := newTimeline(from, c)
	if err != nil {
		return nil, err
	}
	capacity := make([]int64, n)
	for i := range capacity {
		capacity[i] = t.Capacity(from, from+step)
		from += step
	}
	return capacity, nil
}

// CheckID returns an error that says what is allowed if id is no event's id.
func CheckID(id string) error { return checkName("event id", id, MaxIDLen) }

// CheckName is CheckID for the name of a config.
func CheckName(name string) error { return checkName("config name", name, MaxNameLen) }

func checkName(what, name string, most int) error {
	switch {
	case name == "":
		return fmt.Errorf("the %s is empty; 1 to %d bytes are allowed", what, most)
	case len(name) > most:
		return fmt.Errorf("the %s has %d bytes; 1 to %d are allowed", what, len(name), most)
	case !utf8.ValidString(name):
		return fmt.Errorf("the %s is not valid UTF-8", what)
	}
	for i := range len(name) {
		if name[i] == 0 {
			return fmt.Errorf("the %s has a NUL in it, at byte %d", what, i)
		}
	}
	return nil
}
