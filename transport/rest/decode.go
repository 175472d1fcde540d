package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"
)

// badField is an error in a request's body: where, and what is allowed.
type badField struct{ path, message string }

func (e *badField) Error() string {
	if e.path == "" {
		return "body: " + e.message
	}
	return e.path + ": " + e.message
}

func bad(format string, args ...any) error {
	return &badField{message: fmt.Sprintf(format, args...)}
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

// decodeAsk reads an Ask. It is strict: a field that is unknown, given twice,
// or of another type is an error, as is anything after the object.
func decodeAsk(body []byte) (ask Ask, err error) {
	if !utf8.Valid(body) {
		return Ask{}, bad("not valid UTF-8")
	}
	r := reader{json.NewDecoder(bytes.NewReader(body))}
	r.json.UseNumber()
	err = r.object(func(name string) (err error) {
		switch name {
		case "descriptors":
			ask.Descriptors, err = r.descriptors()
		case "cost":
			ask.Cost, err = r.cost()
		case "peek":
			ask.Peek, err = r.boolean()
		default:
			return bad("unknown field; descriptors, cost and peek are allowed")
		}
		return err
	})
	if err != nil {
		return Ask{}, err
	}
	if _, err := r.json.Token(); err != io.EOF {
		return Ask{}, bad("something follows the JSON object; send one object")
	}
	if len(ask.Descriptors) == 0 {
		return Ask{}, within("descriptors", bad("none; 1 to %d are needed", MaxDescriptors))
	}
	return ask, nil
}

// reader reads the values that an Ask is made of.
type reader struct{ json *json.Decoder }

func (r reader) descriptors() (ds []Descriptor, err error) {
	n := 0
	err = r.array(func() error {
		d, err := r.descriptor()
		if n++; n <= MaxDescriptors {
			ds = append(ds, d)
		}
		return err
	})
	if err == nil && n > MaxDescriptors {
		err = bad("%d descriptors; at most %d are allowed", n, MaxDescriptors)
	}
	return ds, err
}

func (r reader) descriptor() (d Descriptor, err error) {
	err = r.object(func(name string) (err error) {
		switch name {
		case "method":
			d.Method, err = r.text()
		case "host":
			d.Host, err = r.text()
		case "path":
			d.Path, err = r.text()
		case "headers":
			d.Headers, err = r.pairs("headers", func(name string) (string, error) {
				return http.CanonicalHeaderKey(name), nil
			})
		case "attributes":
			d.Attributes, err = r.pairs("attributes", attributeName)
		default:
			return bad("unknown field; method, host, path, headers and attributes are allowed")
		}
		return err
	})
	return d, err
}

// attributeName refuses what rules never ask for as an attribute.
func attributeName(name string) (string, error) {
	switch name {
	case "method", "host", "path":
		return "", bad("give it beside attributes, not among them")
	case "api":
		return "", bad("it is made of the path; give that, beside attributes")
	}
	return name, nil
}

// pairs reads an object of names and texts, each name as key makes it.
func (r reader) pairs(kind string, key func(name string) (string, error)) (map[string]string, error) {
	pairs := make(map[string]string)
	n := 0
	err := r.object(func(name string) error {
		value, err := r.text()
		if n++; err != nil || n > MaxPairs {
			return err
		}
		if len(name) == 0 || len(name) > MaxName {
			return bad("the name has %d bytes; 1 to %d are allowed", len(name), MaxName)
		}
		k, err := key(name)
		if err != nil {
			return err
		}
		if _, twice := pairs[k]; twice {
			return bad("given twice")
		}
		pairs[k] = value
		return nil
	})
	if err == nil && n > MaxPairs {
		err = bad("%d %s; at most %d are allowed", n, kind, MaxPairs)
	}
	return pairs, err
}

func (r reader) text() (string, error) {
	s, err := next[string](r, "a string")
	if err == nil && len(s) > MaxValue {
		err = bad("%d bytes; at most %d are allowed", len(s), MaxValue)
	}
	return s, err
}

func (r reader) boolean() (bool, error) { return next[bool](r, "true or false") }

func (r reader) cost() (int64, error) {
	number, err := next[json.Number](r, "a whole number")
	if err != nil {
		return 0, err
	}
	cost, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || cost < 1 || cost > MaxCost {
		return 0, bad("%s; a whole number from 1 to %d is allowed", shorten(string(number)), MaxCost)
	}
	return cost, nil
}

// object reads an object and calls field for the value of each name.
func (r reader) object(field func(name string) error) error {
	if err := r.delim('{', "an object"); err != nil {
		return err
	}
	var seen []string
	for r.json.More() {
		name, err := next[string](r, "a name")
		if err != nil {
			return err
		}
		if len(seen) <= MaxPairs { // more than that is refused by their number
			if slices.Contains(seen, name) {
				return within(shorten(name), bad("given twice"))
			}
			seen = append(seen, name)
		}
		if err := field(name); err != nil {
			return within(shorten(name), err)
		}
	}
	return r.delim('}', "}")
}

// array reads an array and calls element for each of its values.
func (r reader) array(element func() error) error {
	if err := r.delim('[', "an array"); err != nil {
		return err
	}
	for i := 0; r.json.More(); i++ {
		if err := element(); err != nil {
			return within("["+strconv.Itoa(i)+"]", err)
		}
	}
	return r.delim(']', "]")
}

func (r reader) delim(want json.Delim, what string) error {
	got, err := next[json.Delim](r, what)
	if err == nil && got != want {
		err = bad("%v; %s is needed", got, what)
	}
	return err
}

// next reads a token that must be a T, which people call what.
func next[T any](r reader, what string) (value T, err error) {
	token, err := r.json.Token()
	if err != nil {
		return value, notJSON(r.json.InputOffset(), err)
	}
	value, ok := token.(T)
	if !ok {
		return value, bad("%s; %s is needed", describe(token), what)
	}
	return value, nil
}

// notJSON says where a body stops being JSON.
func notJSON(offset int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return bad("the JSON ends too early, at byte %d", offset)
	}
	return bad("not JSON at byte %d", offset)
}

// describe names a token as its sender wrote it.
func describe(token json.Token) string {
	switch t := token.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(shorten(t))
	case json.Number:
		return shorten(string(t))
	}
	return fmt.Sprint(token)
}

// shorten keeps what a sender wrote from filling the answer.
func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
