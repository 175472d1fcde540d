// Package readahead is for ledgers in a database: it says how many windows to read
// at once, and guesses which ones a transaction will need, so that they can be read
// in the trip that begins it.
package readahead

import (
	"cmp"
	"slices"
	"sync"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// MostRuns bounds how many runs of full windows are read at once.
const MostRuns = 256

// Bounds of how many windows are: so many, of so many bytes together unless it is
// one. A window that is empty is not read at all, so few are no fewer than that.
const (
	mostWindows = 4096
	mostBytes   = 64 << 10
	fewWindows  = 64
)

// Bounded returns how many windows to read if n are needed: a few more or, if those
// of the config may be large, fewer. It is 1 or more.
func Bounded(n int64, c *slots.Config) int {
	bytes := 1
	for _, v := range c.Versions {
		bytes = max(bytes, (v.Max+7)/8)
	}
	return int(max(1, min(max(n, fewWindows), mostWindows, int64(mostBytes/bytes))))
}

// Windows is what was read of an era, from a window on. The zero value knows nothing.
type Windows struct {
	Era  int
	From int64
	plan.Chunk
}

// Has reports whether w knows the first window of n.
func (w *Windows) Has(n plan.Need) bool {
	return w.Era == n.Era && w.From <= n.From && n.From < w.To
}

// Answer returns what w, which has the first window of n, says to n.
func (w *Windows) Answer(n plan.Need) plan.Chunk {
	i, _ := slices.BinarySearchFunc(w.Taken, n.From, func(w plan.Window, k int64) int { return cmp.Compare(w.Index, k) })
	return plan.Chunk{To: w.To, Full: plan.Runs(w.Full).From(n.From), Taken: w.Taken[i:]}
}

// Use is which windows of a config the last transactions have used. The zero value
// is that nothing is known.
type Use struct {
	// Config is the id by which the database knows the config.
	Config int64
	Era    int
	// From is the first window, and To the one after the last.
	From, To int64
}

// Add notes that a transaction has asked for n.
func (u *Use) Add(config int64, n plan.Need) {
	if *u == (Use{}) {
		*u = Use{config, n.Era, n.From, n.From + 1}
	}
}

// Guess returns what a transaction for so many events will need; of no windows if
// that can't be guessed.
func (u Use) Guess(events int, c *slots.Config) plan.Need {
	if u == (Use{}) || events == 0 || c == nil || len(c.Versions) == 0 {
		return plan.Need{}
	}
	most := c.Versions[len(c.Versions)-1].Max
	n := max(u.To-u.From, int64(events/most+2))
	return plan.Need{Era: u.Era, From: u.From, Windows: Bounded(n, c)}
}

// then returns what u becomes by the use of a transaction: all of it, and of what
// it did not use seven eighths.
func (u Use) then(now Use) Use {
	if u.Config != now.Config || u.Era != now.Era {
		return now
	}
	return Use{u.Config, u.Era, min(now.From, u.From+(now.From-u.From+7)/8), max(now.To, u.To-(u.To-now.To+7)/8)}
}

// Uses remembers the Use of configs, by their names. The zero value is ready to use.
// It is safe for simultaneous use.
type Uses struct {
	mu   sync.Mutex
	uses map[string]Use
}

// mostUses bounds of how many configs the Use is remembered.
const mostUses = 1000

// Last returns what is remembered of a config.
func (u *Uses) Last(config string) Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.uses[config]
}

// Remember notes what a transaction has used that has made changes, if anything.
func (u *Uses) Remember(config string, used Use, changes *slots.Changes) {
	if used == (Use{}) {
		return
	}
	for _, w := range changes.Windows {
		if w.Era == used.Era {
			used.To = max(used.To, w.Index+1)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.uses == nil || len(u.uses) >= mostUses {
		u.uses = make(map[string]Use)
	}
	u.uses[config] = u.uses[config].then(used)
}
