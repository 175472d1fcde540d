package slotbench

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/loadtest/chart"
	"github.com/stint-dev/stint/loadtest/sidebyside"
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

// Settings are those of a Run.
type Settings struct {
	Events int           `json:"events"` // of one measurement
	Max    int           `json:"max"`
	Window time.Duration `json:"window_ns"`
}

// Report is what a Run has shown: both ways with each number of callers.
type Report = sidebyside.Report[Settings, Result]

type group = sidebyside.Group[Result]

func newReport(o *Options, ways ...string) *Report {
	r := &Report{
		Title:    "Ways to book slots in PostgreSQL",
		About:    fmt.Sprintf("%d events for one instant, at most %d in %v; medians of %d rounds", o.Events, o.Max, o.Window, o.Rounds),
		Settings: Settings{o.Events, o.Max, o.Window},
		Rounds:   o.Rounds,
		Notes:    fmt.Sprintf("; holes are slots left empty before the last window; the worst window is the fullest span of %v", o.Window),
		Ways:     "ALGORITHM",
		Columns: []sidebyside.Column[Result]{
			sidebyside.Show("EVENTS/S", func(r *Result) string { return chart.Number(r.PerSecond) }),
			{Head: "TIMES", Text: func(g *group, i int) string { return fmt.Sprintf("%.1f", times(g, i)) }},
			sidebyside.Show("P50", func(r *Result) string { return chart.Duration(r.P50) }),
			sidebyside.Show("P99", func(r *Result) string { return chart.Duration(r.P99) }),
			sidebyside.Show("LONGEST", func(r *Result) string { return chart.Duration(r.Longest) }),
			sidebyside.Show("BOOKED", func(r *Result) string { return fmt.Sprint(r.Booked) }),
			sidebyside.Show("REFUSED", func(r *Result) string { return fmt.Sprint(r.Refused) }),
			sidebyside.Show("ERRORS", func(r *Result) string { return fmt.Sprint(r.Errors) }),
			sidebyside.Show("WINDOWS", func(r *Result) string { return fmt.Sprint(r.Windows) }),
			sidebyside.Show("HOLES", func(r *Result) string { return fmt.Sprint(r.Holes) }),
			sidebyside.Show("WORST WINDOW", func(r *Result) string { return fmt.Sprint(r.WorstWindow) }),
		},
		Bars: []sidebyside.Bar[Result]{
			{Head: "events per second", Value: func(r *Result) float64 { return r.PerSecond }},
			{Head: "99th percentile, ms", Value: func(r *Result) float64 { return float64(r.P99) / 1e6 }},
			{Head: "slots left empty", Value: func(r *Result) float64 { return float64(r.Holes) }},
			{Head: fmt.Sprintf("worst window, of %d", o.Max), Value: func(r *Result) float64 { return float64(r.WorstWindow) }},
		},
	}
	for _, callers := range o.Callers {
		r.Groups = append(r.Groups, sidebyside.NewGroup[Result](fmt.Sprintf("%d callers", callers), "", ways))
	}
	return r
}

// times returns how many times as many events a second way i has booked as the first,
// by the medians; 0 if that has booked nothing.
func times(g *group, i int) float64 {
	first := g.Ways[0].Median.PerSecond
	if first == 0 {
		return 0
	}
	return g.Ways[i].Median.PerSecond / first
}
