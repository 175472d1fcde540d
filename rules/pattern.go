package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// pattern is a compiled Pattern.
type pattern struct {
	kind patternKind
	text string // the value or the prefix
}

type patternKind uint8

const (
	absent patternKind = iota
	present
	prefix
	exact
)

func parsePattern(p Pattern) (pattern, error) {
	text, star := strings.CutSuffix(string(p), "*")
	switch {
	case strings.Contains(text, "*"):
		return pattern{}, fmt.Errorf("%q has a * that is not at its end; a value, a prefix with * behind it, * alone for present, or nothing for absent is allowed", string(p))
	case star && text == "":
		return pattern{kind: present}, nil
	case star:
		return pattern{prefix, text}, nil
	case text == "":
		return pattern{kind: absent}, nil
	}
	return pattern{exact, text}, nil
}

// match reports whether value, "" if there is none, is what p asks for.
func (p pattern) match(value string) bool {
	switch p.kind {
	case absent:
		return value == ""
	case present:
		return value != ""
	case prefix:
		return strings.HasPrefix(value, p.text)
	}
	return value == p.text
}

// covers reports whether p matches whatever q matches.
func (p pattern) covers(q pattern) bool {
	switch q.kind {
	case absent, exact:
		return p.match(q.text)
	case prefix:
		return p.kind == present || p.kind == prefix && strings.HasPrefix(q.text, p.text)
	}
	return p.kind == present
}

// condition asks something of one attribute or header.
type condition struct {
	name string
	pattern
}

// conditions compiles patterns, in the order of their names. check is asked
// whether a name may stand there, and returns what it is called.
func (c *compiler) conditions(at string, patterns map[string]Pattern, check func(name string) (string, error)) []condition {
	var all []condition
	for _, name := range slices.Sorted(maps.Keys(patterns)) {
		canonical, err := check(name)
		if err != nil {
			c.problem(at+"."+name, "%v", err)
			continue
		}
		if slices.ContainsFunc(all, func(o condition) bool { return o.name == canonical }) {
			c.problem(at+"."+name, "%q is the same as %q, which is there already; leave one out", name, canonical)
			continue
		}
		p, err := parsePattern(patterns[name])
		if err == nil && canonical == apiAttribute {
			p, err = c.apiPattern(p)
		}
		if err != nil {
			c.problem(at+"."+name, "%v", err)
			continue
		}
		all = append(all, condition{canonical, p})
	}
	return all
}

// covers reports whether general holds wherever special does.
func covers(general, special []condition) bool {
	for _, g := range general {
		if !slices.ContainsFunc(special, func(s condition) bool { return s.name == g.name && g.covers(s.pattern) }) {
			return false
		}
	}
	return true
}
