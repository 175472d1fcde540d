package slotrest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// badField is an error in a request: where, and what is allowed.
type badField struct {
	path, message string
	// value says that what is wrong has been read to its end, so what follows can
	// be, too.
	value bool
}

func (e *badField) Error() string {
	if e.path == "" {
		return "body: " + e.message
	}
	return e.path + ": " + e.message
}

func bad(format string, args ...any) error {
	return &badField{message: fmt.Sprintf(format, args...)}
}

func badValue(format string, args ...any) error {
	return &badField{message: fmt.Sprintf(format, args...), value: true}
}

func missing(name string) error { return within(name, badValue("missing; it is needed")) }

// passed reports whether reading can go on after err.
func passed(err error) bool {
	e, ok := errors.AsType[*badField](err)
	return ok && e.value
}

// within says that err is somewhere below the field name.
func within(name string, err error) error {
	e, ok := errors.AsType[*badField](err)
	if !ok {
		return err
	}
	switch {
	case e.path == "" || e.path[0] == '[':
		e.path = name + e.path
	default:
		e.path = name + "." + e.path
	}
	return err
}

// asBad makes of err, if there is one, that of a field's value.
func asBad(name string, err error) error {
	if err == nil {
		return nil
	}
	return &badField{path: name, message: err.Error(), value: true}
}

// reader reads a body strictly: a field that is unknown, given twice, missing or of
// another type is an error, as is anything after the object, and text that would not
// come out as it went in.
type reader struct {
	body []byte // is JSON
	at   int    // what comes next
}

// field is one of an object's.
type field struct {
	name     string
	required bool
	read     func() error
}

// read reads a body that is an object with some of the fields.
func read(body []byte, fields func(r *reader) []field) error {
	if err := checkJSON(body); err != nil {
		return err
	}
	r := &reader{body: body}
	return r.object(fields(r)...)
}

// checkJSON looks whether a body is one JSON value.
func checkJSON(body []byte) error {
	if json.Valid(body) {
		return nil
	}
	var value json.RawMessage
	e, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(body, &value))
	switch {
	case !ok || int(e.Offset) >= len(body) && strings.HasPrefix(e.Error(), "unexpected end"):
		return bad("the JSON ends too early, at byte %d", len(body))
	case strings.HasSuffix(e.Error(), "after top-level value"):
		return bad("something follows the JSON object; send one object")
	}
	return bad("not JSON at byte %d", e.Offset-1)
}

// object reads an object with some of the fields. If a value is not allowed it reads on,
// and returns the error of the first.
func (r *reader) object(fields ...field) error {
	if err := r.delim('{', "an object"); err != nil {
		return err
	}
	var seen uint64
	var first error
	for r.more() {
		name, err := r.string()
		if err != nil {
			return bad("a name in it is %v", unnamed(err, "body: "))
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			var names []string
			for _, f := range fields {
				names = append(names, f.name)
			}
			return within(shorten(name), bad("unknown field; %s", list(names)))
		}
		if seen&(1<<i) != 0 {
			return within(name, bad("given twice"))
		}
		seen |= 1 << i
		if err := within(name, fields[i].read()); err != nil {
			if !passed(err) {
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
	for i, f := range fields {
		if first == nil && f.required && seen&(1<<i) == 0 {
			first = missing(f.name)
		}
	}
	return first
}

// array reads an array and calls element for each of its values. Like object it reads
// on after a value that is not allowed.
func (r *reader) array(element func() error) error {
	if err := r.delim('[', "an array"); err != nil {
		return err
	}
	var first error
	for i := 0; r.more(); i++ {
		if err := element(); err != nil {
			if err = within("["+strconv.Itoa(i)+"]", err); !passed(err) {
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

// text reads a string and hands it to take, whose error is that of the value.
func (r *reader) text(take func(text string) error) func() error {
	return func() error {
		text, err := next[string](r, "a string")
		if err != nil {
			return err
		}
		return asBad("", take(text))
	}
}

// whole reads a whole number.
func (r *reader) whole(to *int64, least, most int64) func() error {
	return func() error {
		number, err := next[json.Number](r, "a whole number")
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || n < least || n > most {
			return badValue("%s; a whole number from %d to %d is allowed", shorten(string(number)), least, most)
		}
		*to = n
		return nil
	}
}

func (r *reader) delim(want json.Delim, what string) error {
	got, err := next[json.Delim](r, what)
	if err == nil && got != want {
		err = bad("%v; %s is needed", got, what)
	}
	return err
}

// next reads a token that must be a T, which people call what.
func next[T any](r *reader, what string) (T, error) {
	token, err := r.token()
	return as[T](token, err, what)
}

func as[T any](token json.Token, err error, what string) (value T, _ error) {
	if err != nil {
		return value, err
	}
	value, ok := token.(T)
	if !ok {
		return value, bad("%s; %s is needed", describe(token), what)
	}
	return value, nil
}

// more reports whether an object or an array goes on.
func (r *reader) more() bool {
	c := r.peek()
	return c != '}' && c != ']' && c != 0
}

// peek returns the first byte of the next token; 0 if there is none.
func (r *reader) peek() byte {
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
func (r *reader) token() (json.Token, error) {
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
func (r *reader) string() (string, error) {
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
		return "", badValue("not valid UTF-8")
	case !escapes:
		return string(raw[1 : len(raw)-1]), nil
	case loneSurrogate(raw):
		return "", badValue(`half of a surrogate pair, such as \ud800, stands alone in it`)
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
