package memory

import "github.com/stint-dev/stint/limit/algo"

// entry is what is kept for one key. It is 64 bytes, a cache line: a known key
// costs one line of the index, one of entries and its bytes.
type entry struct {
	hash    uint64
	key     string
	state   algo.State
	expires algo.Ticks
}

const (
	chunkLen = 63
	minIndex = 16

	// A slot of the index is 0, or the lowest 8 bits of an entry's hash above
	// the entry's number plus 1 in 24 bits.
	tagShift   = 24
	numberMask = 1<<tagShift - 1
)

// chunk is 4 KiB together with the 8 bytes that the allocator puts in front of it,
// and begins each entry at a cache line.
type chunk struct {
	_       [56]byte
	entries [chunkLen]entry
}

// table is a hash table with linear probing whose index is apart from its
// entries. The entries lie close together in chunks, numbered from 0, so that
// growing copies none of them and wastes less than a chunk; the index is small
// enough to grow by halves. A built-in map would do the same work but takes
// twice the memory just after it has grown.
type table struct {
	index  []uint32
	chunks []*chunk
	n      int // entries
}

func newTable() table { return table{index: make([]uint32, minIndex)} }

// entry returns entry i. It is valid until an entry is removed.
func (t *table) entry(i int) *entry { return &t.chunks[uint(i)/chunkLen].entries[uint(i)%chunkLen] }

// home returns the slot at which the search for h begins: the upper half of h
// as a fraction of the index, whose length need not be a power of two.
func (t *table) home(h uint64) int { return int((h >> 32) * uint64(len(t.index)) >> 32) }

func (t *table) after(slot int) int {
	if slot++; slot < len(t.index) {
		return slot
	}
	return 0
}

// find returns the number of key's entry, or -1.
func (t *table) find(h uint64, key []byte) int {
	tag := uint32(h) << tagShift
	for slot := t.home(h); ; slot = t.after(slot) {
		v := t.index[slot]
		if v == 0 {
			return -1
		}
		if v&^numberMask != tag {
			continue
		}
		i := int(v&numberMask) - 1
		if e := t.entry(i); e.hash == h && e.key == string(key) {
			return i
		}
	}
}

// insert adds an entry for a key that is not there.
func (t *table) insert(h uint64, key string) *entry {
	if 5*(t.n+1) > 4*len(t.index) {
		t.reindex(len(t.index) * 3 / 2)
	}
	if t.n == len(t.chunks)*chunkLen {
		t.chunks = append(t.chunks, new(chunk))
	}
	i := t.n
	t.n++
	e := t.entry(i)
	e.hash, e.key = h, key
	t.point(h, i)
	return e
}

// remove takes entry i out and gives its number to the last entry.
func (t *table) remove(i int) {
	t.vacate(t.slotOf(i))
	last := t.n - 1
	end := t.entry(last)
	if i != last {
		slot := t.slotOf(last)
		t.index[slot] = t.index[slot]&^numberMask | uint32(i+1)
		*t.entry(i) = *end
	}
	*end = entry{}
	t.n = last

	// One empty chunk stays, lest a table at the edge of a chunk keep
	// allocating.
	if c := len(t.chunks) - 1; t.n <= (c-1)*chunkLen {
		t.chunks[c] = nil
		t.chunks = t.chunks[:c]
	}
	if len(t.index) > minIndex && 4*t.n < len(t.index) {
		t.reindex(max(len(t.index)/2, minIndex))
	}
}

// slotOf returns the slot that points to entry i.
func (t *table) slotOf(i int) int {
	slot := t.home(t.entry(i).hash)
	for t.index[slot]&numberMask != uint32(i+1) {
		slot = t.after(slot)
	}
	return slot
}

// vacate empties a slot and moves later ones back, so that every search from
// an entry's home still reaches it without crossing an empty slot.
func (t *table) vacate(hole int) {
	for slot := t.after(hole); ; slot = t.after(slot) {
		v := t.index[slot]
		if v == 0 {
			break
		}
		home := t.home(t.entry(int(v&numberMask) - 1).hash)
		if t.distance(home, slot) >= t.distance(hole, slot) {
			t.index[hole] = v
			hole = slot
		}
	}
	t.index[hole] = 0
}

// distance returns how many slots to lies after from.
func (t *table) distance(from, to int) int {
	if to >= from {
		return to - from
	}
	return to - from + len(t.index)
}

// point makes a free slot point to entry i.
func (t *table) point(h uint64, i int) {
	slot := t.home(h)
	for t.index[slot] != 0 {
		slot = t.after(slot)
	}
	t.index[slot] = uint32(h)<<tagShift | uint32(i+1)
}

func (t *table) reindex(slots int) {
	t.index = make([]uint32, slots)
	for i := range t.n {
		t.point(t.entry(i).hash, i)
	}
}
