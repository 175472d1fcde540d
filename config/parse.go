package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxSize is the most bytes of a file.
const maxSize = 8 << 20

// parse reads data as one YAML mapping. If it cannot, it reports why and
// returns nil.
func parse(data []byte, p *problems) *yaml.Node {
	start, what, begins := &yaml.Node{Line: 1, Column: 1}, "the file", "version: 1"
	if p.rule {
		what, begins = "the rule", "name:"
	}
	if len(data) > maxSize {
		p.add(start, "", "the file is larger than 8 MiB, the most that is allowed; put callers that are alike into a plan, or tell the plan by an attribute")
		return nil
	}
	if at := invalidText(data); at != nil {
		p.add(at, "", "%s has bytes here that are not UTF-8 text; save it as UTF-8", what)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) || err == nil && document.Content[0].Tag == "!!null" {
		p.add(start, "", "%s is empty; the least that it needs is %s", what, begins)
		return nil
	}
	if err == nil {
		switch err = decoder.Decode(&second); {
		case err == nil:
			p.add(&second, "", "a second document begins here; %s holds one, remove the --- or split it", what)
			return nil
		case errors.Is(err, io.EOF):
			err = nil
		}
	}
	if err != nil {
		reportSyntax(data, err, p)
		return nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		p.add(root, "", "%s holds %s; a mapping is allowed, which begins with %s", what, kindOf(root), begins)
		return nil
	}
	return root
}

// invalidText returns where data is not printable UTF-8, or nil.
func invalidText(data []byte) *yaml.Node {
	line, column := 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1,
			r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
			return &yaml.Node{Line: line, Column: column}
		case r == '\n':
			line, column = line+1, 0
		}
		column++
		data = data[size:]
	}
	return nil
}

// libraryPrefix is what the YAML library puts before what is wrong.
var libraryPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// reportSyntax reports that data is not YAML. The line is found afresh, since
// the library names the line where the mapping around the mistake began.
func reportSyntax(data []byte, err error, p *problems) {
	line, text := syntaxLine(data)
	at := &yaml.Node{Line: line, Column: 1}
	if indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]; bytes.ContainsRune(indent, '\t') {
		at.Column = 1 + bytes.IndexByte(indent, '\t')
		p.add(at, "", "a tab indents this line; YAML allows only spaces there")
		return
	}
	what := libraryPrefix.ReplaceAllString(err.Error(), "")
	p.add(at, "", "this is not YAML: %s; look at the indentation, colons and quotes of this line and the one above it", strings.TrimSpace(what))
}

// syntaxLine returns the first line that no file beginning with the lines
// above it can have, and its text. If that takes too long to find out, it is a
// line before which everything is in order.
func syntaxLine(data []byte) (number int, text []byte) {
	const lookAhead = 100 // lines that a list in brackets or a quoted text may span
	budget := 4 * maxSize
	ends := lineEnds(data)
	inOrder := func(line int) bool {
		budget -= ends[line]
		return wellFormed(data[:ends[line]])
	}
	good, bad := 0, len(ends)-1 // lines up to good are in order; those up to bad are not
	for good+1 < bad && budget > 0 {
		if middle := (good + bad) / 2; inOrder(middle) {
			good = middle
		} else {
			bad = middle
		}
		if good+1 < bad {
			continue
		}
		// The lines may only have been cut off in the middle of something.
		for line := bad + 1; line < min(bad+lookAhead, len(ends)) && budget > 0; line++ {
			if inOrder(line) {
				good, bad = line, len(ends)-1
				break
			}
		}
	}
	return good + 1, bytes.TrimRight(data[ends[good]:ends[good+1]], "\r\n")
}

// lineEnds returns where the lines of data end; the end of line 0 is 0.
func lineEnds(data []byte) []int {
	ends := []int{0}
	for i, b := range data {
		if b == '\n' {
			ends = append(ends, i+1)
		}
	}
	if ends[len(ends)-1] < len(data) {
		ends = append(ends, len(data))
	}
	return ends
}

func wellFormed(data []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var node yaml.Node
		if err := decoder.Decode(&node); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}
