package slotstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// Memory is a [slots.Ledger] in memory: what a ledger has to do, in the fewest
// words. It is for tests of what stands above a ledger, and it is what other
// ledgers are compared with.
type Memory struct {
	now func() plan.Ticks

	mu      sync.Mutex
	configs map[string]*memoryConfig
}

type memoryConfig struct {
	lock  chan struct{} // holds one of whoever has the lock
	*book               // guarded by Memory.mu, and changed under the lock only
	outbox
}

// book is all that is kept for one config.
type book struct {
	config            slots.Config
	taken             map[place]string // the event's id
	events, cancelled map[string]slots.Event
	windows           map[place]plan.Bits // the phase is 0
	full              map[int]plan.Runs   // by era
	sorted            []slots.Event       // by time and id; nil if out of date
}

// place is where a slot is.
type place struct {
	era    int
	window int64
	phase  int
}

// newBook is that of a config in which nothing has happened.
func newBook(config string) *book {
	return &book{
		config:    slots.Config{Name: config},
		taken:     make(map[place]string),
		events:    make(map[string]slots.Event),
		cancelled: make(map[string]slots.Event),
		windows:   make(map[place]plan.Bits),
		full:      make(map[int]plan.Runs),
	}
}

func placeOf(s plan.Slot) place { return place{s.Era, s.Window, s.Phase} }

// NewMemory returns a Memory with a clock; nil is the machine's.
func NewMemory(now func() plan.Ticks) *Memory {
	if now == nil {
		now = func() plan.Ticks { return plan.At(time.Now()) }
	}
	return &Memory{now: now, configs: make(map[string]*memoryConfig)}
}

// Create implements [slots.Ledger].
func (m *Memory) Create(ctx context.Context, config string) error {
	if err := ctx.Err(); err != nil {
		return memoryFault("create", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.configs[config] == nil {
		m.configs[config] = &memoryConfig{make(chan struct{}, 1), newBook(config), newOutbox()}
	}
	return nil
}

// find returns a config with m.mu held, unless there is an error.
func (m *Memory) find(ctx context.Context, op, config string) (*memoryConfig, error) {
	if err := ctx.Err(); err != nil {
		return nil, memoryFault(op, err)
	}
	m.mu.Lock()
	c := m.configs[config]
	if c == nil {
		m.mu.Unlock()
		return nil, slots.ErrNoConfig
	}
	return c, nil
}

// Configs implements [slots.Ledger].
func (m *Memory) Configs(ctx context.Context, after string, limit int) (configs []slots.Config, err error) {
	if err := ctx.Err(); err != nil {
		return nil, memoryFault("configs", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.configs)) {
		if c := m.configs[name]; name > after && len(c.config.Versions) > 0 && len(configs) < limit {
			configs = append(configs, c.config)
		}
	}
	return configs, nil
}

// Config implements [slots.Ledger].
func (m *Memory) Config(ctx context.Context, name string) (slots.Config, plan.Ticks, error) {
	c, err := m.find(ctx, "config", name)
	if err != nil {
		return slots.Config{}, 0, err
	}
	defer m.mu.Unlock()
	if len(c.config.Versions) == 0 {
		return slots.Config{}, 0, slots.ErrNoConfig
	}
	return c.config, m.now(), nil
}

// Event implements [slots.Ledger].
func (m *Memory) Event(ctx context.Context, config, id string) (slots.Event, error) {
	c, err := m.find(ctx, "event", config)
	if err != nil {
		return slots.Event{}, err
	}
	defer m.mu.Unlock()
	e, known := c.known(id)
	if !known {
		return slots.Event{}, slots.ErrNoEvent
	}
	return e, nil
}

// Events implements [slots.Ledger].
func (m *Memory) Events(ctx context.Context, config string, q slots.Query) (events []slots.Event, err error) {
	c, err := m.find(ctx, "events", config)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, e := range c.from(q.From) {
		if e.At >= q.Until || len(events) >= q.Limit {
			break
		}
		if q.After == nil || byTime(e, *q.After) > 0 {
			events = append(events, e)
		}
	}
	return events, nil
}

// Count implements [slots.Ledger].
func (m *Memory) Count(ctx context.Context, config string, from, step plan.Ticks, n int) ([]int64, error) {
	c, err := m.find(ctx, "count", config)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	counts := make([]int64, n)
	for _, e := range c.from(from) {
		i := (e.At - from) / step
		if i >= plan.Ticks(n) {
			break
		}
		counts[i]++
	}
	return counts, nil
}

// Begin implements [slots.Ledger].
func (m *Memory) Begin(ctx context.Context, config string, ids []string, _ *slots.Config) (slots.Tx, error) {
	c, err := m.find(ctx, "begin", config)
	if err != nil {
		return nil, err
	}
	m.mu.Unlock()
	select {
	case c.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, memoryFault("begin", ctx.Err())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &memoryTx{memory: m, under: c, book: c.book, read: c.config, now: m.now(), known: make(map[string]slots.Event)}
	for _, id := range ids {
		if e, known := c.known(id); known {
			t.known[id] = e
		}
	}
	t.forget = context.AfterFunc(ctx, t.Rollback)
	return t, nil
}

// memoryTx is a [slots.Tx]. What it has written is in a book of its own.
type memoryTx struct {
	memory *Memory
	under  *memoryConfig
	*book
	read   slots.Config
	now    plan.Ticks
	known  map[string]slots.Event
	forget func() bool
	posted []*slots.Changes // what the outbox gets when it is committed

	failed, ended bool
}

// Now implements [slots.Tx].
func (t *memoryTx) Now() plan.Ticks { return t.now }

// Config implements [slots.Tx].
func (t *memoryTx) Config() *slots.Config { return &t.read }

// Known implements [slots.Tx].
func (t *memoryTx) Known() map[string]slots.Event { return t.known }

// Expect implements [slots.Tx].
func (t *memoryTx) Expect([]plan.Need) {}

// Load implements [plan.Occupancy].
func (t *memoryTx) Load(n plan.Need) (plan.Chunk, error) {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	if t.ended {
		return plan.Chunk{}, memoryFault("load", errEnded)
	}
	return t.book.Load(n)
}

// Strays implements [plan.Occupancy].
func (t *memoryTx) Strays(era, phase int, from, to plan.Ticks) (strays []plan.Slot, err error) {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	if t.ended {
		return nil, memoryFault("strays", errEnded)
	}
	return t.book.Strays(era, phase, from, to)
}

// Taken implements [slots.Tx].
func (t *memoryTx) Taken(era int, windows []int64) (taken []plan.Window, err error) {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	if t.ended {
		return nil, memoryFault("taken", errEnded)
	}
	for _, k := range windows {
		if bits := t.windows[place{era: era, window: k}]; len(bits) > 0 {
			taken = append(taken, plan.Window{Era: era, Index: k, Taken: slices.Clone(bits)})
		}
	}
	return taken, nil
}

// Write implements [slots.Tx].
func (t *memoryTx) Write(c *slots.Changes) error {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	if t.ended {
		return memoryFault("write", errEnded)
	}
	if t.book == t.under.book {
		t.book = t.clone()
	}
	err := t.apply(c)
	t.failed, t.posted = t.failed || err != nil, append(t.posted, c)
	return memoryFault("write", err)
}

// Commit implements [slots.Tx].
func (t *memoryTx) Commit(c *slots.Changes) error {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	switch {
	case t.ended:
		return memoryFault("commit", errEnded)
	case t.failed:
		t.end()
		return memoryFault("commit", errors.New("something in the transaction had failed"))
	}
	defer t.end()
	if c != nil {
		if err := t.apply(c); err != nil {
			return memoryFault("commit", err)
		}
		t.posted = append(t.posted, c)
	}
	t.under.book = t.book
	for _, c := range t.posted {
		t.under.outbox.post(c)
	}
	return nil
}

// Rollback implements [slots.Tx].
func (t *memoryTx) Rollback() {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	t.end()
}

// end gives the lock back.
func (t *memoryTx) end() {
	if !t.ended {
		t.ended = true
		t.forget()
		clear(t.under.outbox.held)
		<-t.under.lock
	}
}

// Load implements [plan.Occupancy].
func (b *book) Load(n plan.Need) (plan.Chunk, error) {
	c := plan.Chunk{To: n.From}
	runs := b.full[n.Era].From(n.From)
	for range n.Windows {
		for ; len(runs) > 0 && runs[0].From <= c.To; runs = runs[1:] {
			c.Full, c.To = append(c.Full, runs[0]), runs[0].To
		}
		if taken := b.windows[place{era: n.Era, window: c.To}]; len(taken) > 0 {
			c.Taken = append(c.Taken, plan.Window{Era: n.Era, Index: c.To, Taken: slices.Clone(taken)})
		}
		c.To++
	}
	return c, nil
}

// Strays implements [plan.Occupancy].
func (b *book) Strays(era, phase int, from, to plan.Ticks) (strays []plan.Slot, err error) {
	for _, e := range b.from(from) {
		if e.At >= to {
			break
		}
		if e.Era != era || e.Phase >= phase {
			strays = append(strays, e.Slot)
		}
	}
	return strays, nil
}

func (b *book) clone() *book {
	c := *b
	c.taken, c.events, c.cancelled, c.windows = maps.Clone(b.taken), maps.Clone(b.events), maps.Clone(b.cancelled), maps.Clone(b.windows)
	c.full = make(map[int]plan.Runs, len(b.full))
	for era, runs := range b.full {
		c.full[era] = slices.Clone(runs)
	}
	return &c
}

func (b *book) known(id string) (slots.Event, bool) {
	if e, booked := b.events[id]; booked {
		return e, true
	}
	e, cancelled := b.cancelled[id]
	return e, cancelled
}

// from returns the events that are booked at an instant or later.
func (b *book) from(at plan.Ticks) []slots.Event {
	if b.sorted == nil {
		b.sorted = slices.SortedFunc(maps.Values(b.events), byTime)
	}
	i, _ := slices.BinarySearchFunc(b.sorted, at, func(e slots.Event, at plan.Ticks) int { return cmp.Compare(e.At, at) })
	return b.sorted[i:]
}

// byTime is the order of Events.
func byTime(a, b slots.Event) int {
	return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.ID, b.ID))
}

// apply makes the changes, all or none.
func (b *book) apply(c *slots.Changes) error {
	if err := b.check(c); err != nil {
		return err
	}
	if c.Config != nil {
		b.config = *c.Config
	}
	for _, e := range c.Freed {
		delete(b.taken, placeOf(b.events[e.ID].Slot))
		delete(b.events, e.ID)
		if e.Cancelled != 0 {
			b.cancelled[e.ID] = e
		}
	}
	for _, e := range c.Booked {
		b.taken[placeOf(e.Slot)], b.events[e.ID] = e.ID, e
	}
	for _, w := range c.Windows {
		p := place{era: w.Era, window: w.Index}
		delete(b.windows, p)
		if len(w.Taken) > 0 {
			b.windows[p] = slices.Clone(w.Taken)
		}
	}
	for _, r := range c.Reopened {
		b.full[r.Era] = b.full[r.Era].Cut(r)
	}
	for _, r := range c.Full {
		b.full[r.Era] = b.full[r.Era].Add(r)
	}
	b.sorted = nil
	return nil
}

// check is what the schema of a database checks.
func (b *book) check(c *slots.Changes) error {
	freed, places, ids := map[string]bool{}, map[place]bool{}, map[string]bool{}
	for _, e := range c.Freed {
		freed[e.ID] = true
	}
	for _, e := range c.Booked {
		p := placeOf(e.Slot)
		other, taken := b.taken[p]
		_, booked := b.events[e.ID]
		switch {
		case e.Phase < 0:
			return fmt.Errorf("event %q would have phase %d", e.ID, e.Phase)
		case places[p], taken && !freed[other]:
			return fmt.Errorf("event %q would be the second in slot %+v", e.ID, p)
		case ids[e.ID], booked && !freed[e.ID]:
			return fmt.Errorf("event %q would have a second slot", e.ID)
		}
		places[p], ids[e.ID] = true, true
	}
	return nil
}

var errEnded = errors.New("the transaction has ended")

// memoryFault returns err, if there is one, as that of op.
func memoryFault(op string, err error) error {
	if err == nil {
		return nil
	}
	return &slots.LedgerError{Store: "memory", Op: op, Err: err}
}
