package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// scalar decodes the scalar n into v: a text, a number, a truth value, or what
// has an UnmarshalText.
func (d *decoder) scalar(path string, at, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.hole(at, path, "%s is allowed here, not %s", wanted(v), kindOf(n))
		return
	}
	var err error
	switch t := v.Addr().Interface().(type) {
	case *time.Time:
		*t, err = parseTime(n.Value)
	case encoding.TextUnmarshaler:
		err = t.UnmarshalText([]byte(n.Value))
	default:
		err = setPlain(v, n)
	}
	if err != nil {
		d.hole(at, path, "%v", err)
	}
}

func setPlain(v reflect.Value, n *yaml.Node) error {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(n.Value) // whatever YAML takes it for: 42, yes and 2027-01-31 are texts here
	case v.Kind() == reflect.Bool:
		if n.Tag != "!!bool" {
			return fmt.Errorf("%s is not allowed; true or false is", quote(n.Value))
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	default:
		i, err := parseInt(n)
		if err != nil {
			return err
		}
		if v.OverflowInt(i) {
			return fmt.Errorf("%d is out of bounds", i)
		}
		v.SetInt(i)
	}
	return nil
}

// parseInt reads a whole number in decimal. What else YAML takes for one is
// refused, since 010 is 8 to some readers and 10 to others.
func parseInt(n *yaml.Node) (int64, error) {
	text := strings.ReplaceAll(n.Value, "_", "")
	digits := strings.TrimLeft(text, "+-")
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
	i, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is out of bounds; %d to %d is allowed", shorten(n.Value, 80), math.MinInt64, math.MaxInt64)
	case err == nil && quoted:
		return 0, fmt.Errorf("%s is text; write %d without quotes", quote(n.Value), i)
	case err == nil && len(digits) > 1 && digits[0] == '0':
		return 0, fmt.Errorf("%s begins with 0; write %d", quote(n.Value), i)
	case err == nil && n.Tag == "!!int":
		return i, nil
	}
	hint := ""
	if f, err := strconv.ParseFloat(text, 64); err == nil && f == float64(int64(f)) && f < 1e15 && f > -1e15 {
		hint = fmt.Sprintf("; write %d", int64(f))
	}
	return 0, fmt.Errorf("%s is not a whole number%s", quote(n.Value), hint)
}

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is not a time; a date, a time and a zone as in 2027-01-31T00:00:00Z are allowed", quote(text))
	}
	return t, nil
}

// wanted names what v is decoded from.
func wanted(v reflect.Value) string {
	switch {
	case isText(v.Type()), v.Kind() == reflect.String:
		return "text"
	case v.Kind() == reflect.Bool:
		return "true or false"
	}
	return "a number"
}

// emptyHint is what to do where a value is missing and an empty text may be meant.
func emptyHint(t reflect.Type) string {
	if t.Kind() == reflect.String {
		return `; an empty text is ""`
	}
	return ""
}
