// Package lease keeps who holds which part of a tenant's seats in the store of limits,
// whichever that is: a tenant's holders are a cell like any other.
//
// They are one cell rather than one for each seat, so that a cap is kept by every store,
// also one that cannot change several keys together, and changes with one write.
package lease

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

const (
	// prefix begins the store key of a tenant's holders. No policy's key begins so.
	prefix = "cap:"
	// kept is how long holders are kept that nobody changes: as long as the store
	// may be away and each node still find what it had.
	kept = algo.Hour
	// slowest is the longest pause before what others have changed meanwhile is tried
	// again.
	slowest = 50 * time.Millisecond
)

// Leaser is an isolate.Leaser over any store. It is safe for simultaneous use.
type Leaser struct {
	store limit.Store
	swap  limit.Swapper // nil if the store has none
}

// New returns a Leaser over s, which it does not close.
func New(s limit.Store) *Leaser {
	swap, _ := s.(limit.Swapper)
	return &Leaser{s, swap}
}

type settle = func(n int, now time.Time, holders []isolate.Holder) (next []isolate.Holder, keep bool)

// Lease implements isolate.Leaser.
func (l *Leaser) Lease(ctx context.Context, tenants []string, settle settle) error {
	if len(tenants) == 0 {
		return nil
	}
	keys := make([]string, len(tenants))
	for n, tenant := range tenants {
		keys[n] = prefix + tenant
	}
	if l.swap != nil {
		return l.bySwap(ctx, keys, settle)
	}
	return l.store.Update(ctx, keys, func(now algo.Ticks, cells []limit.Cell) error {
		for n := range cells {
			change(&cells[n], n, now, settle)
		}
		return nil
	})
}

// bySwap looks at all cells, and writes those that are to be kept, until nobody has
// been faster, or ctx ends.
func (l *Leaser) bySwap(ctx context.Context, keys []string, settle settle) error {
	cells := make([]limit.Cell, len(keys))
	which := make([]int, len(keys)) // of tenants
	for n, key := range keys {
		cells[n].Key, which[n] = key, n
	}
	for try := 0; ; try++ {
		if try > 1 {
			longest := min(slowest, time.Millisecond<<min(try, 10))
			if err := pause(ctx, rand.N(longest)); err != nil {
				return fmt.Errorf("lease: others changed the seats of %d tenants %d times meanwhile: %w", len(cells), try-1, err)
			}
		}
		now, err := l.swap.Swap(ctx, cells)
		if err != nil {
			return err
		}
		left := 0
		for k := range cells {
			if cells[k].Dirty {
				continue // it is written
			}
			change(&cells[k], which[k], now, settle)
			if cells[k].Dirty {
				cells[left], which[left] = cells[k], which[k]
				left++
			}
		}
		if cells, which = cells[:left], which[:left]; left == 0 {
			return nil
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change lets settle change the cell of tenant n.
func change(c *limit.Cell, n int, now algo.Ticks, settle settle) {
	next, keep := settle(n, time.UnixMicro(int64(now)), decode(c.State.Entries()))
	if !keep {
		return
	}
	c.Dirty = true
	if len(next) == 0 {
		c.State, c.TTL = algo.State{}, 0
		return
	}
	c.State = algo.State{At: max(now, c.State.At)}.WithEntries(encode(next))
	c.TTL = kept
	for _, h := range next {
		c.TTL = max(c.TTL, kept+algo.Ticks(h.TTL.Microseconds()))
	}
}

// holderLen is how many bytes a holder has.
const holderLen = 4*8 + 4*4

// encode returns holders as bytes. Instants have microseconds.
func encode(holders []isolate.Holder) string {
	b := make([]byte, 0, len(holders)*holderLen)
	for _, h := range holders {
		b = binary.BigEndian.AppendUint64(b, h.Node)
		b = binary.BigEndian.AppendUint64(b, uint64(h.Turn.UnixMicro()))
		b = binary.BigEndian.AppendUint64(b, uint64(h.Seen.UnixMicro()))
		b = binary.BigEndian.AppendUint64(b, uint64(h.TTL.Microseconds()))
		for _, v := range []uint32{h.Seats, h.Want, h.First, h.Cap} {
			b = binary.BigEndian.AppendUint32(b, v)
		}
	}
	return string(b)
}

// decode returns what encode has written; of anything else it returns none. Another form
// of holders has to have another prefix.
func decode(entries string) []isolate.Holder {
	if len(entries)%holderLen != 0 {
		return nil
	}
	b := []byte(entries)
	long := func() (v int64) {
		v = int64(binary.BigEndian.Uint64(b))
		b = b[8:]
		return v
	}
	short := func() (v uint32) {
		v = binary.BigEndian.Uint32(b)
		b = b[4:]
		return v
	}
	holders := make([]isolate.Holder, 0, len(b)/holderLen)
	for len(b) > 0 {
		h := isolate.Holder{
			Node: uint64(long()), Turn: time.UnixMicro(long()), Seen: time.UnixMicro(long()),
			TTL:   time.Duration(long()) * time.Microsecond,
			Seats: short(), Want: short(), First: short(), Cap: short(),
		}
		holders = append(holders, h)
	}
	return holders
}
