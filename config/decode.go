package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/rules"
)

// maxValues bounds the values of one file, those that aliases repeat among
// them: a few lines of aliases of aliases can stand for billions of values.
const maxValues = 1_000_000

// decoder fills a struct from YAML nodes and collects everything that is wrong.
// It is strict: nothing in the file is passed over.
type decoder struct {
	*problems
	// holes are the paths of what is missing or could not be read. What they
	// stand for has its zero value and must not be judged.
	holes []string
	// values is how many values have been read.
	values int
	fields map[reflect.Type][]field
}

func newDecoder(p *problems) *decoder {
	return &decoder{problems: p, fields: make(map[reflect.Type][]field)}
}

// hole reports a problem that leaves the value at path without a meaning.
func (d *decoder) hole(at *yaml.Node, path, format string, args ...any) {
	d.add(at, path, format, args...)
	d.holes = append(d.holes, path)
}

// value decodes n into v. Problems are reported at the node at: the key of n if
// it has one, and n itself otherwise.
func (d *decoder) value(path string, at, n *yaml.Node, v reflect.Value) {
	if d.values++; d.values > maxValues {
		if d.values == maxValues+1 {
			d.add(at, path, "the file has more than %d values, those that aliases repeat included; list fewer", maxValues)
			d.holes = append(d.holes, "") // nothing else can be judged
		}
		return
	}
	n = resolve(n)
	switch {
	case n.Style&yaml.TaggedStyle != 0 && !coreTag(n.Tag):
		d.hole(at, path, "has the tag %s; remove it, only plain values are allowed", quote(n.Tag))
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		d.hole(at, path, "has no value; give it one or remove it%s", emptyHint(v.Type()))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(path, at, n, v.Elem())
	case isText(v.Type()), v.Kind() == reflect.String, v.Kind() == reflect.Bool, v.CanInt():
		d.scalar(path, at, n, v)
	case v.Kind() == reflect.Slice:
		d.slice(path, at, n, v)
	case v.Kind() == reflect.Map:
		d.stringMap(path, at, n, v)
	default:
		d.structure(path, at, n, v)
	}
}

// structure decodes the mapping n into the struct v.
func (d *decoder) structure(path string, at, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.hole(at, path, "a mapping is allowed here, not %s", kindOf(n))
		return
	}
	fields := d.fieldsOf(v.Type())
	var meant []string // what unknown fields were probably meant to be
	seen := d.entries(path, n, func(name string, key, value *yaml.Node) {
		where := join(path, name)
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			word := rules.Closest(name, names(fields))
			d.add(key, where, "unknown field%s; allowed here: %s", didYouMean(word), strings.Join(names(fields), ", "))
			if word != "" {
				meant = append(meant, word)
				d.holes = append(d.holes, join(path, word))
			}
			return
		}
		f := fields[i]
		if text := resolve(value); len(f.enum) > 0 && isPlain(text) && !slices.Contains(f.enum, text.Value) {
			d.hole(key, where, "%s is not allowed%s; allowed: %s", quote(text.Value), didYouMean(rules.Closest(text.Value, f.enum)), strings.Join(f.enum, ", "))
			return
		}
		d.value(where, key, value, v.FieldByIndex(f.index))
	})
	for _, f := range fields {
		if seen[f.name] == nil && f.required && !slices.Contains(meant, f.name) {
			d.hole(n, join(path, f.name), "is required")
		}
	}
}

// stringMap decodes the mapping n into v, a map with string keys.
func (d *decoder) stringMap(path string, at, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.hole(at, path, "a mapping is allowed here, not %s", kindOf(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	d.entries(path, n, func(name string, key, value *yaml.Node) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(join(path, name), key, value, element)
		v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), element)
	})
}

// entries calls fn with each entry of the mapping n whose key is in order, and
// returns the keys with the nodes where they stand.
func (d *decoder) entries(path string, n *yaml.Node, fn func(name string, key, value *yaml.Node)) map[string]*yaml.Node {
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := resolve(key)
		switch {
		case name.Kind != yaml.ScalarNode || name.Tag == "!!null":
			d.add(key, path, "the name of a field must be text")
			continue
		case name.Tag == "!!merge":
			d.add(key, join(path, name.Value), "merging mappings is not supported; write the fields out, or repeat a whole value by an alias")
			continue
		}
		if first, ok := seen[name.Value]; ok {
			d.add(key, join(path, name.Value), "is there twice, first on line %d; remove one", first.Line)
			continue
		}
		seen[name.Value] = key
		fn(name.Value, key, value)
	}
	return seen
}

// slice decodes the list n into v. A single text is a list of one.
func (d *decoder) slice(path string, at, n *yaml.Node, v reflect.Value) {
	content := n.Content
	if element := v.Type().Elem(); n.Kind == yaml.ScalarNode && element.Kind() == reflect.String && !isText(element) {
		content = []*yaml.Node{n}
	} else if n.Kind != yaml.SequenceNode {
		d.hole(at, path, "a list is allowed here, not %s", kindOf(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(content), len(content)))
	for i, element := range content {
		if d.full() {
			return
		}
		d.value(path+"["+strconv.Itoa(i)+"]", element, element, v.Index(i))
	}
}

func (d *decoder) fieldsOf(t reflect.Type) []field {
	fields, ok := d.fields[t]
	if !ok {
		fields = fieldsOf(t)
		d.fields[t] = fields
	}
	return fields
}

// resolve returns what n stands for if it is an alias, and n otherwise.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// coreTag reports whether tag, written out, says what a value is anyway.
func coreTag(tag string) bool {
	switch tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!seq", "!!map":
		return true
	}
	return false
}

// isPlain reports whether n is a scalar that has a value.
func isPlain(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag != "!!null" }

// kindOf names what n is, for a message that says what it should be.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	}
	return "text"
}
