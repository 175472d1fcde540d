package replay

import "hash/fnv"

// sample keeps a value for each of up to max keys. When there are more, it
// drops those whose hash has a bit set and takes no more of them, then those
// with the next bit, and so on: what is left is a uniform sample of all keys,
// of which it holds one in 1<<level. This is Wegman's adaptive sampling, as
// analysed by Flajolet, "On adaptive sampling", Computing 43, 1990.
type sample[V any] struct {
	max   int
	level uint
	kept  map[string]V
}

func newSample[V any](most int) sample[V] {
	return sample[V]{max: most, kept: map[string]V{}}
}

// takes reports whether key belongs to the sample.
func (s *sample[V]) takes(key string) bool {
	return s.level == 0 || hash(key)&(1<<s.level-1) == 0
}

// put keeps v for key, which the sample takes.
func (s *sample[V]) put(key string, v V) {
	s.kept[key] = v
	for len(s.kept) > s.max {
		s.level++
		for key := range s.kept {
			if !s.takes(key) {
				delete(s.kept, key)
			}
		}
	}
}

// count returns how many keys there were, and whether that is exact.
func (s *sample[V]) count() (n int64, exact bool) {
	return int64(len(s.kept)) << s.level, s.level == 0
}

// hash is the same in every run, so that a report is, too.
func hash(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	// The low bits of FNV hardly depend on the beginning of the key.
	x := h.Sum64()
	x ^= x >> 32
	x *= 0x9e3779b97f4a7c15
	return x >> 32
}
