package loadtest

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stint-dev/stint/loadtest/chart"
	"github.com/stint-dev/stint/rules"
)

// WriteTable writes r for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n", r.Name, r.describe())
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\tREQUESTS\tP50\tP90\tP99\tP99.9\tMAX\n")
	for _, row := range []struct {
		name    string
		n       int64
		latency Latency
	}{{"granted", r.Granted, r.GrantLatency}, {"denied", r.Denied, r.DenialLatency}, {"all", r.Requests, r.Latency}} {
		l := row.latency
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", row.name, row.n, chart.Duration(l.P50), chart.Duration(l.P90), chart.Duration(l.P99), chart.Duration(l.P999), chart.Duration(l.Max))
	}
	table.Flush()
	fmt.Fprintf(&b, "\n%d requests were sent more than %v late, the latest %s late\n\n", r.Late, tooLate, chart.Duration(r.Latest))
	for _, c := range r.Checks {
		word := "ok"
		if !c.Holds {
			word = "FAILED"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", word, c.Name, strings.ReplaceAll(c.Says, "\n", "\n\t\t"))
	}
	table.Flush()
	_, err := io.WriteString(w, b.String())
	return err
}

// describe says in a line what the load was.
func (r *Report) describe() string {
	text := fmt.Sprintf("%d requests in %v, limit %s", r.Requests, r.Duration.Round(time.Millisecond), r.limit)
	if r.Compress != 1 {
		text += fmt.Sprintf(", %vx faster than written", r.Compress)
	}
	return text
}

func (s *Scenario) describeLimit() string {
	p := s.policy()
	return fmt.Sprintf("%d per %v (%s)", p.Quota, rules.Duration(p.Window), s.Limit.Algorithm)
}

// phaseStarts returns when each phase begins, and how fast it is on all instances.
func (s *Scenario) phaseStarts() (all []phaseStart) {
	var at time.Duration
	speed := s.Compress * float64(s.Instances.Count)
	for _, h := range s.Load.Phases {
		var name string
		if h.Rate != nil {
			name = chart.Number(*h.Rate*speed) + "/s"
		} else {
			name = fmt.Sprintf("%s to %s/s", chart.Number(*h.From*speed), chart.Number(*h.To*speed))
		}
		all = append(all, phaseStart{at, name})
		at += s.compressed(h.For)
	}
	return all
}
