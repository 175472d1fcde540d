package replay

import (
	"cmp"
	"slices"
)

// sketch finds the keys that are hit most with a bounded number of counters.
// It is the space-saving algorithm of Metwally, Agrawal and El Abbadi,
// "Efficient computation of frequent and top-k elements in data streams",
// ICDT 2005: a key without a counter takes over the smallest one with its
// count. A count is so never too small, and too large by at most its excess,
// which is 0 as long as there are no more keys than counters.
type sketch struct {
	max  int
	at   map[string]int // place of a key in heap
	heap []counter      // the smallest count first
}

type counter struct {
	key          string
	hits, excess int64
}

func newSketch(most int) sketch { return sketch{max: most, at: map[string]int{}} }

func (s *sketch) hit(key string) {
	i, known := s.at[key]
	switch {
	case known:
		s.heap[i].hits++
	case len(s.heap) < s.max:
		i = len(s.heap)
		s.heap = append(s.heap, counter{key: key, hits: 1})
		s.at[key] = i
		s.up(i)
		return
	default:
		least := s.heap[0]
		delete(s.at, least.key)
		s.heap[0] = counter{key: key, hits: least.hits + 1, excess: least.hits}
		s.at[key] = 0
	}
	s.down(i)
}

func (s *sketch) up(i int) {
	for parent := (i - 1) / 2; i > 0 && s.heap[i].hits < s.heap[parent].hits; parent = (i - 1) / 2 {
		s.swap(i, parent)
		i = parent
	}
}

func (s *sketch) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.heap); child++ {
			if s.heap[child].hits < s.heap[least].hits {
				least = child
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}

func (s *sketch) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.at[s.heap[i].key], s.at[s.heap[j].key] = i, j
}

// top returns the n counters with the most hits, the highest first.
func (s *sketch) top(n int) []counter {
	all := slices.SortedFunc(slices.Values(s.heap), func(a, b counter) int {
		return cmp.Or(cmp.Compare(b.hits, a.hits), cmp.Compare(a.key, b.key))
	})
	return all[:min(n, len(all))]
}
