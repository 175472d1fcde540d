package config

import (
	"encoding"
	"reflect"
	"strings"
)

// field is one field that a mapping in a file may have. It is made from the
// tags of a struct's field, which are all that the decoder, the JSON Schema
// and the field tables of the manual know about a file.
type field struct {
	name     string       // yaml:"name"
	doc      string       // doc:"..."
	required bool         // required:"true"
	enum     []string     // enum:"a,b"
	typ      reflect.Type // what it is decoded into
	index    []int        // for reflect.Value.FieldByIndex
}

// fieldsOf returns the fields of t, a struct. Those of a struct that is tagged
// yaml:",inline" stand where it stands.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if option == "inline" {
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
			continue
		}
		var enum []string
		if tag := f.Tag.Get("enum"); tag != "" {
			enum = strings.Split(tag, ",")
		}
		fields = append(fields, field{
			name:     name,
			doc:      f.Tag.Get("doc"),
			required: f.Tag.Get("required") == "true",
			enum:     enum,
			typ:      f.Type,
			index:    []int{i},
		})
	}
	return fields
}

func names(fields []field) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	return all
}

// isText reports whether t is decoded from one scalar by its UnmarshalText.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
