package isolation

import (
	"net/http"
	"slices"
	"time"
)

// Result is what one measurement has shown, while the incident lasted. Spans of time are
// in nanoseconds.
type Result struct {
	// P50, P99 and Longest are how long the victims' requests took, without those
	// that were refused; of one that was not answered, how long its caller waited.
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Longest time.Duration `json:"longest_ns"`
	// Goodput is the part of the victims' requests that got what they wanted.
	Goodput float64 `json:"goodput"`
	Asked   int64   `json:"asked"`
	// Late is how late the 99th of 100 of them was sent. It is a part of what it took
	// that is the machine's fault, which had other things to do.
	Late    time.Duration `json:"late_ns"`
	Refused int64         `json:"refused"`
	GivenUp int64         `json:"given_up"` // for want of an answer
	Errors  int64         `json:"errors"`
	// FirstError is the first of Errors.
	FirstError string `json:"first_error,omitempty"`
	// Utilisation is the part of the time that the seats' workers worked.
	Utilisation    float64 `json:"utilisation"`
	NoisyAsked     int64   `json:"noisy_asked"`
	NoisyRefused   int64   `json:"noisy_refused"`
	NoisyPerSecond float64 `json:"noisy_per_second"` // that were answered well
	// Series is the course of the victims' requests, those before the incident
	// too.
	Series []Moment `json:"series"`
}

// Moment is what the victims' requests were like that were due in a span of time.
type Moment struct {
	At      time.Duration `json:"at_ns"` // its beginning, since the load began
	Every   time.Duration `json:"every_ns"`
	Asked   int64         `json:"asked"`
	Good    int64         `json:"good"`
	P50     time.Duration `json:"p50_ns"`
	Longest time.Duration `json:"longest_ns"`
}

// moments is how many a Series has.
const moments = 50

// judge adds up what became of the victims' requests.
func judge(all []sample, begins, ends time.Duration) *Result {
	r := &Result{}
	slices.SortFunc(all, func(a, b sample) int { return int(a.due - b.due) })
	var took, late []time.Duration
	for _, one := range all {
		if one.due < begins {
			continue
		}
		r.Asked++
		late = append(late, one.late)
		switch {
		case one.err == errGivenUp:
			r.GivenUp++
		case one.err != nil:
			if r.Errors++; r.FirstError == "" {
				r.FirstError = one.err.Error()
			}
			continue
		case one.status != http.StatusOK:
			r.Refused++
			continue
		}
		took = append(took, one.took)
	}
	slices.Sort(took)
	slices.Sort(late)
	r.Late = quantile(late, .99)
	r.P50, r.P99, r.Longest = quantile(took, .5), quantile(took, .99), quantile(took, 1)
	r.Goodput = float64(r.Asked-r.Refused-r.GivenUp-r.Errors) / float64(max(1, r.Asked))
	r.Series = series(all, ends/moments)
	return r
}

// series returns the course of samples that are in order.
func series(all []sample, every time.Duration) []Moment {
	course := make([]Moment, moments)
	for i := range course {
		m := &course[i]
		m.At, m.Every = time.Duration(i)*every, every
		var took []time.Duration
		for len(all) > 0 && (all[0].due < m.At+every || i == moments-1) {
			m.Asked++
			if one := all[0]; one.status == http.StatusOK {
				m.Good++
				took = append(took, one.took)
			} else if one.err == errGivenUp {
				took = append(took, one.took)
			}
			all = all[1:]
		}
		slices.Sort(took)
		m.P50, m.Longest = quantile(took, .5), quantile(took, 1)
	}
	return course
}

// quantile returns the least of what is sorted that so many of it do not exceed; 0 if
// there is nothing.
func quantile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
