package mysql

import (
	"context"
	"database/sql/driver"
	"math"
	"slices"
	"strings"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// view is what there is under some keys, and when.
type view struct {
	now   algo.Ticks
	cells []limit.Cell
	rows  []row // one for each cell
}

// row is what there is of a cell besides its state.
type row struct {
	expires algo.Ticks // or less than 0: when the state was deleted
	version int64      // 0: there is no row
}

// look runs what is to come before it, and then reads keys. The clock is read
// last, so it shows no less than that of whoever has written what is found.
func (s *Store) look(ctx context.Context, c *conn, before string, keys []string) (*view, error) {
	v := &view{cells: make([]limit.Cell, len(keys)), rows: make([]row, len(keys))}
	index := make(map[string]int, len(keys))
	for i, k := range keys {
		v.cells[i].Key, index[k] = k, i
	}
	for _, page := range pages(keys) {
		var t statement
		t.add(before, byKey)
		t.list(page)
		t.add("; SELECT ", s.opts.clock)
		err := c.query(ctx, t, func(values []driver.Value) {
			if len(values) == 1 {
				v.now = algo.Ticks(values[0].(int64))
				return
			}
			i := index[string(values[0].([]byte))]
			v.cells[i].State, v.rows[i] = scan(values)
		})
		if err != nil {
			return nil, err
		}
		before = ""
	}
	for i, r := range v.rows {
		if r.expires > v.now {
			v.cells[i].Version = r.version
		} else {
			v.cells[i].State = algo.State{}
		}
	}
	return v, nil
}

// scan reads the values of columns, the key not among them.
func scan(values []driver.Value) (algo.State, row) {
	state := algo.State{At: algo.Ticks(values[1].(int64)), A: values[2].(int64), B: values[3].(int64)}
	r := row{expires: algo.Ticks(values[4].(int64)), version: values[5].(int64)}
	return state.WithEntries(string(values[6].([]byte))), r
}

// mark says in one number what is to be overwritten at r. A negative one is a
// version, of a state that is alive. A positive one is nothing that is alive: it
// is the version to come, above that of the row, if there is one.
func (r row) mark(now algo.Ticks) int64 {
	if r.expires > now {
		return -r.version
	}
	return max(r.version+1, int64(now))
}

// next returns the version of what overwrites a mark.
func next(mark int64) int64 {
	if mark < 0 {
		return -mark + 1
	}
	return mark
}

// commits returns the statements that write what is dirty in v, each of them
// whole or, if a row is not as v has it any more, not at all. There is more than
// one only if it would become too long.
func (s *Store) commits(v *view) (all []string) {
	var dirty []int
	for i := range v.cells {
		if v.cells[i].Dirty {
			dirty = append(dirty, i)
		}
	}
	slices.SortFunc(dirty, func(i, j int) int { return strings.Compare(v.cells[i].Key, v.cells[j].Key) })
	var t statement
	for n, i := range dirty {
		if len(t) == 0 {
			t.add(insert)
		} else {
			t.add(", ")
		}
		s.write(&t, v, i)
		if n == len(dirty)-1 || len(t) > maxStatement {
			t.overwrite(v.now)
			all = append(all, string(t))
			t = t[:0]
		}
	}
	return all
}

// write adds the row that cell i is to become. A row that was alive and is not
// there any more would be inserted. It is there for a minute after it has expired
// or was deleted, see sweepAfter, so what comes later than half of that fails.
func (s *Store) write(t *statement, v *view, i int) {
	c := &v.cells[i]
	state, expires := c.State, v.now+min(c.TTL, math.MaxInt64-v.now)
	if c.TTL <= 0 {
		state, expires = algo.State{}, -v.now
	}
	t.add("(")
	t.bytes(c.Key)
	mark := v.rows[i].mark(v.now)
	for _, n := range [...]int64{int64(state.At), state.A, state.B, int64(expires), mark} {
		t.add(", ")
		t.number(n)
	}
	if mark < 0 {
		t.add(" - IF(", s.opts.clock, " < ")
		t.number(int64(v.now + sweepAfter/2))
		t.add(", 0, ", most, ")")
	}
	t.add(", ")
	t.bytes(state.Entries())
	t.add(")")
}

// most is the largest number. A sum or a difference with it and a version does not
// fit, which is how a statement fails whatever the sql_mode.
const most = "9223372036854775807"

// overwrite ends a statement that writes rows of v: where there is a row it is
// compared with the mark. That looks at a row, so that it cannot fail before there
// is one; and at expires, so that version, as columns are assigned one after
// another, comes first.
func (t *statement) overwrite(now algo.Ticks) {
	t.add(" ON DUPLICATE KEY UPDATE version = IF(version = -VALUES(version) OR version < VALUES(version) AND expires <= ")
	t.number(int64(now))
	t.add(", GREATEST(version + 1, VALUES(version)), version + ", most, "),",
		" at = VALUES(at), a = VALUES(a), b = VALUES(b), expires = VALUES(expires), log = VALUES(log)")
}

// lock returns the statement that locks the rows of keys until the transaction
// ends. It makes those that are missing, as states that were deleted.
func (s *Store) lock(keys []string) string {
	var t statement
	t.add(insert)
	for i, k := range keys {
		if i > 0 {
			t.add(", ")
		}
		t.add("(")
		t.bytes(k)
		t.add(", 0, 0, 0, -", s.opts.clock, ", ", s.opts.clock, ", '')")
	}
	t.add(" ON DUPLICATE KEY UPDATE version = stint_state.version")
	return string(t)
}
