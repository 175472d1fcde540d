package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/rules"
)

// plainRow is the plain form of a row, as people write it.
type plainRow struct {
	Name   string         `yaml:"name"`
	Path   string         `yaml:"path" required:"true"`
	Calls  int64          `yaml:"calls" required:"true"`
	Period rules.Duration `yaml:"period" required:"true"`
}

// DecodeRow returns the row that a text says, and what is wrong with it as far as
// that can be told without the others. The text is a rule, as for DecodeRule; or, if
// it has a path, calls or a period of its own, the plain form of a row, with a period
// such as 1m. The row is enabled, and empty if there is any problem.
func DecodeRow(text string) (rules.Row, []rules.Problem) {
	text = strings.TrimSpace(text)
	row := rules.Row{Enabled: true}
	var plain plainRow
	if isPlainText(text) {
		if problems, failed := decodeText(text, &plain); failed {
			return rules.Row{}, problems
		}
		row.Name, row.Path, row.Calls, row.PeriodMS = plain.Name, plain.Path, plain.Calls, time.Duration(plain.Period).Milliseconds()
		if time.Duration(plain.Period)%time.Millisecond != 0 {
			return rules.Row{}, []rules.Problem{{Path: "period", Message: fmt.Sprintf("%v is finer than a millisecond; whole milliseconds are allowed", plain.Period)}}
		}
		return row, nil
	}
	spec, problems := DecodeRule(text)
	if spec == nil {
		return rules.Row{}, append(problems, moreProblems(text)...)
	}
	row.Name, row.Rule = spec.Name, text
	return row, problems
}

// elsewhere is what can only be judged beside the file and the other rules.
var elsewhere = regexp.MustCompile(`^rules\[0\]\.(match\.(path|attributes)|overrides\[\d+\]\.plan|replaces)`)

// moreProblems returns what is wrong with a rule that can be read in part, in what
// can be read, so that all problems are told at once.
func moreProblems(text string) (found []rules.Problem) {
	d := newDecoder(&problems{rule: true})
	var spec rules.RuleSpec
	const rule = "rules[0]"
	if root := parse([]byte(text), d.problems); root == nil {
		return nil
	} else {
		d.value(rule, root, root, reflect.ValueOf(&spec).Elem())
	}
	l := loading{decoder: d}
	_, more := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{spec}})
	for _, p := range more {
		if p.Warning || l.followsFromHole(p.Path) || elsewhere.MatchString(p.Path) {
			continue
		}
		p.Path = strings.TrimPrefix(strings.TrimPrefix(p.Path, rule), ".")
		found = append(found, p)
	}
	return found
}

// isPlainText reports whether a text has a field that only the plain form has.
func isPlainText(text string) bool {
	root := parse([]byte(text), &problems{rule: true})
	if root == nil {
		return false
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if slices.Contains([]string{"path", "calls", "period"}, resolve(root.Content[i]).Value) {
			return true
		}
	}
	return false
}

// EncodeRow writes a row as DecodeRow reads it. What people wrote stays as they did.
func EncodeRow(row *rules.Row) string {
	if !row.IsPlain() {
		return strings.TrimSpace(row.Rule) + "\n"
	}
	period := rules.Duration(row.PeriodMS) * rules.Duration(time.Millisecond)
	plain := plainRow{Name: row.Name, Path: row.Path, Calls: row.Calls, Period: period}
	var b strings.Builder
	if plain.Name != "" {
		fmt.Fprintf(&b, "name: %s\n", plain.Name)
	}
	fmt.Fprintf(&b, "path: %s\ncalls: %d\nperiod: %v\n", quoteYAML(plain.Path), plain.Calls, plain.Period)
	return b.String()
}

func quoteYAML(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil { // a text always encodes
		panic(err)
	}
	return string(quoted)
}

// SetShadow returns the text of a rule, with all that people wrote in it, that is in
// shadow or not. The text must be a rule.
func SetShadow(text string, shadow bool) (string, error) {
	root := parse([]byte(text), &problems{rule: true})
	if root == nil {
		return "", fmt.Errorf("the rule cannot be read")
	}
	if err := set(root, "shadow="+strconv.FormatBool(shadow)); err != nil {
		return "", err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		return "", err
	}
	return strings.TrimSpace(b.String()), nil
}

// EncodeRule writes a rule as JSON of the shape that DecodeRule reads, without fields
// that say nothing.
func EncodeRule(spec *rules.RuleSpec) []byte {
	var b bytes.Buffer
	encode(&b, reflect.ValueOf(spec).Elem())
	return b.Bytes()
}

// encode writes a value that the decoder reads.
func encode(b *bytes.Buffer, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Time](), v.Kind() == reflect.String, v.Kind() == reflect.Bool, v.CanInt() && !isText(v.Type()):
		encodeScalar(b, v.Interface())
	case isText(v.Type()):
		encodeScalar(b, fmt.Sprint(v.Interface()))
	case v.Kind() == reflect.Slice:
		b.WriteByte('[')
		for i := range v.Len() {
			comma(b, i)
			encode(b, v.Index(i))
		}
		b.WriteByte(']')
	case v.Kind() == reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		b.WriteByte('{')
		for i, key := range keys {
			comma(b, i)
			encodeScalar(b, key.String())
			b.WriteByte(':')
			encode(b, v.MapIndex(key))
		}
		b.WriteByte('}')
	default:
		b.WriteByte('{')
		written := 0
		for _, f := range fieldsOf(v.Type()) {
			value := v.FieldByIndex(f.index)
			if value.IsZero() && !f.required {
				continue
			}
			comma(b, written)
			written++
			encodeScalar(b, f.name)
			b.WriteByte(':')
			encode(b, value)
		}
		b.WriteByte('}')
	}
}

func comma(b *bytes.Buffer, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

func encodeScalar(b *bytes.Buffer, value any) {
	text, err := json.Marshal(value)
	if err != nil { // texts, numbers and times of RFC 3339 always encode
		panic(err)
	}
	b.Write(text)
}
