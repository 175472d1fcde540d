package rulestest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/rules"
)

// Memory is a [rules.Source] in memory: what the suite holds others against. The
// zero Memory is empty and ready to use.
type Memory struct {
	mu      sync.Mutex
	version int64
	last    int64
	rows    map[int64]rules.Row
	changes []rules.Change
	fail    error
}

var _ rules.Source = (*Memory)(nil)

// Fail makes every call fail from now on with err; nil ends that.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *Memory) enter(ctx context.Context, op string) (leave func(), err error) {
	m.mu.Lock()
	if err := cmp.Or(m.fail, ctx.Err()); err != nil {
		m.mu.Unlock()
		return nil, &rules.SourceError{Store: "memory", Op: op, Err: err}
	}
	return m.mu.Unlock, nil
}

// Version implements [rules.Source].
func (m *Memory) Version(ctx context.Context) (int64, error) {
	leave, err := m.enter(ctx, "version")
	if err != nil {
		return 0, err
	}
	defer leave()
	return m.version, nil
}

// List implements [rules.Source].
func (m *Memory) List(ctx context.Context, after int64, limit int) ([]rules.Row, error) {
	leave, err := m.enter(ctx, "list")
	if err != nil {
		return nil, err
	}
	defer leave()
	var rows []rules.Row
	for _, id := range slices.Sorted(maps.Keys(m.rows)) {
		if id > after && len(rows) < limit {
			rows = append(rows, m.rows[id])
		}
	}
	return rows, nil
}

// Get implements [rules.Source].
func (m *Memory) Get(ctx context.Context, id int64) (rules.Row, error) {
	leave, err := m.enter(ctx, "get")
	if err != nil {
		return rules.Row{}, err
	}
	defer leave()
	row, ok := m.rows[id]
	if !ok {
		return rules.Row{}, rules.ErrNoRow
	}
	return row, nil
}

// Put implements [rules.Source].
func (m *Memory) Put(ctx context.Context, row rules.Row, by string) (rules.Row, error) {
	if err := errors.Join(row.Check(), rules.CheckBy(by)); err != nil {
		return rules.Row{}, err
	}
	leave, err := m.enter(ctx, "put")
	if err != nil {
		return rules.Row{}, err
	}
	defer leave()
	if err := m.expect(row.ID, row.Revision); err != nil {
		return rules.Row{}, err
	}
	for id, other := range m.rows {
		switch {
		case id == row.ID:
		case row.Name != "" && other.Name == row.Name:
			return rules.Row{}, rules.ErrNameTaken
		case row.Path != "" && other.Path == row.Path:
			return rules.Row{}, rules.ErrPathTaken
		}
	}
	if row.ID == 0 {
		row.ID = m.last + 1
	}
	m.last = max(m.last, row.ID)
	if m.rows == nil {
		m.rows = map[int64]rules.Row{}
	}
	m.version++
	row.Revision, row.Modified, row.By = m.version, time.Now(), by
	m.rows[row.ID] = row
	m.note(row, by, false)
	return row, nil
}

// Delete implements [rules.Source].
func (m *Memory) Delete(ctx context.Context, id, revision int64, by string) error {
	if err := rules.CheckBy(by); err != nil {
		return err
	}
	leave, err := m.enter(ctx, "delete")
	if err != nil {
		return err
	}
	defer leave()
	if err := m.expect(id, revision); err != nil {
		return err
	}
	row, ok := m.rows[id]
	if !ok {
		return rules.ErrNoRow
	}
	delete(m.rows, id)
	m.version++
	m.note(row, by, true)
	return nil
}

// expect returns why a row has not this revision.
func (m *Memory) expect(id, revision int64) error {
	row, ok := m.rows[id]
	switch {
	case revision != 0 && !ok:
		return rules.ErrNoRow
	case revision != row.Revision:
		return rules.ErrChanged
	}
	return nil
}

func (m *Memory) note(row rules.Row, by string, deleted bool) {
	m.changes = append(m.changes, rules.Change{N: int64(len(m.changes) + 1), At: time.Now(), By: by, Row: row, Deleted: deleted})
}

// History implements [rules.Source].
func (m *Memory) History(ctx context.Context, q rules.HistoryQuery) ([]rules.Change, error) {
	leave, err := m.enter(ctx, "history")
	if err != nil {
		return nil, err
	}
	defer leave()
	var changes []rules.Change
	for _, c := range slices.Backward(m.changes) {
		if (q.Row == 0 || q.Row == c.Row.ID) && (q.Before == 0 || c.N < q.Before) && len(changes) < q.Limit {
			changes = append(changes, c)
		}
	}
	return changes, nil
}
