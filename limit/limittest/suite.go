package limittest

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Harness is how the suite handles one kind of store. Only Open is needed; what
// is nil the store cannot do, and the properties that need it are skipped.
type Harness struct {
	// Open returns a new store that is empty and shares nothing with others.
	// The suite closes it.
	Open func(t testing.TB) limit.Store
	// Reopen returns a second client on the data of the last Open, also after
	// the first was closed. nil: the states live and die with their client.
	Reopen func(t testing.TB) limit.Store
	// Advance moves the clock of the last Open's clients forwards by d; it
	// stands still otherwise. nil: the clock runs, and the suite waits.
	Advance func(t testing.TB, d time.Duration)
	// Break cuts the connection to the data of the last Open until repair is
	// called. nil: there is no connection.
	Break func(t testing.TB) (repair func())
}

// patience bounds everything that a test waits for.
const patience = 30 * time.Second

// budget bounds what a test does many times over or with random input: on a
// slow store it does so less often.
const budget = 2 * time.Second

// Run holds the stores of h against every property of the contract.
func Run(t *testing.T, h Harness) {
	for _, property := range []struct {
		name  string
		check func(t *testing.T, h Harness)
	}{
		{"an absent key is the zero State", absent},
		{"States come back as they were", roundTrip},
		{"keys are compared byte by byte", hostileKeys},
		{"an error of fn keeps nothing", failingFn},
		{"several keys change together or not at all", allOrNothing},
		{"a Scattered store knows which keys go together", scattered},
		{"opposite orders of keys do not deadlock", oppositeOrders},
		{"a quota is spent exactly once", exactQuota},
		{"time never goes back for a key", monotonicTime},
		{"a State lives as long as its TTL", expiry},
		{"a context ends a call with at most one effect", cancellation},
		{"a Taker decides like the algorithm", taker},
		{"a BulkTaker decides like the algorithm", bulkTaker},
		{"a Swapper commits what nobody has changed", swapper},
		{"what a Notifier says is heard", notifier},
		{"decision scripts", decisions},
		{"States survive their client", durability},
		{"a lost connection is told truthfully", brokenConnection},
		{"a closed store says so and leaves nothing running", closing},
		{"a Lister yields each live key once", listing},
		{"takes of one key are linearizable", linearizability},
	} {
		t.Run(property.name, func(t *testing.T) { property.check(t, h) })
	}
}

// open opens a store for one test.
func (h Harness) open(t testing.TB) limit.Store {
	t.Helper()
	return closed(t, h.Open(t))
}

// clients opens a store and returns two clients of it: the same one twice if
// there can be no second.
func (h Harness) clients(t testing.TB) [2]limit.Store {
	t.Helper()
	first := h.open(t)
	if h.Reopen == nil {
		return [2]limit.Store{first, first}
	}
	return [2]limit.Store{first, closed(t, h.Reopen(t))}
}

func closed(t testing.TB, s limit.Store) limit.Store {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// pause lets d pass for the store.
func (h Harness) pause(t testing.TB, d time.Duration) {
	if h.Advance != nil {
		h.Advance(t, d)
		return
	}
	time.Sleep(d)
}

// timeout returns a context that ends the test's calls rather than the test.
func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// update changes the cells of keys and marks them dirty, with a TTL of a day
// where change sets none.
func update(t testing.TB, s limit.Store, change func(cells []limit.Cell), keys ...string) {
	t.Helper()
	err := s.Update(t.Context(), keys, func(_ algo.Ticks, cells []limit.Cell) error {
		for i := range cells {
			cells[i].TTL, cells[i].Dirty = algo.Day, true
		}
		change(cells)
		return nil
	})
	if err != nil {
		t.Fatalf("update of %q: %v", keys, err)
	}
}

func put(t testing.TB, s limit.Store, state algo.State, ttl algo.Ticks, keys ...string) {
	t.Helper()
	update(t, s, func(cells []limit.Cell) {
		for i := range cells {
			cells[i].State, cells[i].TTL = state, ttl
		}
	}, keys...)
}

// look returns the State of key and the store's time.
func look(t testing.TB, s limit.Store, key string) (state algo.State, now algo.Ticks) {
	t.Helper()
	err := s.Update(t.Context(), []string{key}, func(at algo.Ticks, cells []limit.Cell) error {
		state, now = cells[0].State, at
		return nil
	})
	if err != nil {
		t.Fatalf("update of %q: %v", key, err)
	}
	return state, now
}

func count(cells []limit.Cell) {
	for i := range cells {
		cells[i].State.A++
	}
}

// countUp is count of cells that are to be committed.
func countUp(cells []limit.Cell) {
	count(cells)
	for i := range cells {
		cells[i].TTL, cells[i].Dirty = algo.Day, true
	}
}

// storeError reports an error of the test unless err is a *limit.StoreError, one
// that wraps want if want is not nil.
func storeError(t testing.TB, op string, err, want error) *limit.StoreError {
	t.Helper()
	fault, ok := errors.AsType[*limit.StoreError](err)
	switch {
	case !ok:
		t.Errorf("%s: got error %v (%T), want a *limit.StoreError", op, err, err)
		return new(limit.StoreError)
	case want != nil && !errors.Is(err, want):
		t.Errorf("%s: got error %v, want one that is %q", op, err, want)
	case fault.Store == "" || fault.Op == "":
		t.Errorf("%s: %+v names no store or no operation", op, fault)
	}
	return fault
}

// year is a policy whose window does not end while a test runs.
func year(a *algo.Algorithm, quota int64) *limit.Policy {
	return &limit.Policy{Name: "year", Algorithm: a, Quota: quota, Window: 365 * 24 * time.Hour}
}

// extremes are the States that are hardest to keep.
var extremes = []algo.State{
	{},
	{At: math.MaxInt64, A: math.MaxInt64, B: math.MaxInt64},
	{At: math.MinInt64, A: math.MinInt64, B: math.MinInt64},
	{At: 1<<53 + 1, A: -1, B: 1<<53 + 1},
	algo.State{A: 1}.WithEntries("\x00"),
	algo.State{A: 1}.WithEntries(everyByte(64 << 10)),
}

func everyByte(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return string(b)
}
