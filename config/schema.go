package config

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/stint-dev/stint/rules"
)

// Schema returns the JSON Schema, draft 2020-12, of a configuration file. It
// is made from the tags of [File], so it has the fields that Load knows, no
// more and no fewer. It cannot tell everything that Load can: whether a path
// template is sound, say, or a file is there.
func Schema() []byte {
	schema := schemaOf(reflect.TypeFor[File]())
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Stint configuration"
	data, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(err) // it is made of maps, lists and strings alone
	}
	return append(data, '\n')
}

// object is a JSON object; encoding/json sorts its keys.
type object = map[string]any

// durationPattern is what rules.Duration reads.
const durationPattern = `^([0-9]+w)?([0-9]+d)?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`

// anyText is the type of a text: a scalar, whatever YAML takes it for.
var anyText = []string{"string", "number", "boolean"}

// schemaOf returns what is allowed where t is decoded.
func schemaOf(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[rules.Duration]():
		return object{"type": "string", "minLength": 1, "pattern": durationPattern}
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem())
	case isText(t), t.Kind() == reflect.String:
		return object{"type": anyText}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return object{"type": append([]string{"array"}, anyText...), "items": schemaOf(t.Elem())}
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": schemaOf(t.Elem())}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case t.Kind() == reflect.Struct:
		return structSchema(t)
	}
	return object{"type": "integer"}
}

func structSchema(t reflect.Type) object {
	properties := object{}
	var required []string
	for _, f := range fieldsOf(t) {
		schema := schemaOf(f.typ)
		schema["description"] = f.doc
		if len(f.enum) > 0 {
			delete(schema, "type")
			schema["enum"] = enumOf(f)
		}
		properties[f.name] = schema
		if f.required {
			required = append(required, f.name)
		}
	}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// enumOf returns the values that f may have, as JSON has them.
func enumOf(f field) []any {
	values := make([]any, len(f.enum))
	for i, text := range f.enum {
		values[i] = text
		if f.typ.Kind() != reflect.String {
			values[i] = json.Number(text)
		}
	}
	return values
}
