package strategies

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

// Report is what a Run has shown. Its JSON names are stable.
type Report struct {
	Duration  time.Duration    `json:"duration_ns"` // of one measurement
	Rounds    int              `json:"rounds"`
	Period    time.Duration    `json:"period_ns"`
	Workloads []WorkloadReport `json:"workloads"`
}

// WorkloadReport is all strategies under one workload.
type WorkloadReport struct {
	Name       string           `json:"name"`
	About      string           `json:"about"`
	Strategies []StrategyReport `json:"strategies"`
}

// StrategyReport is one strategy under one workload.
type StrategyReport struct {
	Name   string   `json:"name"`
	Median Result   `json:"median"` // of each number on its own
	Rounds []Result `json:"rounds"`
	// StatementsPerDecision was counted in a run of its own.
	StatementsPerDecision float64 `json:"statements_per_decision"`
}

func newReport(o *Options, works []workload, all []strategy) *Report {
	r := &Report{Duration: o.Duration, Rounds: o.Rounds, Period: o.Period}
	for _, w := range works {
		one := WorkloadReport{Name: w.Name, About: w.About}
		for _, s := range all {
			one.Strategies = append(one.Strategies, StrategyReport{Name: s.name})
		}
		r.Workloads = append(r.Workloads, one)
	}
	return r
}

func (r *Report) takeMedians() {
	for w := range r.Workloads {
		for s := range r.Workloads[w].Strategies {
			one := &r.Workloads[w].Strategies[s]
			one.Median = medians(one.Rounds)
		}
	}
}

func medians(rounds []Result) Result {
	return Result{
		PerSecond:  median(rounds, func(r *Result) float64 { return r.PerSecond }),
		Granted:    median(rounds, func(r *Result) int64 { return r.Granted }),
		Denied:     median(rounds, func(r *Result) int64 { return r.Denied }),
		GrantP50:   median(rounds, func(r *Result) time.Duration { return r.GrantP50 }),
		GrantP99:   median(rounds, func(r *Result) time.Duration { return r.GrantP99 }),
		DenialP50:  median(rounds, func(r *Result) time.Duration { return r.DenialP50 }),
		DenialP99:  median(rounds, func(r *Result) time.Duration { return r.DenialP99 }),
		Worst:      median(rounds, func(r *Result) time.Duration { return r.Worst }),
		Deadlocks:  median(rounds, func(r *Result) int64 { return r.Deadlocks }),
		Errors:     median(rounds, func(r *Result) int64 { return r.Errors }),
		FirstError: firstError(rounds),
	}
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

func firstError(rounds []Result) string {
	for _, r := range rounds {
		if r.FirstError != "" {
			return r.FirstError
		}
	}
	return ""
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
	for _, work := range r.Workloads {
		fmt.Fprintf(&b, "\n%s: %s\n", work.Name, work.About)
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "STRATEGY\tDECISIONS/S\tGRANTED\tGRANT P50\tP99\tDENIAL P50\tP99\tWORST\tSTATEMENTS\tDEADLOCKS\tERRORS")
		for _, s := range work.Strategies {
			m := &s.Median
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%.3f\t%d\t%d\n", s.Name, chart.Number(m.PerSecond), m.Granted,
				chart.Duration(m.GrantP50), chart.Duration(m.GrantP99), chart.Duration(m.DenialP50), chart.Duration(m.DenialP99), chart.Duration(m.Worst),
				s.StatementsPerDecision, m.Deadlocks, m.Errors)
		}
		table.Flush()
		for _, s := range work.Strategies {
			if s.Median.FirstError != "" {
				fmt.Fprintf(&b, "%s: the first error: %s\n", s.Name, s.Median.FirstError)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) about() string {
	return fmt.Sprintf("medians of %d rounds of %v; each key may pass once in %v; statements are for each decision", r.Rounds, r.Duration, r.Period)
}

// WriteChart writes r as an SVG file.
func (r *Report) WriteChart(w io.Writer) error {
	c := chart.Bars{
		Title:   "Ways to limit requests in PostgreSQL",
		About:   r.about(),
		Columns: []string{"decisions per second", "longest answer, ms", "statements per decision", "deadlocks"},
	}
	for _, work := range r.Workloads {
		row := chart.Row{Name: work.Name, Cells: make([]chart.Cell, len(c.Columns))}
		for _, s := range work.Strategies {
			m := &s.Median
			for i, v := range []float64{m.PerSecond, float64(m.Worst) / 1e6, s.StatementsPerDecision, float64(m.Deadlocks)} {
				row.Cells[i] = append(row.Cells[i], chart.Bar{Name: s.Name, Value: v})
			}
		}
		c.Rows = append(c.Rows, row)
	}
	return c.Write(w)
}
