// Package sidebyside measures several ways to do one thing, in turn, and shows what
// came of each beside the others.
package sidebyside

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/stint-dev/stint/loadtest/chart"
)

// Report is what was measured: one R, a struct of numbers and texts, at a time. S says
// under which settings. Its JSON names are stable.
type Report[S, R any] struct {
	Title    string     `json:"title"`
	About    string     `json:"about"`
	Settings S          `json:"settings"`
	Rounds   int        `json:"rounds"`
	Groups   []Group[R] `json:"groups"`

	// Notes explain the table; they follow what About says. Columns are those of
	// the table, after the ways' names, which Ways heads. Bars are the columns of
	// the chart.
	Notes   string      `json:"-"`
	Ways    string      `json:"-"`
	Columns []Column[R] `json:"-"`
	Bars    []Bar[R]    `json:"-"`
}

// Group is all ways under the same conditions.
type Group[R any] struct {
	Name  string   `json:"name"`
	About string   `json:"about,omitempty"`
	Ways  []Way[R] `json:"ways"`
}

// Way is one way to do it.
type Way[R any] struct {
	Name   string `json:"name"`
	Median R      `json:"median"` // of each number on its own
	Rounds []R    `json:"rounds"`
}

// Column of a table shows something of the way i of a group.
type Column[R any] struct {
	Head string
	Text func(g *Group[R], i int) string
}

// Bar of a chart shows a number of a result.
type Bar[R any] struct {
	Head  string
	Value func(r *R) float64
}

// Show returns a column for a value of the median.
func Show[R any](head string, text func(median *R) string) Column[R] {
	return Column[R]{head, func(g *Group[R], i int) string { return text(&g.Ways[i].Median) }}
}

// NewGroup returns a group of ways with those names.
func NewGroup[R any](name, about string, ways []string) Group[R] {
	g := Group[R]{Name: name, About: about}
	for _, way := range ways {
		g.Ways = append(g.Ways, Way[R]{Name: way})
	}
	return g
}

// Measure measures every way of every group, round by round, so that a server that
// gets slower does so for all of them, and takes the medians. progress, which may be
// nil, is told what is being measured.
func (r *Report[S, R]) Measure(ctx context.Context, progress io.Writer, measure func(ctx context.Context, group, way int) (*R, error)) error {
	for round := range r.Rounds {
		for g := range r.Groups {
			for w := range r.Groups[g].Ways {
				group, way := &r.Groups[g], &r.Groups[g].Ways[w]
				if progress != nil {
					fmt.Fprintf(progress, "round %d of %d: %s: %s\n", round+1, r.Rounds, group.Name, way.Name)
				}
				result, err := measure(ctx, g, w)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", group.Name, way.Name, err)
				}
				way.Rounds = append(way.Rounds, *result)
			}
		}
	}
	r.TakeMedians()
	return nil
}

// TakeMedians works out the medians of what was measured.
func (r *Report[S, R]) TakeMedians() {
	for g := range r.Groups {
		for w := range r.Groups[g].Ways {
			way := &r.Groups[g].Ways[w]
			way.Median = medians(way.Rounds)
		}
	}
}

// medians returns, for each field, the middle one of its numbers, the lower one of
// two, or the first of its texts.
func medians[R any](rounds []R) (m R) {
	fields := reflect.ValueOf(&m).Elem()
	for i := range fields.NumField() {
		var all []reflect.Value
		for n := range rounds {
			all = append(all, reflect.ValueOf(&rounds[n]).Elem().Field(i))
		}
		slices.SortStableFunc(all, func(a, b reflect.Value) int {
			switch {
			case a.CanInt():
				return cmp.Compare(a.Int(), b.Int())
			case a.CanFloat():
				return cmp.Compare(a.Float(), b.Float())
			}
			return 0
		})
		if len(all) == 0 {
			continue
		}
		middle := (len(all) - 1) / 2
		if fields.Field(i).Kind() == reflect.String {
			middle = max(0, slices.IndexFunc(all, func(v reflect.Value) bool { return v.String() != "" }))
		}
		fields.Field(i).Set(all[middle])
	}
	return m
}

// firstError returns the field FirstError of a result, "" if it has none.
func firstError[R any](r *R) string {
	if f := reflect.ValueOf(r).Elem().FieldByName("FirstError"); f.IsValid() {
		return f.String()
	}
	return ""
}

// WriteJSON writes r as one JSON object.
func (r *Report[S, R]) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes r for people.
func (r *Report[S, R]) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, r.About+r.Notes)
	for g := range r.Groups {
		group := &r.Groups[g]
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSuffix(group.Name+": "+group.About, ": "))
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprint(table, r.Ways)
		for _, c := range r.Columns {
			fmt.Fprint(table, "\t", c.Head)
		}
		fmt.Fprintln(table)
		for i := range group.Ways {
			fmt.Fprint(table, group.Ways[i].Name)
			for _, c := range r.Columns {
				fmt.Fprint(table, "\t", c.Text(group, i))
			}
			fmt.Fprintln(table)
		}
		table.Flush()
		for i := range group.Ways {
			if first := firstError(&group.Ways[i].Median); first != "" {
				fmt.Fprintf(&b, "%s: the first error: %s\n", group.Ways[i].Name, first)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes a table in Markdown for each group of r.
func (r *Report[S, R]) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	for g := range r.Groups {
		group := &r.Groups[g]
		fmt.Fprintf(&b, "\n%s\n\n| %s |", strings.TrimSuffix(group.Name+": "+group.About, ": "), r.Ways)
		for _, c := range r.Columns {
			b.WriteString(" " + c.Head + " |")
		}
		b.WriteString("\n|---|" + strings.Repeat("---:|", len(r.Columns)) + "\n")
		for i := range group.Ways {
			b.WriteString("| " + group.Ways[i].Name + " |")
			for _, c := range r.Columns {
				b.WriteString(" " + c.Text(group, i) + " |")
			}
			b.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteChart writes r as an SVG file.
func (r *Report[S, R]) WriteChart(w io.Writer) error {
	c := chart.Bars{Title: r.Title, About: r.About}
	for _, b := range r.Bars {
		c.Columns = append(c.Columns, b.Head)
	}
	for g := range r.Groups {
		row := chart.Row{Name: r.Groups[g].Name, Cells: make([]chart.Cell, len(r.Bars))}
		for w := range r.Groups[g].Ways {
			way := &r.Groups[g].Ways[w]
			for i, b := range r.Bars {
				row.Cells[i] = append(row.Cells[i], chart.Bar{Name: way.Name, Value: b.Value(&way.Median)})
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return c.Write(w)
}
