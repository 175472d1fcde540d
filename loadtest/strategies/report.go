package strategies

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/loadtest/chart"
	"github.com/stint-dev/stint/loadtest/sidebyside"
)

// Settings are those of a Run.
type Settings struct {
	Duration time.Duration `json:"duration_ns"` // of one measurement
	Period   time.Duration `json:"period_ns"`
}

// Report is what a Run has shown: all strategies under each workload.
type Report = sidebyside.Report[Settings, Result]

func newReport(o *Options, works []workload, all []strategy) *Report {
	show := sidebyside.Show[Result]
	r := &Report{
		Title:    "Ways to limit requests in PostgreSQL",
		About:    fmt.Sprintf("medians of %d rounds of %v; each key may pass once in %v; statements are for each decision", o.Rounds, o.Duration, o.Period),
		Settings: Settings{o.Duration, o.Period},
		Rounds:   o.Rounds,
		Ways:     "STRATEGY",
		Columns: []sidebyside.Column[Result]{
			show("DECISIONS/S", func(r *Result) string { return chart.Number(r.PerSecond) }),
			show("GRANTED", func(r *Result) string { return fmt.Sprint(r.Granted) }),
			show("GRANT P50", func(r *Result) string { return chart.Duration(r.GrantP50) }),
			show("P99", func(r *Result) string { return chart.Duration(r.GrantP99) }),
			show("DENIAL P50", func(r *Result) string { return chart.Duration(r.DenialP50) }),
			show("P99", func(r *Result) string { return chart.Duration(r.DenialP99) }),
			show("WORST", func(r *Result) string { return chart.Duration(r.Worst) }),
			show("STATEMENTS", func(r *Result) string { return fmt.Sprintf("%.3f", r.StatementsPerDecision) }),
			show("DEADLOCKS", func(r *Result) string { return fmt.Sprint(r.Deadlocks) }),
			show("ERRORS", func(r *Result) string { return fmt.Sprint(r.Errors) }),
		},
		Bars: []sidebyside.Bar[Result]{
			{Head: "decisions per second", Value: func(r *Result) float64 { return r.PerSecond }},
			{Head: "longest answer, ms", Value: func(r *Result) float64 { return float64(r.Worst) / 1e6 }},
			{Head: "statements per decision", Value: func(r *Result) float64 { return r.StatementsPerDecision }},
			{Head: "deadlocks", Value: func(r *Result) float64 { return float64(r.Deadlocks) }},
		},
	}
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	for _, w := range works {
		r.Groups = append(r.Groups, sidebyside.NewGroup[Result](w.Name, w.About, names))
	}
	return r
}
