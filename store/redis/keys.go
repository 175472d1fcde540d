package redis

import (
	"fmt"
	"strings"
)

// A key is called in Redis
//
//	prefix{tag}key
//
// where tag is 4 hexadecimal digits. A cluster puts keys with the same tag in
// the same slot, whatever braces the key itself has, so that nobody who chooses
// keys piles them up in one slot without effort. The tag is a hash of the key
// without its policy: the limits of one caller lie together, where they can be
// spent together.
const tagLen = 4

// tag returns the tag of a key. It takes the key apart as limit.AppendStoreKey
// has put it together; any other key is as good.
func tag(key string) [tagLen]byte {
	caller := key
	if len(key) > 2 && len(key) > 2+int(key[1]) {
		caller = key[2+int(key[1]):]
	}
	hash := uint32(2166136261) // FNV-1a
	for i := range len(caller) {
		hash = (hash ^ uint32(caller[i])) * 16777619
	}
	hash ^= hash >> 16
	const digits = "0123456789abcdef"
	return [tagLen]byte{digits[hash>>12&15], digits[hash>>8&15], digits[hash>>4&15], digits[hash&15]}
}

// names returns what keys are called in Redis.
func (s *Store) names(keys []string) []string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = s.name(key)
	}
	return names
}

func (s *Store) name(key string) string {
	tag := tag(key)
	return s.prefix + "{" + string(tag[:]) + "}" + key
}

// key returns the key that is called name.
func (s *Store) key(name string) string { return name[len(s.prefix)+1+tagLen+1:] }

// place tells apart names that one command cannot reach together.
func (s *Store) place(name string) string {
	if !s.apart {
		return ""
	}
	return name[len(s.prefix)+1:][:tagLen]
}

// maxPrefixLen is the most bytes that a prefix may have.
const maxPrefixLen = 64

// checkPrefix returns an error if the keys of one place would not lie in one slot.
func checkPrefix(prefix string) error {
	if len(prefix) > maxPrefixLen {
		return fmt.Errorf("prefix: it has %d bytes; up to %d are allowed", len(prefix), maxPrefixLen)
	}
	if _, after, found := strings.Cut(prefix, "{"); found && strings.HasPrefix(after, "}") {
		return fmt.Errorf("prefix: %q has an empty hash tag; put something between { and }, or leave them out", prefix)
	}
	return nil
}

// hasTag reports whether prefix itself has the hash tag of all keys.
func hasTag(prefix string) bool {
	_, after, found := strings.Cut(prefix, "{")
	return found && strings.Contains(after, "}")
}

// groupLen is the most keys that one script works on, so that it holds up
// nobody for long, if they need not change together.
const groupLen = 128

// groups divides 0 to n-1 into groups of at most groupLen that are equal by place.
func groups[P comparable](n int, place func(i int) P) [][]int {
	var all [][]int
	open := make(map[P]int) // where the next one of a place goes
	for i := range n {
		p := place(i)
		g, ok := open[p]
		if !ok || len(all[g]) == groupLen {
			g = len(all)
			open[p] = g
			all = append(all, nil)
		}
		all[g] = append(all[g], i)
	}
	return all
}

// pick returns those of all that group names.
func pick[T any](all []T, group []int) []T {
	some := make([]T, len(group))
	for i, at := range group {
		some[i] = all[at]
	}
	return some
}
