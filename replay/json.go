package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	errJSONObject = malformed("not a JSON object")
	errJSONSyntax = malformed("not valid JSON")
	errJSONDeep   = malformed("JSON objects are nested too deeply")
	errJSONAfter  = malformed("something follows the JSON object")
	errJSONNoTime = malformed("no field with the time; name it with --field time=...")
)

// maxDepth bounds how deep the fields of a JSON line are looked for.
const maxDepth = 32

// defaultFields are where the parts of a request are looked for in a JSON line
// unless Options.Fields says otherwise.
var defaultFields = []string{"time", "method", "host", "path", "ip", "user", "user_agent", "referer"}

// jsonParser reads lines that are JSON objects.
type jsonParser struct{ root field }

// field is a place in a JSON object that is wanted, or leads to such.
type field struct {
	name   string
	sets   []string // what its value is taken for
	inside []field
}

// newJSONParser takes a map of what is wanted to the dotted path of its field.
func newJSONParser(fields map[string]string) (*jsonParser, error) {
	p := &jsonParser{}
	for _, name := range defaultFields {
		if _, ok := fields[name]; !ok {
			p.root.add(name, []string{name})
		}
	}
	for name, path := range fields {
		steps := strings.Split(path, ".")
		if name == "" || slices.Contains(steps, "") || len(steps) > maxDepth {
			return nil, fmt.Errorf("replay: field %q=%q is not allowed; name=field is, with dots between the names of nested fields, such as method=req.method", name, path)
		}
		p.root.add(name, steps)
	}
	return p, nil
}

func (f *field) add(name string, path []string) {
	if len(path) == 0 {
		f.sets = append(f.sets, name)
		return
	}
	at := slices.IndexFunc(f.inside, func(g field) bool { return g.name == path[0] })
	if at < 0 {
		at = len(f.inside)
		f.inside = append(f.inside, field{name: path[0]})
	}
	f.inside[at].add(name, path[1:])
}

func (f *field) find(name string) *field {
	for i := range f.inside {
		if f.inside[i].name == name {
			return &f.inside[i]
		}
	}
	return nil
}

func (p *jsonParser) parse(line string, e *entry) error {
	r := jsonReader{text: line, entry: e}
	r.space()
	if !r.next('{') {
		return errJSONObject
	}
	if err := r.object(&p.root, 1); err != nil {
		return err
	}
	if r.space(); r.at < len(line) {
		return errJSONAfter
	}
	if !r.timed {
		return errJSONNoTime
	}
	return nil
}

// jsonReader goes through one line from left to right. It reads what is
// wanted and passes over the rest, whose grammar it checks only as far as it
// must to find its end.
type jsonReader struct {
	text  string
	at    int
	entry *entry
	timed bool
}

func (r *jsonReader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return
		}
	}
}

// next reports whether c comes next, and passes it.
func (r *jsonReader) next(c byte) bool {
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

// object reads an object whose brace has been passed.
func (r *jsonReader) object(wanted *field, depth int) error {
	if depth > maxDepth {
		return errJSONDeep
	}
	if r.space(); r.next('}') {
		return nil
	}
	for {
		r.space()
		if !r.next('"') {
			return errJSONSyntax
		}
		name, ok := r.str()
		if r.space(); !ok || !r.next(':') {
			return errJSONSyntax
		}
		r.space()
		if err := r.member(wanted.find(name), depth); err != nil {
			return err
		}
		r.space()
		switch {
		case r.next(','):
		case r.next('}'):
			return nil
		default:
			return errJSONSyntax
		}
	}
}

// member reads the value of a field that is wanted, or nil.
func (r *jsonReader) member(f *field, depth int) error {
	if f != nil && len(f.inside) > 0 && r.next('{') {
		return r.object(f, depth+1)
	}
	if r.next('"') {
		if f == nil {
			return r.skipString()
		}
		value, ok := r.str()
		if !ok {
			return errJSONSyntax
		}
		return r.set(f, value)
	}
	begin := r.at
	if r.next('{') || r.next('[') {
		return r.skipNested()
	}
	if r.word(); r.at == begin {
		return errJSONSyntax
	}
	word := r.text[begin:r.at]
	if !isJSONWord(word) {
		return errJSONSyntax
	}
	if f == nil || word == "null" {
		return nil
	}
	return r.set(f, word)
}

// word passes a number, true, false or null.
func (r *jsonReader) word() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ',', '}', ']', ' ', '\t', '\r', '\n', '"', '{', '[', ':':
			return
		}
		r.at++
	}
}

func isJSONWord(s string) bool {
	switch s {
	case "true", "false", "null":
		return true
	}
	if s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	return strings.Trim(s, "0123456789+-.eE") == ""
}

func (r *jsonReader) skipString() error {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case '"':
			r.at++
			return nil
		case '\\':
			r.at++
		}
		r.at++
	}
	return errJSONSyntax
}

// skipNested passes an object or array whose brace has been passed.
func (r *jsonReader) skipNested() error {
	for open := 1; open > 0; {
		if r.at >= len(r.text) {
			return errJSONSyntax
		}
		c := r.text[r.at]
		r.at++
		switch c {
		case '{', '[':
			open++
		case '}', ']':
			open--
		case '"':
			if err := r.skipString(); err != nil {
				return err
			}
		}
	}
	return nil
}

// str reads a string whose quote has been passed.
func (r *jsonReader) str() (string, bool) {
	begin := r.at
	for ; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '"':
			r.at++
			return r.text[begin : r.at-1], true
		case '\\':
			return r.escaped(append([]byte(nil), r.text[begin:r.at]...))
		}
	}
	return "", false
}

// escaped reads the rest of a string behind out, from its first backslash on.
func (r *jsonReader) escaped(out []byte) (string, bool) {
	for r.at < len(r.text) {
		c := r.text[r.at]
		r.at++
		switch {
		case c == '"':
			return string(out), true
		case c != '\\':
			out = append(out, c)
			continue
		case r.at == len(r.text):
			return "", false
		}
		c = r.text[r.at]
		r.at++
		switch at := strings.IndexByte(`bfnrt"\/`, c); {
		case c == 'u':
			u, ok := r.unicode()
			if !ok {
				return "", false
			}
			out = utf8.AppendRune(out, u)
		case at < 0:
			return "", false
		default:
			out = append(out, "\b\f\n\r\t\"\\/"[at])
		}
	}
	return "", false
}

// unicode reads the digits of a \u escape, and the other half of a surrogate.
func (r *jsonReader) unicode() (rune, bool) {
	u, ok := r.hex4()
	if ok && utf16.IsSurrogate(u) {
		rest := *r
		if rest.next('\\') && rest.next('u') {
			if low, ok := rest.hex4(); ok && utf16.DecodeRune(u, low) != utf8.RuneError {
				r.at = rest.at
				return utf16.DecodeRune(u, low), true
			}
		}
		return utf8.RuneError, true
	}
	return u, ok
}

func (r *jsonReader) hex4() (rune, bool) {
	if len(r.text)-r.at < 4 {
		return 0, false
	}
	u, err := strconv.ParseUint(r.text[r.at:r.at+4], 16, 16)
	r.at += 4
	return rune(u), err == nil
}

// set puts value where f says. Servers write a dash or nothing for what is not
// there, which leaves it absent as it would be from a live request.
func (r *jsonReader) set(f *field, value string) (err error) {
	e := r.entry
	absent := value == "" || value == "-"
	for _, name := range f.sets {
		switch {
		case name == "time":
			if e.at, err = parseInstant(value); err != nil {
				return err
			}
			r.timed = true
		case !absent:
			e.set(name, value)
		}
	}
	return nil
}
