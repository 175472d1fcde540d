package rules

import (
	"fmt"
	"slices"
	"strings"
)

// maxTemplate is the most bytes of a path template.
const maxTemplate = 1024

// segment is one part of a path template: a text, {name} or {name...}.
type segment struct {
	kind segmentKind
	text string // the literal text, or the variable's name
}

type segmentKind uint8

const (
	segmentText segmentKind = iota
	segmentOne              // {name}: one segment, whatever it is
	segmentRest             // {name...}: any number of segments, also none
)

// parseTemplate reads a path template, such as /items/{user}. A slash at its
// end means nothing. One with a # is of APIs, and in lower case.
func (c *compiler) parseTemplate(text string) ([]segment, error) {
	if err := checkTemplate(text); err != nil {
		return nil, err
	}
	var segments []segment
	before := ""
	ofAPI := strings.Contains(text, idSegment)
	trimmed := strings.Trim(text, "/")
	if trimmed == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(trimmed, "/") {
		if n := len(segments); n > 0 && segments[n-1].kind == segmentRest {
			return nil, fmt.Errorf("%q goes on behind {%s...}, which takes the rest; put it last", text, segments[n-1].text)
		}
		s, err := parseSegment(part)
		if err == nil && ofAPI && s.kind == segmentText {
			s.text = lowerASCII(s.text)
			if isID(&c.paths, before, s.text) {
				err = fmt.Errorf("has the id %q beside a #; write # for it, too", s.text)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%q %w", text, err)
		}
		before += "/" + s.text
		if s.kind != segmentText && slices.ContainsFunc(segments, func(o segment) bool { return o.kind != segmentText && o.text == s.text }) {
			return nil, fmt.Errorf("%q has {%s} twice; give each its own name", text, s.text)
		}
		segments = append(segments, s)
	}
	return segments, nil
}

// checkTemplate finds what is wrong with a template as a whole.
func checkTemplate(text string) error {
	switch {
	case len(text) > maxTemplate:
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(text), maxTemplate)
	case !strings.HasPrefix(text, "/"):
		return fmt.Errorf("%q does not begin with a slash; write %q", text, "/"+text)
	case strings.Contains(text, "?"):
		return fmt.Errorf("%q has a query; only the path is matched, end it before %q", text, text[strings.IndexByte(text, '?'):])
	case strings.Contains(text, ";"):
		return fmt.Errorf("%q has a ; parameter; they are dropped before a path is matched, leave it out", text)
	case strings.Contains(text, "//"):
		return fmt.Errorf("%q has an empty segment; they are dropped before a path is matched, write one slash", text)
	case unescape(text) != text:
		return fmt.Errorf("%q is percent-encoded; paths are decoded before they are matched, write %q", text, unescape(text))
	}
	return nil
}

func parseSegment(part string) (segment, error) {
	if part == "." || part == ".." {
		return segment{}, fmt.Errorf("has a %s segment; they are resolved before a path is matched, write what it leads to", part)
	}
	if strings.Contains(part, idSegment) && part != idSegment {
		return segment{}, fmt.Errorf("has a # in %q; it stands for a whole segment that is an id", part)
	}
	if !strings.ContainsAny(part, "{}") {
		return segment{segmentText, part}, nil
	}
	inner, opened := strings.CutPrefix(part, "{")
	inner, closed := strings.CutSuffix(inner, "}")
	if !opened || !closed || strings.ContainsAny(inner, "{}") {
		return segment{}, fmt.Errorf("has text beside braces in %q; a segment is either text or one {name}", part)
	}
	s := segment{segmentOne, inner}
	if name, ok := strings.CutSuffix(inner, "..."); ok {
		s = segment{segmentRest, name}
	}
	switch {
	case s.text == "":
		return segment{}, fmt.Errorf("has no name in %q; write {name} or {name...}", part)
	case !IsAttributeName(s.text):
		return segment{}, fmt.Errorf("has the name %q; %s", s.text, attributeNameHelp)
	case s.text == apiAttribute:
		return segment{}, fmt.Errorf("has {%s}, which is the name of the API that is called; take another name", s.text)
	case s.text == planAttribute:
		return segment{}, fmt.Errorf("has {%s}, which would let callers choose their plan; take another name", s.text)
	}
	return s, nil
}

// variable is a {name} or {name...} of a template, and where it is.
type variable struct {
	name  string
	index int // of the segment
	rest  bool
}

func variables(template []segment) []variable {
	var vs []variable
	for i, s := range template {
		if s.kind != segmentText {
			vs = append(vs, variable{s.text, i, s.kind == segmentRest})
		}
	}
	return vs
}

// value returns what v caught of a normalised path that its template matches.
func (v *variable) value(path string) string {
	tail := path[1:]
	for range v.index {
		_, tail, _ = strings.Cut(tail, "/")
	}
	if v.rest {
		return tail
	}
	head, _, _ := strings.Cut(tail, "/")
	return head
}
