package limittest

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// align is a multiple of every window that a script is likely to have. Frames
// lie alike on clocks that are a multiple of it apart.
const align = algo.Year

// clock moves the clock of a store along with a script's.
type clock struct {
	t       testing.TB
	store   limit.Store
	advance func(t testing.TB, d time.Duration)
	now     algo.Ticks // of the script
	aligned bool
}

// set moves the store's clock on to now or, at first, to the next instant that
// is a multiple of align from it.
func (c *clock) set(now algo.Ticks) {
	wait := now - c.now
	if !c.aligned {
		_, there := look(c.t, c.store, "the clock")
		wait = ((now-there)%align + align) % align
		c.aligned = true
	}
	c.advance(c.t, time.Duration(wait)*time.Microsecond)
	c.now = now
}
