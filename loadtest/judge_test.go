package loadtest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// report is one of a run in which all went well: 100 requests in a second, six
// of them granted.
func report(t *testing.T, s *Scenario) *Report {
	r := newReport(s, s.schedule())
	m := newMeter(time.Second)
	for i := range 100 {
		one := sample{due: time.Duration(i) * 10 * time.Millisecond, took: time.Duration(i+1) * time.Millisecond, key: "alex", status: 429}
		if i%20 == 0 || i == 99 {
			one.status, one.key = 200, []string{"alex", "max"}[i/20%2]
		}
		m.add(one)
	}
	r.Took = time.Second
	r.tally(m)
	r.countMetrics(counts{6, 94, 10})
	r.Spacing = &Spacing{Grants: 6, Period: 200 * time.Millisecond, Smallest: 201 * time.Millisecond}
	return r
}

// withBounds is a scenario that bounds all that can be.
func withBounds(t *testing.T) *Scenario {
	return scenario(t, "  metrics: true", `  metrics: true
  successes: {least: 5, most: 7, below_ideal: 50%}
  updates_per_request: 0.1
  transactions_per_request: 0.2`)
}

func TestAllChecksHold(t *testing.T) {
	s := withBounds(t)
	r := report(t, s)
	r.judge(s)
	want := []Check{
		{"instances", true, "all of them ran to the end"},
		{"answered", true, "100 of 100 requests were answered"},
		{"statuses", true, "only those of [200 429]"},
		{"limit", true, "at most 4 grants of a key (alex); 1 per 200ms (gcra) admits 6 in 1s"},
		{"successes", true, "6; an ideal limiter grants 10 to 10; allowed: at least 5, at most 7, at least 5.0 (50% below the ideal)"},
		{"metrics", true, "6 granted and 94 denied by the metrics, 6 and 94 by the answers"},
		{"spacing", true, "0 of 6 grants came less than 200ms after the one before, the smallest distance is 201ms on the store's clock; 0 were looked at too late"},
		{"updates", true, "10 updates of the store, 0.1000 for each request; at most 0.1 is allowed"},
		{"latency p99", true, "99.007ms; at most 1s is allowed"},
	}
	if diff := cmp.Diff(want, r.Checks); diff != "" {
		t.Error(diff)
	}
	if failed := r.Failed(); failed != nil {
		t.Errorf("%v", failed)
	}
}

// TestChecksFail: each check fails for its own reason, alone, and says why.
func TestChecksFail(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	for _, tt := range []struct {
		name, check, says string
		spoil             func(r *Report)
	}{
		{"an instance crashes", "instances", "instance 1 ended by itself", func(r *Report) { r.InstanceFailures = []string{"instance 1 ended by itself"} }},
		{"no answer", "answered", "99 of 100 requests were answered; 1 failed: connection refused", func(r *Report) {
			r.Answered, r.Failures = 99, map[string]int64{"connection refused": 1}
		}},
		{"a server error", "statuses", "2 answers of status 503", func(r *Report) { r.Statuses[503] = 2 }},
		{"over the limit", "limit", "at most 7 grants of a key (max); 1 per 200ms (gcra) admits 6 in 1s", func(r *Report) { r.perKey["max"] = 7 }},
		{"too few", "successes", "4; an ideal limiter grants 10 to 10; allowed: at least 5, at most 7, at least 5.0 (50% below the ideal)", func(r *Report) {
			r.Granted, r.CountedGrants, r.Spacing.Grants = 4, number(4), 4
		}},
		{"too many", "successes", "8; an ideal limiter grants 10 to 10; allowed: at least 5, at most 7, at least 5.0 (50% below the ideal)", func(r *Report) {
			r.Granted, r.CountedGrants, r.Spacing.Grants = 8, number(8), 8
		}},
		{"metrics differ", "metrics", "6 granted and 93 denied by the metrics, 6 and 94 by the answers", func(r *Report) { r.CountedDenials = number(93) }},
		{"no metrics", "metrics", "they could not be read", func(r *Report) { r.CountedGrants = nil }},
		{"too close", "spacing", "1 of 6 grants came less than 200ms after the one before, the smallest distance is 0s on the store's clock; 0 were looked at too late", func(r *Report) {
			r.Spacing.TooClose, r.Spacing.Smallest = 1, 0
		}},
		{"too late to tell", "spacing", "1 of 6 grants took longer than 200ms to be looked at, which is too late; this machine is too slow for the scenario", func(r *Report) { r.Spacing.Late = 1 }},
		{"a grant is missing", "spacing", "5 grants reached the service, 6 were answered", func(r *Report) { r.Spacing.Grants = 5 }},
		{"the store is away", "spacing", "the store could not be read after a grant: gone", func(r *Report) { r.Spacing.failure = errors.New("gone") }},
		{"updates", "updates", "11 updates of the store, 0.1100 for each request; at most 0.1 is allowed", func(r *Report) { r.Updates = number(11) }},
		{"transactions", "transactions", "100 transactions of PostgreSQL, 1.0000 for each request; at most 0.2 is allowed", func(r *Report) {
			r.countWork(work{100, -1}, work{206, -1}, 6)
		}},
		{"slow", "latency p99", "2s; at most 1s is allowed", func(r *Report) {
			r.latency = func(float64) time.Duration { return 2 * time.Second }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := withBounds(t)
			r := report(t, s)
			tt.spoil(r)
			r.judge(s)
			if got := r.Failed(); !cmp.Equal(got, []string{tt.check}) {
				t.Errorf("%v fail, want %s", got, tt.check)
			}
			for _, c := range r.Checks {
				if !c.Holds && c.Says != tt.says {
					t.Errorf("says %q\nwant %q", c.Says, tt.says)
				}
			}
		})
	}
}

func TestTable(t *testing.T) {
	s := withBounds(t)
	r := report(t, s)
	r.countWork(work{0, 0}, work{106, 56}, 6)
	r.judge(s)
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	const want = `Small
100 requests in 1s, limit 1 per 200ms (gcra)

         REQUESTS  P50    P90    P99     P99.9   MAX
granted  6         41 ms  81 ms  100 ms  100 ms  100 ms
denied   94        50 ms  90 ms  98 ms   99 ms   99 ms
all      100       50 ms  90 ms  99 ms   100 ms  100 ms

0 requests were sent more than 10ms late, the latest 0 ms late

ok      instances     all of them ran to the end
ok      answered      100 of 100 requests were answered
`
	if got := out.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "FAILED  transactions  100 transactions of PostgreSQL") {
		t.Errorf("%s\nwant it to begin with\n%s", got, want)
	}
}

func TestJSON(t *testing.T) {
	s := withBounds(t)
	r := report(t, s)
	r.judge(s)
	var out bytes.Buffer
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Granted int64
		Ideal   Ideal
		Series  []struct{ Granted, Denied int64 }
		Latency struct {
			P99 int64 `json:"p99_ns"`
		}
		Checks []Check
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	var granted int64
	for _, m := range got.Series {
		granted += m.Granted
	}
	if got.Granted != 6 || granted != 6 || got.Ideal.Most != 10 || got.Latency.P99 != 99_007_000 || len(got.Checks) != 9 {
		t.Errorf("%+v", got)
	}
}

func TestChart(t *testing.T) {
	s := scenario(t, "name: Small", `name: "Small <&> pretty"`)
	var out bytes.Buffer
	if err := report(t, s).WriteChart(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for d := xml.NewDecoder(&out); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	for _, want := range []string{
		"Small &lt;&amp;&gt; pretty", "100 requests in 1s", "seconds", ">100/s<", "an ideal limiter",
		"Requests, per second", ">requests<", ">denied<", "Grants, per second", ">granted<", "Time until the answer, ms", ">p99<", ">p50<",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(text, "<polyline"); n != 5 {
		t.Errorf("%d lines, want 5", n)
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("a number is not one")
	}
}
