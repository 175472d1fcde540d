package loadtest

import (
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Scenario is a load, what it is put on, and what must hold under it. It is
// what a scenario file says; [Parse] reads and checks one.
type Scenario struct {
	// Name and About head the report.
	Name  string `yaml:"name"`
	About string `yaml:"about"`
	// Compress is how many times faster than written the load comes. Windows
	// shrink as much, so the numbers of requests and of grants stay the same.
	// Defaults to 1.
	Compress float64 `yaml:"compress"`
	// Limit is what is promised to each key. The oracle decides by it.
	Limit     Limit     `yaml:"limit"`
	Instances Instances `yaml:"instances"`
	Load      Load      `yaml:"load"`
	Checks    Checks    `yaml:"checks"`

	file string
}

// Limit is one limit, as it is before Compress.
type Limit struct {
	Algorithm string   `yaml:"algorithm"` // Defaults to gcra.
	Quota     whole    `yaml:"quota"`
	Window    duration `yaml:"window"`
	Burst     whole    `yaml:"burst"` // Defaults to Quota.
}

// Instances are the processes that the load is put on, all alike. Their texts
// may have placeholders: see [placeholders].
type Instances struct {
	// Count is how many there are. Defaults to 1.
	Count whole `yaml:"count"`
	// Config is what stint serve is configured with.
	Config string `yaml:"config"`
	// Command is what to run in place of stint serve.
	Command []string `yaml:"command"`
	// Ready answers 200 as soon as an instance can be sent requests. Defaults
	// to http://${api}/readyz with Config.
	Ready string `yaml:"ready"`
	// Target is where requests go. Defaults to http://${proxy}.
	Target string `yaml:"target"`
	// Metrics is where an instance counts its decisions. Defaults to
	// http://${api}/metrics with Config, and to nowhere otherwise.
	Metrics string `yaml:"metrics"`
}

// Load is what each instance is sent. Path, Headers and Body may have the
// placeholder ${key}.
type Load struct {
	Method  string            `yaml:"method"` // Defaults to GET.
	Path    string            `yaml:"path"`
	Headers map[string]string `yaml:"headers"`
	Body    string            `yaml:"body"`
	Keys    Keys              `yaml:"keys"`
	// Connections is the most that are open to one instance, and so the most
	// requests that it is asked at one time. Defaults to 32.
	Connections whole `yaml:"connections"`
	// Timeout is how long to wait for an answer. Defaults to 10s.
	Timeout duration `yaml:"timeout"`
	// Statuses are those that an answer may have; 2xx is a grant. Defaults to
	// 200 and 429.
	Statuses []whole `yaml:"statuses"`
	Phases   []Phase `yaml:"phases"`
}

// Keys is who sends the requests: the names of a list in turn, or key-0 to
// key-(count-1) at random, all as often, or the first ones more often.
type Keys struct {
	List  []string `yaml:"list"`
	Count whole    `yaml:"count"`
	// Zipf, above 1, is the exponent by which keys get less often.
	Zipf float64 `yaml:"zipf"`
}

// Phase is a stretch of load on one instance: a constant Rate, or one that
// goes From a rate To another, steadily or in Steps. Rates count requests a
// second.
type Phase struct {
	Rate  *float64 `yaml:"rate"`
	From  *float64 `yaml:"from"`
	To    *float64 `yaml:"to"`
	Steps whole    `yaml:"steps"`
	For   duration `yaml:"for"`
}

// Checks is what must hold, besides what always must: every request is
// answered, with a status that is allowed, no instance ends before its time,
// and there are no more grants than the limit admits.
type Checks struct {
	Successes Successes `yaml:"successes"`
	// Metrics: the instances have counted as many grants and denials as were answered.
	Metrics bool `yaml:"metrics"`
	// Spacing: grants of a key are one period apart on the store's clock.
	Spacing bool `yaml:"spacing"`
	// UpdatesPerRequest is the most updates of the store for each request.
	UpdatesPerRequest *float64 `yaml:"updates_per_request"`
	// TransactionsPerRequest is the most transactions of a PostgreSQL store
	// for each request.
	TransactionsPerRequest *float64 `yaml:"transactions_per_request"`
	// Latency is the longest that a share of the requests may take, such as
	// p99: 50ms.
	Latency map[string]duration `yaml:"latency"`
}

// Successes bounds the grants of the whole run.
type Successes struct {
	// Least and Most are bounds by number.
	Least *whole `yaml:"least"`
	Most  *whole `yaml:"most"`
	// BelowIdeal is the largest share of an ideal limiter's grants that may be
	// missing.
	BelowIdeal *share `yaml:"below_ideal"`
}

// policy returns the limit as it is while the scenario runs.
func (s *Scenario) policy() *limit.Policy {
	return &limit.Policy{
		Name:      "limit",
		Algorithm: algo.ByName(s.Limit.Algorithm),
		Quota:     int64(s.Limit.Quota),
		Window:    s.compressed(s.Limit.Window),
		Burst:     int64(s.Limit.Burst),
	}
}

// compressed returns d as it is while the scenario runs, in whole microseconds.
func (s *Scenario) compressed(d duration) time.Duration {
	return time.Duration(float64(d) / s.Compress).Round(time.Microsecond)
}

// duration returns how long the load lasts.
func (s *Scenario) duration() time.Duration {
	var total time.Duration
	for _, p := range s.Load.Phases {
		total += s.compressed(p.For)
	}
	return total
}
