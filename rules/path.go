package rules

import (
	"bytes"
	"strings"
)

// NormalizePath returns the form of a request's path that rules look at, so
// that one thing has one name however it is spelled. It percent-decodes once
// (a broken escape stays as it is; %2F separates segments like any slash),
// drops what begins at ? or #, drops the ;parameters of each segment, drops
// empty and . segments and a slash at the end, and lets .. take back the
// segment before it, never more than there is. Letter case, backslashes and
// bytes that are not UTF-8 stay.
//
// The result begins with a slash; the empty path is "/". A path that needs no
// change is returned as it is, without an allocation.
func NormalizePath(raw string) string {
	if isNormal(raw) {
		return raw
	}
	if end := strings.IndexAny(raw, "?#"); end >= 0 {
		raw = raw[:end]
	}
	raw = unescape(raw)
	path := make([]byte, 0, len(raw)+1)
	for segment := range strings.SplitSeq(raw, "/") {
		segment, _, _ = strings.Cut(segment, ";")
		switch segment {
		case "", ".":
		case "..":
			path = path[:max(0, bytes.LastIndexByte(path, '/'))]
		default:
			path = append(append(path, '/'), segment...)
		}
	}
	if len(path) == 0 {
		return "/"
	}
	return string(path)
}

// isNormal reports whether NormalizePath has nothing to do.
func isNormal(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for i := range len(path) {
		switch path[i] {
		case '%', ';', '?', '#':
			return false
		case '/':
			switch segment := path[i+1:]; {
			case segment == "":
				return i == 0
			case segment[0] == '/', segment[0] == '.' && startsWithDots(segment):
				return false
			}
		}
	}
	return true
}

// startsWithDots reports whether the first segment of path is . or ..
func startsWithDots(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return first == "." || first == ".."
}

// unescape replaces each %XX by the byte it stands for, once.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	decoded := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c, ok := escape(s[i:]); ok {
			decoded = append(decoded, c)
			i += 2
		} else {
			decoded = append(decoded, s[i])
		}
	}
	return string(decoded)
}

// escape returns the byte that the %XX at the start of s stands for.
func escape(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	high, ok1 := unhex(s[1])
	low, ok2 := unhex(s[2])
	return high<<4 | low, ok1 && ok2
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
