package slotstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// Harness is how the suite handles one kind of ledger. Only Open is needed; what
// is nil the ledger cannot do, and the properties that need it are skipped.
type Harness struct {
	// Open returns a ledger on data of its own, which are empty, and the store
	// that it belongs to. The suite closes that, perhaps more than once.
	Open func(t testing.TB) (slots.Ledger, io.Closer)
	// Reopen returns a second client on the data of the last Open, also after
	// the first was closed. nil: the data live and die with their client.
	Reopen func(t testing.TB) (slots.Ledger, io.Closer)
	// Advance moves the clock of the last Open's clients forwards by d; it
	// stands still otherwise. nil: the clock runs.
	Advance func(t testing.TB, d time.Duration)
	// Break cuts the connection to the data of the last Open until repair is
	// called. nil: there is no connection.
	Break func(t testing.TB) (repair func())
	// OneWriter says that whoever has the lock of one config has those of all
	// others, too.
	OneWriter bool
}

// patience bounds everything that a test waits for.
var patience = 30 * time.Second

// Run holds the ledgers of h against every property of the contract.
func Run(t *testing.T, h Harness) {
	for _, property := range []struct {
		name  string
		check func(t *testing.T, h Harness)
	}{
		{"a config is made once and read back", configs},
		{"configs are listed by name", configList},
		{"what is not known is told", unknown},
		{"a revision is believed, and nothing else", cachedConfig},
		{"what is booked is known and occupied", bookings},
		{"Load tells runs whole and windows truly", loads},
		{"Strays are those asked for, in the order of time", strays},
		{"what is written shows in its transaction alone", writes},
		{"what is rolled back has never been", rollbacks},
		{"the schema refuses what cannot be, and all that goes with it", refusals},
		{"what is cancelled is known, and its slot is free", cancellations},
		{"events move", moves},
		{"Events come in order, page by page", pages},
		{"Count counts", counts},
		{"ids are compared byte by byte", hostileIDs},
		{"names are compared byte by byte", hostileNames},
		{"thousands of events go in one transaction", large},
		{"one config has one transaction at a time", exclusion},
		{"configs do not wait for each other", independence},
		{"a context ends the wait for a lock, and leaves none", waiting},
		{"a transaction ends with its context", abandoned},
		{"the clock is the ledger's", clock},
		{"random changes leave what they say", history},
		{"schedulers fill window after window", oneInstant},
		{"schedulers book what an optimal assignment would", optimal},
		{"one event raced for gets one slot", raced},
		{"schedulers cancel and move without a loss", churn},
		{"schedulers follow a config that changes", reconfigured},
		{"what is booked survives its client", durability},
		{"a lost connection is told truthfully", brokenConnection},
		{"a closed ledger says so", closing},
		{"what is to be delivered is claimed when it is due, once", claims},
		{"a lease is for one, and has an end", leases},
		{"dead letters are listed, page by page", deadLetters},
		{"what is to be delivered goes with its transaction", outboxTx},
		{"deliveries are told apart byte by byte", outboxIDs},
		{"of many who claim at once each has its own", outboxRace},
		{"schedulers put what is booked into the outbox", outboxBooked},
		{"schedulers postpone what was not delivered", postponed},
		{"an outbox without a connection says so", outboxBroken},
		{"a closed outbox says so", outboxClosed},
	} {
		t.Run(property.name, func(t *testing.T) { property.check(t, h) })
	}
}

// open opens a ledger for one test.
func (h Harness) open(t testing.TB) slots.Ledger {
	t.Helper()
	return closed(t, h.Open)
}

// clients opens a ledger and returns two clients of it: the same one twice if
// there can be no second.
func (h Harness) clients(t testing.TB) [2]slots.Ledger {
	t.Helper()
	first := h.open(t)
	if h.Reopen == nil {
		return [2]slots.Ledger{first, first}
	}
	return [2]slots.Ledger{first, closed(t, h.Reopen)}
}

func closed(t testing.TB, open func(t testing.TB) (slots.Ledger, io.Closer)) slots.Ledger {
	t.Helper()
	l, store := open(t)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// timeout returns a context that ends the test's calls rather than the test.
func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// begin begins a transaction that is rolled back with the test.
func begin(t testing.TB, l slots.Ledger, config string, ids ...string) slots.Tx {
	t.Helper()
	tx, err := l.Begin(timeout(t), config, ids, nil)
	if err != nil {
		t.Fatalf("begin on %q: %v", config, err)
	}
	t.Cleanup(tx.Rollback)
	return tx
}

// commit makes changes in a transaction of their own.
func commit(t testing.TB, l slots.Ledger, config string, c *slots.Changes) {
	t.Helper()
	if err := begin(t, l, config).Commit(c); err != nil {
		t.Fatalf("commit to %q: %v", config, err)
	}
}

// create makes a config with one version, by the ledger alone.
func create(t testing.TB, l slots.Ledger, config string) {
	t.Helper()
	if err := l.Create(timeout(t), config); err != nil {
		t.Fatalf("create of %q: %v", config, err)
	}
	tx := begin(t, l, config)
	c := slots.Config{Name: config, Revision: tx.Config().Revision + 1, Versions: []slots.Version{fourSeconds(100)}}
	if err := tx.Commit(&slots.Changes{Config: &c}); err != nil {
		t.Fatalf("first version of %q: %v", config, err)
	}
}

// fourSeconds is a version with windows of 4s.
func fourSeconds(most int) slots.Version {
	return slots.Version{Version: plan.Version{Max: most, Window: 4 * plan.Second}}
}

// noon is when the tests' own events are.
var noon = plan.At(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC))

// event is one in a slot of the first era; every phase is a microsecond.
func event(id string, window int64, phase int) slots.Event {
	return slots.Event{
		ID:        id,
		Requested: noon,
		Booked:    noon - plan.Second,
		Slot:      plan.Slot{Window: window, Phase: phase, At: noon + plan.Ticks(window)*plan.Second + plan.Ticks(phase)},
	}
}

// cancelled is e after it was cancelled.
func cancelled(e slots.Event) slots.Event {
	e.Cancelled = e.Booked + 1
	return e
}

// bits is a set of phases.
func bits(phases ...int) (b plan.Bits) {
	for _, j := range phases {
		b = b.With(j)
	}
	return b
}

// same reports an error of the test unless got is want.
func same[T any](t testing.TB, what string, want, got T) bool {
	t.Helper()
	diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Transformer("bits", func(b plan.Bits) string { return string(b) }))
	if diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	return diff == ""
}

// is reports an error of the test unless err is want.
func is(t testing.TB, what string, want, err error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %q", what, err, want)
	}
}

// fault reports an error of the test unless err is a *slots.LedgerError, one that
// wraps want if want is not nil.
func fault(t testing.TB, op string, err, want error) *slots.LedgerError {
	t.Helper()
	fault, ok := errors.AsType[*slots.LedgerError](err)
	switch {
	case !ok:
		t.Errorf("%s: got error %v (%T), want a *slots.LedgerError", op, err, err)
		return new(slots.LedgerError)
	case want != nil && !errors.Is(err, want):
		t.Errorf("%s: got error %v, want one that is %q", op, err, want)
	case fault.Store == "" || fault.Op == "":
		t.Errorf("%s: %+v names no store or no operation", op, fault)
	}
	return fault
}

// unsent is fault of what has changed nothing for certain.
func unsent(t testing.TB, op string, err, want error) {
	t.Helper()
	if fault(t, op, err, want).Sent {
		t.Errorf("%s: %v says that it was sent", op, err)
	}
}

// lookUp returns one event.
func lookUp(t testing.TB, l slots.Ledger, config, id string) slots.Event {
	t.Helper()
	e, err := l.Event(timeout(t), config, id)
	if err != nil {
		t.Errorf("event %q of %q: %v", id, config, err)
	}
	return e
}

// list returns all the events of a config.
func list(t testing.TB, l slots.Ledger, config string) []slots.Event {
	t.Helper()
	return inPages(t, l, config, 1000)
}

func inPages(t testing.TB, l slots.Ledger, config string, limit int) []slots.Event {
	t.Helper()
	events, err := allEvents(timeout(t), l, config, limit)
	if err != nil {
		t.Fatalf("events of %q: %v", config, err)
	}
	return events
}

// numbered returns n ids.
func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("event %06d", i)
	}
	return ids
}
