package plan

import (
	"fmt"
	"time"
)

// Ticks counts microseconds. As an instant it is microseconds since the Unix
// epoch, as of [time.Time.UnixMicro].
type Ticks int64

// Spans of time in Ticks. A Day is 24 hours, whatever the clocks on the walls do.
const (
	Microsecond Ticks = 1
	Millisecond       = 1000 * Microsecond
	Second            = 1000 * Millisecond
	Minute            = 60 * Second
	Hour              = 60 * Minute
	Day               = 24 * Hour
)

// Bounds of the instants that can be planned with: the first of year 1 and the
// last of year 9999, both in UTC. Between them no sum in this package overflows.
const (
	MinInstant Ticks = -62_135_596_800 * Second
	MaxInstant Ticks = 253_402_300_800*Second - 1
)

func checkInstant(what string, at Ticks) error {
	if at < MinInstant || at > MaxInstant {
		return fmt.Errorf("%s: %d is out of bounds; years 1 to 9999 are allowed, %d to %d microseconds since 1970", what, at, MinInstant, MaxInstant)
	}
	return nil
}

// floorDiv returns the greatest q with q*d <= n, for d > 0.
func floorDiv(n, d Ticks) int64 {
	q := n / d
	if n%d < 0 {
		q--
	}
	return int64(q)
}

// At returns t as an instant in Ticks, rounded down to a microsecond.
func At(t time.Time) Ticks { return Ticks(t.UnixMicro()) }

// Time returns the instant t in UTC.
func (t Ticks) Time() time.Time { return time.UnixMicro(int64(t)).UTC() }
