package slotstest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/slotstest"
)

// fault is a mistake that a ledger may make. It is found by one property.
type fault struct {
	name, property string
	ledger         faultyLedger
}

var faults = []fault{
	{"keeps seeds in floating point", made, writing(func(c *slots.Changes) {
		eachVersion(c, func(v *slots.Version) { v.Seed = uint64(float64(v.Seed)/2) * 2 })
	})},
	{"keeps no calendar", made, writing(func(c *slots.Changes) {
		eachVersion(c, func(v *slots.Version) { v.Calendar = nil })
	})},
	{"leaves a pause", made, writing(func(c *slots.Changes) {
		if c.Config != nil && c.Config.PausedUntil == 0 && len(c.Config.Versions) > 1 {
			c.Config.PausedUntil = 1
		}
	})},
	{"lists configs from a name, included", "configs are listed by name", func(_ *server, l slots.Ledger) slots.Ledger { return inclusive{l} }},
	{"finds nothing where nothing is", "what is not known is told", func(_ *server, l slots.Ledger) slots.Ledger { return indifferent{l} }},
	{"believes the caller", "a revision is believed, and nothing else", func(_ *server, l slots.Ledger) slots.Ledger { return gullible{l} }},
	{"knows who was booked by this client", booked, func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return amnesiac{t} }}
	}},
	{"keeps windows of 64 KB", booked, writing(func(c *slots.Changes) {
		c.Windows = slices.Clone(c.Windows)
		for i, w := range c.Windows {
			c.Windows[i].Taken = w.Taken[:min(len(w.Taken), 1<<16-1)]
		}
	})},
	{"cuts runs to what was asked for", loaded, reading(func(t slots.Tx, n plan.Need) (plan.Chunk, error) {
		c, err := t.Load(n)
		c.Full = slices.Clone(c.Full)
		for i := range c.Full {
			c.Full[i].From = max(c.Full[i].From, n.From)
		}
		return c, err
	})},
	{"forgets the run that has begun", loaded, reading(func(t slots.Tx, n plan.Need) (plan.Chunk, error) {
		c, err := t.Load(n)
		if len(c.Full) > 0 && c.Full[0].From < n.From {
			c.Full = c.Full[1:]
		}
		return c, err
	})},
	{"knows one window less than it says", loaded, reading(func(t slots.Tx, n plan.Need) (plan.Chunk, error) {
		c, err := t.Load(n)
		c.To++
		return c, err
	})},
	{"takes what lies between two expectations for read", "random changes leave what they say", func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return &expectant{Tx: t} }}
	}},
	{"adds what is full before it cuts", loaded, writing(func(c *slots.Changes) {
		var left []plan.Run
		for _, r := range c.Full {
			rest := plan.Runs{r}
			for _, cut := range c.Reopened {
				if cut.Era == r.Era {
					rest = rest.Cut(cut)
				}
			}
			left = append(left, rest...)
		}
		c.Full = left
	})},
	{"takes a phase for an era", strayed, straying(func(t slots.Tx, era, phase int, from, to plan.Ticks) ([]plan.Slot, error) {
		return t.Strays(era, 1<<30, from, to)
	})},
	{"tells strays by place", strayed, straying(func(t slots.Tx, era, phase int, from, to plan.Ticks) ([]plan.Slot, error) {
		strays, err := t.Strays(era, phase, from, to)
		slices.SortFunc(strays, func(a, b plan.Slot) int { return a.Phase - b.Phase })
		return strays, err
	})},
	{"writes when it commits", "what is written shows in its transaction alone", func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return &lazy{Tx: t} }}
	}},
	{"keeps what was rolled back", "what is rolled back has never been", func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return stubborn{t} }}
	}},
	{"commits in two steps", refused, func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return &twoSteps{t, l} }}
	}},
	{"leaves out what is there already", refused, writing(func(c *slots.Changes) {
		var kept []slots.Event
		for _, e := range c.Booked {
			if !slices.ContainsFunc(kept, func(o slots.Event) bool { return o.ID == e.ID || o.Window == e.Window && o.Phase == e.Phase }) {
				kept = append(kept, e)
			}
		}
		c.Booked = kept
	})},
	{"forgets who was cancelled", gone, writing(func(c *slots.Changes) {
		c.Freed = slices.Clone(c.Freed)
		for i := range c.Freed {
			c.Freed[i].Cancelled = 0
		}
	})},
	{"keeps the slots of who was cancelled", gone, writing(func(c *slots.Changes) {
		c.Freed = slices.DeleteFunc(slices.Clone(c.Freed), func(e slots.Event) bool { return e.Cancelled != 0 })
	})},
	{"pages by time alone", paged, listing(func(l slots.Ledger, ctx context.Context, config string, q slots.Query) ([]slots.Event, error) {
		if q.After != nil {
			q.From, q.After = max(q.From, q.After.At+1), nil
		}
		return l.Events(ctx, config, q)
	})},
	{"orders events by time alone", paged, listing(func(l slots.Ledger, ctx context.Context, config string, q slots.Query) ([]slots.Event, error) {
		events, err := l.Events(ctx, config, q)
		slices.Reverse(events)
		slices.SortStableFunc(events, func(a, b slots.Event) int { return int(a.At - b.At) })
		return events, err
	})},
	{"lists from an instant, excluded", paged, listing(func(l slots.Ledger, ctx context.Context, config string, q slots.Query) ([]slots.Event, error) {
		q.From++
		return l.Events(ctx, config, q)
	})},
	{"counts from an instant, excluded", "Count counts", func(_ *server, l slots.Ledger) slots.Ledger { return miscounting{l} }},
	{"folds case", "ids are compared byte by byte", renaming(strings.ToLower)},
	{"trims blanks", "ids are compared byte by byte", renaming(func(id string) string { return strings.TrimRight(id, " ") + "." })},
	{"composes Unicode", "ids are compared byte by byte", renaming(func(id string) string { return strings.ReplaceAll(id, "e\u0301", "\u00e9") })},
	{"takes the first thousand ids", "thousands of events go in one transaction", func(_ *server, l slots.Ledger) slots.Ledger { return shortWinded{l} }},
	{"has no lock", "one config has one transaction at a time", unlocking},
	{"has no lock", "schedulers fill window after window", unlocking},
	{"has one lock for all configs", "configs do not wait for each other", func() faultyLedger {
		lock := make(chan struct{}, 1)
		return func(_ *server, l slots.Ledger) slots.Ledger { return oneLock{l, lock} }
	}()},
	{"waits for ever", "a context ends the wait for a lock, and leaves none", func(_ *server, l slots.Ledger) slots.Ledger { return deaf{l} }},
	{"gets the lock when nobody wants it any more", "a context ends the wait for a lock, and leaves none", func(_ *server, l slots.Ledger) slots.Ledger { return late{l} }},
	{"survives its context", "a transaction ends with its context", func(_ *server, l slots.Ledger) slots.Ledger { return immortal{l} }},
	{"reads the clock before it has the lock", ownClock, func(s *server, l slots.Ledger) slots.Ledger { return early{l, s} }},
	{"tells the time of its caller", ownClock, func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return callersTime{t} }}
	}},
	{"keeps what was taken in windows that are empty", "random changes leave what they say", writing(func(c *slots.Changes) {
		c.Windows = slices.DeleteFunc(slices.Clone(c.Windows), func(w plan.Window) bool { return len(w.Taken) == 0 })
	})},
	{"loses a window now and then", "schedulers book what an optimal assignment would", func() faultyLedger {
		var n atomic.Int64
		return writing(func(c *slots.Changes) {
			if n.Add(1)%10 == 0 {
				c.Windows = nil
			}
		})
	}()},
	{"never reopens a run", churned, writing(func(c *slots.Changes) { c.Reopened = nil })},
	{"books what it has cancelled", churned, func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return forgiving{t} }}
	}},
	{"reads a config once", "schedulers follow a config that changes", func(_ *server, l slots.Ledger) slots.Ledger { return gullible{l} }},
	{"forgets with its client", "what is booked survives its client", func(s *server, l slots.Ledger) slots.Ledger { return forgetful{l, s} }},
	{"denies what it has sent", "a lost connection is told truthfully", func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return denying{t} }}
	}},
	{"goes on when it is closed", "a closed ledger says so", func(s *server, l slots.Ledger) slots.Ledger { return open{s.data, l.(io.Closer)} }},
}

const (
	made     = "a config is made once and read back"
	booked   = "what is booked is known and occupied"
	loaded   = "Load tells runs whole and windows truly"
	strayed  = "Strays are those asked for, in the order of time"
	refused  = "the schema refuses what cannot be, and all that goes with it"
	gone     = "what is cancelled is known, and its slot is free"
	paged    = "Events come in order, page by page"
	ownClock = "the clock is the ledger's"
	churned  = "schedulers cancel and move without a loss"
)

const faultNumber = "STINT_TEST_FAULT"

// TestFaultyLedger fails, as it should. TestRunFindsFaults runs it.
func TestFaultyLedger(t *testing.T) {
	var number int
	if _, err := fmt.Sscan(os.Getenv(faultNumber), &number); err != nil {
		t.Skip("runs only when " + faultNumber + " is set")
	}
	slotstest.Impatient()
	slotstest.Run(t, (&server{fault: faults[number].ledger}).harness())
}

func TestRunFindsFaults(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for number, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			property := strings.ReplaceAll(f.property, " ", "_")
			cmd := exec.CommandContext(t.Context(), self, "-test.timeout", "1m", "-test.run", "^TestFaultyLedger$/^"+regexp.QuoteMeta(property)+"$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", faultNumber, number))
			out, err := cmd.CombinedOutput()
			want := "--- FAIL: TestFaultyLedger/" + property
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("a ledger that %s passes; want a line with %q. Its output:\n%s", f.name, want, out)
			}
		})
	}
}

// wrapped puts something in front of each transaction.
type wrapped struct {
	slots.Ledger
	wrap func(slots.Tx) slots.Tx
}

func (w wrapped) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	tx, err := w.Ledger.Begin(ctx, config, ids, cached)
	if err != nil {
		return nil, err
	}
	return w.wrap(tx), nil
}

// writing spoils what is written.
func writing(spoil func(c *slots.Changes)) faultyLedger {
	return func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return spoiling{t, spoil} }}
	}
}

type spoiling struct {
	slots.Tx
	spoil func(c *slots.Changes)
}

func (s spoiling) spoiled(c *slots.Changes) *slots.Changes {
	if c == nil {
		return nil
	}
	copied := *c
	if c.Config != nil {
		config := *c.Config
		copied.Config = &config
	}
	s.spoil(&copied)
	return &copied
}

func (s spoiling) Write(c *slots.Changes) error  { return s.Tx.Write(s.spoiled(c)) }
func (s spoiling) Commit(c *slots.Changes) error { return s.Tx.Commit(s.spoiled(c)) }

func eachVersion(c *slots.Changes, change func(*slots.Version)) {
	if c.Config != nil {
		c.Config.Versions = slices.Clone(c.Config.Versions)
		for i := range c.Config.Versions {
			change(&c.Config.Versions[i])
		}
	}
}

// reading spoils what Load tells.
func reading(load func(t slots.Tx, n plan.Need) (plan.Chunk, error)) faultyLedger {
	return func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return misreading{t, load} }}
	}
}

type misreading struct {
	slots.Tx
	load func(t slots.Tx, n plan.Need) (plan.Chunk, error)
}

func (m misreading) Load(n plan.Need) (plan.Chunk, error) { return m.load(m.Tx, n) }

// expectant reads for what is expected from the second on what it read for the first.
type expectant struct {
	slots.Tx
	expected []plan.Need
}

func (e *expectant) Expect(needs []plan.Need) { e.expected = needs }

func (e *expectant) Load(n plan.Need) (plan.Chunk, error) {
	if i := slices.Index(e.expected, n); i > 0 {
		c, err := e.Tx.Load(e.expected[0])
		c.To = max(c.To, n.From+1)
		return c, err
	}
	return e.Tx.Load(n)
}

// straying spoils what Strays tells.
func straying(strays func(t slots.Tx, era, phase int, from, to plan.Ticks) ([]plan.Slot, error)) faultyLedger {
	return func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return stray{t, strays} }}
	}
}

type stray struct {
	slots.Tx
	strays func(t slots.Tx, era, phase int, from, to plan.Ticks) ([]plan.Slot, error)
}

func (s stray) Strays(era, phase int, from, to plan.Ticks) ([]plan.Slot, error) {
	return s.strays(s.Tx, era, phase, from, to)
}

// listing spoils what Events tells.
func listing(events func(l slots.Ledger, ctx context.Context, config string, q slots.Query) ([]slots.Event, error)) faultyLedger {
	return func(_ *server, l slots.Ledger) slots.Ledger { return mislisting{l, events} }
}

type mislisting struct {
	slots.Ledger
	events func(l slots.Ledger, ctx context.Context, config string, q slots.Query) ([]slots.Event, error)
}

func (m mislisting) Events(ctx context.Context, config string, q slots.Query) ([]slots.Event, error) {
	return m.events(m.Ledger, ctx, config, q)
}

// renaming takes ids for others.
func renaming(rename func(id string) string) faultyLedger {
	return func(_ *server, l slots.Ledger) slots.Ledger { return renamer{l, rename} }
}

type renamer struct {
	slots.Ledger
	rename func(id string) string
}

func (r renamer) Event(ctx context.Context, config, id string) (slots.Event, error) {
	e, err := r.Ledger.Event(ctx, config, r.rename(id))
	e.ID = id
	return e, err
}

func (r renamer) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	var renamed []string
	for _, id := range ids {
		renamed = append(renamed, r.rename(id))
	}
	tx, err := r.Ledger.Begin(ctx, config, renamed, cached)
	if err != nil {
		return nil, err
	}
	known := make(map[string]slots.Event)
	for _, id := range ids {
		if e, ok := tx.Known()[r.rename(id)]; ok {
			e.ID = id
			known[id] = e
		}
	}
	return renamedTx{spoiling{tx, func(c *slots.Changes) {
		c.Freed, c.Booked = slices.Clone(c.Freed), slices.Clone(c.Booked)
		for _, events := range [][]slots.Event{c.Freed, c.Booked} {
			for i := range events {
				events[i].ID = r.rename(events[i].ID)
			}
		}
	}}, known}, nil
}

type renamedTx struct {
	spoiling
	known map[string]slots.Event
}

func (r renamedTx) Known() map[string]slots.Event { return r.known }

type inclusive struct{ slots.Ledger }

func (i inclusive) Configs(ctx context.Context, after string, limit int) ([]slots.Config, error) {
	if after != "" {
		after = after[:len(after)-1]
	}
	return i.Ledger.Configs(ctx, after, limit)
}

type indifferent struct{ slots.Ledger }

func (i indifferent) Events(ctx context.Context, config string, q slots.Query) ([]slots.Event, error) {
	events, err := i.Ledger.Events(ctx, config, q)
	if err == slots.ErrNoConfig {
		err = nil
	}
	return events, err
}

// gullible does not look at the revision of what the caller has.
type gullible struct{ slots.Ledger }

func (g gullible) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	tx, err := g.Ledger.Begin(ctx, config, ids, cached)
	if err != nil || cached == nil {
		return tx, err
	}
	return believing{tx, cached}, nil
}

type believing struct {
	slots.Tx
	config *slots.Config
}

func (b believing) Config() *slots.Config { return b.config }

type amnesiac struct{ slots.Tx }

func (amnesiac) Known() map[string]slots.Event { return nil }

type forgiving struct{ slots.Tx }

func (f forgiving) Known() map[string]slots.Event {
	known := make(map[string]slots.Event)
	for id, e := range f.Tx.Known() {
		if e.Cancelled == 0 {
			known[id] = e
		}
	}
	return known
}

// lazy writes all at the end.
type lazy struct {
	slots.Tx
	later []*slots.Changes
}

func (l *lazy) Write(c *slots.Changes) error {
	l.later = append(l.later, c)
	return nil
}

func (l *lazy) Commit(c *slots.Changes) error {
	for _, c := range l.later {
		if err := l.Tx.Write(c); err != nil {
			return err
		}
	}
	return l.Tx.Commit(c)
}

type stubborn struct{ slots.Tx }

func (s stubborn) Rollback() { s.Tx.Commit(nil) }

type twoSteps struct {
	slots.Tx
	ledger slots.Ledger
}

func (t *twoSteps) Commit(c *slots.Changes) error {
	if c == nil || c.Config == nil {
		return t.Tx.Commit(c)
	}
	name := t.Tx.Config().Name
	if err := t.Tx.Commit(&slots.Changes{Config: c.Config}); err != nil {
		return err
	}
	rest := *c
	rest.Config = nil
	tx, err := t.ledger.Begin(context.Background(), name, nil, nil)
	if err != nil {
		return err
	}
	return tx.Commit(&rest)
}

type miscounting struct{ slots.Ledger }

func (m miscounting) Count(ctx context.Context, config string, from, step plan.Ticks, n int) ([]int64, error) {
	return m.Ledger.Count(ctx, config, from+1, step, n)
}

type shortWinded struct{ slots.Ledger }

func (s shortWinded) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	return s.Ledger.Begin(ctx, config, ids[:min(1000, len(ids))], cached)
}

// unlocking reads, and gives the lock back until it writes.
func unlocking(_ *server, l slots.Ledger) slots.Ledger { return unlocked{l} }

type unlocked struct{ slots.Ledger }

func (u unlocked) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	tx, err := u.Ledger.Begin(ctx, config, ids, cached)
	if err != nil {
		return nil, err
	}
	tx.Rollback()
	again := func() (slots.Tx, error) { return u.Ledger.Begin(ctx, config, nil, nil) }
	return unlockedTx{tx, again}, nil
}

type unlockedTx struct {
	slots.Tx // that has ended
	again    func() (slots.Tx, error)
}

func (u unlockedTx) Load(n plan.Need) (c plan.Chunk, err error) {
	tx, err := u.again()
	if err != nil {
		return c, err
	}
	defer tx.Rollback()
	return tx.Load(n)
}

func (u unlockedTx) Taken(era int, windows []int64) ([]plan.Window, error) {
	tx, err := u.again()
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	return tx.Taken(era, windows)
}

func (u unlockedTx) Write(c *slots.Changes) error { return u.Commit(c) }

func (u unlockedTx) Commit(c *slots.Changes) error {
	travel()
	tx, err := u.again()
	if err != nil {
		return err
	}
	return tx.Commit(c)
}

type oneLock struct {
	slots.Ledger
	lock chan struct{}
}

func (o oneLock) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	select {
	case o.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, &slots.LedgerError{Store: "remote", Op: "begin", Err: ctx.Err()}
	}
	tx, err := o.Ledger.Begin(ctx, config, ids, cached)
	if err != nil {
		<-o.lock
		return nil, err
	}
	return &oneLockTx{Tx: tx, lock: o.lock}, nil
}

type oneLockTx struct {
	slots.Tx
	lock  chan struct{}
	ended atomic.Bool
}

func (o *oneLockTx) Commit(c *slots.Changes) error {
	defer o.Rollback()
	return o.Tx.Commit(c)
}

func (o *oneLockTx) Rollback() {
	o.Tx.Rollback()
	if !o.ended.Swap(true) {
		<-o.lock
	}
}

type deaf struct{ slots.Ledger }

func (d deaf) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	return d.Ledger.Begin(context.WithoutCancel(ctx), config, ids, cached)
}

// late leaves behind what still waits for the lock.
type late struct{ slots.Ledger }

func (l late) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	begun := make(chan slots.Tx, 1)
	failed := make(chan error, 1)
	go func() {
		if tx, err := l.Ledger.Begin(context.WithoutCancel(ctx), config, ids, cached); err != nil {
			failed <- err
		} else {
			begun <- tx
		}
	}()
	select {
	case tx := <-begun:
		return tx, nil
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, &slots.LedgerError{Store: "remote", Op: "begin", Err: ctx.Err()}
	}
}

// immortal waits as long as its context allows, and then does without.
type immortal struct{ slots.Ledger }

func (i immortal) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	tx, err := i.Ledger.Begin(ctx, config, ids, cached)
	if err != nil {
		return nil, err
	}
	tx.Rollback()
	return i.Ledger.Begin(context.WithoutCancel(ctx), config, ids, cached)
}

type early struct {
	slots.Ledger
	server *server
}

func (e early) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	now := e.server.clock()
	tx, err := e.Ledger.Begin(ctx, config, ids, cached)
	if err != nil {
		return nil, err
	}
	return atTime{tx, now}, nil
}

type atTime struct {
	slots.Tx
	now plan.Ticks
}

func (a atTime) Now() plan.Ticks { return a.now }

type callersTime struct{ slots.Tx }

func (callersTime) Now() plan.Ticks { return plan.At(time.Now()) }

type forgetful struct {
	slots.Ledger
	server *server
}

func (f forgetful) Close() error {
	f.server.data = slotstest.NewMemory(f.server.clock)
	return f.Ledger.(io.Closer).Close()
}

type denying struct{ slots.Tx }

func (d denying) Commit(c *slots.Changes) error {
	err := d.Tx.Commit(c)
	if fault, ok := err.(*slots.LedgerError); ok {
		fault.Sent = false
	}
	return err
}

type open struct {
	slots.Ledger
	io.Closer
}
