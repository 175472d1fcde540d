package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// write prints g: a row for each subject and, for each column, the median and
// how many times that of the first subject it is.
func (g *group) write(out io.Writer) error {
	slices.SortStableFunc(g.columns, func(a, b column) int { return strings.Compare(b.unit, a.unit) })
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n|", g.name)
	for _, c := range g.columns {
		fmt.Fprintf(&b, " | %s, %s", c.unit, processors(c.cpus))
	}
	b.WriteString(" |\n|---" + strings.Repeat("|---:", len(g.columns)) + "|\n")
	for _, subject := range g.subjects {
		b.WriteString("| " + subject)
		for _, c := range g.columns {
			b.WriteString(" | " + g.entry(subject, c))
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func (g *group) entry(subject string, c column) string {
	values := g.values[cell{subject, c}]
	if len(values) == 0 {
		return ""
	}
	text := fmt.Sprintf("%.4g", median(values))
	if first := g.values[cell{g.subjects[0], c}]; subject != g.subjects[0] && len(first) > 0 && median(first) > 0 {
		text += fmt.Sprintf(" (%.2fx)", median(values)/median(first))
	}
	return text
}

func processors(n int) string {
	if n == 1 {
		return "1 cpu"
	}
	return fmt.Sprintf("%d cpus", n)
}

// median returns the value in the middle, or the mean of the two that are.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
