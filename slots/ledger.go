package slots

import (
	"context"
	"errors"
	"fmt"

	"github.com/stint-dev/stint/slots/plan"
)

// A Ledger keeps what is booked in a database. It decides nothing: a [Scheduler]
// does, in transactions that hold the lock of one config. now is the database's
// own clock, never the caller's.
//
// Whatever a Scheduler does wrong, the schema of a Ledger must refuse a second
// event in one slot, and a second slot for one event:
//
//	PRIMARY KEY (config, era, window, phase), UNIQUE (config, event)
//
// Methods are safe for simultaneous use. They return ErrNoConfig where there is no
// config of that name, and a *[LedgerError] for faults of the database. Names of
// configs and ids of events are compared byte by byte.
//
// slots/slotstest has the conformance suite.
type Ledger interface {
	// Begin starts a transaction. It waits until it alone has the lock of config,
	// and then reads the clock, those of ids that are known, and the config. An
	// id may be among ids more than once.
	// If cached, which may be nil, has its revision, that need not be read again.
	Begin(ctx context.Context, config string, ids []string, cached *Config) (Tx, error)
	// Create makes a config without versions, unless there is one of that name.
	Create(ctx context.Context, config string) error

	// Configs returns the configs whose names come after a name, in the order of
	// their names, and at most limit of them. For it and Config, one without
	// versions is not there.
	Configs(ctx context.Context, after string, limit int) ([]Config, error)
	// Config returns one config, and the clock.
	Config(ctx context.Context, name string) (Config, plan.Ticks, error)
	// Event returns what is known of one event, ErrNoEvent if nothing.
	Event(ctx context.Context, config, id string) (Event, error)
	// Events returns booked events in the order of their instants and then of
	// their ids: those of q, and at most q.Limit of them.
	Events(ctx context.Context, config string, q Query) ([]Event, error)
	// Count returns how many events are booked in each of n spans of time, each
	// step long, the first of them beginning at from.
	Count(ctx context.Context, config string, from, step plan.Ticks, n int) ([]int64, error)
}

// Tx is a transaction of a Ledger that holds the lock of a config. It is for one
// goroutine, and ends by Commit or Rollback, or with the context of its Begin.
type Tx interface {
	// Now is the clock, read after the lock was had.
	Now() plan.Ticks
	// Config is the config as it was then, with all its versions. It must not
	// be changed.
	Config() *Config
	// Known returns those of Begin's ids that are known.
	Known() map[string]Event

	// Expect says what Load will be asked for, in the order of eras and windows,
	// so that much of it may be read at once. Load answers the same without.
	Expect(needs []plan.Need)
	// Load and Strays tell what is booked.
	plan.Occupancy
	// Taken returns the phases that are taken in each of some windows of one
	// era, for the caller to change; those of an empty window may be left out.
	Taken(era int, windows []int64) ([]plan.Window, error)

	// Write makes changes, which Load, Strays and Taken show from then on.
	// Events that are both Freed and Booked move.
	Write(*Changes) error
	// Commit makes changes, if any, and ends the transaction. After an error
	// that is not Sent nothing of it has happened.
	Commit(*Changes) error
	// Rollback ends the transaction without effect. After Commit it does nothing.
	Rollback()
}

// Changes are what is to be written. Each part is written in the order in which
// they stand here.
type Changes struct {
	// Config, if not nil, is what the config becomes. Its Revision is greater than
	// that which was read. Its versions are those that were read, and new ones
	// at the end.
	Config *Config
	// Freed are events whose slots are given back. Those that are Cancelled
	// remain known by their ids.
	Freed []Event
	// Booked are events that get their slots.
	Booked []Event
	// Windows have what is taken in them; nothing is left to keep of one that
	// is empty.
	Windows []plan.Window
	// Reopened are cut out of the runs of full windows, and then Full are added,
	// in the place of what they overlap.
	Reopened, Full []plan.Run
	// Put and Removed are only for an Outbox, and only of configs that deliver or
	// did. What is Put takes the place of what the outbox has of that event, and is
	// leased to nobody; Config, Lease and Dead are not set. Removed are ids.
	Put     []Delivery
	Removed []string
}

// Query says which events are wanted.
type Query struct {
	From, Until plan.Ticks // From <= At < Until
	// After, if not nil, is the last event of the page before.
	After *Event
	Limit int // 1 or more
}

// Faults that are the caller's.
var (
	ErrNoConfig  = errors.New("no such config")
	ErrNoEvent   = errors.New("no such event")
	ErrCancelled = errors.New("the event was cancelled")
	ErrClosed    = errors.New("closed")
)

// LedgerError is a fault of the database.
type LedgerError struct {
	Store string // such as "postgres"
	Op    string // such as "begin"
	// Sent says that what was to be written may have been.
	Sent bool
	Err  error
}

func (e *LedgerError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Store, e.Op, e.Err) }
func (e *LedgerError) Unwrap() error { return e.Err }
