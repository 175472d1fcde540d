package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// A Problem is one thing that is wrong with a file, and where.
type Problem struct {
	// File is the name that the file was loaded by.
	File string
	// Line and Column count from 1. They are those of the field or, if it is
	// missing, of the nearest part around it. Both are 0 if the file could
	// not be read at all.
	Line, Column int
	// Path leads to the field, such as rules[2].limits[0].window. It is empty
	// if the problem is the file's as a whole.
	Path string
	// Message names the value and what is allowed.
	Message string
	// Warning: the file works as it is, and probably not as it was meant.
	Warning bool
}

// Error returns file:line:column: path: message, as editors and terminals
// know to follow it.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// maxProblems bounds what is kept of a file that is wrong throughout.
const maxProblems = 1000

// problems collects what is wrong with one file.
type problems struct {
	file    string
	rule    bool // it is one rule of a table, not a file
	list    []Problem
	failed  bool // there is one that is more than a warning
	dropped bool // there are more than list has
}

// full reports that no more problems are kept, so that it is of no use to look
// for any.
func (p *problems) full() bool { return len(p.list) >= maxProblems }

func (p *problems) add(at *yaml.Node, path, format string, args ...any) {
	p.put(Problem{Line: at.Line, Column: at.Column, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (p *problems) put(one Problem) {
	p.failed = p.failed || !one.Warning
	if p.full() || one.Warning && len(p.list) >= maxProblems/2 { // warnings leave room
		p.dropped = true
		return
	}
	one.File = p.file
	one.Path = printable(one.Path)
	p.list = append(p.list, one)
}

// sorted returns all problems in the order of their lines.
func (p *problems) sorted() []Problem {
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if p.full() || p.dropped {
		last := p.list[len(p.list)-1]
		return append(p.list, Problem{File: p.file, Line: last.Line, Column: last.Column, Warning: !p.failed,
			Message: fmt.Sprintf("only %d problems are shown; correct these first", len(p.list))})
	}
	return p.list
}

// printable makes a path that people wrote fit to be printed in one line.
func printable(path string) string {
	path = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, path)
	return shorten(path, 300)
}

// quote quotes s, and only the start of a long one.
func quote(s string) string { return fmt.Sprintf("%q", shorten(s, 80)) }

func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
