package redis

import (
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// exact is the most that lua/take.lua can work with.
const exact = 1 << 52

// TakesBulk implements [limit.BulkTaker]: it is for the algorithms gcra, fixed
// and sliding, as long as Lua's numbers hold what they multiply. Under gcra and
// sliding that is each quota up to 75 million a minute, a million an hour, or
// 52,000 a day; under gcra also a greater one that is as round as a million a day.
func (s *Store) TakesBulk(p *limit.Policy, cost int64) bool {
	l := p.Limit()
	if l.Quota < 1 || cost < 1 || l.Quota > exact || l.Burst > exact || l.Window > exact {
		return false
	}
	switch algorithm(p) {
	case algo.GCRA:
		return small(l.Quota, l.Window) || small(l.Quota/divisor(l), l.Window)
	case algo.Sliding:
		return small(l.Quota, l.Window)
	case algo.Fixed:
		return true
	}
	return false
}

func algorithm(p *limit.Policy) *algo.Algorithm {
	if p.Algorithm == nil {
		return algo.GCRA
	}
	return p.Algorithm
}

// small reports whether quota*window is exact.
func small(quota int64, window algo.Ticks) bool {
	hi, lo := bits.Mul64(uint64(quota), uint64(window))
	return hi == 0 && lo <= exact
}

// divisor returns by what quota and window can both be divided.
func divisor(l algo.Limit) int64 {
	a, b := l.Quota, int64(l.Window)
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// kind is what the takes of one call have in common.
type kind struct {
	place     string
	algorithm *algo.Algorithm
	limit     algo.Limit
	cost      int64
	times     int
}

// takeCall returns the call that does takes of kind k.
func (s *Store) takeCall(k kind, names []string) call {
	var numbers []byte
	for _, n := range []int64{s.slack.Milliseconds(), k.limit.Quota, int64(k.limit.Window), k.limit.Burst, divisor(k.limit), k.cost, int64(k.times)} {
		numbers = binary.BigEndian.AppendUint64(numbers, uint64(n))
	}
	return call{takeScripts[k.algorithm], names, s.args(string(numbers))}
}

// TakeBulk implements [limit.BulkTaker].
func (s *Store) TakeBulk(ctx context.Context, takes []limit.Take) error {
	keys := make([]string, len(takes))
	for i := range takes {
		keys[i] = takes[i].Key
	}
	if err := s.enter(ctx, "take", keys); err != nil {
		return err
	}
	defer s.inside.RUnlock()
	names := s.names(keys)
	kindOf := func(i int) kind {
		t := &takes[i]
		return kind{s.place(names[i]), algorithm(t.Policy), t.Policy.Limit(), t.Cost, t.Times}
	}
	parts := groups(len(takes), kindOf)
	calls := make([]call, len(parts))
	for i, part := range parts {
		calls[i] = s.takeCall(kindOf(part[0]), pick(names, part))
	}
	results := s.run(ctx, calls...)
	if sent, err := outcome(results); err != nil {
		return s.fault("take", sent, err)
	}
	for i, part := range parts {
		reply, err := results[i].ToString()
		if err != nil {
			return s.fault("take", true, err)
		}
		left, err := readTakes(reply, takes, part)
		if err != nil {
			return s.fault("take", true, err)
		}
		for _, at := range left {
			if err := s.takeSlowly(ctx, names[at], &takes[at]); err != nil {
				return s.fault("take", true, errors.Unwrap(err))
			}
		}
	}
	return nil
}

var errReply = errors.New("the server's answer to a script is cut short")

// readTakes sets the results of those of takes that part names, and returns
// which of them the script has left alone.
func readTakes(reply string, takes []limit.Take, part []int) (left []int, err error) {
	const valueLen = headLen + stateLen
	if len(reply) < 8 {
		return nil, errReply
	}
	now, rest := word[algo.Ticks](reply), reply[8:]
	for _, at := range part {
		t := &takes[at]
		t.Now, t.Before = now, algo.State{}
		switch {
		case strings.HasPrefix(rest, "-"):
			rest = rest[1:]
		case strings.HasPrefix(rest, "x"):
			left = append(left, at)
			rest = rest[1:]
		case len(rest) >= valueLen:
			t.Before = value(rest[:valueLen]).state()
			rest = rest[valueLen:]
		default:
			return nil, errReply
		}
	}
	return left, nil
}

// takeSlowly does what TakeBulk does, by looking and writing.
func (s *Store) takeSlowly(ctx context.Context, name string, t *limit.Take) error {
	return s.update(ctx, []string{t.Key}, []string{name}, func(now algo.Ticks, cells []limit.Cell) error {
		c := &cells[0]
		t.Before, t.Now = c.State, now
		for range t.Times {
			state, v := t.Policy.Decide(c.State, now, t.Cost)
			if !v.OK {
				break
			}
			c.State, c.TTL, c.Dirty = state, v.ResetAfter, true
		}
		return nil
	})
}
