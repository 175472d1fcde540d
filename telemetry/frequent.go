package telemetry

import (
	"cmp"
	"slices"
	"strings"
)

// frequent finds the names that come most often, in bounded memory. It is the
// Space-Saving sketch of Metwally, Agrawal and El Abbadi, "Efficient
// Computation of Frequent and Top-k Elements in Data Streams" (ICDT 2005).
//
// It follows so many names as it has room for, each with a weight. A name that
// is new takes the place of the one with the least weight, w, and begins with
// weight w+1 and error w, since it may have come w times before without being
// followed. So of every name that is followed
//
//	weight - err <= how often it came <= weight,  err <= total / room
//
// and every name that came more often than total / room is followed. Both stay
// true when fade makes all that came so far count for less.
type frequent struct {
	room   int
	byName map[string]*followed
	heap   []*followed // the least weight first
}

// followed is one name that a frequent follows.
type followed struct {
	name        string
	weight, err float64
	// seen counts what became of it since it is followed, by outcome. It does
	// not fade.
	seen [outcomes]uint64

	at int // in the heap
}

func newFrequent(room int) *frequent {
	return &frequent{room: room, byName: make(map[string]*followed, room), heap: make([]*followed, 0, room)}
}

// add takes note that name has come once more.
func (f *frequent) add(name string) *followed {
	one := f.byName[name]
	switch {
	case one != nil:
		one.weight++
		f.down(one.at)
		return one
	case len(f.heap) < f.room:
		one = &followed{name: strings.Clone(name), weight: 1, at: len(f.heap)}
		f.heap = append(f.heap, one)
		f.up(one.at)
	default:
		one = f.heap[0]
		delete(f.byName, one.name)
		*one = followed{name: strings.Clone(name), weight: one.weight + 1, err: one.weight}
		f.down(0)
	}
	f.byName[one.name] = one
	return one
}

// fade makes all that came so far count by a factor below 1.
func (f *frequent) fade(factor float64) {
	for _, one := range f.heap {
		one.weight *= factor
		one.err *= factor
	}
}

// top returns copies of the n names with the most weight, the heaviest first.
func (f *frequent) top(n int) []followed {
	all := make([]followed, len(f.heap))
	for i, one := range f.heap {
		all[i] = *one
	}
	slices.SortFunc(all, func(a, b followed) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	return all[:min(n, len(all))]
}

// up moves the name at place i of the heap to where its weight belongs,
// towards the least.
func (f *frequent) up(i int) {
	for i > 0 && f.heap[i].weight < f.heap[(i-1)/2].weight {
		f.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

// down moves the name at place i of the heap away from the least.
func (f *frequent) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(f.heap); child++ {
			if f.heap[child].weight < f.heap[least].weight {
				least = child
			}
		}
		if least == i {
			return
		}
		f.swap(i, least)
		i = least
	}
}

func (f *frequent) swap(i, j int) {
	f.heap[i], f.heap[j] = f.heap[j], f.heap[i]
	f.heap[i].at, f.heap[j].at = i, j
}
