package mysql

import (
	"context"
	"slices"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Update implements [limit.Store].
func (s *Store) Update(ctx context.Context, keys []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	if err := s.enter(ctx, "update", keys...); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	return s.update(ctx, "update", keys, func(v *view) error { return fn(v.now, v.cells) })
}

// update looks, calls fn with what it finds, and commits what has become dirty.
func (s *Store) update(ctx context.Context, op string, keys []string, fn func(v *view) error) error {
	if len(pages(keys)) > 1 {
		return s.updateLocked(ctx, op, keys, fn)
	}
	var v *view
	err := s.do(ctx, func(c *conn) (err error) {
		v, err = s.look(ctx, c, "", keys)
		return err
	})
	if err != nil {
		return s.fault(op, false, err)
	}
	if err := fn(v); err != nil {
		return err
	}
	commits := s.commits(v)
	switch len(commits) {
	case 0:
		return nil
	case 1:
		err := s.do(ctx, func(c *conn) error { return c.exec(ctx, commits[0]) })
		if !again(err) {
			return s.fault(op, true, err)
		}
	}
	return s.updateLocked(ctx, op, keys, fn)
}

// updateLocked is update while it holds the rows of keys.
func (s *Store) updateLocked(ctx context.Context, op string, keys []string, fn func(v *view) error) error {
	for {
		var refused error
		committing := false
		err := s.do(ctx, func(c *conn) error {
			ended := false
			defer func() {
				if !ended {
					c.rollback(ctx)
				}
			}()
			v, err := s.lookLocked(ctx, c, keys)
			if err != nil {
				return err
			}
			if refused = fn(v); refused != nil {
				return nil
			}
			commits := s.commits(v)
			for i, text := range commits {
				if committing = i == len(commits)-1; committing {
					text += "; COMMIT"
				}
				if err := c.exec(ctx, text); err != nil {
					return err
				}
			}
			ended = committing
			return nil
		})
		switch {
		case refused != nil:
			return refused
		case !again(err):
			return s.fault(op, committing, err)
		}
	}
}

// lookLocked begins a transaction, locks the rows of keys, in their order, and
// then looks at them.
func (s *Store) lookLocked(ctx context.Context, c *conn, keys []string) (*view, error) {
	before := "START TRANSACTION; "
	for i, page := range pages(slices.Sorted(slices.Values(keys))) {
		if i > 0 {
			if err := c.exec(ctx, before); err != nil {
				return nil, err
			}
			before = ""
		}
		before += s.lock(page) + "; "
	}
	return s.look(ctx, c, before, keys)
}

// Delete implements [limit.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.enter(ctx, "delete", keys...); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	for i, page := range pages(keys) {
		var t statement
		t.add("UPDATE stint_state FORCE INDEX (PRIMARY) SET version = version + 1, at = 0, a = 0, b = 0, log = '', expires = -", s.opts.clock,
			" WHERE expires > 0 AND stint_state.key IN ")
		t.list(page)
		err := s.do(ctx, func(c *conn) error { return c.exec(ctx, string(t)) })
		for again(err) {
			err = s.do(ctx, func(c *conn) error { return c.exec(ctx, string(t)) })
		}
		if err != nil {
			return sentBefore(i > 0, s.fault("delete", true, err))
		}
	}
	return nil
}

// sentBefore makes of err one that comes after what was committed, if some was.
func sentBefore(some bool, err error) error {
	if fault, ok := err.(*limit.StoreError); ok && some {
		fault.Sent = true
	}
	return err
}
