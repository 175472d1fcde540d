// Package strictjson reads the JSON that callers send, strictly: a field that is
// unknown, given twice, missing or of another type is an error, as is anything after
// the object, and text that would not come out as it went in. The error says where,
// and what is allowed.
package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error is what is wrong in a request: where, and what is allowed.
type Error struct {
	// Path is the field, such as events[3].eventId; "" is the whole body.
	Path, Message string
	// value says that what is wrong has been read to its end, so what follows can
	// be, too.
	value bool
}

func (e *Error) Error() string {
	if e.Path == "" {
		return "body: " + e.Message
	}
	return e.Path + ": " + e.Message
}

// Bad returns an Error at no path yet, after which nothing more can be read.
func Bad(format string, args ...any) error {
	return &Error{Message: fmt.Sprintf(format, args...)}
}

// BadValue is Bad for a value that has been read to its end.
func BadValue(format string, args ...any) error {
	return &Error{Message: fmt.Sprintf(format, args...), value: true}
}

// Missing returns the Error that a field is needed.
func Missing(name string) error { return Within(name, BadValue("missing; it is needed")) }

// Passed reports whether reading can go on after err.
func Passed(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.value
}

// Within says that err, if it is an Error, is somewhere below the field name.
func Within(name string, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	switch {
	case e.Path == "" || e.Path[0] == '[':
		e.Path = name + e.Path
	default:
		e.Path = name + "." + e.Path
	}
	return err
}

// As makes of err, if there is one, the Error of a field's value. One that is an Error
// already is found below name.
func As(name string, err error) error {
	if err == nil {
		return nil
	}
	if _, is := errors.AsType[*Error](err); is {
		if name == "" {
			return err
		}
		return Within(name, err)
	}
	return &Error{Path: name, Message: err.Error(), value: true}
}

// Reader reads a body. Its methods read the next value.
type Reader struct {
	body []byte // is JSON
	at   int    // what comes next
}

// Field is one of an object's.
type Field struct {
	name     string
	required bool
	read     func() error
}

// Required returns a field that must be given. read reads its value.
func Required(name string, read func() error) Field { return Field{name, true, read} }

// Optional returns a field that may be left out. read reads its value.
func Optional(name string, read func() error) Field { return Field{name, false, read} }

// Read reads a body that is an object with some of the fields.
func Read(body []byte, fields func(r *Reader) []Field) error {
	if err := check(body); err != nil {
		return err
	}
	r := &Reader{body: body}
	return r.Object(fields(r)...)
}

// check looks whether a body is one JSON value.
func check(body []byte) error {
	if json.Valid(body) {
		return nil
	}
	var value json.RawMessage
	e, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(body, &value))
	switch {
	case !ok || int(e.Offset) >= len(body) && strings.HasPrefix(e.Error(), "unexpected end"):
		return Bad("the JSON ends too early, at byte %d", len(body))
	case strings.HasSuffix(e.Error(), "after top-level value"):
		return Bad("something follows the JSON object; send one object")
	}
	return Bad("not JSON at byte %d", e.Offset-1)
}

// Object reads an object with some of the fields. If a value is not allowed it reads on,
// and returns the error of the first.
func (r *Reader) Object(fields ...Field) error {
	var seen uint64
	err := r.Pairs(func(name string) error {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.name == name })
		if i < 0 {
			var names []string
			for _, f := range fields {
				names = append(names, f.name)
			}
			return Bad("unknown field; %s", List(names))
		}
		if seen&(1<<i) != 0 {
			return Bad("given twice")
		}
		seen |= 1 << i
		return fields[i].read()
	})
	if err != nil {
		return err
	}
	for i, f := range fields {
		if f.required && seen&(1<<i) == 0 {
			return Missing(f.name)
		}
	}
	return nil
}

// Pairs reads an object of any names and calls value to read what stands beside each.
// It reads on like Object does. That a name is given twice is for value to refuse.
func (r *Reader) Pairs(value func(name string) error) error {
	if err := r.delim('{', "an object"); err != nil {
		return err
	}
	var first error
	for r.more() {
		name, err := r.string()
		if err != nil {
			return Bad("a name in it is %v", strings.TrimPrefix(err.Error(), "body: "))
		}
		if err := value(name); err != nil {
			if err = Within(Shorten(name), err); !Passed(err) {
				return err
			}
			if first == nil {
				first = err
			}
		}
	}
	if err := r.delim('}', "}"); err != nil {
		return err
	}
	return first
}

// Array reads an array and calls element to read each of its values. Like Object it
// reads on after a value that is not allowed.
func (r *Reader) Array(element func() error) error {
	if err := r.delim('[', "an array"); err != nil {
		return err
	}
	var first error
	for i := 0; r.more(); i++ {
		if err := element(); err != nil {
			if err = Within("["+strconv.Itoa(i)+"]", err); !Passed(err) {
				return err
			}
			if first == nil {
				first = err
			}
		}
	}
	if err := r.delim(']', "]"); err != nil {
		return err
	}
	return first
}

// Text returns what reads a string and hands it to take, whose error is that of the
// value.
func (r *Reader) Text(take func(text string) error) func() error {
	return func() error {
		text, err := next[string](r, "a string")
		if err != nil {
			return err
		}
		return As("", take(text))
	}
}

// Whole returns what reads a whole number from least to most.
func (r *Reader) Whole(to *int64, least, most int64) func() error {
	return func() error {
		number, err := next[json.Number](r, "a whole number")
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || n < least || n > most {
			return BadValue("%s; a whole number from %d to %d is allowed", Shorten(string(number)), least, most)
		}
		*to = n
		return nil
	}
}

// Bool returns what reads true or false.
func (r *Reader) Bool(to *bool) func() error {
	return func() (err error) {
		*to, err = next[bool](r, "true or false")
		return err
	}
}

// Null reads null, if that is next, and reports whether it was.
func (r *Reader) Null() bool {
	if r.peek() != 'n' {
		return false
	}
	r.at += len("null")
	return true
}

func (r *Reader) delim(want json.Delim, what string) error {
	got, err := next[json.Delim](r, what)
	if err == nil && got != want {
		err = Bad("%v; %s is needed", got, what)
	}
	return err
}

// next reads a token that must be a T, which people call what.
func next[T any](r *Reader, what string) (value T, _ error) {
	token, err := r.token()
	if err != nil {
		return value, err
	}
	value, ok := token.(T)
	if !ok {
		return value, Bad("%s; %s is needed", describe(token), what)
	}
	return value, nil
}

// more reports whether an object or an array goes on.
func (r *Reader) more() bool {
	c := r.peek()
	return c != '}' && c != ']' && c != 0
}

// peek returns the first byte of the next token; 0 if there is none.
func (r *Reader) peek() byte {
	for ; r.at < len(r.body); r.at++ {
		switch c := r.body[r.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// token reads a token: a json.Delim, a string, a json.Number, a bool, or nil.
func (r *Reader) token() (json.Token, error) {
	c := r.peek()
	from := r.at
	switch c {
	case '{', '}', '[', ']':
		r.at++
		return json.Delim(c), nil
	case '"':
		return r.string()
	}
	for r.at < len(r.body) && !strings.ContainsRune(" \t\r\n,:}]", rune(r.body[r.at])) {
		r.at++
	}
	switch word := string(r.body[from:r.at]); word {
	case "null":
		return nil, nil
	case "true", "false":
		return word == "true", nil
	default:
		return json.Number(word), nil
	}
}

// string reads a string. One that is not text, which package json would mend, is an
// error.
func (r *Reader) string() (string, error) {
	from, escapes := r.at, false
	for r.at++; r.body[r.at] != '"'; r.at++ {
		if r.body[r.at] == '\\' {
			escapes = true
			r.at++
		}
	}
	r.at++
	raw := r.body[from:r.at]
	switch {
	case !utf8.Valid(raw):
		return "", BadValue("not valid UTF-8")
	case !escapes:
		return string(raw[1 : len(raw)-1]), nil
	case loneSurrogate(raw):
		return "", BadValue(`half of a surrogate pair, such as \ud800, stands alone in it`)
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err
}

// loneSurrogate reports whether a string of valid JSON has an escape that is half a
// character.
func loneSurrogate(raw []byte) bool {
	for len(raw) > 1 {
		if raw[0] != '\\' {
			raw = raw[1:]
			continue
		}
		high := escaped(raw)
		switch {
		case high < 0:
			raw = raw[2:] // such as \n
		case high < 0xd800 || high > 0xdfff:
			raw = raw[6:]
		default:
			if low := escaped(raw[6:]); high >= 0xdc00 || low < 0xdc00 || low > 0xdfff {
				return true
			}
			raw = raw[12:]
		}
	}
	return false
}

// escaped returns what \uXXXX at the beginning of raw means; -1 if there is none.
func escaped(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// describe names a token as its sender wrote it.
func describe(token json.Token) string {
	switch t := token.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(Shorten(t))
	case json.Number:
		return Shorten(string(t))
	}
	return fmt.Sprint(token)
}

// Shorten keeps what a sender wrote from filling the answer.
func Shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// List writes what is allowed, as a sentence.
func List(names []string) string {
	switch n := len(names); n {
	case 0:
		return "none is allowed"
	case 1:
		return names[0] + " is allowed"
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1] + " are allowed"
	}
}
