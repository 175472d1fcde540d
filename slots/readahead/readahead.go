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

// Bounds of what is read at once of windows that are expected: so many places, and so
// many bytes together unless it is one. Places that are no further apart than a few
// windows are one.
const (
	mostPlaces      = 256
	mostPlacesBytes = 1 << 20
	nearWindows     = 4
)

// Bounded returns how many windows to read if n are needed: a few more or, if those
// of the config may be large, fewer. It is 1 or more.
func Bounded(n int64, c *slots.Config) int {
	return int(max(1, min(max(n, fewWindows), mostWindows, int64(mostBytes/bytesOf(c)))))
}

// bytesOf returns how large a window of c may be.
func bytesOf(c *slots.Config) int {
	bytes := 1
	for _, v := range c.Versions {
		bytes = max(bytes, (v.Max+7)/8)
	}
	return bytes
}

// Windows is what was read of an era, from a window on. The zero value knows nothing.
type Windows struct {
	Era  int
	From int64
	plan.Chunk
}

// has reports whether w knows the first window of n.
func (w *Windows) has(n plan.Need) bool {
	return w.Era == n.Era && w.From <= n.From && n.From < w.To
}

// answer returns what w, which has the first window of n, says to n.
func (w *Windows) answer(n plan.Need) plan.Chunk {
	i, _ := slices.BinarySearchFunc(w.Taken, n.From, func(w plan.Window, k int64) int { return cmp.Compare(w.Index, k) })
	return plan.Chunk{To: w.To, Full: plan.Runs(w.Full).From(n.From), Taken: w.Taken[i:]}
}

// Ahead is what a transaction has read, and what it will be asked for. The zero value
// is nothing.
type Ahead struct {
	read     []Windows
	expected []plan.Need
}

// Expect notes what will be asked for, in the order of eras and windows.
func (a *Ahead) Expect(needs []plan.Need) { a.expected = needs }

// Scattered reports whether what is expected lies in several places: the next
// transaction will not look there.
func (a *Ahead) Scattered() bool {
	if len(a.expected) == 0 {
		return false
	}
	first, last := a.expected[0], a.expected[len(a.expected)-1]
	return first.Era != last.Era || last.From-first.From > fewWindows
}

// Read notes what was read last.
func (a *Ahead) Read(read ...Windows) { a.read = read }

// Forget forgets what was read, which has changed.
func (a *Ahead) Forget() { a.read = nil }

// Answer returns what was read of n; ok is false if its first window was not.
func (a *Ahead) Answer(n plan.Need) (c plan.Chunk, ok bool) {
	for i := range a.read {
		if w := &a.read[i]; w.has(n) {
			return w.answer(n), true
		}
	}
	return plan.Chunk{}, false
}

// Next returns what to read when n is asked for and was not read: n itself, and what is
// expected after it, as much as is good to read at once.
func (a *Ahead) Next(n plan.Need, c *slots.Config) []plan.Need {
	i, expected := slices.BinarySearchFunc(a.expected, n, func(e, n plan.Need) int {
		return cmp.Or(cmp.Compare(e.Era, n.Era), cmp.Compare(e.From, n.From))
	})
	if !expected || i == len(a.expected)-1 {
		n.Windows = Bounded(int64(n.Windows), c)
		return []plan.Need{n}
	}
	// One more each, for an instant may lie after the last slot of its window.
	bytes := bytesOf(c)
	n.Windows = max(1, min(max(n.Windows, a.expected[i].Windows)+1, mostBytes/bytes))
	next, windows := []plan.Need{n}, n.Windows
	for _, e := range a.expected[i+1:] {
		e.Windows++
		last := &next[len(next)-1]
		gap := int(e.From - last.From - int64(last.Windows))
		near, more := e.Era == last.Era && gap <= nearWindows, e.Windows
		if near {
			more = max(0, gap+e.Windows)
		}
		if windows += more; windows*bytes > mostPlacesBytes || !near && len(next) == mostPlaces {
			break
		}
		if near {
			last.Windows += more
		} else {
			next = append(next, e)
		}
	}
	return next
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
