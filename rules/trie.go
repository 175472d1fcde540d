package rules

import "strings"

// node is a place in the tree of path templates. A path leads to the nodes of
// all templates that match it, since text and braces are followed side by side.
type node struct {
	text map[string]*node // by the segment
	one  *node            // behind {name}
	end  exactIndex       // the rules whose template ends here
	rest exactIndex       // the rules that match whatever follows
}

// add puts a rule in at the end of its template.
func (n *node) add(template []segment, rule int32) {
	for _, s := range template {
		switch s.kind {
		case segmentRest:
			n.rest.add(rule)
			return
		case segmentOne:
			if n.one == nil {
				n.one = &node{}
			}
			n = n.one
		case segmentText:
			if n.text == nil {
				n.text = map[string]*node{}
			}
			if n.text[s.text] == nil {
				n.text[s.text] = &node{}
			}
			n = n.text[s.text]
		}
	}
	n.end.add(rule)
}

// build makes the indexes, once all rules are in.
func (n *node) build(conditions func(rule int32) []condition) {
	n.end.build(conditions)
	n.rest.build(conditions)
	for _, child := range n.text {
		child.build(conditions)
	}
	if n.one != nil {
		n.one.build(conditions)
	}
}

// visit calls try with every rule that may match. path is what is left of the
// normalised path, without a slash before it.
func (n *node) visit(path string, a *attributes, try func(rule int32)) {
	n.rest.visit(a, try)
	if path == "" {
		n.end.visit(a, try)
		return
	}
	segment, path, _ := strings.Cut(path, "/")
	if child := n.text[segment]; child != nil {
		child.visit(path, a, try)
	}
	if n.one != nil {
		n.one.visit(path, a, try)
	}
}

// templates lead to things whose matchers a request may meet.
type templates struct {
	paths, apis node
}

// add puts a thing in at the end of its template.
func (t *templates) add(m *matcher, thing int32) {
	if m.ofAPI {
		t.apis.add(m.template, thing)
	} else {
		t.paths.add(m.template, thing)
	}
}

// build makes the indexes, once all things are in.
func (t *templates) build(conditions func(thing int32) []condition) {
	t.paths.build(conditions)
	t.apis.build(conditions)
}

// visit calls try with every thing that may match, and with a.matched set to what its
// template was followed by.
func (t *templates) visit(a *attributes, try func(thing int32)) {
	if a.api != "" {
		a.matched = a.api
		t.apis.visit(a.api[1:], a, try)
	}
	a.matched = a.path
	t.paths.visit(a.path[1:], a, try)
}
