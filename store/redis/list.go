package redis

import (
	"context"
	"hash/maphash"
	"iter"
	"strings"

	"github.com/redis/rueidis"

	"github.com/stint-dev/stint/limit"
)

// pageLen is about how many keys a server looks at in one go.
const pageLen = 500

// List implements [limit.Lister]. On a cluster it goes from master to master.
//
// Redis may name a key twice while it grows or shrinks its table. A hash of 64
// bits of each key is remembered, so that none is yielded twice.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[limit.Cell, error] {
	return func(yield func(limit.Cell, error) bool) {
		masters, err := s.enterMasters(ctx)
		if err != nil {
			yield(limit.Cell{}, err)
			return
		}
		seed, known := maphash.MakeSeed(), make(map[uint64]bool)
		for _, m := range masters {
			for cursor, begun := uint64(0), false; cursor != 0 || !begun; begun = true {
				var page []limit.Cell
				if page, cursor, err = s.page(ctx, m, cursor, prefix); err != nil {
					yield(limit.Cell{}, err)
					return
				}
				for _, c := range page {
					hash := maphash.String(seed, c.Key)
					if known[hash] {
						continue
					}
					known[hash] = true
					if !yield(c, nil) {
						return
					}
				}
			}
		}
	}
}

func (s *Store) enterMasters(ctx context.Context) ([]rueidis.Client, error) {
	if err := s.enter(ctx, "list", nil); err != nil {
		return nil, err
	}
	defer s.inside.RUnlock()
	masters, err := s.masters(ctx)
	if err != nil {
		return nil, s.fault("list", false, err)
	}
	return masters, nil
}

// page returns the live cells that m has from cursor on, and the next cursor,
// 0 at the end.
func (s *Store) page(ctx context.Context, m rueidis.Client, cursor uint64, prefix string) ([]limit.Cell, uint64, error) {
	if err := s.enter(ctx, "list", nil); err != nil {
		return nil, 0, err
	}
	defer s.inside.RUnlock()
	match := glob(s.prefix) + "{????}" + glob(prefix) + "*"
	scan, err := m.Do(ctx, m.B().Scan().Cursor(cursor).Match(match).Count(pageLen).Build()).AsScanEntry()
	if err != nil {
		return nil, 0, s.fault("list", false, err)
	}
	parts := groups(len(scan.Elements), func(i int) string { return s.place(scan.Elements[i]) })
	calls := make([]call, len(parts))
	for i, part := range parts {
		calls[i] = s.lookCall(pick(scan.Elements, part))
	}
	var page []limit.Cell
	for i, result := range s.run(ctx, calls...) {
		seen, err := readSeen(result)
		if err != nil {
			return nil, 0, s.fault("list", false, err)
		}
		for j, v := range seen.values {
			if v != "" {
				page = append(page, limit.Cell{Key: s.key(calls[i].keys[j]), State: v.state(), TTL: v.ends() - seen.now})
			}
		}
	}
	return page, scan.Cursor, nil
}

// glob writes text as a pattern that matches nothing else.
func glob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
