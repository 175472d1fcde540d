package replay

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// WriteTable writes r for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b bytes.Buffer
	r.writeHead(&b)
	r.writeRules(&b)
	for i := range r.Rules {
		r.Rules[i].writeTop(&b)
	}
	r.writeSuggestions(&b)
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Report) writeHead(b *bytes.Buffer) {
	fmt.Fprintf(b, "%s, %d malformed, %d out of order\n", count(r.Lines, "line"), r.Malformed, r.OutOfOrder)
	for _, example := range r.Examples {
		fmt.Fprintf(b, "  %s\n", example)
	}
	if r.Requests > 0 {
		fmt.Fprintf(b, "%s to %s (%v)\n", r.First.Format(time.RFC3339), r.Last.Format(time.RFC3339), r.Last.Sub(r.First).Round(time.Second))
	}
	fmt.Fprintf(b, "replayed in %.1fs, %.0f lines/s\n", r.Took.Seconds(), r.LinesPerSecond())
	if r.Partial {
		fmt.Fprint(b, "The replay was ended early: what follows is about the lines up to there.\n")
	}
	if r.Forgotten > 0 {
		fmt.Fprintf(b, "%s forgotten for want of room: each may have been denied too rarely.\n", count(r.Forgotten, "key"))
	}
	fmt.Fprintf(b, "\n%d of %s would have been denied (%s).\n\n", r.Denied, count(r.Requests, "request"), percent(ratio(r.Denied, r.Requests)))
}

func (r *Report) writeRules(b *bytes.Buffer) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tREQUESTS\tDENIED\tSHARE\tKEYS DENIED\tFIRST\tLAST\tNOTE")
	for i := range r.Rules {
		rule := &r.Rules[i]
		keys := strconv.FormatInt(rule.KeysDenied, 10)
		if rule.KeysEstimated {
			keys = "about " + keys
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n",
			rule.Name, rule.Requests, rule.Denied, percent(rule.DeniedShare), keys, moment(rule.FirstHit), moment(rule.LastHit), rule.note())
	}
	t.Flush()
}

// note says how to read a rule's denials.
func (r *RuleReport) note() string {
	switch {
	case r.MaxWait > 0:
		return fmt.Sprintf("over the rate (would wait up to %v)", r.MaxWait)
	case r.Shadow:
		return "shadow: denies nothing"
	}
	return "-"
}

func (r *RuleReport) writeTop(b *bytes.Buffer) {
	if len(r.Top) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s: keys denied most often\n", r.Name)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, k := range r.Top {
		hits := strconv.FormatInt(k.Hits, 10)
		if k.Error > 0 {
			hits = fmt.Sprintf("%d to %d", k.Hits-k.Error, k.Hits)
		}
		fmt.Fprintf(t, "  %s\t%s\n", hits, k.Key)
	}
	t.Flush()
}

func (r *Report) writeSuggestions(b *bytes.Buffer) {
	var t *tabwriter.Writer
	for i := range r.Rules {
		s := r.Rules[i].Suggestion
		if s == nil {
			continue
		}
		if t == nil {
			fmt.Fprintf(b, "\nThe smallest quotas that would have denied at most %s of the keys:\n\n", percent(s.Share))
			t = tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "LIMIT\tALGORITHM\tWINDOW\tQUOTA\tSUGGESTED\tKEYS\tDENIED\tNOTE")
		}
		fmt.Fprintf(t, "%s\t%s\t%v\t%d\t%s\t%d\t%d\t%s\n", s.Policy, s.Algorithm, s.Window, s.Now, s.suggested(), s.Keys, s.KeysDenied, s.note())
	}
	if t != nil {
		t.Flush()
	}
}

func (s *Suggestion) suggested() string {
	if s.Quota == nil {
		return "none"
	}
	return strconv.FormatInt(*s.Quota, 10)
}

func (s *Suggestion) note() string {
	switch {
	case s.Quota == nil && s.Burst > 0:
		return fmt.Sprintf("more than burst %d came at one instant", s.Burst)
	case s.Quota == nil:
		return fmt.Sprintf("more is needed than %s can count", s.Algorithm)
	case s.SampledOf > 1:
		return fmt.Sprintf("from a sample of 1 key in %d", s.SampledOf)
	case !s.Exact:
		return "may be a little less"
	}
	return "-"
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}
