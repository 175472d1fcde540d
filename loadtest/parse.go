package loadtest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
)

// maxSize is the most bytes of a scenario file.
const maxSize = 1 << 20

// Parse reads a scenario file and checks all of it. The Scenario is nil if
// there is any problem. name is what the problems call the file; speed, if it
// is not 0, stands in place of the file's compress.
func Parse(name string, data []byte, speed float64) (*Scenario, []config.Problem) {
	p := &problems{file: name}
	if len(data) > maxSize {
		p.add(1, 1, "", "the file is larger than 1 MiB, the most that is allowed")
		return nil, p.list
	}
	s := &Scenario{file: name}
	if p.root = decode(data, s, p); len(p.list) > 0 {
		return nil, p.list
	}
	s.fill()
	if speed != 0 {
		s.Compress = speed
	}
	s.check(p)
	if len(p.list) > 0 {
		slices.SortFunc(p.list, func(a, b config.Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
		})
		return nil, p.list
	}
	return s, nil
}

// decode reads data into s and returns the root of the file.
func decode(data []byte, s *Scenario, p *problems) *yaml.Node {
	var root yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(s); errors.Is(err, io.EOF) {
		p.add(1, 1, "", "the file is empty; docs/scenarios.md shows how one is written")
		return nil
	} else if err != nil {
		p.addYAML(err)
		return nil
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		p.add(1, 1, "", "a file holds one scenario; remove what follows its second ---")
		return nil
	}
	if err := yaml.Unmarshal(data, &root); err != nil {
		p.addYAML(err)
		return nil
	}
	return root.Content[0]
}

// problems collects what is wrong with a file.
type problems struct {
	file string
	root *yaml.Node
	list []config.Problem
}

func (p *problems) add(line, column int, path, format string, args ...any) {
	p.list = append(p.list, config.Problem{File: p.file, Line: line, Column: column, Path: path, Message: fmt.Sprintf(format, args...)})
}

// at adds a problem of the field that path leads to, such as load.phases[1].for.
// If it is not there, the problem is on the line of the nearest part around it.
func (p *problems) at(path, format string, args ...any) {
	n := p.root
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		next := child(n, name)
		if next == nil {
			break
		}
		n = next
	}
	p.add(n.Line, n.Column, path, format, args...)
}

// child returns what n has under name, or nil.
func child(n *yaml.Node, name string) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if i, err := strconv.Atoi(name); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
		return n.Content[i]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

var (
	atLine       = regexp.MustCompile(`^(?:yaml: )?line (\d+): ((?s).*)$`)
	unknownField = regexp.MustCompile(`^field ((?s).*) not found in type (\S+)$`)
	wrongKind    = regexp.MustCompile(`^cannot unmarshal (!!\w+)(?s).* into (\S+)$`)
)

// addYAML adds what the YAML library has found, in words of the file.
func (p *problems) addYAML(err error) {
	found := []string{err.Error()}
	if e, ok := errors.AsType[*yaml.TypeError](err); ok {
		found = e.Errors
	}
	for _, text := range found {
		line := 1
		if m := atLine.FindStringSubmatch(text); m != nil {
			line, _ = strconv.Atoi(m[1])
			text = m[2]
		}
		if m := unknownField.FindStringSubmatch(text); m != nil {
			text = unknown(m[1], m[2])
		} else if m := wrongKind.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("%s is allowed here, not %s", kindOf(m[2]), tags[m[1]])
		}
		p.add(max(1, line), 1, "", "%s", strings.TrimPrefix(text, "yaml: "))
	}
}

// tags names what YAML calls by a tag.
var tags = map[string]string{
	"!!str": "text", "!!int": "a number", "!!float": "a number", "!!bool": "true or false",
	"!!seq": "a list", "!!map": "a mapping", "!!timestamp": "a date", "!!binary": "bytes", "!!merge": "a merge",
}

// kindOf names what a Go type is written as.
func kindOf(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "float"):
		return "a number"
	case goType == "string":
		return "text"
	case goType == "bool":
		return "true or false"
	}
	return "a mapping"
}

// unknown says that a mapping has no field of that name, and which it has.
func unknown(name, goType string) string {
	names := fieldsOf(reflect.TypeFor[Scenario](), goType)
	hint := ""
	if word := rules.Closest(name, names); word != "" {
		hint = fmt.Sprintf(" (did you mean %s?)", word)
	}
	return fmt.Sprintf("unknown field %q%s; allowed here: %s", name, hint, strings.Join(names, ", "))
}

// fieldsOf returns the names of the fields of the struct called goType, which
// is t or a part of it.
func fieldsOf(t reflect.Type, goType string) (names []string) {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		name := f.Tag.Get("yaml")
		switch {
		case name != "" && t.String() == goType:
			names = append(names, name)
		case name != "" && names == nil:
			names = fieldsOf(f.Type, goType)
		}
	}
	return names
}
