package slotstest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

var (
	_ slots.Outbox   = (*Memory)(nil)
	_ slots.OutboxTx = (*memoryTx)(nil)
)

// outbox is what is to be delivered of one config. It is guarded by Memory.mu.
type outbox struct {
	deliveries map[string]*leased
	held       map[string]bool // by the transaction under way
}

type leased struct {
	slots.Delivery
	until plan.Ticks
}

func newOutbox() outbox {
	return outbox{make(map[string]*leased), make(map[string]bool)}
}

func (o *outbox) post(c *slots.Changes) {
	for _, id := range c.Removed {
		delete(o.deliveries, id)
	}
	for _, d := range c.Put {
		o.deliveries[d.ID] = &leased{Delivery: d}
	}
}

// Deliveries implements [slots.OutboxTx].
func (t *memoryTx) Deliveries(ids []string) (map[string]slots.Delivery, error) {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	if t.ended {
		return nil, memoryFault("deliveries", errEnded)
	}
	found := make(map[string]slots.Delivery)
	for _, id := range ids {
		if d := t.under.deliveries[id]; d != nil {
			d.Config = t.config.Name
			found[id], t.under.held[id] = d.Delivery, true
		}
	}
	return found, nil
}

// Claim implements [slots.Outbox].
func (m *Memory) Claim(ctx context.Context, c slots.Claim) ([]slots.Delivery, plan.Ticks, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, memoryFault("claim", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	var due []*leased
	for name, config := range m.configs {
		for id, d := range config.deliveries {
			if d.Config = name; d.Dead == 0 && !config.held[id] && d.until <= now && d.Due >= now+c.From && d.Due < now+c.Until {
				due = append(due, d)
			}
		}
	}
	slices.SortFunc(due, func(a, b *leased) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), strings.Compare(a.Config, b.Config), strings.Compare(a.ID, b.ID))
	})
	var claimed []slots.Delivery
	for _, d := range due[:min(len(due), c.Limit)] {
		d.Lease, d.until = c.Lease, now+c.For
		claimed = append(claimed, d.Delivery)
	}
	return claimed, now, nil
}

// Settle implements [slots.Outbox].
func (m *Memory) Settle(ctx context.Context, config string, settled []slots.Settled) error {
	c, err := m.find(ctx, "settle", config)
	if err == slots.ErrNoConfig {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(settled, func(s slots.Settled) bool { return c.held[s.ID] }) {
		m.mu.Unlock()
		select {
		case c.lock <- struct{}{}:
			defer func() { <-c.lock }()
		case <-ctx.Done():
			return memoryFault("settle", ctx.Err())
		}
		m.mu.Lock()
	}
	defer m.mu.Unlock()
	now := m.now()
	for _, s := range settled {
		d := c.deliveries[s.ID]
		if d == nil || d.Lease != s.Lease || d.Dead != 0 {
			continue
		}
		switch s.Fate {
		case slots.Delivered:
			delete(c.deliveries, s.ID)
		case slots.Died:
			d.Dead, d.Attempts, d.Status, d.Error = now, s.Attempts, s.Status, s.Error
		case slots.Released:
			d.until = 0
		}
	}
	return nil
}

// Dead implements [slots.Outbox].
func (m *Memory) Dead(ctx context.Context, config string, after *slots.Delivery, limit int) (dead []slots.Delivery, err error) {
	c, err := m.find(ctx, "dead", config)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, d := range c.deliveries {
		if d.Config = config; d.Dead != 0 && (after == nil || byDeath(d.Delivery, *after) > 0) {
			dead = append(dead, d.Delivery)
		}
	}
	slices.SortFunc(dead, byDeath)
	return dead[:min(len(dead), limit)], nil
}

func byDeath(a, b slots.Delivery) int {
	return cmp.Or(cmp.Compare(a.Dead, b.Dead), strings.Compare(a.ID, b.ID))
}
