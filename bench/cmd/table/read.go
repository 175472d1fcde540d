package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A group is what benchmarks of one name have measured.
type group struct {
	name     string
	subjects []string // in order of appearance
	columns  []column
	values   map[cell][]float64
}

// A column is a unit, measured with so many processors.
type column struct {
	unit string
	cpus int
}

type cell struct {
	subject string
	column
}

// line is BenchmarkGroup/subject-2  1000  12.3 ns/op  4 B/op: the number of
// processors is left out if it is 1.
var line = regexp.MustCompile(`^Benchmark([^/\s]+)/(\S+?)(?:-(\d+))?\s+\d+\s+(.*)$`)

func read(in io.Reader) ([]*group, error) {
	var groups []*group
	for lines := bufio.NewScanner(in); ; {
		if !lines.Scan() {
			if len(groups) == 0 && lines.Err() == nil {
				return nil, fmt.Errorf("no benchmark in the input; lines such as BenchmarkGroup/subject 100 12 ns/op are expected")
			}
			return groups, lines.Err()
		}
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		at := slices.IndexFunc(groups, func(g *group) bool { return g.name == m[1] })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{name: m[1], values: make(map[cell][]float64)})
		}
		cpus := 1
		if m[3] != "" {
			cpus, _ = strconv.Atoi(m[3])
		}
		if err := groups[at].add(m[2], cpus, strings.Fields(m[4])); err != nil {
			return nil, fmt.Errorf("%w in %q", err, lines.Text())
		}
	}
}

// add takes note of measurements: numbers, each followed by its unit.
func (g *group) add(subject string, cpus int, measured []string) error {
	if !slices.Contains(g.subjects, subject) {
		g.subjects = append(g.subjects, subject)
	}
	for pair := range slices.Chunk(measured, 2) {
		value, err := strconv.ParseFloat(pair[0], 64)
		if err != nil || len(pair) != 2 {
			return fmt.Errorf("a number and a unit are expected")
		}
		c := column{unit: pair[1], cpus: cpus}
		if !slices.Contains(g.columns, c) {
			g.columns = append(g.columns, c)
		}
		at := cell{subject, c}
		g.values[at] = append(g.values[at], value)
	}
	return nil
}
