package redis

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Swap implements [limit.Swapper].
func (s *Store) Swap(ctx context.Context, cells []limit.Cell) (now algo.Ticks, err error) {
	keys := make([]string, len(cells))
	for i, c := range cells {
		keys[i] = c.Key
	}
	if err := s.enter(ctx, "swap", keys); err != nil {
		return 0, err
	}
	defer s.inside.RUnlock()
	names := s.names(keys)
	parts := groups(len(cells), func(i int) string { return s.place(names[i]) })
	calls := make([]call, len(parts))
	for i, part := range parts {
		args := slices.Grow(s.swapArgs("each"), 3*len(part))
		for _, at := range part {
			args = appendCell(args, versionText(cells[at].Version), cells[at])
		}
		calls[i] = call{swapScript, pick(names, part), args}
	}
	results := s.run(ctx, calls...)
	if sent, err := outcome(results); err != nil {
		return 0, s.fault("swap", sent, err)
	}
	for i, part := range parts {
		seen, err := readSeen(results[i])
		if err != nil {
			return 0, s.fault("swap", true, err)
		}
		now = max(now, seen.now)
		for j, at := range part {
			swapped(&cells[at], seen.values[j], calls[i].args[versionArg])
		}
	}
	return now, nil
}

// swapped sets c to what a Swap that writes version has made of it.
func swapped(c *limit.Cell, found value, version string) {
	switch {
	case found != written:
		c.State, c.Version, c.Dirty = found.state(), versionOf(found.version()), false
	case c.TTL > 0:
		c.Version = versionOf(version)
	default:
		c.Version = 0
	}
}

// versionOf returns a value's version as a Cell has it.
func versionOf(text string) int64 {
	if text == "" {
		return 0
	}
	return word[int64](text)
}

// versionText undoes versionOf.
func versionText(version int64) string {
	if version == 0 {
		return ""
	}
	return string(binary.BigEndian.AppendUint64(nil, uint64(version)))
}
