package rules

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// idSegment stands in an API's name in place of an id.
const idSegment = "#"

// maxPathEntries is the most ids, and the most names, of a PathSpec.
const maxPathEntries = 100

// paths is a compiled PathSpec.
type paths struct {
	after                  string
	numbers, uuids, hashes bool
	prefixes               []string        // of ids, in lower case
	behind                 map[string]bool // APIs and segments behind which a name is
	longest                int             // of behind
}

// api returns the name of the API that a normalised path calls: what comes
// behind p.after, with # in place of every id and ASCII letters in lower case.
// It is never longer than path, and allocates only if it is not a part of it.
func (p *paths) api(path string) string {
	path = p.cut(path)
	for at := 0; at < len(path); {
		end := segmentEnd(path, at)
		if isID(p, path[:at], path[at+1:end]) || hasUpper(path[at:end]) {
			return p.rewrite(path, at)
		}
		at = end
	}
	return path
}

// rewrite returns the name of an API of which the first n bytes are as in path.
func (p *paths) rewrite(path string, n int) string {
	name := append(make([]byte, 0, len(path)), path[:n]...)
	for at := n; at < len(path); {
		end := segmentEnd(path, at)
		if segment := path[at+1 : end]; isID(p, name, segment) {
			name = append(append(name, '/'), idSegment...)
		} else {
			name = appendLower(append(name, '/'), segment)
		}
		at = end
	}
	return string(name)
}

// cut returns path from behind the first segment that is p.after.
func (p *paths) cut(path string) string {
	if p.after == "" {
		return path
	}
	for at := 0; at < len(path); {
		end := segmentEnd(path, at)
		if equalFold(path[at+1:end], p.after) {
			return path[end:] + "/"[min(1, len(path)-end):]
		}
		at = end
	}
	return path
}

// isID reports whether segment, which stands behind the API before, is an id.
func isID[text string | []byte](p *paths, before text, segment string) bool {
	if segment == "" || segment == idSegment {
		return false
	}
	if len(p.behind) > 0 {
		last := len(before)
		for last > 0 && before[last-1] != '/' {
			last--
		}
		if len(before) <= p.longest && p.behind[string(before)] || len(before)-last <= p.longest && p.behind[string(before[last:])] {
			return true
		}
	}
	// A server may well read a number that has spaces around it.
	segment = strings.TrimSpace(segment)
	if p.numbers && isNumber(strings.TrimLeft(segment, "+-")) || p.hashes && isHash(segment) || p.uuids && isUUID(segment) {
		return true
	}
	for _, prefix := range p.prefixes {
		if len(segment) > len(prefix) && equalFold(segment[:len(prefix)], prefix) && isNumber(segment[len(prefix):]) {
			return true
		}
	}
	return false
}

// isNumber reports whether s is made of digits, of any script, and perhaps dots
// between them, as in a version.
func isNumber(s string) bool {
	digit := false
	for _, r := range s {
		switch {
		case '0' <= r && r <= '9', r >= utf8.RuneSelf && unicode.IsDigit(r):
			digit = true
		case r == '.' && digit:
			digit = false
		default:
			return false
		}
	}
	return digit
}

// isHash reports whether s is a number in hexadecimal, and too long for a word.
func isHash(s string) bool {
	return len(s) >= 16 && isHex(s)
}

func isHex(s string) bool {
	for i := range len(s) {
		if _, ok := unhex(s[i]); !ok {
			return false
		}
	}
	return s != ""
}

// isUUID reports whether s is a UUID with its dashes, perhaps in braces.
func isUUID(s string) bool {
	if len(s) == 38 && s[0] == '{' && s[37] == '}' {
		s = s[1:37]
	}
	return len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' &&
		isHex(s[:8]) && isHex(s[9:13]) && isHex(s[14:18]) && isHex(s[19:23]) && isHex(s[24:])
}

// segmentEnd returns where the segment ends whose slash is at a place in path.
func segmentEnd(path string, at int) int {
	if n := strings.IndexByte(path[at+1:], '/'); n >= 0 {
		return at + 1 + n
	}
	return len(path)
}

func hasUpper(s string) bool {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			return true
		}
	}
	return false
}

func appendLower(to []byte, s string) []byte {
	for i := range len(s) {
		to = append(to, lower(s[i]))
	}
	return to
}

// lowerASCII returns s with ASCII letters in lower case, and as long as it is.
func lowerASCII(s string) string {
	if !hasUpper(s) {
		return s
	}
	return string(appendLower(make([]byte, 0, len(s)), s))
}

func equalFold(s, t string) bool {
	if len(s) != len(t) {
		return false
	}
	for i := range len(s) {
		if lower(s[i]) != lower(t[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func (c *compiler) compilePaths(at string, spec *PathSpec) paths {
	var p paths
	if spec.After != "" && (strings.Contains(spec.After, "/") || NormalizePath("/"+spec.After) != "/"+spec.After) {
		c.problem(at+".after", "%q is not a segment; a text between two slashes of a path, such as v1, is allowed", spec.After)
	}
	p.after = spec.After
	kinds := spec.IDs
	if kinds == nil {
		kinds = []string{"numbers", "uuids", "hashes"}
	}
	c.checkEntries(at+".ids", kinds)
	for i, kind := range kinds {
		prefix, star := strings.CutSuffix(kind, "*")
		switch {
		case kind == "numbers":
			p.numbers = true
		case kind == "uuids":
			p.uuids = true
		case kind == "hashes":
			p.hashes = true
		case !star:
			c.problem(item(at+".ids", i), "%q is unknown; numbers, uuids, hashes, or a prefix with * behind it, such as syn*, is allowed", kind)
		case prefix == "" || strings.ContainsAny(prefix, "/*;?#% "):
			c.problem(item(at+".ids", i), "%q has no prefix before the *, or one that no segment has; a prefix such as syn* is allowed", kind)
		default:
			p.prefixes = append(p.prefixes, lowerASCII(prefix))
		}
	}
	c.checkEntries(at+".names", spec.Names)
	for i, name := range spec.Names {
		if p.behind == nil {
			p.behind = map[string]bool{}
		}
		key := lowerASCII(name)
		plain := "/" + strings.TrimPrefix(key, "/")
		if normal := normalizeAPI(plain); normal != plain || plain == "/" || key[0] != '/' && strings.Contains(key, "/") {
			c.problem(item(at+".names", i), "%q is not what a name stands behind; a segment such as alias, or all of an API such as /entity/alias, is allowed", name)
			continue
		}
		p.behind[key] = true
		p.longest = max(p.longest, len(key))
	}
	return p
}

// checkEntries bounds a list, and finds what is in it twice.
func (c *compiler) checkEntries(at string, entries []string) {
	if n := len(entries); n > maxPathEntries {
		c.problem(at, "%d are given; at most %d are allowed", n, maxPathEntries)
	}
	for i, entry := range entries {
		if slices.Contains(entries[:i], entry) {
			c.problem(item(at, i), "%q is there already; leave one out", entry)
		}
	}
}

// normalizeAPI is NormalizePath for what people write as the name of an API, in
// which # has a meaning.
func normalizeAPI(text string) string {
	return NormalizePath(strings.ReplaceAll(text, idSegment, "%23"))
}

// checkAPI returns text, which is to be the name of an API, in lower case, or an
// error if no request ever has it.
func (c *compiler) checkAPI(text string) (string, error) {
	if strings.ContainsAny(text, "{}") {
		return "", fmt.Errorf("%q has braces; write # where an id is, or match by a path template", text)
	}
	switch want := c.paths.api(normalizeAPI(text)); {
	case !strings.HasPrefix(text, "/"):
		return "", fmt.Errorf("%q does not begin with a slash; write %q", text, want)
	case want != lowerASCII(text):
		return "", fmt.Errorf("%q is the name of no API; paths are brought into one form, with # for ids, before they are matched: write %q", text, want)
	default:
		return want, nil
	}
}

// apiPattern returns a pattern of the attribute api, in lower case.
func (c *compiler) apiPattern(p pattern) (_ pattern, err error) {
	switch p.kind {
	case exact:
		p.text, err = c.checkAPI(p.text)
	case prefix:
		p.text = lowerASCII(p.text)
	}
	return p, err
}
