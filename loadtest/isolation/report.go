package isolation

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/stint-dev/stint/loadtest/chart"
	"github.com/stint-dev/stint/loadtest/sidebyside"
)

// Settings are those of a Run.
type Settings struct {
	Tenants  int           `json:"tenants"`
	Devices  int           `json:"devices"`
	Every    time.Duration `json:"every_ns"`
	Factor   int           `json:"factor"`
	Duration time.Duration `json:"duration_ns"`
	Settle   time.Duration `json:"settle_ns"`
	// Handlers are those of the groups.
	Handlers []Handler `json:"handlers"`
}

// Report is what a Run has shown: all ways with each handler.
type Report struct {
	sidebyside.Report[Settings, Result]
}

type group = sidebyside.Group[Result]

func newReport(o *Options, ways []way) *Report {
	show := sidebyside.Show[Result]
	length := fmt.Sprintf("%v a way", o.Duration)
	if o.Settle > 0 {
		length += fmt.Sprintf(", of which the first %v do not count", o.Settle)
	}
	r := &Report{sidebyside.Report[Settings, Result]{
		Title: "What other tenants notice of a noisy one",
		About: fmt.Sprintf("%d tenants of %d devices, each asks once in %v, together %s/s; then one tenant's devices ask %d times as often, %s/s; %s",
			o.Tenants-1, o.Devices, o.Every, chart.Number(o.victimRate()), o.Factor, chart.Number(o.noisyRate()), length),
		Settings: Settings{o.Tenants, o.Devices, o.Every, o.Factor, o.Duration, o.Settle, o.Handlers},
		Rounds:   o.Rounds,
		Notes: "\nalone: without the noisy one, with nothing in front. stint: seats by a rules file, with that guarantee." +
			"\nnone: any number wait, first come first served. one queue: " + fmt.Sprint(sharedQueue) + " may wait, and more are refused." +
			"\nbound: how many times the p99 may grow in theory when the other's requests cannot be interrupted." +
			"\nlate: how late the 99th of 100 requests was sent, for the machine had other things to do; it is a part of what it took.",
		Ways: "WAY",
		Columns: []sidebyside.Column[Result]{
			show("P50", func(r *Result) string { return chart.Duration(r.P50) }),
			{Head: "TIMES", Text: func(g *group, i int) string { return times(g.Ways[i].Median.P50, g.Ways[0].Median.P50) }},
			show("P99", func(r *Result) string { return chart.Duration(r.P99) }),
			{Head: "TIMES", Text: func(g *group, i int) string { return times(g.Ways[i].Median.P99, g.Ways[0].Median.P99) }},
			{},
			show("GOODPUT", func(r *Result) string { return fmt.Sprintf("%.1f %%", 100*r.Goodput) }),
			show("ASKED", func(r *Result) string { return fmt.Sprint(r.Asked) }),
			show("REFUSED", func(r *Result) string { return fmt.Sprint(r.Refused) }),
			show("GAVE UP", func(r *Result) string { return fmt.Sprint(r.GivenUp) }),
			show("SEATS USED", func(r *Result) string { return fmt.Sprintf("%.1f %%", 100*r.Utilisation) }),
			show("LATE", func(r *Result) string { return chart.Duration(r.Late) }),
			show("NOISY/S", func(r *Result) string { return chart.Number(r.NoisyPerSecond) }),
		},
	}}
	r.Columns[4] = sidebyside.Column[Result]{Head: "BOUND", Text: r.bound}
	var names []string
	for _, w := range ways {
		names = append(names, w.name)
	}
	for _, h := range o.Handlers {
		r.Groups = append(r.Groups, sidebyside.NewGroup[Result](h.Name, h.about(), names))
	}
	return r
}

func (h Handler) about() string {
	does, spread := "waits", "± 10 %"
	if h.Spin {
		does = "computes"
	}
	if h.Exponential {
		spread = "in the mean, exponentially distributed"
	}
	about := fmt.Sprintf("%d seats, a request %s for %v %s", h.Seats, does, h.Victims, spread)
	if h.Victims != h.Noisy || h.Exponential {
		about += fmt.Sprintf(", one of the noisy tenant for %v ± 10 %%", h.Noisy)
	}
	return about
}

// times writes how many times b a is.
func times(a, b time.Duration) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(a)/float64(b))
}

// bound writes what the p99 of a way with seats may be in theory, if no seat is kept
// free: who is next waits for the first of the running requests to end, and of 100 such
// waits one is longer than 4.6 times the mean, which is taken for 5.
func (r *Report) bound(g *group, i int) string {
	p99 := g.Ways[0].Median.P99
	if !strings.HasPrefix(g.Ways[i].Name, "stint") || p99 == 0 {
		return ""
	}
	for n, h := range r.Settings.Handlers {
		if &r.Groups[n] == g {
			return fmt.Sprintf("%.2f", 1+5*float64(h.Noisy)/float64(h.Seats)/float64(p99))
		}
	}
	return ""
}

// Failed returns what speaks against a run: a control that did not collapse, so that
// nothing is shown by what is beside it, and tenants that were refused though they had
// seats of their own.
func (r *Report) Failed() (why []string) {
	for g := range r.Groups {
		group := &r.Groups[g]
		before := &group.Ways[0].Median
		for i := range group.Ways[1:] {
			way := &group.Ways[i+1]
			m := &way.Median
			switch {
			case m.Errors > 0:
				why = append(why, fmt.Sprintf("%s: %s: %d requests failed: %s", group.Name, way.Name, m.Errors, m.FirstError))
			case way.Name == unlimited && !collapsed(m, before):
				why = append(why, fmt.Sprintf("%s: without isolation the others kept %.0f %% of their answers, with a p99 of %s times; the load is too small to show anything", group.Name, 100*m.Goodput, times(m.P99, before.P99)))
			case strings.HasPrefix(way.Name, "stint") && m.Refused+m.GivenUp > 0:
				why = append(why, fmt.Sprintf("%s: %s: %d requests of the others were refused and %d not answered in time", group.Name, way.Name, m.Refused, m.GivenUp))
			}
		}
	}
	return why
}

// collapsed reports whether a service is not what it was.
func collapsed(m, before *Result) bool { return m.Goodput < 0.9 || m.P99 >= 3*before.P99 }

// WriteTable writes r for people, with the course of each way.
func (r *Report) WriteTable(w io.Writer) error {
	if err := r.Report.WriteTable(w); err != nil {
		return err
	}
	var b strings.Builder
	begins := int(moments / 5) // a quarter of the rest
	fmt.Fprintf(&b, "\nThe others' longest answers over time, and the part that was good, lowest to highest block; the incident begins at |\n")
	for g := range r.Groups {
		group := &r.Groups[g]
		least, most := math.Inf(1), 0.0
		for _, way := range group.Ways {
			for _, m := range way.Median.Series {
				if m.Longest > 0 {
					least, most = min(least, math.Log(float64(m.Longest))), max(most, math.Log(float64(m.Longest)))
				}
			}
		}
		fmt.Fprintf(&b, "\n%s: %s to %s\n", group.Name, chart.Duration(time.Duration(math.Exp(least))), chart.Duration(time.Duration(math.Exp(most))))
		for _, way := range group.Ways {
			var latency, good strings.Builder
			for i, m := range way.Median.Series {
				if i == begins {
					latency.WriteByte('|')
					good.WriteByte('|')
				}
				latency.WriteRune(block(m.Longest > 0, (math.Log(float64(m.Longest))-least)/(most-least)))
				good.WriteRune(block(m.Asked > 0, float64(m.Good)/float64(m.Asked)))
			}
			fmt.Fprintf(&b, "%-11s %s  %s\n", way.Name, latency.String(), good.String())
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// block draws a part of the whole, or nothing if there is none.
func block(is bool, part float64) rune {
	if !is || math.IsNaN(part) {
		return ' '
	}
	const blocks = 8
	return '▁' + rune(min(max(0, part), 1)*(blocks-1)+.5)
}

// WriteChart draws the victims' latency and goodput over time as SVG.
func (r *Report) WriteChart(w io.Writer) error {
	span := r.Settings.Duration * 5 / 4
	c := chart.Lines{
		Title: r.Title, About: r.About, Seconds: span.Seconds(),
		Marks: []chart.Mark{{At: (span / 5).Seconds(), Name: "the incident begins"}},
	}
	for g := range r.Groups {
		group := &r.Groups[g]
		latency := chart.Panel{Title: group.Name + ": the others' longest answers", Unit: "ms", Log: true}
		good := chart.Panel{Title: group.Name + ": the others' requests answered well", Unit: "per cent"}
		for _, way := range group.Ways {
			l, p := chart.Series{Name: way.Name}, chart.Series{Name: way.Name}
			for _, m := range way.Median.Series {
				at := (m.At + m.Every/2).Seconds()
				if m.Longest > 0 {
					l.Points = append(l.Points, chart.Point{At: at, Value: float64(m.Longest) / 1e6})
				}
				if m.Asked > 0 {
					p.Points = append(p.Points, chart.Point{At: at, Value: 100 * float64(m.Good) / float64(m.Asked)})
				}
			}
			latency.Series, good.Series = append(latency.Series, l), append(good.Series, p)
		}
		c.Panels = append(c.Panels, latency, good)
	}
	return c.Write(w)
}
