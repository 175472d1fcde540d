package loadtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// judge makes the checks that s asks for and those that always are.
func (r *Report) judge(s *Scenario) {
	r.check("instances", len(r.InstanceFailures) == 0, "%s", orElse(strings.Join(r.InstanceFailures, "\n"), "all of them ran to the end"))
	r.check("answered", r.Answered == r.Requests, "%d of %d requests were answered%s", r.Answered, r.Requests, listed(r.Failures))
	r.judgeStatuses(s.Load.Statuses)
	r.judgeLimit(s)
	r.judgeSuccesses(&s.Checks.Successes)
	if s.Checks.Metrics {
		r.judgeMetrics()
	}
	if s.Checks.Spacing {
		r.judgeSpacing()
	}
	r.judgePerRequest("updates", "updates of the store", r.Updates, s.Checks.UpdatesPerRequest)
	r.judgePerRequest("transactions", "transactions of PostgreSQL", r.Transactions, s.Checks.TransactionsPerRequest)
	for _, name := range slices.Sorted(maps.Keys(s.Checks.Latency)) {
		most := time.Duration(s.Checks.Latency[name])
		p, _ := strconv.ParseFloat(name[1:], 64) // Parse has checked it
		took := r.latency(p)
		r.check("latency "+name, took <= most, "%v; at most %v is allowed", took, most)
	}
}

func (r *Report) check(name string, holds bool, format string, args ...any) {
	r.Checks = append(r.Checks, Check{name, holds, fmt.Sprintf(format, args...)})
}

func (r *Report) judgeStatuses(allowed []whole) {
	var others []string
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		if !slices.Contains(allowed, whole(status)) {
			others = append(others, fmt.Sprintf("%d answers of status %d", r.Statuses[status], status))
		}
	}
	r.check("statuses", len(others) == 0, "%s", orElse(strings.Join(others, ", "), fmt.Sprintf("only those of %v", allowed)))
}

// judgeLimit checks that no key was granted more than the limit admits in the
// time that it took.
func (r *Report) judgeLimit(s *Scenario) {
	most := admits(s.policy(), r.Took)
	worst, grants := "", int64(0)
	for _, key := range slices.Sorted(maps.Keys(r.perKey)) {
		if r.perKey[key] > grants {
			worst, grants = key, r.perKey[key]
		}
	}
	says := fmt.Sprintf("at most %d grants of a key (%s); %s admits %.0f in %v", grants, worst, r.limit, most, r.Took.Round(time.Millisecond))
	r.check("limit", float64(grants) <= most, "%s", says)
}

func (r *Report) judgeSuccesses(allowed *Successes) {
	var bounds []string
	holds := true
	if allowed.Least != nil {
		holds = holds && r.Granted >= int64(*allowed.Least)
		bounds = append(bounds, fmt.Sprintf("at least %d", *allowed.Least))
	}
	if allowed.Most != nil {
		holds = holds && r.Granted <= int64(*allowed.Most)
		bounds = append(bounds, fmt.Sprintf("at most %d", *allowed.Most))
	}
	if allowed.BelowIdeal != nil {
		least := float64(r.Ideal.Least) * (1 - float64(*allowed.BelowIdeal))
		holds = holds && float64(r.Granted) >= least
		bounds = append(bounds, fmt.Sprintf("at least %.1f (%.4g%% below the ideal)", least, 100*float64(*allowed.BelowIdeal)))
	}
	says := ""
	if len(bounds) > 0 {
		says = "; allowed: " + strings.Join(bounds, ", ")
	}
	r.check("successes", holds, "%d; an ideal limiter grants %d to %d%s", r.Granted, r.Ideal.Least, r.Ideal.Most, says)
}

func (r *Report) judgeMetrics() {
	if r.CountedGrants == nil {
		r.check("metrics", false, "they could not be read")
		return
	}
	same := *r.CountedGrants == r.Granted && *r.CountedDenials == r.Denied
	r.check("metrics", same, "%d granted and %d denied by the metrics, %d and %d by the answers", *r.CountedGrants, *r.CountedDenials, r.Granted, r.Denied)
}

// mostLateGrants is the share of the grants that need not have been seen in
// time for the spacing to be judged.
const mostLateGrants = 0.05

func (r *Report) judgeSpacing() {
	s := r.Spacing
	switch {
	case s.failure != nil:
		r.check("spacing", false, "the store could not be read after a grant: %v", s.failure)
	case s.Grants != r.Granted:
		r.check("spacing", false, "%d grants reached the service, %d were answered", s.Grants, r.Granted)
	case float64(s.Late) > mostLateGrants*float64(s.Grants):
		r.check("spacing", false, "%d of %d grants took longer than %v to be looked at, which is too late; this machine is too slow for the scenario", s.Late, s.Grants, s.Period)
	default:
		r.check("spacing", s.TooClose == 0, "%d of %d grants came less than %v after the one before, the smallest distance is %v on the store's clock; %d were looked at too late", s.TooClose, s.Grants, s.Period, s.Smallest, s.Late)
	}
}

// judgePerRequest checks what n is for each request, if the scenario has a bound.
func (r *Report) judgePerRequest(name, what string, n *int64, most *float64) {
	switch {
	case most == nil:
	case n == nil && name == "transactions":
		// The store is another one; the scenario still holds there.
	case n == nil:
		r.check(name, false, "they could not be counted")
	default:
		each := float64(*n) / float64(r.Requests)
		r.check(name, each <= *most, "%d %s, %.4f for each request; at most %v is allowed", *n, what, each, *most)
	}
}

func listed(failures map[string]int64) string {
	var b strings.Builder
	for _, why := range slices.Sorted(maps.Keys(failures)) {
		fmt.Fprintf(&b, "; %d failed: %s", failures[why], why)
	}
	return b.String()
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
