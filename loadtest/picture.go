package loadtest

import (
	"io"
	"time"

	"github.com/stint-dev/stint/loadtest/chart"
)

// WriteChart writes r as an SVG file: requests, grants and latency over time.
func (r *Report) WriteChart(w io.Writer) error {
	line := func(name string, value func(m *Moment) float64) chart.Series {
		s := chart.Series{Name: name}
		for i := range r.Series {
			m := &r.Series[i]
			s.Points = append(s.Points, chart.Point{At: (m.At + m.Every/2).Seconds(), Value: value(m)})
		}
		return s
	}
	perSecond := func(n int64, m *Moment) float64 { return float64(n) / m.Every.Seconds() }
	inMillis := func(d time.Duration) float64 { return float64(d) / 1e6 }
	ideal := float64(r.Ideal.Most) / r.Duration.Seconds()
	c := chart.Lines{
		Title:   r.Name,
		About:   r.describe(),
		Seconds: r.Duration.Seconds(),
		Panels: []chart.Panel{{
			Title: "Requests",
			Unit:  "per second",
			Series: []chart.Series{
				line("requests", func(m *Moment) float64 { return perSecond(m.Granted+m.Denied, m) }),
				line("denied", func(m *Moment) float64 { return perSecond(m.Denied, m) }),
			},
		}, {
			Title:  "Grants",
			Unit:   "per second",
			Series: []chart.Series{line("granted", func(m *Moment) float64 { return perSecond(m.Granted, m) })},
			Guides: []chart.Guide{{Level: ideal, Name: "an ideal limiter's mean"}},
		}, {
			Title: "Time until the answer",
			Unit:  "ms",
			Series: []chart.Series{
				line("p99", func(m *Moment) float64 { return inMillis(m.P99) }),
				line("p50", func(m *Moment) float64 { return inMillis(m.P50) }),
			},
		}},
	}
	for _, p := range r.phases {
		c.Marks = append(c.Marks, chart.Mark{At: p.at.Seconds(), Name: p.name})
	}
	return c.Write(w)
}
