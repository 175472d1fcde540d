package deliver

import (
	"sync"
	"time"

	"github.com/stint-dev/stint/slots/plan"
)

// clock tells the database's time, or a little less: never more. It is learnt from
// what the database says, and goes on by the monotonic clock of this machine.
type clock struct {
	mu     sync.Mutex
	looks  [16]look
	learnt int
}

// look is what the database's clock had come to, at the latest when it was heard.
type look struct {
	said  plan.Ticks
	heard time.Time
}

func (l look) at(t time.Time) plan.Ticks { return l.said + ticks(t.Sub(l.heard)) }

func (c *clock) learn(said plan.Ticks, heard time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks[c.learnt%len(c.looks)] = look{said, heard}
	c.learnt++
}

// now returns the database's time. Each look gives a bound, and that which took the
// shortest way the best. Few are kept, so that a clock that was set back is believed
// within seconds.
func (c *clock) now() (now plan.Ticks) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now()
	for i, l := range c.looks[:min(c.learnt, len(c.looks))] {
		if at := l.at(t); i == 0 || at > now {
			now = at
		}
	}
	return now
}

// until returns how long it takes until an instant; less than 0 if it is past.
func (c *clock) until(at plan.Ticks) time.Duration {
	return time.Duration(at-c.now()) * time.Microsecond
}
