package slotstest_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/slotstest"
)

// outboxFaults are mistakes that an outbox may make.
var outboxFaults = []fault{
	{"hands out what is due last first", claimed, claiming(func(o slots.Outbox, ctx context.Context, c slots.Claim) ([]slots.Delivery, plan.Ticks, error) {
		some, now, err := o.Claim(ctx, c)
		slices.Reverse(some)
		return some, now, err
	})},
	{"claims what is due later, too", claimed, claiming(func(o slots.Outbox, ctx context.Context, c slots.Claim) ([]slots.Delivery, plan.Ticks, error) {
		c.Until += plan.Hour
		return o.Claim(ctx, c)
	})},
	{"leases to nobody", leased, claiming(func(o slots.Outbox, ctx context.Context, c slots.Claim) ([]slots.Delivery, plan.Ticks, error) {
		c.For = 0
		return o.Claim(ctx, c)
	})},
	{"leases for ever", leased, claiming(func(o slots.Outbox, ctx context.Context, c slots.Claim) ([]slots.Delivery, plan.Ticks, error) {
		c.For += 24 * plan.Hour
		return o.Claim(ctx, c)
	})},
	{"believes whoever settles", leased, settling(func(o slots.Outbox, ctx context.Context, config string, s []slots.Settled) error {
		tx, err := o.Begin(ctx, config, nil, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		s = slices.Clone(s)
		for i := range s {
			held, err := tx.(slots.OutboxTx).Deliveries([]string{s[i].ID})
			if err != nil {
				return err
			}
			s[i].Lease = held[s[i].ID].Lease
		}
		tx.Rollback()
		return o.Settle(ctx, config, s)
	})},
	{"forgets why", died, settling(func(o slots.Outbox, ctx context.Context, config string, s []slots.Settled) error {
		s = slices.Clone(s)
		for i := range s {
			s[i].Error = ""
		}
		return o.Settle(ctx, config, s)
	})},
	{"pages dead letters by time alone", died, func(_ *server, l slots.Ledger) slots.Ledger {
		return &faultyOutbox{outboxOf: outboxOf{l.(slots.Outbox)}, dead: true}
	}},
	{"keeps what is removed", posted, posting(func(c *slots.Changes) { c.Removed = nil })},
	{"forgets attempts", claimed, posting(func(c *slots.Changes) {
		c.Put = slices.Clone(c.Put)
		for i := range c.Put {
			c.Put[i].Attempts = 0
		}
	})},
	{"folds case", "deliveries are told apart byte by byte", posting(func(c *slots.Changes) {
		c.Put = slices.Clone(c.Put)
		for i := range c.Put {
			c.Put[i].ID = strings.ToLower(c.Put[i].ID)
		}
	})},
	{"hands out the last one again", "of many who claim at once each has its own", func() faultyLedger {
		var mu sync.Mutex
		var last []slots.Delivery
		return claiming(func(o slots.Outbox, ctx context.Context, c slots.Claim) ([]slots.Delivery, plan.Ticks, error) {
			some, now, err := o.Claim(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			again := last
			last = some
			return append(slices.Clone(some), again[:min(1, len(again))]...), now, err
		})
	}()},
	{"loses what is put", "schedulers put what is booked into the outbox", posting(func(c *slots.Changes) { c.Put = nil })},
	{"knows nothing of what it has", "schedulers postpone what was not delivered", func(_ *server, l slots.Ledger) slots.Ledger {
		return &faultyOutbox{outboxOf: outboxOf{l.(slots.Outbox)}, blind: true}
	}},
	{"goes on when it is closed", "a closed outbox says so", func(s *server, l slots.Ledger) slots.Ledger { return openOutbox{s.data, l.(io.Closer)} }},
}

const (
	claimed = "what is to be delivered is claimed when it is due, once"
	leased  = "a lease is for one, and has an end"
	died    = "dead letters are listed, page by page"
	posted  = "what is to be delivered goes with its transaction"
)

func init() {
	faults = append(faults, outboxFaults...)
}

type outboxOf struct{ slots.Outbox }

// faultyOutbox is an outbox with one of these mistakes.
type faultyOutbox struct {
	outboxOf
	claim  func(o slots.Outbox, ctx context.Context, c slots.Claim) ([]slots.Delivery, plan.Ticks, error)
	settle func(o slots.Outbox, ctx context.Context, config string, s []slots.Settled) error
	post   func(c *slots.Changes)
	dead   bool // pages by time alone
	blind  bool // Deliveries finds nothing
}

func claiming(claim func(o slots.Outbox, ctx context.Context, c slots.Claim) ([]slots.Delivery, plan.Ticks, error)) faultyLedger {
	return func(_ *server, l slots.Ledger) slots.Ledger {
		return &faultyOutbox{outboxOf: outboxOf{l.(slots.Outbox)}, claim: claim}
	}
}

func settling(settle func(o slots.Outbox, ctx context.Context, config string, s []slots.Settled) error) faultyLedger {
	return func(_ *server, l slots.Ledger) slots.Ledger {
		return &faultyOutbox{outboxOf: outboxOf{l.(slots.Outbox)}, settle: settle}
	}
}

func posting(post func(c *slots.Changes)) faultyLedger {
	return func(_ *server, l slots.Ledger) slots.Ledger {
		return &faultyOutbox{outboxOf: outboxOf{l.(slots.Outbox)}, post: post}
	}
}

func (f *faultyOutbox) Close() error { return f.Outbox.(io.Closer).Close() }

func (f *faultyOutbox) Claim(ctx context.Context, c slots.Claim) ([]slots.Delivery, plan.Ticks, error) {
	if f.claim == nil {
		return f.Outbox.Claim(ctx, c)
	}
	return f.claim(f.Outbox, ctx, c)
}

func (f *faultyOutbox) Settle(ctx context.Context, config string, s []slots.Settled) error {
	if f.settle == nil {
		return f.Outbox.Settle(ctx, config, s)
	}
	return f.settle(f.Outbox, ctx, config, s)
}

func (f *faultyOutbox) Dead(ctx context.Context, config string, after *slots.Delivery, limit int) ([]slots.Delivery, error) {
	if f.dead && after != nil {
		after = &slots.Delivery{Dead: after.Dead, ID: "\xff"}
	}
	return f.Outbox.Dead(ctx, config, after, limit)
}

func (f *faultyOutbox) Begin(ctx context.Context, config string, ids []string, cached *slots.Config) (slots.Tx, error) {
	tx, err := f.Outbox.Begin(ctx, config, ids, cached)
	if err != nil {
		return nil, err
	}
	return &faultyOutboxTx{tx.(slots.OutboxTx), f}, nil
}

type faultyOutboxTx struct {
	slots.OutboxTx
	fault *faultyOutbox
}

func (t *faultyOutboxTx) spoiled(c *slots.Changes) *slots.Changes {
	if c == nil || t.fault.post == nil {
		return c
	}
	copied := *c
	t.fault.post(&copied)
	return &copied
}

func (t *faultyOutboxTx) Write(c *slots.Changes) error  { return t.OutboxTx.Write(t.spoiled(c)) }
func (t *faultyOutboxTx) Commit(c *slots.Changes) error { return t.OutboxTx.Commit(t.spoiled(c)) }

func (t *faultyOutboxTx) Deliveries(ids []string) (map[string]slots.Delivery, error) {
	if t.fault.blind {
		return nil, nil
	}
	return t.OutboxTx.Deliveries(ids)
}

type openOutbox struct {
	*slotstest.Memory
	io.Closer
}
