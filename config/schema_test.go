package config_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
)

// TestSchema compares the schema with the one that editors are pointed to.
func TestSchema(t *testing.T) {
	golden(t, "../docs/stint.schema.json", string(config.Schema()))
}

func TestSchemaAccepts(t *testing.T) {
	schema := compile(t)
	for _, pattern := range []string{"testdata/good/*.yaml", "../examples/*/stint*.yaml", "testdata/bad/meaning/*.yaml"} {
		for _, path := range glob(t, pattern) {
			if err := schema.Validate(asJSON(t, path, read(t, path))); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	schema := compile(t)
	for _, path := range glob(t, "testdata/bad/structure/*.yaml") {
		if schema.Validate(asJSON(t, path, read(t, path))) == nil {
			t.Errorf("%s is accepted", path)
		}
	}
}

// TestSchemaRefusesOne makes one mistake at a time in a file without any.
func TestSchemaRefusesOne(t *testing.T) {
	schema := compile(t)
	for _, text := range []string{
		"{}",
		"version: 2",
		"version: '1'",
		"version: 1\nother: 1",
		"version: 1\nlisten: 127.0.0.1:80",
		"version: 1\nproxy: {timeout: 1s}",
		"version: 1\nmemory: {max_keys: many}",
		"version: 1\nheaders: draft7",
		"version: 1\nstore_timeout: 60",
		"version: 1\nstore_timeout: 10 s",
		"version: 1\nplans: {gold: {members: {tenant: {acme: 1}}}}",
		"version: 1\nrules: {name: a}",
		"version: 1\nrules: [{name: a}]",
		"version: 1\nrules: [{name: a, limits: {quota: 1, window: 1s}}]",
		"version: 1\nrules: [{name: a, limits: [{quota: 1.5, window: 1s}]}]",
		"version: 1\nrules: [{name: a, limits: [{quota: 1, window: 1s}], shadow: 'yes'}]",
		"version: 1\nrules: [{name: a, limits: [{quota: 1, window: 1s}], status: 500}]",
		"version: 1\nrules: [{name: a, limits: [{quota: 1, window: 1s, burst: ~}]}]",
	} {
		if schema.Validate(asJSON(t, text, []byte(text))) == nil {
			t.Errorf("accepted:\n%s", text)
		}
		if f, _ := config.Parse("stint.yaml", []byte(text)); f != nil {
			t.Errorf("Parse accepts what the schema refuses:\n%s", text)
		}
	}
}

// TestSchemaDurations: the schema accepts whatever text is a duration.
func TestSchemaDurations(t *testing.T) {
	schema := compile(t)
	accepts := func(text string) error {
		return schema.Validate(map[string]any{"version": 1, "store_timeout": text})
	}
	rapid.Check(t, func(t *rapid.T) {
		d := rules.Duration(time.Duration(rapid.Int64Range(1, 1<<50).Draw(t, "us")) * time.Microsecond)
		if err := accepts(d.String()); err != nil {
			t.Error(err)
		}
		text := rapid.StringMatching(`([0-9]{1,2}w)?([0-9]{1,3}d)?(([0-9]{0,3}\.?[0-9]{0,3})(h|m|s|ms|us|µs)){0,3}`).Draw(t, "text")
		if d.UnmarshalText([]byte(text)) == nil {
			if err := accepts(text); err != nil {
				t.Error(err)
			}
		}
	})
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("stint.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("stint.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// asJSON reads YAML as editors do: as the JSON values that it stands for.
func asJSON(t *testing.T, name string, data []byte) any {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal(data, &n); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return jsonOf(t, n.Content[0])
}

func jsonOf(t *testing.T, n *yaml.Node) any {
	switch n.Kind {
	case yaml.AliasNode:
		return jsonOf(t, n.Alias)
	case yaml.SequenceNode:
		list := []any{}
		for _, element := range n.Content {
			list = append(list, jsonOf(t, element))
		}
		return list
	case yaml.MappingNode:
		mapping := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			mapping[n.Content[i].Value] = jsonOf(t, n.Content[i+1])
		}
		return mapping
	}
	if n.Tag == "!!timestamp" {
		return n.Value
	}
	var v any
	if err := n.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
