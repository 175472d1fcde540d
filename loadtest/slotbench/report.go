package slotbench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stint-dev/stint/loadtest/chart"
)

// Result is what one measurement has shown. Spans of time are in nanoseconds.
type Result struct {
	// PerSecond is how many events were booked.
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50_ns"` // of what was answered
	P99       time.Duration `json:"p99_ns"`
	Longest   time.Duration `json:"longest_ns"`
	Booked    int64         `json:"booked"`
	Refused   int64         `json:"refused"`
	Errors    int64         `json:"errors"`
	// FirstError is the first of Errors.
	FirstError string `json:"first_error,omitempty"`
	// Windows is how many there are from the first event to the last, and
	// Holes how many slots were left empty in them, but for the last window.
	Windows int64 `json:"windows"`
	Holes   int64 `json:"holes"`
	// WorstWindow is the most events in any span of time as long as a window,
	// wherever it begins.
	WorstWindow int64 `json:"worst_window"`
}

// Report is what a Run has shown. Its JSON names are stable.
type Report struct {
	Events int           `json:"events"` // of one measurement
	Max    int           `json:"max"`
	Window time.Duration `json:"window_ns"`
	Rounds int           `json:"rounds"`
	Crowds []CrowdReport `json:"crowds"`
}

// CrowdReport is both ways with so many callers.
type CrowdReport struct {
	Callers  int             `json:"callers"`
	Subjects []SubjectReport `json:"subjects"`
}

// SubjectReport is one way with so many callers.
type SubjectReport struct {
	Name   string   `json:"name"`
	Median Result   `json:"median"` // of each number on its own
	Rounds []Result `json:"rounds"`
}

func newReport(o *Options, subjects []subject) *Report {
	r := &Report{Events: o.Events, Max: o.Max, Window: o.Window, Rounds: o.Rounds}
	for _, callers := range o.Callers {
		crowd := CrowdReport{Callers: callers}
		for _, s := range subjects {
			crowd.Subjects = append(crowd.Subjects, SubjectReport{Name: s.name})
		}
		r.Crowds = append(r.Crowds, crowd)
	}
	return r
}

func (r *Report) takeMedians() {
	for c := range r.Crowds {
		for s := range r.Crowds[c].Subjects {
			one := &r.Crowds[c].Subjects[s]
			one.Median = medians(one.Rounds)
		}
	}
}

func medians(rounds []Result) Result {
	m := Result{
		PerSecond:   median(rounds, func(r *Result) float64 { return r.PerSecond }),
		P50:         median(rounds, func(r *Result) time.Duration { return r.P50 }),
		P99:         median(rounds, func(r *Result) time.Duration { return r.P99 }),
		Longest:     median(rounds, func(r *Result) time.Duration { return r.Longest }),
		Booked:      median(rounds, func(r *Result) int64 { return r.Booked }),
		Refused:     median(rounds, func(r *Result) int64 { return r.Refused }),
		Errors:      median(rounds, func(r *Result) int64 { return r.Errors }),
		Windows:     median(rounds, func(r *Result) int64 { return r.Windows }),
		Holes:       median(rounds, func(r *Result) int64 { return r.Holes }),
		WorstWindow: median(rounds, func(r *Result) int64 { return r.WorstWindow }),
	}
	for _, r := range rounds {
		m.FirstError = cmp.Or(m.FirstError, r.FirstError)
	}
	return m
}

// median returns the middle one of a number of each round, the lower one of two.
func median[T cmp.Ordered](rounds []Result, of func(*Result) T) T {
	var all []T
	for i := range rounds {
		all = append(all, of(&rounds[i]))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// Times returns how many times as many events a second the second way has booked
// as the first, by the medians; 0 if there are not two, or the first has booked
// nothing.
func (c *CrowdReport) Times() float64 {
	if len(c.Subjects) < 2 || c.Subjects[0].Median.PerSecond == 0 {
		return 0
	}
	return c.Subjects[1].Median.PerSecond / c.Subjects[0].Median.PerSecond
}

// WriteJSON writes r as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes r for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, r.about())
	for _, crowd := range r.Crowds {
		fmt.Fprintf(&b, "\n%d callers\n", crowd.Callers)
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ALGORITHM\tEVENTS/S\tTIMES\tP50\tP99\tLONGEST\tBOOKED\tREFUSED\tERRORS\tWINDOWS\tHOLES\tWORST WINDOW")
		for i, s := range crowd.Subjects {
			times := "1.0"
			if i > 0 {
				times = fmt.Sprintf("%.1f", crowd.Times())
			}
			m := &s.Median
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Name, chart.Number(m.PerSecond), times,
				chart.Duration(m.P50), chart.Duration(m.P99), chart.Duration(m.Longest), m.Booked, m.Refused, m.Errors, m.Windows, m.Holes, m.WorstWindow)
		}
		table.Flush()
		for _, s := range crowd.Subjects {
			if s.Median.FirstError != "" {
				fmt.Fprintf(&b, "%s: the first error: %s\n", s.Name, s.Median.FirstError)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) about() string {
	return fmt.Sprintf("%d events for one instant, at most %d in %v; medians of %d rounds; holes are slots left empty before the last window; the worst window is the fullest span of %v",
		r.Events, r.Max, r.Window, r.Rounds, r.Window)
}

// WriteChart writes r as an SVG file.
func (r *Report) WriteChart(w io.Writer) error {
	c := chart.Bars{
		Title:   "Ways to book slots in PostgreSQL",
		About:   fmt.Sprintf("%d events for one instant, at most %d in %v; medians of %d rounds", r.Events, r.Max, r.Window, r.Rounds),
		Columns: []string{"events per second", "99th percentile, ms", "slots left empty", fmt.Sprintf("worst window, of %d", r.Max)},
	}
	for _, crowd := range r.Crowds {
		row := chart.Row{Name: fmt.Sprintf("%d callers", crowd.Callers), Cells: make([]chart.Cell, len(c.Columns))}
		for _, s := range crowd.Subjects {
			m := &s.Median
			for i, v := range []float64{m.PerSecond, float64(m.P99) / 1e6, float64(m.Holes), float64(m.WorstWindow)} {
				row.Cells[i] = append(row.Cells[i], chart.Bar{Name: s.Name, Value: v})
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return c.Write(w)
}
