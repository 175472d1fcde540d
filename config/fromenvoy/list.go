package fromenvoy

import (
	"slices"
	"strings"
)

// A descriptor of a request goes down the tree of a domain by its entries. At each
// level it takes the child with its key and value; else the first one with its key
// and a wildcard that fits; else the one with its key alone. It never turns back:
// if the way it took has no limit at its end, none holds.
//
// So for descriptors with one row of keys, a shape, the tree is a list, of which
// the first step that applies decides.

// step is one of such a list: the nodes that lead to it, or those that lead to
// where the way ends.
type step struct {
	way []*node
	end *node // nil if the way ends before the last entry
}

// shapes returns the rows of keys for which nodes have a limit, in the order in
// which they come up.
func shapes(nodes []*node) [][]string {
	var all [][]string
	var visit func(nodes []*node, keys []string)
	visit = func(nodes []*node, keys []string) {
		for _, n := range nodes {
			row := append(slices.Clone(keys), n.key)
			if n.limit != nil && !slices.ContainsFunc(all, func(o []string) bool { return slices.Equal(o, row) }) {
				all = append(all, row)
			}
			visit(n.children, row)
		}
	}
	visit(nodes, nil)
	return all
}

// list returns what decides about descriptors with keys.
func list(nodes []*node, keys []string, way []*node) (steps []step) {
	fallback := false
	for _, n := range candidates(nodes, keys[0]) {
		there := append(slices.Clone(way), n)
		fallback = fallback || n.value == ""
		switch {
		case len(keys) == 1:
			steps = append(steps, step{there, n})
		case len(n.children) > 0:
			steps = append(steps, list(n.children, keys[1:], there)...)
		default:
			steps = append(steps, step{there, nil})
		}
	}
	if !fallback && len(way) > 0 {
		steps = append(steps, step{way, nil})
	}
	return steps
}

// candidates returns the nodes with a key, those that come first first.
func candidates(nodes []*node, key string) (sorted []*node) {
	rank := func(n *node) int {
		switch {
		case n.value == "":
			return 2
		case n.wildcard():
			return 1
		}
		return 0
	}
	for _, n := range nodes {
		if n.key == key {
			sorted = append(sorted, n)
		}
	}
	slices.SortStableFunc(sorted, func(a, b *node) int { return rank(a) - rank(b) })
	return sorted
}

// limited reports whether a limit, or none at all by name, is at the end of s.
func (s step) limited() bool { return s.end != nil && s.end.limit != nil }

// pattern returns what s asks of the value at a level: as rules write it, "" for
// anything.
func (s step) pattern(level int) string {
	if level < len(s.way) && s.way[level].value != "*" {
		return s.way[level].value
	}
	return ""
}

// covers reports whether pattern a matches whatever b does.
func covers(a, b string) bool {
	prefix, star := strings.CutSuffix(a, "*")
	return a == "" || a == b || star && strings.HasPrefix(strings.TrimSuffix(b, "*"), prefix) && b != ""
}

// meets reports whether some value matches both a and b.
func meets(a, b string) bool {
	return covers(a, b) || covers(b, a)
}

// beyond returns what o asks of the value at each level beyond what s does, "" for
// nothing.
func (o step) beyond(s step, levels int) []string {
	asked := make([]string, levels)
	for level := range asked {
		if pattern := o.pattern(level); !covers(pattern, s.pattern(level)) {
			asked[level] = pattern
		}
	}
	return asked
}

// coversAll reports whether whatever takes o has what is asked at each level.
func coversAll(asked []string, o step) bool {
	for level, pattern := range asked {
		if !covers(pattern, o.pattern(level)) {
			return false
		}
	}
	return true
}

// refines reports whether whatever takes s fits o, too.
func (s step) refines(o step, levels int) bool {
	for i := range levels {
		if !covers(o.pattern(i), s.pattern(i)) {
			return false
		}
	}
	return true
}

// overlaps reports whether some descriptor fits both s and o.
func (s step) overlaps(o step, levels int) bool {
	for i := range levels {
		if !meets(s.pattern(i), o.pattern(i)) {
			return false
		}
	}
	return true
}
