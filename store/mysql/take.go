package mysql

import (
	"context"
	"database/sql/driver"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// A take spends under GCRA, see algo.GCRA, in one statement and one commit. Of new
// keys it inserts what the rows become. Where there is a row it locks it, reads the
// clock, works out what the row becomes, and leaves it alone if that admits nothing.
// It returns the states that it has found, and when.
//
// All takes of a statement have the quota, window, burst, cost and times in
// common. Columns are assigned one after another, and variables are set on the
// way; they have their types from the settings of the connection. owed is what is
// missing from the bucket, in units times the window, and n how often the cost
// fits. States that GCRA first puts in bounds are left to Update: arithmetic with
// them might not fit.
//
// MariaDB alone has RETURNING. The list of names is a table, and not rows to
// insert, because the server would take longer to read the same expressions again
// and again than to work them out.
const (
	takeBegin = `INSERT INTO stint_state (` + columns + `)
WITH w (name) AS (VALUES (`
	takeEnd = `)) SELECT name, @now := {now}, {spent} + (@found := 0), 0, @now + {until}, @now, '' FROM w
ON DUPLICATE KEY UPDATE
	version = version + 0 * (@now := {now}),
	version = version + 0 * (@at := IF(expires > @now, at, 0)),
	version = version + 0 * (@a := IF(expires > @now, a, 0)),
	version = version + 0 * (@b := IF(expires > @now, b, 0)),
	version = version + 0 * (@owed := IF(@at <= {latest} AND @a BETWEEN 0 AND {burst} AND @b BETWEEN 0 AND {span} - 1,
		GREATEST(0, @a * {span} + @b - {quota} * LEAST(GREATEST(@at, @now) - @at, (@a * {span} + @b) DIV {quota} + 1)), {burst} * {span})),
	version = version + 0 * (@n := LEAST({times}, ({burst} - (@owed + {span} - 1) DIV {span}) DIV {cost})),
	version = version + (@n > 0) + 0 * (@found := 1),
	at = IF(@n > 0, GREATEST(@at, @now), at),
	a = IF(@n > 0, @owed DIV {span} + @n * {cost}, a),
	b = IF(@n > 0, @owed % {span}, b),
	expires = IF(@n > 0, at + (@owed + @n * {cost} * {span} + {quota} - 1) DIV {quota}, expires)
RETURNING stint_state.key, @now, @at * @found, @a * @found, @b * @found`
)

// latest is the last instant that a take reckons with.
const latest = 1 << 61

// TakesBulk implements [limit.BulkTaker]. The arithmetic of a take must fit a BIGINT.
func (s *Store) TakesBulk(p *limit.Policy, cost int64) bool {
	l := p.Limit()
	const most = math.MaxInt64 / 4
	return s.returning && (p.Algorithm == nil || p.Algorithm == algo.GCRA) &&
		l.Quota > 0 && l.Quota <= most && cost > 0 && cost <= l.Burst && l.Burst < most/int64(l.Window)
}

// TakeBulk implements [limit.BulkTaker] by a statement for all that are alike. It
// leaves to an update what these do not settle.
func (s *Store) TakeBulk(ctx context.Context, takes []limit.Take) error {
	keys := make([]string, len(takes))
	for i := range takes {
		keys[i] = takes[i].Key
	}
	if err := s.enter(ctx, "take", keys...); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	settled := make([]bool, len(takes))
	if len(pages(keys)) == 1 {
		for k, alike := range kinds(takes) {
			err := s.do(ctx, func(c *conn) error { return s.take(ctx, c, k, takes, alike, settled) })
			if err != nil && !again(err) {
				return sentBefore(slices.Contains(settled, true), s.fault("take", true, err))
			}
		}
	}
	err := limit.TakeByUpdate(takes, settled, func(keys []string, fn func(algo.Ticks, []limit.Cell) error) error {
		return s.update(ctx, "take", keys, func(v *view) error { return fn(v.now, v.cells) })
	})
	return sentBefore(slices.Contains(settled, true), err)
}

// kind is what the takes of one statement have in common.
type kind struct {
	limit algo.Limit
	cost  int64
	times int
}

// kinds divides takes, each part in the order of the keys.
func kinds(takes []limit.Take) map[kind][]int {
	parts := make(map[kind][]int)
	for i := range takes {
		t := &takes[i]
		k := kind{t.Policy.Limit(), t.Cost, t.Times}
		parts[k] = append(parts[k], i)
	}
	for _, part := range parts {
		slices.SortFunc(part, func(i, j int) int { return strings.Compare(takes[i].Key, takes[j].Key) })
	}
	return parts
}

// take does those of takes that are alike, and says which of them are settled.
func (s *Store) take(ctx context.Context, c *conn, k kind, takes []limit.Take, alike []int, settled []bool) error {
	index := make(map[string]int, len(alike))
	var t statement
	t.add(k.fill(takeBegin, s.opts.lateClock))
	for n, i := range alike {
		if n > 0 {
			t.add("), (")
		}
		t.bytes(takes[i].Key)
		index[takes[i].Key] = i
	}
	t.add(k.fill(takeEnd, s.opts.lateClock))
	found := make([]int, 0, len(alike))
	err := c.query(ctx, t, func(values []driver.Value) {
		i := index[string(values[0].([]byte))]
		takes[i].Now = algo.Ticks(values[1].(int64))
		takes[i].Before = algo.State{At: algo.Ticks(values[2].(int64)), A: values[3].(int64), B: values[4].(int64)}
		found = append(found, i)
	})
	if err != nil {
		return err // and what it had found holds no more
	}
	for _, i := range found {
		settled[i] = k.holds(takes[i].Before)
	}
	return nil
}

// fill writes k into SQL.
func (k kind) fill(text, clock string) string {
	n := min(int64(k.times), k.limit.Burst/k.cost)
	spent, span := n*k.cost, int64(k.limit.Window)
	pairs := []string{"{now}", clock}
	for _, p := range []struct {
		name  string
		value int64
	}{
		{"{quota}", k.limit.Quota}, {"{span}", span}, {"{burst}", k.limit.Burst}, {"{cost}", k.cost}, {"{times}", int64(k.times)},
		{"{latest}", latest}, {"{spent}", spent}, {"{until}", (spent*span + k.limit.Quota - 1) / k.limit.Quota},
	} {
		pairs = append(pairs, p.name, strconv.FormatInt(p.value, 10))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// holds reports whether a take reckons with s.
func (k kind) holds(s algo.State) bool {
	return s.At <= latest && s.A >= 0 && s.A <= k.limit.Burst && s.B >= 0 && s.B < int64(k.limit.Window)
}
