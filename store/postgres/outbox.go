package postgres

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

var (
	_ slots.Outbox   = (*ledger)(nil)
	_ slots.OutboxTx = (*ledgerTx)(nil)
)

// outboxStatements are the SQL of an outbox, with its clock in place of {now}.
type outboxStatements struct {
	put, remove, hold, claim, deliver, die, release, dead string
}

func outboxStatementsWith(clock string) outboxStatements {
	with := func(text string) string { return strings.ReplaceAll(text, "{now}", clock) }
	return outboxStatements{
		put: putDeliveries, remove: removeDeliveries, hold: holdDeliveries, claim: with(claimDeliveries),
		deliver: endDeliveries, die: with(buryDeliveries), release: releaseDeliveries, dead: deadDeliveries,
	}
}

const putDeliveries = `
INSERT INTO stint_slot_delivery (config, event, requested, due, attempts, status, error, lease, leased_until, dead)
SELECT $1, *, 0, 0, 0 FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::integer[], $6::integer[], $7::text[])
ON CONFLICT (config, event) DO UPDATE SET requested = excluded.requested, due = excluded.due,
	attempts = excluded.attempts, status = excluded.status, error = excluded.error, lease = 0, leased_until = 0, dead = 0`

const removeDeliveries = `
DELETE FROM stint_slot_delivery WHERE ctid = ANY (ARRAY(
	SELECT place FROM unnest($2::bytea[]) AS k (id) CROSS JOIN LATERAL (
		SELECT ctid AS place FROM stint_slot_delivery WHERE config = $1 AND event = k.id LIMIT 1
	) AS d
))`

// holdDeliveries locks rows in the order of $2, in which ids are sorted.
const holdDeliveries = `
SELECT d.* FROM unnest($2::bytea[]) AS k (id) CROSS JOIN LATERAL (
	SELECT event, requested, due, attempts, status, error, lease, dead FROM stint_slot_delivery
	WHERE config = $1 AND event = k.id LIMIT 1 FOR UPDATE
) AS d`

// claimDeliveries waits for nobody, so it may lock in any order. The rows are told
// in that of due, with the clock; of none, the clock alone.
const claimDeliveries = `
WITH clock AS MATERIALIZED (
	SELECT {now} AS now
), due AS MATERIALIZED (
	SELECT config, event FROM stint_slot_delivery
	WHERE dead = 0 AND due >= (SELECT now FROM clock) + $1::bigint AND due < (SELECT now FROM clock) + $2::bigint
		AND leased_until <= (SELECT now FROM clock)
	ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED
), claimed AS (
	UPDATE stint_slot_delivery AS d SET lease = $4, leased_until = (SELECT now FROM clock) + $5::bigint
	FROM due WHERE d.config = due.config AND d.event = due.event
	RETURNING d.config, d.event, d.requested, d.due, d.attempts, d.status, d.error
)
SELECT now, name, event, requested, due, attempts, status, error
FROM clock LEFT JOIN (claimed JOIN stint_slot_config ON id = config) ON true
ORDER BY due, name, event`

// heldOnes finds the rows of the keys $2, each of them held by its lease of $3.
const heldOnes = ` CROSS JOIN LATERAL (
	SELECT ctid AS place, lease AS by, dead FROM stint_slot_delivery
	WHERE config = (SELECT id FROM stint_slot_config WHERE name = $1) AND event = k.id LIMIT 1
) AS d WHERE d.by = k.lease AND d.dead = 0`

const endDeliveries = `
DELETE FROM stint_slot_delivery WHERE ctid = ANY (ARRAY(
	SELECT place FROM unnest($2::bytea[], $3::bigint[]) AS k (id, lease)` + heldOnes + `
))`

const buryDeliveries = `
UPDATE stint_slot_delivery AS t SET dead = {now}, attempts = s.attempts, status = s.status, error = s.error FROM (
	SELECT d.place, k.attempts, k.status, k.error
	FROM unnest($2::bytea[], $3::bigint[], $4::integer[], $5::integer[], $6::text[]) AS k (id, lease, attempts, status, error)` + heldOnes + `
	OFFSET 0
) AS s WHERE t.ctid = s.place`

const releaseDeliveries = `
UPDATE stint_slot_delivery SET leased_until = 0 WHERE ctid = ANY (ARRAY(
	SELECT place FROM unnest($2::bytea[], $3::bigint[]) AS k (id, lease)` + heldOnes + `
))`

const lockDeliveries = `
SELECT count(*) FROM unnest($2::bytea[]) AS k (id) CROSS JOIN LATERAL (
	SELECT FROM stint_slot_delivery
	WHERE config = (SELECT id FROM stint_slot_config WHERE name = $1) AND event = k.id LIMIT 1 FOR UPDATE
) AS d`

// deadDeliveries reads those that died after the instant $2 and, of it, the id $3.
const deadDeliveries = `
SELECT event, requested, due, attempts, status, error, lease, dead FROM stint_slot_delivery
WHERE config = (SELECT id FROM stint_slot_config WHERE name = $1) AND dead > 0
	AND dead >= $2 AND (dead > $2 OR event > $3::bytea)
ORDER BY dead, event LIMIT $4`

// queueOutbox adds to a batch what changes the outbox.
func (t *ledgerTx) queueOutbox(b *pgx.Batch, c *slots.Changes) {
	sql := &t.ledger.outbox
	if len(c.Removed) > 0 {
		b.Queue(sql.remove, t.id, binary(c.Removed))
	}
	if len(c.Put) > 0 {
		n := len(c.Put)
		requested, due, attempts, status := make([]int64, n), make([]int64, n), make([]int32, n), make([]int32, n)
		ids, errors := make([][]byte, n), make([]string, n)
		for i, d := range c.Put {
			ids[i], requested[i], due[i] = []byte(d.ID), int64(d.Requested), int64(d.Due)
			attempts[i], status[i], errors[i] = int32(d.Attempts), int32(d.Status), d.Error
		}
		b.Queue(sql.put, t.id, ids, requested, due, attempts, status, errors)
	}
}

// Deliveries implements [slots.OutboxTx].
func (t *ledgerTx) Deliveries(ids []string) (map[string]slots.Delivery, error) {
	found := make(map[string]slots.Delivery)
	err := t.do(func(c *pgx.Conn) error {
		rows, err := c.Query(t.ctx, t.ledger.outbox.hold, t.id, binary(slices.Sorted(slices.Values(ids))))
		if err != nil {
			return err
		}
		return eachDelivery(rows, t.config.Name, func(d slots.Delivery) { found[d.ID] = d })
	})
	if err != nil {
		return nil, t.ledger.fault("deliveries", err, false)
	}
	return found, nil
}

// eachDelivery calls f with the deliveries that rows tell of.
func eachDelivery(rows pgx.Rows, config string, f func(slots.Delivery)) error {
	d := slots.Delivery{Config: config}
	var id []byte
	_, err := pgx.ForEachRow(rows, []any{&id, &d.Requested, &d.Due, &d.Attempts, &d.Status, &d.Error, &d.Lease, &d.Dead}, func() error {
		d.ID = string(id)
		f(d)
		return nil
	})
	return err
}

// Claim implements [slots.Outbox], in one trip.
func (l *ledger) Claim(ctx context.Context, c slots.Claim) (claimed []slots.Delivery, now plan.Ticks, err error) {
	err = l.write(ctx, "claim", func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, l.outbox.claim, c.From, c.Until, c.Limit, c.Lease, c.For)
		if err != nil {
			return err
		}
		var name, id []byte
		var requested, due *plan.Ticks
		var attempts, status *int
		var text *string
		_, err = pgx.ForEachRow(rows, []any{&now, &name, &id, &requested, &due, &attempts, &status, &text}, func() error {
			if due != nil {
				claimed = append(claimed, slots.Delivery{
					Config: string(name), ID: string(id), Requested: *requested, Due: *due,
					Attempts: *attempts, Status: *status, Error: *text, Lease: c.Lease,
				})
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return claimed, now, nil
}

// Settle implements [slots.Outbox], in one trip.
func (l *ledger) Settle(ctx context.Context, config string, settled []slots.Settled) error {
	if len(settled) == 0 {
		return nil
	}
	name := []byte(config)
	var all []string
	of := make(map[slots.Fate]*settledColumns)
	for _, s := range settled {
		all = append(all, s.ID)
		if of[s.Fate] == nil {
			of[s.Fate] = new(settledColumns)
		}
		of[s.Fate].add(s)
	}
	slices.Sort(all)
	return l.write(ctx, "settle", func(c *pgx.Conn) error {
		var batch pgx.Batch
		batch.Queue("BEGIN")
		batch.Queue(lockDeliveries, name, binary(all))
		if s := of[slots.Delivered]; s != nil {
			batch.Queue(l.outbox.deliver, name, s.ids, s.leases)
		}
		if s := of[slots.Died]; s != nil {
			batch.Queue(l.outbox.die, name, s.ids, s.leases, s.attempts, s.status, s.errors)
		}
		if s := of[slots.Released]; s != nil {
			batch.Queue(l.outbox.release, name, s.ids, s.leases)
		}
		batch.Queue("COMMIT")
		err := c.SendBatch(ctx, &batch).Close()
		if err != nil && !c.IsClosed() && c.PgConn().TxStatus() != idle {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
			defer cancel()
			c.Exec(end, "ROLLBACK")
		}
		return err
	})
}

// settledColumns are what has become of deliveries, as columns.
type settledColumns struct {
	ids              [][]byte
	leases           []int64
	attempts, status []int32
	errors           []string
}

func (c *settledColumns) add(s slots.Settled) {
	c.ids, c.leases = append(c.ids, []byte(s.ID)), append(c.leases, s.Lease)
	c.attempts, c.status = append(c.attempts, int32(s.Attempts)), append(c.status, int32(s.Status))
	c.errors = append(c.errors, s.Error)
}

// Dead implements [slots.Outbox].
func (l *ledger) Dead(ctx context.Context, config string, after *slots.Delivery, limit int) (dead []slots.Delivery, err error) {
	at, id := plan.Ticks(math.MinInt64), []byte{}
	if after != nil {
		at, id = after.Dead, []byte(after.ID)
	}
	err = l.find(ctx, "dead", config, func(rows pgx.Rows) error {
		return eachDelivery(rows, config, func(d slots.Delivery) { dead = append(dead, d) })
	}, l.outbox.dead, []byte(config), at, id, limit)
	return dead, err
}

// write calls f, which changes something, with a connection.
func (l *ledger) write(ctx context.Context, op string, f func(c *pgx.Conn) error) error {
	leave, err := l.enter(ctx, op)
	if err != nil {
		return err
	}
	defer leave()
	err = l.store.do(ctx, f)
	return l.fault(op, err, sent(err))
}
