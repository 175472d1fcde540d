package sqlite

import (
	"context"
	"database/sql"
	"math"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

var (
	_ slots.Outbox   = (*ledger)(nil)
	_ slots.OutboxTx = (*ledgerTx)(nil)
)

// deliveryColumns are those that scanDelivery reads.
const deliveryColumns = "event, requested, due, attempts, status, error, lease, dead"

func scanDelivery(rows *sql.Rows, config string) (slots.Delivery, error) {
	d := slots.Delivery{Config: config}
	err := rows.Scan(&d.ID, &d.Requested, &d.Due, &d.Attempts, &d.Status, &d.Error, &d.Lease, &d.Dead)
	return d, err
}

// applyOutbox makes the changes of what is to be delivered.
func (t *ledgerTx) applyOutbox(c *slots.Changes) error {
	stmts := &t.ledger.store.ledger
	if len(c.Removed) > 0 {
		if err := t.exec(stmts.remove, t.id, jsonOf(c.Removed)); err != nil {
			return err
		}
	}
	args := make([]any, 0, len(c.Put)*stmts.put.columns)
	for _, d := range c.Put {
		args = append(args, t.id, d.ID, d.Requested, d.Due, d.Attempts, d.Status, d.Error, 0, 0, 0)
	}
	return t.insert(&stmts.put, args)
}

// Deliveries implements [slots.OutboxTx]. Nobody else writes during a transaction.
func (t *ledgerTx) Deliveries(ids []string) (map[string]slots.Delivery, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.open(); err != nil {
		return nil, ledgerFault("deliveries", false, err)
	}
	found := make(map[string]slots.Delivery)
	err := t.each(t.ledger.store.ledger.deliveries, []any{t.id, jsonOf(ids)}, func(rows *sql.Rows) error {
		d, err := scanDelivery(rows, t.config.Name)
		found[d.ID] = d
		return err
	})
	return found, ledgerFault("deliveries", false, err)
}

// Claim implements [slots.Outbox]. It takes the lock of the file only if there is
// something to claim.
func (l *ledger) Claim(ctx context.Context, c slots.Claim) (claimed []slots.Delivery, now plan.Ticks, err error) {
	const due = " FROM stint_slot_delivery WHERE dead = 0 AND due >= ? AND due < ? AND leased_until <= ? ORDER BY due LIMIT ?"
	found, now := false, l.now()
	err = l.query(ctx, "claim", "SELECT 1"+due, []any{now + c.From, now + c.Until, now, 1}, func(*sql.Rows) error {
		found = true
		return nil
	})
	if err != nil || !found {
		return nil, now, err
	}
	err = l.change(ctx, "claim", func(tx *sql.Tx) error {
		now, claimed = l.now(), nil
		rows, err := tx.QueryContext(ctx, "SELECT config, (SELECT name FROM stint_slot_config WHERE id = config), "+deliveryColumns+due, now+c.From, now+c.Until, now, c.Limit)
		if err != nil {
			return err
		}
		var configs []int64
		err = each(rows, func(rows *sql.Rows) error {
			var id int64
			var d slots.Delivery
			err := rows.Scan(&id, &d.Config, &d.ID, &d.Requested, &d.Due, &d.Attempts, &d.Status, &d.Error, &d.Lease, &d.Dead)
			d.Lease = c.Lease
			configs, claimed = append(configs, id), append(claimed, d)
			return err
		})
		if err != nil {
			return err
		}
		lease, err := tx.PrepareContext(ctx, "UPDATE stint_slot_delivery SET lease = ?, leased_until = ? WHERE config = ? AND event = ?")
		if err != nil {
			return err
		}
		defer lease.Close()
		for i, d := range claimed {
			if _, err := lease.ExecContext(ctx, c.Lease, now+c.For, configs[i], d.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return claimed, now, nil
}

// Settle implements [slots.Outbox].
func (l *ledger) Settle(ctx context.Context, config string, settled []slots.Settled) error {
	const held = " WHERE config = (SELECT id FROM stint_slot_config WHERE name = ?) AND event = ? AND lease = ? AND dead = 0"
	if len(settled) == 0 {
		return nil
	}
	return l.change(ctx, "settle", func(tx *sql.Tx) error {
		now := l.now()
		for _, s := range settled {
			text, args := "DELETE FROM stint_slot_delivery"+held, []any{}
			switch s.Fate {
			case slots.Died:
				text, args = "UPDATE stint_slot_delivery SET dead = ?, attempts = ?, status = ?, error = ?"+held, []any{now, s.Attempts, s.Status, s.Error}
			case slots.Released:
				text = "UPDATE stint_slot_delivery SET leased_until = 0" + held
			}
			if _, err := tx.ExecContext(ctx, text, append(args, config, s.ID, s.Lease)...); err != nil {
				return err
			}
		}
		return nil
	})
}

// Dead implements [slots.Outbox].
func (l *ledger) Dead(ctx context.Context, config string, after *slots.Delivery, limit int) (dead []slots.Delivery, err error) {
	const some = "SELECT " + deliveryColumns + ` FROM stint_slot_delivery
WHERE config = ?1 AND dead > 0 AND dead >= ?2 AND (dead > ?2 OR event > ?3) ORDER BY dead, event LIMIT ?4`
	at, id := plan.Ticks(math.MinInt64), ""
	if after != nil {
		at, id = after.Dead, after.ID
	}
	err = l.find(ctx, "dead", config, some, []any{at, id, limit}, func(rows *sql.Rows) error {
		d, err := scanDelivery(rows, config)
		dead = append(dead, d)
		return err
	})
	return dead, err
}

// change calls f, which writes, in a transaction.
func (l *ledger) change(ctx context.Context, op string, f func(tx *sql.Tx) error) error {
	leave, err := l.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	tx, err := l.store.begin(ctx)
	if err != nil {
		return ledgerFault(op, false, err)
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return ledgerFault(op, false, err)
	}
	return ledgerFault(op, true, tx.Commit())
}
