package loadtest

import (
	"encoding/json"
	"io"
	"maps"
	"time"
)

// Report is what a run has shown. Its JSON names are stable. Spans of time are
// in nanoseconds.
type Report struct {
	Name     string  `json:"name"`
	About    string  `json:"about,omitempty"`
	Compress float64 `json:"compress"`
	// Duration is how long the load is by the file, and Took how long it was
	// until the last answer.
	Duration time.Duration `json:"duration_ns"`
	Took     time.Duration `json:"took_ns"`
	// Requests is how many were due, and Answered how many were answered.
	Requests int64            `json:"requests"`
	Answered int64            `json:"answered"`
	Granted  int64            `json:"granted"`
	Denied   int64            `json:"denied"`
	Statuses map[int]int64    `json:"statuses"`
	Failures map[string]int64 `json:"failures,omitempty"`
	// Ideal is what the oracle grants.
	Ideal Ideal `json:"ideal"`
	// Late is how many requests were sent more than 10ms late, and Latest by
	// how much at most: a load generator that was short of processor time or
	// of connections.
	Late   int64         `json:"late"`
	Latest time.Duration `json:"latest_ns"`

	Latency        Latency `json:"latency"`
	GrantLatency   Latency `json:"grant_latency"`
	DenialLatency  Latency `json:"denial_latency"`
	CountedGrants  *int64  `json:"counted_grants,omitempty"`
	CountedDenials *int64  `json:"counted_denials,omitempty"`
	// Updates is how many updates of the store the instances have counted.
	Updates *int64 `json:"updates,omitempty"`
	// Transactions and Statements are what the PostgreSQL server has counted
	// from the start of the instances to their end, but for the reads of the
	// check of spacing.
	Transactions *int64   `json:"transactions,omitempty"`
	Statements   *int64   `json:"statements,omitempty"`
	Spacing      *Spacing `json:"spacing,omitempty"`
	// InstanceFailures is what went wrong with the instances.
	InstanceFailures []string `json:"instance_failures,omitempty"`
	Series           []Moment `json:"series"`
	Checks           []Check  `json:"checks"`

	limit   string
	phases  []phaseStart
	perKey  map[string]int64 // grants
	latency func(percentile float64) time.Duration
}

// Latency is how long answers took, from when their requests were due.
type Latency struct {
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p99.9_ns"`
	Max  time.Duration `json:"max_ns"`
	Mean time.Duration `json:"mean_ns"`
}

// Moment is the requests that were due in a stretch of time, which begins at At.
type Moment struct {
	At      time.Duration `json:"at_ns"`
	Every   time.Duration `json:"every_ns"`
	Granted int64         `json:"granted"`
	Denied  int64         `json:"denied"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
}

// Check is one thing that must hold.
type Check struct {
	Name  string `json:"name"`
	Holds bool   `json:"holds"`
	// Says is what was seen, and what is allowed.
	Says string `json:"says"`
}

// Failed returns the names of the checks that do not hold.
func (r *Report) Failed() (names []string) {
	for _, c := range r.Checks {
		if !c.Holds {
			names = append(names, c.Name)
		}
	}
	return names
}

// phaseStart is when a phase begins and what it is.
type phaseStart struct {
	at   time.Duration
	name string
}

func newReport(s *Scenario, schedule [][]arrival) *Report {
	r := &Report{
		Name: s.Name, About: s.About, Compress: s.Compress, Duration: s.duration(),
		Ideal:  ideal(s.policy(), schedule),
		limit:  s.describeLimit(),
		phases: s.phaseStarts(),
	}
	for _, arrivals := range schedule {
		r.Requests += int64(len(arrivals))
	}
	return r
}

// tally takes over what m has counted.
func (r *Report) tally(m *meter) {
	r.Statuses, r.perKey = maps.Clone(m.statuses), maps.Clone(m.grants)
	if len(m.failures) > 0 {
		r.Failures = maps.Clone(m.failures)
	}
	r.Granted, r.Denied = m.granted.TotalCount(), m.denied.TotalCount()
	r.Answered = r.Granted + r.Denied
	r.Late, r.Latest = m.late, m.latest
	r.Latency, r.GrantLatency, r.DenialLatency = latencyOf(m.all), latencyOf(m.granted), latencyOf(m.denied)
	r.latency = m.all.percentile
	for i, b := range m.buckets {
		r.Series = append(r.Series, Moment{
			At: time.Duration(i) * m.every, Every: m.every, Granted: b.granted, Denied: b.denied,
			P50: b.took.percentile(50), P99: b.took.percentile(99),
		})
	}
}

func latencyOf(h histogram) Latency {
	return Latency{
		P50: h.percentile(50), P90: h.percentile(90), P99: h.percentile(99), P999: h.percentile(99.9),
		Max:  time.Duration(h.Max()) * time.Microsecond,
		Mean: time.Duration(h.Mean() * float64(time.Microsecond)),
	}
}

func (r *Report) countMetrics(c counts) {
	granted, denied, updates := int64(c.granted), int64(c.denied), int64(c.updates)
	r.CountedGrants, r.CountedDenials, r.Updates = &granted, &denied, &updates
}

// countWork takes over what the server has done, but for reads of our own.
func (r *Report) countWork(before, after work, reads int64) {
	transactions := after.transactions - before.transactions - reads
	r.Transactions = &transactions
	if before.statements >= 0 && after.statements >= 0 {
		statements := after.statements - before.statements - reads
		r.Statements = &statements
	}
}

// WriteJSON writes r as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
