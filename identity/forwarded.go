package identity

import "strings"

// maxElement bounds one element of a forwarding header, in bytes.
const maxElement = 256

// cutLast cuts the last element off a comma-separated list. It reads from the
// right, because everything to the left of what a trusted proxy appended may
// have been written by the caller, and must not change how the rest is read.
// An element that is too long, or has a backslash in it (no address needs
// one), comes back empty, and the list ends with it.
func cutLast(list string) (before, element string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch c := list[i]; {
		case c == '\\' || len(list)-i > maxElement:
			return "", "", false
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			return list[:i], trimSpace(list[i+1:]), true
		}
	}
	return "", trimSpace(list), false
}

// plainNode is the node of an element of X-Forwarded-For: all of it.
func plainNode(element string) (string, bool) { return element, element != "" }

// forwardedFor returns the node of an element of Forwarded, as RFC 7239 has
// it: the parameter for of pairs such as for="[2001:db8::1]:80";proto=https.
// ok is false if the element is malformed, or has none or two of them.
func forwardedFor(element string) (text string, ok bool) {
	for more := true; more; {
		var name, val string
		name, element, ok = strings.Cut(element, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t\",;") {
			return "", false
		}
		if val, element, more, ok = cutValue(element); !ok {
			return "", false
		}
		if strings.EqualFold(name, "for") {
			if text != "" || val == "" {
				return "", false
			}
			text = val
		}
	}
	return text, text != ""
}

// cutValue cuts a token or quoted string off s, and the semicolon behind it.
func cutValue(s string) (val, rest string, more, ok bool) {
	inside, quoted := strings.CutPrefix(s, `"`)
	if !quoted {
		val, rest, more = strings.Cut(s, ";")
		return val, rest, more, !strings.ContainsAny(val, " \t\"=")
	}
	val, rest, ok = strings.Cut(inside, `"`)
	if !ok || rest == "" {
		return val, "", false, ok
	}
	rest, more = strings.CutPrefix(rest, ";")
	return val, rest, more, more
}

// trimSpace drops the white space that HTTP allows around a list's element.
func trimSpace(s string) string { return strings.Trim(s, " \t") }
