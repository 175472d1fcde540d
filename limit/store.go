package limit

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/stint-dev/stint/limit/algo"
)

// MaxKeyLen is the most bytes that a store's key may have. It is what the
// strictest database takes in an index without tricks.
const MaxKeyLen = 512

// Errors that a Store returns, wrapped in a [StoreError].
var (
	// ErrClosed: the store was used after Close.
	ErrClosed = errors.New("store is closed")
	// ErrKeyLen: a key is empty or longer than MaxKeyLen. Nothing was changed.
	ErrKeyLen = fmt.Errorf("key must have 1 to %d bytes", MaxKeyLen)
)

// Store keeps one State per key. A key is any string of 1 to MaxKeyLen bytes,
// compared byte by byte.
//
// All methods are safe for simultaneous use. An error means that the store
// could not answer; it is a *StoreError. limittest.Run is the definition of
// what a Store must do.
type Store interface {
	// Update calls fn with one Cell for each of keys, in the order of keys,
	// and commits the dirty ones, all or nothing. The keys are distinct.
	//
	// now is the store's own clock, never the caller's, and is read after
	// whatever lock protects the cells is held. fn must be pure: it may run
	// more than once, and only its last run counts. It must not call the store,
	// and the cells are valid only while it runs. If fn returns an error,
	// nothing is kept and Update returns that error as it is.
	Update(ctx context.Context, keys []string, fn func(now algo.Ticks, cells []Cell) error) error
	// Delete forgets keys. A key that is not there is no error.
	Delete(ctx context.Context, keys ...string) error
	// Ping reports whether the store can answer now.
	Ping(ctx context.Context) error
	// Close releases the store. What is under way ends with or without an
	// effect; everything later is ErrClosed. A second Close does nothing.
	Close() error
}

// Cell is the State of one key during an Update.
type Cell struct {
	// Key is the key as given to Update.
	Key string
	// State is what is kept: the zero State if the key is unknown or expired.
	State algo.State
	// TTL is how long after now a changed State must be kept; after that the
	// store may drop it. 0 or less drops it at once.
	TTL algo.Ticks
	// Dirty says that State and TTL were changed and are to be committed.
	Dirty bool
	// Version is a Swapper's mark of the State as it was loaded; 0 if there is
	// none. Only the store that has set it can read it. Update ignores it.
	Version int64
}

// Taker is an optional fast path of a store in this process: it decides one
// spend by itself, without Update. Its verdicts must equal those of p's
// algorithm on any history; limittest compares them. A Limiter calls a Taker
// directly, from every goroutine, and neither combines nor remembers denials
// in front of it.
//
// The store key is StoreKey(p, key).
type Taker interface {
	Take(ctx context.Context, p *Policy, key string, cost int64) (algo.Verdict, error)
}

// BulkTaker is an optional fast path of a store that is a network away: it
// decides the spends of many keys by itself, in one trip.
type BulkTaker interface {
	// TakesBulk reports whether TakeBulk can spend cost under p. Where it
	// cannot, Update is used.
	TakesBulk(p *Policy, cost int64) bool
	// TakeBulk does each of takes on its own and sets its results. The keys
	// are distinct. After an error none of the results is valid.
	TakeBulk(ctx context.Context, takes []Take) error
}

// Take is one key's part of a TakeBulk.
type Take struct {
	Policy *Policy
	Key    string // the store's key
	Cost   int64  // 1 or more
	Times  int    // how often to spend Cost: as often as it is admitted, at most this
	// Before is what the store found, and Now its clock when it did. What
	// Policy.Decide makes of them, Times times over, is what the store has made.
	Before algo.State
	Now    algo.Ticks
}

// TakeByUpdate does those of takes that are not settled, by update, which does
// what Store.Update does. It is for a TakeBulk that cannot settle everything in
// its one trip.
func TakeByUpdate(takes []Take, settled []bool, update func(keys []string, fn func(now algo.Ticks, cells []Cell) error) error) error {
	var rest []*Take
	var keys []string
	for i := range takes {
		if !settled[i] {
			rest, keys = append(rest, &takes[i]), append(keys, takes[i].Key)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return update(keys, func(now algo.Ticks, cells []Cell) error {
		for i, t := range rest {
			t.spend(now, &cells[i])
		}
		return nil
	})
}

// spend spends from c as often as t asks for and c admits.
func (t *Take) spend(now algo.Ticks, c *Cell) {
	t.Before, t.Now = c.State, now
	for range t.Times {
		state, v := t.Policy.Decide(c.State, now, t.Cost)
		if !v.OK {
			return
		}
		c.State, c.TTL, c.Dirty = state, v.ResetAfter, true
	}
}

// Swapper is optional: a store that writes a State if nobody has changed it
// since it was loaded, of many keys in one trip.
type Swapper interface {
	// Swap commits each Dirty cell, on its own, if the store's Version of it
	// is still the cell's, and sets the cell's Version to the new one. Every
	// other cell is loaded: its State and Version become the store's, the zero
	// State and Version of a key that is unknown or has expired, and Dirty
	// becomes false. So those that are Dirty afterwards are committed, and those
	// that no longer are were changed by somebody else.
	//
	// The keys are distinct. now is the store's clock during the call. After an
	// error the cells are as undefined as what was committed, if it was Sent.
	Swap(ctx context.Context, cells []Cell) (now algo.Ticks, err error)
}

// Scattered is a store that cannot change every set of keys together, such as
// a cluster whose keys lie on several machines. A Limiter asks before it
// updates several keys, and spends under them one after another if it must,
// giving back what was spent before a denial.
type Scattered interface {
	Swapper
	// Together reports whether one Update can change keys all or nothing.
	Together(keys []string) bool
}

// Parallel is optional: a store that works on several updates at once.
type Parallel interface {
	// Parallel returns how many it does well to have under way, 1 or more.
	Parallel() int
}

// Notifier is optional: a store through which its clients can call out to
// each other. It makes them learn at once what they would find out soon.
type Notifier interface {
	// Notify sends message, of 1 to 64 bytes of printable ASCII, to everyone
	// who listens, itself too. One that is lost is no error.
	Notify(ctx context.Context, message string) error
	// Listen calls heard with each message, one at a time, until ctx ends or
	// the connection is lost, and returns why. It calls heard("") once it
	// listens: what was sent before that is not heard.
	Listen(ctx context.Context, heard func(message string)) error
}

// Lister is optional: a store that can name what it holds.
type Lister interface {
	// List yields every live cell whose key begins with prefix, once, in no
	// particular order. It sees what was there when it began; what changes
	// meanwhile may or may not be seen.
	List(ctx context.Context, prefix string) iter.Seq2[Cell, error]
}

// StoreError says that a store could not answer.
type StoreError struct {
	Store string // which store, such as "sqlite"
	Op    string // what was asked of it, such as "update"
	// Sent reports whether the request may have had its effect. If it is
	// false, nothing was changed and the caller can safely try again.
	Sent bool
	Err  error
}

func (e *StoreError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Store, e.Op, e.Err) }
func (e *StoreError) Unwrap() error { return e.Err }
