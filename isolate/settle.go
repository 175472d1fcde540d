package isolate

import (
	"cmp"
	"slices"
	"time"
)

// turn is how long a node keeps a seat, as far as its requests are short, for which
// another stands in line.
const turn = time.Second

// word is what a node says of a tenant, and what it gets.
//
// Who holds how many seats is settled by each node for itself, in the same way: from
// what all of them want follows what each is to have, their targets. A node takes no
// more than is free and no more than its target, and gives back what is above either as
// soon as nothing runs on it. So the sum never grows beyond the cap, whatever becomes
// of the others, and whether or not they agree; and after the cap was lowered nothing
// starts until the sum is within it.
type word struct {
	node   uint64
	cap    int // of all nodes together, as this one knows it
	want   int // what it would like to hold
	spare  int // and what it would take besides if nobody else needs it
	first  int // what the request costs that waits first, 0 if none waits
	use    int // what requests hold of it
	keep   int // what requests may hold before it has got its answer
	ttl    time.Duration
	unsure bool // its last word may yet arrive, unless it is followed by another

	held  int // what it holds now
	limit int // what requests may hold from now on, at most held
}

// settle returns the holders of a tenant after w, and whether they are to be kept. It
// sets what the node gets.
func (w *word) settle(now time.Time, holders []Holder) (next []Holder, keep bool) {
	w.held, w.limit = 0, 0
	next = make([]Holder, 0, len(holders)+1)
	var last time.Time
	for _, h := range holders {
		if h.Seen.After(last) {
			last = h.Seen
		}
	}
	if now.Before(last) {
		now = last
	}
	// While nobody had a word, the store was away, or all nodes were. In the first
	// case each goes on with what it had, and has to be given the time to say so.
	away := len(holders) > 0 && now.Sub(last) > w.ttl/2
	var me Holder
	cap, sum := w.cap, 0
	for _, h := range holders {
		if h.Node == w.node {
			me = h
			sum += int(h.Seats)
			continue
		}
		if grace := now.Add(w.ttl/2 - h.TTL); away && h.Seen.Before(grace) {
			h.Seen = grace
		}
		if h.lapsed(now) {
			continue
		}
		cap = min(cap, int(h.Cap))
		sum += int(h.Seats)
		next = append(next, h)
	}
	known := me.Node == w.node
	switch {
	case !known && (w.want == 0 || len(next) >= MaxHolders):
		return holders, false
	case !known:
		me = Holder{Node: w.node, Turn: now}
	}
	was := me
	me.Cap, me.Want, me.First = uint32(w.cap), uint32(w.want), uint32(w.first)
	me.Seen, me.TTL = now, w.ttl
	next = append(next, me)
	mine := &next[len(next)-1]

	held := int(was.Seats)
	// When the cap was lowered, the others may hold so much that what this one has is
	// too much, though it is its part.
	free := max(0, cap-(sum-held))
	target := min(targets(now, cap, w.spare, next), free)
	held = max(target, min(held, w.keep))
	w.held, w.limit = held, min(held, target)
	if w.first > 0 && int(was.Seats)-w.use < w.first && w.limit-w.use >= w.first {
		mine.Turn = now
	}
	mine.Seats = uint32(held)
	others := len(next) > 1
	keep = !known || w.unsure || mine.Seats != was.Seats || mine.Cap != was.Cap || now.Sub(was.Seen) >= w.ttl/3 ||
		others && (mine.Want != was.Want || mine.First != was.First)
	if w.want == 0 && held == 0 {
		next, keep = next[:len(next)-1], true
	}
	return next, keep
}

// targets returns how many seats the last of holders is to have: what it wants if that
// is there for all, and otherwise an equal part of what those who want less leave. What
// cannot be divided goes to them in turns, and whose turn it is first has enough for one
// request in any case.
func targets(now time.Time, cap, spare int, holders []Holder) int {
	level, _ := divide(cap, holders, -1)
	order := inOrder(now, level, holders)
	front := slices.IndexFunc(order, func(i int) bool { return holders[i].First > 0 })
	if front >= 0 {
		front = order[front]
	}
	level, left := divide(cap, holders, front)
	me := len(holders) - 1
	mine := holders[me].part(level, me == front)
	for _, i := range order {
		if h := &holders[i]; left > 0 && h.part(level+1, i == front) > h.part(level, i == front) {
			left--
			if i == me {
				mine++
			}
		}
	}
	return mine + min(spare, left)
}

// part returns what h has at a level, and at least what one request needs if h is in
// front.
func (h *Holder) part(level int, front bool) int {
	if front {
		level = max(level, int(h.First))
	}
	return min(int(h.Want), level)
}

// divide returns the highest level at which there is enough for all, and what is left.
func divide(cap int, holders []Holder, front int) (level, left int) {
	sum := func(level int) (all int) {
		for i := range holders {
			all += holders[i].part(level, i == front)
		}
		return all
	}
	if front >= 0 && sum(0) > cap {
		return 0, 0 // one request costs more than there is by now
	}
	for beyond := cap + 1; beyond-level > 1; {
		if middle := (level + beyond) / 2; sum(middle) <= cap {
			level = middle
		} else {
			beyond = middle
		}
	}
	return level, cap - sum(level)
}

// inOrder returns the order in which holders have what is left beyond a level: those
// whose turn it is, those who have waited longest, and those who have had it, the last
// of these first.
func inOrder(now time.Time, level int, holders []Holder) []int {
	order := make([]int, len(holders))
	rank := make([]int, len(holders))
	for i := range holders {
		order[i] = i
		switch h := &holders[i]; {
		case int(h.Seats) <= h.part(level, false):
			rank[i] = 1
		case now.Sub(h.Turn) >= turn:
			rank[i] = 2
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &holders[a], &holders[b]
		since := x.Turn.Compare(y.Turn)
		if rank[a] == 2 {
			since = -since
		}
		return cmp.Or(cmp.Compare(rank[a], rank[b]), since, cmp.Compare(x.Node, y.Node))
	})
	return order
}
