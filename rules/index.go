package rules

import (
	"maps"
	"slices"
)

// minIndexed is how many must ask an attribute for an exact value before it is
// worth an index. Below that, to try one after the other is faster, and asks
// for no attribute that only a rule for another method or host depends on.
const minIndexed = 8

// exactIndex finds, among many things with conditions, those that may apply to
// a request, without trying all of them: by an attribute that must have an
// exact value. Things are numbers.
type exactIndex struct {
	by     []exactValues
	others []int32 // must be tried
}

// exactValues are things by the value that one attribute must have.
type exactValues struct {
	attribute string
	things    map[string][]int32
}

// add puts a thing in.
func (x *exactIndex) add(thing int32) { x.others = append(x.others, thing) }

// visit calls try with every thing that may apply, each once; with every thing
// there is if everyone is to be asked.
func (x *exactIndex) visit(a *attributes, try func(thing int32)) {
	for i := range x.by {
		if a.everyone {
			for _, things := range x.by[i].things {
				for _, thing := range things {
					try(thing)
				}
			}
			continue
		}
		value, _ := a.get(x.by[i].attribute)
		for _, thing := range x.by[i].things[value] {
			try(thing)
		}
	}
	for _, thing := range x.others {
		try(thing)
	}
}

// build sorts the things by the attribute that, of those which they ask for an
// exact value, tells the most of them apart.
func (x *exactIndex) build(conditions func(thing int32) []condition) {
	if len(x.others) < minIndexed {
		return
	}
	values := map[string]map[string]bool{} // attribute to the values asked of it
	for _, thing := range x.others {
		for _, c := range conditions(thing) {
			if c.kind == exact {
				if values[c.name] == nil {
					values[c.name] = map[string]bool{}
				}
				values[c.name][c.text] = true
			}
		}
	}
	by := map[string]map[string][]int32{}
	var others []int32
	for _, thing := range x.others {
		var best condition
		for _, c := range conditions(thing) {
			if c.kind == exact && len(values[c.name]) > len(values[best.name]) {
				best = c
			}
		}
		if len(values[best.name]) < minIndexed {
			others = append(others, thing)
			continue
		}
		if by[best.name] == nil {
			by[best.name] = map[string][]int32{}
		}
		by[best.name][best.text] = append(by[best.name][best.text], thing)
	}
	for _, attribute := range slices.Sorted(maps.Keys(by)) {
		x.by = append(x.by, exactValues{attribute, by[attribute]})
	}
	x.others = others
}
