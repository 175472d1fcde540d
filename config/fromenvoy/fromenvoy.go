// Package fromenvoy translates the configuration of envoyproxy/ratelimit, the
// reference implementation of Envoy's rate limit service, to a rules file.
package fromenvoy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
)

// Translation is what files become.
type Translation struct {
	// Rules is a rules file. It is nil if there are Problems.
	Rules []byte
	// Problems are what makes the files unusable, for the reference
	// implementation as well.
	Problems []config.Problem
	// Lost is what is not in Rules. What is a warning changes no decision.
	Lost []config.Problem
}

// Translate translates files as one configuration. Files about one domain are put
// together.
func Translate(files []File) Translation {
	r := &reader{}
	for _, f := range files {
		r.read(f)
	}
	if len(r.problems) > 0 {
		return Translation{Problems: byLine(files, r.problems)}
	}
	// A rule may replace one that comes later: the first pass is for their names.
	w := &writer{}
	for range 2 {
		w = &writer{names: map[string]bool{}, called: map[string][]string{}, before: w.called}
		w.write(files, r.domains)
	}
	t := Translation{Rules: []byte(w.text.String()), Lost: byLine(files, append(r.lost, w.lost...))}
	if file, problems := config.Parse("rules", t.Rules); file == nil {
		return Translation{Problems: problems}
	}
	return t
}

const header = `#
# Windows are fixed, as they were there. They admit twice the quota around their
# edges; algorithm: sliding and gcra do not.
version: 1
listen: {grpc: 127.0.0.1:8081}
`

// writer writes rules.
type writer struct {
	text   strings.Builder
	names  map[string]bool     // of rules
	called map[string][]string // domain and name of a limit to the rules that have it
	before map[string][]string // what called was in the end of the pass before
	lost   []config.Problem
}

func (w *writer) write(files []File, domains []*domain) {
	for _, f := range files {
		w.printf("# %s, translated by stint import envoy-ratelimit.\n", oneLine(f.Name))
	}
	w.printf(header)
	for _, d := range domains {
		for _, keys := range shapes(d.nodes) {
			w.shape(d.name, keys, list(d.nodes, keys, nil))
		}
	}
	if len(w.names) == 0 {
		w.printf("rules: []\n")
	}
}

func (w *writer) printf(format string, args ...any) { fmt.Fprintf(&w.text, format, args...) }

// shape writes the rules for descriptors of one domain with keys.
func (w *writer) shape(domain string, keys []string, steps []step) {
	var reached []step
	for _, s := range steps {
		by := slices.IndexFunc(reached, func(o step) bool { return s.refines(o, len(keys)) })
		switch {
		case by < 0:
			reached = append(reached, s)
		case s.limited():
			w.lost = append(w.lost, config.Problem{File: s.end.file, Line: s.end.line, Column: 1, Path: s.end.path, Warning: true,
				Message: fmt.Sprintf("never applies: the descriptor on line %d comes first", reached[by].way[len(reached[by].way)-1].line)})
		}
	}
	at := attributes(keys)
	for i, s := range reached {
		if s.limited() && !absorbed(reached, i, len(keys)) {
			w.rule(domain, keys, at, reached, i)
		}
	}
}

// absorbed reports whether steps[i] is an override in the rule of a later step.
func absorbed(steps []step, i, levels int) bool {
	return slices.ContainsFunc(steps[i+1:], func(later step) bool {
		return later.limited() && !later.end.limit.unlimited && steps[i].refines(later, levels) && (steps[i].end.limit.unlimited || alike(steps[i], later))
	})
}

// alike reports whether two steps can be limits of one rule.
func alike(a, b step) bool {
	plain := func(l *limit) bool { return l.name == "" && len(l.replaces) == 0 }
	return a.end.shadow == b.end.shadow && plain(a.end.limit) && plain(b.end.limit) && !slices.ContainsFunc(append(slices.Clone(a.way), b.way...), func(n *node) bool { return n.share })
}

// rule writes the rule of steps[i]. Steps that come before it and meet it are its
// overrides: with limits of their own, or exempt, since nothing or another rule
// holds for them.
func (w *writer) rule(domain string, keys, at []string, steps []step, i int) {
	s := steps[i]
	w.begin()
	w.printf("\n  # %s:%d: %s\n", oneLine(s.end.file), s.end.line, describe(s))
	name := w.name(domain, s)
	w.printf("  - name: %s\n", name)
	if l := s.end.limit; l.name != "" {
		w.called[domain+"\x00"+l.name] = append(w.called[domain+"\x00"+l.name], name)
	}
	w.printf("    match:\n      attributes:\n        domain: %s\n        descriptor: %s\n", scalar(domain), scalar(shapeOf(keys)))
	var key []string
	for level, attribute := range at {
		pattern := s.pattern(level)
		if pattern != "" {
			w.printf("        %s: %s\n", scalar(attribute), scalar(pattern))
		}
		if exact := pattern != "" && !strings.HasSuffix(pattern, "*"); !exact && !s.way[level].share {
			key = append(key, attribute)
		}
	}
	if len(key) > maxKey {
		key = []string{"entries"}
		if slices.ContainsFunc(s.way, func(n *node) bool { return n.share }) {
			w.lost = append(w.lost, config.Problem{File: s.end.file, Line: s.end.line, Column: 1, Path: s.end.path,
				Message: fmt.Sprintf("share_threshold is for descriptors of at most %d entries without a value; each value is counted on its own", maxKey)})
		}
	}
	if len(key) > 0 && !s.end.limit.unlimited {
		w.printf("    key: [%s]\n", strings.Join(key, ", "))
	}
	if s.end.limit.unlimited {
		w.printf("    limits: [{quota: 1, window: 1s}] # for nobody: all are exempt\n    overrides:\n      - {when: {domain: %s}, exempt: true}\n", scalar(domain))
		return
	}
	w.printf("    limits: [{algorithm: fixed, quota: %d, window: %s}]\n", s.end.limit.requests, s.end.limit.window)
	if s.end.shadow {
		w.printf("    shadow: true\n")
	}
	var replaced []string
	for _, other := range s.end.limit.replaces {
		for _, rule := range w.before[domain+"\x00"+other] {
			if rule != name && !slices.Contains(replaced, rule) {
				replaced = append(replaced, rule)
			}
		}
	}
	if len(replaced) > 0 {
		w.printf("    replaces: [%s]\n", strings.Join(replaced, ", "))
	}
	w.overrides(at, steps[:i], s)
}

// maxKey is the most attributes of a rule's key.
const maxKey = 8

func (w *writer) overrides(at []string, before []step, s step) {
	var kept [][]string // patterns of those written, level by level
	for _, o := range before {
		asked := o.beyond(s, len(at))
		if !o.overlaps(s, len(at)) || slices.ContainsFunc(kept, func(k []string) bool { return coversAll(k, o) }) {
			continue
		}
		if len(kept) == 0 {
			w.printf("    overrides:\n")
		}
		kept = append(kept, asked)
		var when []string
		for level, pattern := range asked {
			if pattern != "" {
				when = append(when, scalar(at[level])+": "+scalar(pattern))
			}
		}
		last := o.way[len(o.way)-1]
		what, why := "exempt: true", ": no limit"
		switch {
		case o.limited() && o.end.limit.unlimited:
			why = ": unlimited"
		case o.limited() && o.refines(s, len(at)) && alike(o, s):
			what, why = fmt.Sprintf("limits: [{quota: %d, window: %s}]", o.end.limit.requests, o.end.limit.window), ""
		case o.limited():
			why = ": has a rule of its own"
		}
		w.printf("      - {when: {%s}, %s} # %s:%d%s\n", strings.Join(when, ", "), what, oneLine(last.file), last.line, why)
	}
}

// begin writes what stands before the first rule.
func (w *writer) begin() {
	if len(w.names) == 0 {
		w.printf("rules:")
	}
}

var notInName = regexp.MustCompile(`[^a-z0-9_]+`)

// name returns a rule's name, which no other has.
func (w *writer) name(domain string, s step) string {
	text := domain
	for _, n := range s.way {
		text += "-" + n.key
		if n.value != "" {
			text += "-" + n.value
		}
	}
	const longest = 56
	base := strings.Trim(notInName.ReplaceAllString(strings.ToLower(text), "-"), "-")
	base = strings.Trim(base[:min(len(base), longest)], "-")
	if base == "" {
		base = "rule"
	}
	name := base
	for n := 2; w.names[name]; n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	w.names[name] = true
	return name
}

// describe writes the way of s as keys and values.
func describe(s step) string {
	var parts []string
	for _, n := range s.way {
		part := n.key
		if n.value != "" {
			part += "=" + n.value
		}
		parts = append(parts, oneLine(part))
	}
	return strings.Join(parts, ", ")
}

// attributes returns what rules call the value at each level: its key, or its
// position where the key is something else to rules.
func attributes(keys []string) []string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = key
		if !rules.IsAttributeName(key) || slices.Contains(reserved, key) || strings.HasPrefix(key, "entry_") || slices.Index(keys, key) != i {
			names[i] = "entry_" + strconv.Itoa(i+1)
		}
	}
	return names
}

// reserved are attributes that are not, or not just, the entry of that key.
var reserved = []string{"domain", "descriptor", "entries", "method", "host", "path", "plan"}

var escaper = strings.NewReplacer("%", "%25", "/", "%2F")

// shapeOf returns the attribute descriptor of descriptors with keys.
func shapeOf(keys []string) string {
	escaped := make([]string, len(keys))
	for i, key := range keys {
		escaped[i] = escaper.Replace(key)
	}
	return strings.Join(escaped, "/")
}

var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*$`)

// scalar writes a text so that YAML reads it as that text.
func scalar(s string) string {
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
	default:
		if plain.MatchString(s) {
			return s
		}
	}
	quoted, err := json.Marshal(s)
	if err != nil { // strings always encode
		panic(err)
	}
	return string(quoted)
}

// oneLine writes a text that is safe in a comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return '?'
		}
		return r
	}, s)
}
