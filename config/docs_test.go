package config_test

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
)

const manual = "../docs/rules-file.md"

var yamlFence = regexp.MustCompile("(?ms)^ *```ya?ml\n(.*?)^ *```$")

// TestDocuments reads the YAML in the documents. What begins with version: 1 is
// a whole file and must have no problems; what begins with # fragment must be
// one as soon as version: 1 and what is required beside it are there.
func TestDocuments(t *testing.T) {
	documents := append(glob(t, "../*.md"), glob(t, "../docs/*.md")...)
	fences := 0
	for _, path := range documents {
		text := string(read(t, path))
		for _, at := range yamlFence.FindAllStringSubmatchIndex(text, -1) {
			fences++
			name := fmt.Sprintf("%s:%d", path, 1+strings.Count(text[:at[2]], "\n"))
			checkFence(t, name, text[at[2]:at[3]])
		}
	}
	if fences == 0 {
		t.Error("the documents have no YAML")
	}
}

func checkFence(t *testing.T, name, fence string) {
	t.Helper()
	switch {
	case strings.HasPrefix(fence, "version: 1\n"), strings.HasPrefix(fence, "# yaml-language-server: "):
		if _, problems := config.Parse(name, []byte(fence)); len(problems) > 0 {
			t.Error(printed(problems))
		}
	case strings.HasPrefix(fence, "# fragment\n"):
		_, problems := config.Parse(name, []byte(strings.Replace(fence, "# fragment", "version: 1", 1)))
		for _, p := range problems {
			if !p.Warning && p.Message != "is required" {
				t.Error(p.Error())
			}
		}
	default:
		t.Errorf("%s: YAML in a document begins with version: 1 or with # fragment", name)
	}
}

var fieldTable = regexp.MustCompile(`(?s)<!-- fields (\S+) -->\n.*?<!-- end -->`)

// TestFieldTables compares the tables of fields in the manual with the tags
// that they are made from. Every kind of mapping must have one.
func TestFieldTables(t *testing.T) {
	shown := map[reflect.Type]bool{}
	got := fieldTable.ReplaceAllStringFunc(string(read(t, manual)), func(table string) string {
		path := fieldTable.FindStringSubmatch(table)[1]
		for _, m := range config.Mappings() {
			if m.Path == strings.TrimPrefix(path, "file") {
				shown[m.Type] = true
				return fmt.Sprintf("<!-- fields %s -->\n%s<!-- end -->", path, tableOf(m.Fields))
			}
		}
		t.Errorf("%s: a file has no fields at %s", manual, path)
		return table
	})
	golden(t, manual, got)
	for _, m := range config.Mappings() {
		if !shown[m.Type] {
			t.Errorf("%s has no table of the fields of %s", manual, m.Path)
		}
	}
}

// escape keeps Markdown from taking a text for its own signs.
var escape = strings.NewReplacer("|", `\|`, "*", `\*`)

func tableOf(fields []config.Field) string {
	var b strings.Builder
	b.WriteString("| field | value | meaning |\n|---|---|---|\n")
	for _, f := range fields {
		value := kindOf(f.Type)
		if len(f.Enum) > 0 {
			value = "`" + strings.Join(f.Enum, "`, `") + "`"
		}
		if f.Required {
			value += "; required"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, value, escape.Replace(f.Doc))
	}
	return b.String()
}

// kindOf names what is decoded into t.
func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[rules.Duration]():
		return "duration"
	case t.String() == "time.Time":
		return "time"
	case t.Kind() == reflect.Pointer:
		return kindOf(t.Elem())
	case t.Kind() == reflect.Slice:
		return "list of " + kindOf(t.Elem())
	case t.Kind() == reflect.Map:
		return "mapping of names to " + kindOf(t.Elem())
	case t.Kind() == reflect.Struct:
		return "mapping"
	case t.Kind() == reflect.Bool:
		return "`true` or `false`"
	case t.Kind() == reflect.String, t == reflect.TypeFor[config.TokenHash]():
		return "text"
	}
	return "number"
}

var defaultInDoc = regexp.MustCompile(`Default (\S+)\.$`)

// TestDefaultsInTags compares the defaults that the tags of the file's own
// settings speak of with those that they have.
func TestDefaultsInTags(t *testing.T) {
	f, _ := config.Parse("stint.yaml", []byte("version: 1"))
	text, err := yaml.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]any
	if err := yaml.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	for _, m := range config.Mappings() {
		section := defaults
		if m.Path != "" {
			section, _ = defaults[m.Path].(map[string]any)
		}
		if m.Path == "identity" || section == nil {
			continue
		}
		for _, field := range m.Fields {
			said := defaultInDoc.FindStringSubmatch(field.Doc)
			if value := fmt.Sprint(section[field.Name]); said != nil && said[1] != value {
				t.Errorf("%s.%s: the tag says %q, the default is %s", m.Path, field.Name, said[1], value)
			}
		}
	}
}
