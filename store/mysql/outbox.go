package mysql

import (
	"cmp"
	"context"
	"database/sql/driver"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

var (
	_ slots.Outbox   = (*ledger)(nil)
	_ slots.OutboxTx = (*ledgerTx)(nil)
)

// deliveryColumns are those that eachDelivery reads.
const deliveryColumns = "e.event, e.requested, e.due, e.attempts, e.status, e.error, e.lease, e.dead"

// eachDelivery reads rows of deliveries.
func eachDelivery(config string, f func(slots.Delivery)) func(row []driver.Value) error {
	return func(row []driver.Value) error {
		n := func(i int) int64 { return row[i].(int64) }
		f(slots.Delivery{
			Config: config, ID: string(row[0].([]byte)), Requested: plan.Ticks(n(1)), Due: plan.Ticks(n(2)),
			Attempts: int(n(3)), Status: int(n(4)), Error: string(row[5].([]byte)), Lease: n(6), Dead: plan.Ticks(n(7)),
		})
		return nil
	}
}

// outbox writes the changes of what is to be delivered.
func (w *writer) outbox(c *slots.Changes) {
	w.rows(len(c.Removed), w.of("DELETE e FROM stint_slot_delivery AS e FORCE INDEX (PRIMARY) WHERE e.config = ", " AND e.event IN ("),
		func(i int) { w.text.bytes(c.Removed[i]) }, ")")
	w.rows(len(c.Put), "INSERT INTO stint_slot_delivery (config, requested, due, attempts, status, lease, leased_until, dead, event, error) VALUES ", func(i int) {
		d := &c.Put[i]
		w.row(int64(d.Requested), int64(d.Due), int64(d.Attempts), int64(d.Status), 0, 0, 0)
		w.and(d.ID)
		w.and(d.Error)
	}, " ON DUPLICATE KEY UPDATE requested = VALUES(requested), due = VALUES(due), attempts = VALUES(attempts),"+
		" status = VALUES(status), lease = 0, leased_until = 0, dead = 0, error = VALUES(error)")
}

// Deliveries implements [slots.OutboxTx].
func (t *ledgerTx) Deliveries(ids []string) (map[string]slots.Delivery, error) {
	found := make(map[string]slots.Delivery)
	err := t.do(func(c *conn) error {
		for _, page := range pages(slices.Sorted(slices.Values(ids))) {
			var s script
			s.add("SELECT ", deliveryColumns, " FROM stint_slot_delivery AS e FORCE INDEX (PRIMARY) WHERE e.config = ", decimal(t.id), " AND e.event IN ")
			s.list(page)
			s.ask(eachDelivery(t.config.Name, func(d slots.Delivery) { found[d.ID] = d }), " FOR UPDATE")
			if err := c.run(t.ctx, &s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, t.ledger.fault("deliveries", err, false)
	}
	return found, nil
}

// Claim implements [slots.Outbox]. What might be had is read without a lock; then
// each row is leased if it still can be. So there is no need to skip what is locked,
// which not every server can, and one trip if there is nothing.
func (l *ledger) Claim(ctx context.Context, c slots.Claim) (claimed []slots.Delivery, now plan.Ticks, err error) {
	leave, err := l.enter(ctx, "claim")
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	err = l.store.do(ctx, func(conn *conn) error {
		claimed = nil
		names, due, err := l.due(ctx, conn, c, &now)
		if err != nil || len(due) == 0 {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(due)) {
			some, err := l.lease(ctx, conn, c, id, due[id], names[id])
			if err != nil {
				return err
			}
			claimed = append(claimed, some...)
		}
		return nil
	})
	slices.SortStableFunc(claimed, func(a, b slots.Delivery) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), strings.Compare(a.Config, b.Config), strings.Compare(a.ID, b.ID))
	})
	if err != nil {
		return nil, 0, l.fault("claim", err, sent(err))
	}
	return claimed, now, nil
}

// due reads the ids, by the numbers of their configs, of what might be claimed, the
// names of those, and the clock.
func (l *ledger) due(ctx context.Context, conn *conn, c slots.Claim, now *plan.Ticks) (names map[int64]string, due map[int64][]string, err error) {
	names, due = make(map[int64]string), make(map[int64][]string)
	var s script
	s.do("SET @now = ", l.store.opts.lateClock)
	s.ask(func(row []driver.Value) error {
		*now = plan.Ticks(row[0].(int64))
		return nil
	}, "SELECT CAST(@now AS SIGNED)")
	s.ask(func(row []driver.Value) error {
		id := row[0].(int64)
		names[id], due[id] = string(row[1].([]byte)), append(due[id], string(row[2].([]byte)))
		return nil
	}, "SELECT c.id, c.name, e.event FROM (SELECT config, event, due FROM stint_slot_delivery FORCE INDEX (due) WHERE dead = 0",
		" AND due >= @now + ", decimal(c.From), " AND due < @now + ", decimal(c.Until), " AND leased_until <= @now",
		" ORDER BY dead, due LIMIT ", decimal(c.Limit), ") AS e JOIN stint_slot_config AS c ON c.id = e.config")
	err = conn.run(ctx, &s)
	return names, due, err
}

// lease leases those of a config's ids that are still to be had, and returns them.
func (l *ledger) lease(ctx context.Context, conn *conn, c slots.Claim, config int64, ids []string, name string) (leased []slots.Delivery, err error) {
	slices.Sort(ids)
	for _, page := range pages(ids) {
		var s script
		which := " WHERE e.config = " + decimal(config) + " AND e.event IN "
		s.do("SET @now = ", l.store.opts.lateClock)
		s.add("UPDATE stint_slot_delivery AS e FORCE INDEX (PRIMARY) SET e.lease = ", decimal(c.Lease), ", e.leased_until = @now + ", decimal(c.For), which)
		s.list(page)
		s.do(" AND e.dead = 0 AND e.due >= @now + ", decimal(c.From), " AND e.due < @now + ", decimal(c.Until), " AND e.leased_until <= @now")
		s.add("SELECT ", deliveryColumns, " FROM stint_slot_delivery AS e FORCE INDEX (PRIMARY)", which)
		s.list(page)
		s.ask(eachDelivery(name, func(d slots.Delivery) { leased = append(leased, d) }), " AND e.lease = ", decimal(c.Lease))
		if err := conn.run(ctx, &s); err != nil {
			return nil, err
		}
	}
	return leased, nil
}

// Settle implements [slots.Outbox].
func (l *ledger) Settle(ctx context.Context, config string, settled []slots.Settled) error {
	if len(settled) == 0 {
		return nil
	}
	leave, err := l.enter(ctx, "settle")
	if err != nil {
		return err
	}
	defer leave()
	settled = slices.SortedFunc(slices.Values(settled), func(a, b slots.Settled) int { return strings.Compare(a.ID, b.ID) })
	err = l.store.do(ctx, func(c *conn) error {
		var text statement
		text.add("SET @config = (", configID, hexed(config), "); ")
		for i, s := range settled {
			held := " WHERE e.config = @config AND e.event = " + hexed(s.ID) + " AND e.lease = " + decimal(s.Lease) + " AND e.dead = 0; "
			switch s.Fate {
			case slots.Delivered:
				text.add("DELETE e FROM stint_slot_delivery AS e FORCE INDEX (PRIMARY)", held)
			case slots.Died:
				text.add("UPDATE stint_slot_delivery AS e FORCE INDEX (PRIMARY) SET e.dead = ", l.store.opts.lateClock, ", e.attempts = ", decimal(s.Attempts),
					", e.status = ", decimal(s.Status), ", e.error = CONVERT(", hexed(s.Error), " USING utf8mb4)", held)
			case slots.Released:
				text.add("UPDATE stint_slot_delivery AS e FORCE INDEX (PRIMARY) SET e.leased_until = 0", held)
			}
			if len(text) > maxStatement || i == len(settled)-1 {
				if err := c.exec(ctx, string(text)); err != nil {
					return err
				}
				text = text[:0]
			}
		}
		return nil
	})
	return l.fault("settle", err, sent(err))
}

// Dead implements [slots.Outbox].
func (l *ledger) Dead(ctx context.Context, config string, after *slots.Delivery, limit int) (dead []slots.Delivery, err error) {
	at, id := plan.Ticks(math.MinInt64+1), ""
	if after != nil {
		at, id = after.Dead, after.ID
	}
	err = l.find(ctx, "dead", config, func(t *script) {
		dead = nil
		t.ask(eachDelivery(config, func(d slots.Delivery) { dead = append(dead, d) }),
			"SELECT ", deliveryColumns, in("stint_slot_delivery", "dead", config), " AND e.dead > 0 AND e.dead >= ", decimal(at),
			" AND (e.dead > ", decimal(at), " OR e.event > ", hexed(id), ") ORDER BY e.dead, e.event LIMIT ", decimal(limit))
	})
	return dead, err
}
