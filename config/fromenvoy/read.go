package fromenvoy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/config"
)

// File is one file to translate.
type File struct {
	// Name is what comments and problems call it.
	Name string
	Data []byte
}

// node is one descriptor of a file, at some depth.
type node struct {
	file     string
	line     int
	path     string // for problems
	key      string
	value    string // "" if any will do
	limit    *limit // nil if none holds here
	children []*node
	shadow   bool
	share    bool
}

// limit is the limit of a node.
type limit struct {
	requests  uint32
	window    string
	unlimited bool
	name      string
	replaces  []string
}

func (n *node) wildcard() bool { return strings.HasSuffix(n.value, "*") }

// domain is all that is said of a domain, in one file or several.
type domain struct {
	name  string
	nodes []*node
}

// windows are the units of a limit. A month has 30 days and a year 365.
var windows = map[string]string{
	"second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "7d", "month": "30d", "year": "365d",
}

// reader reads files and collects what is wrong with them, and what of them has
// no place in a rules file.
type reader struct {
	file     string
	problems []config.Problem // that make a file unusable
	lost     []config.Problem // what is left out; a warning if it decides nothing
	domains  []*domain
}

func (r *reader) bad(at *yaml.Node, path, message string) {
	r.problems = append(r.problems, config.Problem{File: r.file, Line: at.Line, Column: at.Column, Path: path, Message: message})
}

func (r *reader) lose(at *yaml.Node, path, message string, decides bool) {
	r.lost = append(r.lost, config.Problem{File: r.file, Line: at.Line, Column: at.Column, Path: path, Message: message, Warning: !decides})
}

func (r *reader) read(f File) {
	r.file = f.Name
	var document yaml.Node
	if err := yaml.Unmarshal(f.Data, &document); err != nil {
		r.bad(&yaml.Node{Line: 1, Column: 1}, "", "is not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	if len(document.Content) == 0 {
		r.bad(&yaml.Node{Line: 1, Column: 1}, "", "is empty; a domain and its descriptors are needed")
		return
	}
	var d domain
	root := document.Content[0]
	r.mapping(root, "", map[string]func(path string, n *yaml.Node){
		"domain":      func(path string, n *yaml.Node) { d.name = r.text(n, path) },
		"descriptors": func(path string, n *yaml.Node) { d.nodes = r.nodes(n, path) },
	})
	switch {
	case len(r.problems) > 0:
		return
	case d.name == "":
		r.bad(root, "domain", "is missing; a domain has a name")
		return
	case strings.Contains(d.name, "*"):
		r.lose(root, "domain", quote(d.name)+" has a *, which rules take for a pattern", true)
		return
	}
	if i := slices.IndexFunc(r.domains, func(o *domain) bool { return o.name == d.name }); i >= 0 {
		r.domains[i].nodes = append(r.domains[i].nodes, d.nodes...)
		r.unique(r.domains[i].nodes)
		return
	}
	r.domains = append(r.domains, &d)
}

// mapping reads a mapping, of which every field is known.
func (r *reader) mapping(n *yaml.Node, path string, fields map[string]func(path string, n *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, path, "a mapping is needed here")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := fields[key.Value]
		switch at := join(path, key.Value); {
		case read == nil:
			var known []string
			for name := range fields {
				known = append(known, name)
			}
			slices.Sort(known)
			r.bad(key, at, "unknown field; allowed here: "+strings.Join(known, ", "))
		case seen[key.Value]:
			r.bad(key, at, "is there twice")
		default:
			read(at, value)
		}
		seen[key.Value] = true
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (r *reader) nodes(n *yaml.Node, path string) (nodes []*node) {
	if n.Kind != yaml.SequenceNode {
		r.bad(n, path, "a list is needed here")
		return nil
	}
	for i, element := range n.Content {
		if one := r.node(element, path+"["+strconv.Itoa(i)+"]"); one != nil {
			nodes = append(nodes, one)
		}
	}
	r.unique(nodes)
	return nodes
}

// unique finds descriptors of one list that ask for the same.
func (r *reader) unique(nodes []*node) {
	for i, n := range nodes {
		if slices.ContainsFunc(nodes[:i], func(o *node) bool { return o.key == n.key && o.value == n.value }) {
			r.problems = append(r.problems, config.Problem{File: n.file, Line: n.line, Column: 1, Path: n.path, Message: "asks for the same key and value as one before it"})
		}
	}
}

// node reads a descriptor, and returns nil if it has no place in a rules file.
func (r *reader) node(at *yaml.Node, path string) *node {
	d := &node{file: r.file, line: at.Line, path: path}
	var quota bool
	flag := func(to *bool) func(string, *yaml.Node) {
		return func(path string, n *yaml.Node) { *to = r.boolean(n, path) }
	}
	r.mapping(at, path, map[string]func(path string, n *yaml.Node){
		"key":         func(path string, n *yaml.Node) { d.key = r.text(n, path) },
		"value":       func(path string, n *yaml.Node) { d.value = r.text(n, path) },
		"rate_limit":  func(path string, n *yaml.Node) { d.limit = r.limit(n, path) },
		"descriptors": func(path string, n *yaml.Node) { d.children = r.nodes(n, path) },
		"shadow_mode": flag(&d.shadow),
		"quota_mode":  flag(&quota),
		"detailed_metric": func(path string, n *yaml.Node) {
			if r.boolean(n, path) {
				r.lose(n, path, "metrics have no keys; telemetry.top_clients names the busiest callers", false)
			}
		},
		"value_to_metric": func(path string, n *yaml.Node) {
			if r.boolean(n, path) {
				r.lose(n, path, "metrics have no keys; telemetry.top_clients names the busiest callers", false)
			}
		},
		"share_threshold": flag(&d.share),
	})
	if quota {
		r.lose(at, path+".quota_mode", "there is no such mode; the rule is in shadow, and there is no metadata about it", false)
		d.shadow = true
	}
	if d.shadow && d.limit != nil && len(d.limit.replaces) > 0 {
		r.lose(at, path+".rate_limit.replaces", "a rule in shadow replaces nothing", true)
	}
	inner := strings.TrimSuffix(d.value, "*")
	switch {
	case d.key == "":
		r.bad(at, path+".key", "is missing or empty; a descriptor has a key")
	case d.share && !d.wildcard():
		r.bad(at, path+".share_threshold", "is only for a value that ends with *")
	case strings.Contains(d.key, "*"):
		r.lose(at, path+".key", quote(d.key)+" has a *; only values can have one", true)
		return nil
	case strings.Contains(inner, "*"):
		r.lose(at, path+".value", quote(d.value)+" has a * that is not at its end, which rules cannot ask for", true)
		return nil
	}
	return d
}

func (r *reader) limit(at *yaml.Node, path string) *limit {
	l := new(limit)
	unit := ""
	r.mapping(at, path, map[string]func(path string, n *yaml.Node){
		"unit": func(path string, n *yaml.Node) { unit = strings.ToLower(r.text(n, path)) },
		"requests_per_unit": func(path string, n *yaml.Node) {
			text := strings.ReplaceAll(r.text(n, path), "_", "")
			number, err := strconv.ParseUint(text, 0, 32)
			if err != nil {
				r.bad(n, path, quote(text)+" is out of bounds; 0 to 4294967295 is allowed")
			}
			l.requests = uint32(number)
		},
		"unlimited": func(path string, n *yaml.Node) { l.unlimited = r.boolean(n, path) },
		"name":      func(path string, n *yaml.Node) { l.name = r.text(n, path) },
		"replaces":  func(path string, n *yaml.Node) { l.replaces = r.replaces(n, path) },
	})
	if slices.Contains(l.replaces, l.name) && l.name != "" {
		r.bad(at, path+".replaces", quote(l.name)+" is the name of this limit itself")
	}
	if l.unlimited && len(l.replaces) > 0 {
		r.lose(at, path+".replaces", "who is unlimited replaces nothing", true)
	}
	switch l.window = windows[unit]; {
	case l.unlimited && l.window != "":
		r.bad(at, path+".unit", "is given, and the limit is unlimited; leave one out")
	case !l.unlimited && l.window == "":
		r.bad(at, path+".unit", quote(unit)+" is not a unit; second, minute, hour, day, week, month and year are allowed")
	}
	return l
}

func (r *reader) replaces(at *yaml.Node, path string) (names []string) {
	if at.Kind != yaml.SequenceNode {
		r.bad(at, path, "a list is needed here")
		return nil
	}
	for i, element := range at.Content {
		name := ""
		r.mapping(element, path+"["+strconv.Itoa(i)+"]", map[string]func(path string, n *yaml.Node){
			"name": func(path string, n *yaml.Node) { name = r.text(n, path) },
		})
		if name == "" {
			r.bad(element, path+"["+strconv.Itoa(i)+"].name", "is missing or empty")
		}
		names = append(names, name)
	}
	return names
}

func (r *reader) text(n *yaml.Node, path string) string {
	if n.Kind != yaml.ScalarNode {
		r.bad(n, path, "a text is needed here")
		return ""
	}
	if n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

func (r *reader) boolean(n *yaml.Node, path string) bool {
	var b bool
	if n.Decode(&b) != nil {
		r.bad(n, path, "true or false is needed here")
	}
	return b
}

func quote(s string) string { return strconv.Quote(s) }

// byLine sorts problems by file, as they were given, and line.
func byLine(files []File, all []config.Problem) []config.Problem {
	place := func(name string) int { return slices.IndexFunc(files, func(f File) bool { return f.Name == name }) }
	slices.SortStableFunc(all, func(a, b config.Problem) int {
		return cmp.Or(cmp.Compare(place(a.File), place(b.File)), cmp.Compare(a.Line, b.Line))
	})
	return all
}
