package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Mapping is one that a file may have, with its fields. In Path, [] stands
// for any element of a list and * for any name in a mapping.
type Mapping struct {
	Path   string
	Type   reflect.Type
	Fields []Field
}

// A Field is what the tags say of one field.
type Field struct {
	Name, Doc string
	Type      reflect.Type
	Required  bool
	Enum      []string
}

// Mappings returns all that a file may have.
func Mappings() []Mapping { return mappings("", reflect.TypeFor[File]()) }

func mappings(path string, t reflect.Type) []Mapping {
	switch {
	case isText(t):
		return nil
	case t.Kind() == reflect.Pointer:
		return mappings(path, t.Elem())
	case t.Kind() == reflect.Slice:
		return mappings(path+".[]", t.Elem())
	case t.Kind() == reflect.Map:
		return mappings(path+".*", t.Elem())
	case t.Kind() != reflect.Struct:
		return nil
	}
	this := Mapping{Path: path, Type: t}
	var below []Mapping
	for _, f := range fieldsOf(t) {
		this.Fields = append(this.Fields, Field{f.name, f.doc, f.typ, f.required, f.enum})
		below = append(below, mappings(join(path, f.name), f.typ)...)
	}
	return append([]Mapping{this}, below...)
}

// HasField reports whether a file has the field of a Mapping.
func HasField(data []byte, mapping, field string) bool {
	var n yaml.Node
	return yaml.Unmarshal(data, &n) == nil && hasField(n.Content[0], join(mapping, field))
}

func hasField(n *yaml.Node, path string) bool {
	if path == "" {
		return true
	}
	name, rest, _ := strings.Cut(path, ".")
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && (i%2 == 0 || name != "*" && name != n.Content[i-1].Value) {
			continue
		}
		if hasField(child, rest) {
			return true
		}
	}
	return false
}
