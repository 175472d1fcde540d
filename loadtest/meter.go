package loadtest

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// sample is one request and what became of it.
type sample struct {
	due    time.Duration // since the beginning of the load
	late   time.Duration // how much later it was sent
	took   time.Duration // from when it was due until its answer was read
	key    string
	status int   // 0 if there was no answer
	err    error // why not
}

func (s *sample) granted() bool { return s.status >= 200 && s.status <= 299 }

const (
	// tooLate is by how much a request must be sent late to be counted as late.
	tooLate = 10 * time.Millisecond
	// mostFailures bounds how many kinds of failure are told apart.
	mostFailures = 20
)

// meter adds up samples. It is safe for simultaneous use.
type meter struct {
	mu       sync.Mutex
	every    time.Duration // a bucket
	buckets  []bucket
	all      histogram
	granted  histogram
	denied   histogram
	statuses map[int]int64
	failures map[string]int64
	grants   map[string]int64 // by key
	late     int64
	latest   time.Duration
}

// bucket is the requests that were due in one stretch of time.
type bucket struct {
	granted, denied int64
	took            histogram
}

// newMeter returns a meter for a load that lasts for span.
func newMeter(span time.Duration) *meter {
	m := &meter{every: bucketOf(span), all: newHistogram(3), granted: newHistogram(3), denied: newHistogram(3),
		statuses: map[int]int64{}, failures: map[string]int64{}, grants: map[string]int64{}}
	m.buckets = make([]bucket, max(1, (span+m.every-1)/m.every))
	for i := range m.buckets {
		m.buckets[i].took = newHistogram(2)
	}
	return m
}

// bucketOf returns a round stretch of time of which span has 30 to 75.
func bucketOf(span time.Duration) time.Duration {
	for unit := 10 * time.Millisecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if span <= 75*n*unit {
				return n * unit
			}
		}
	}
}

func (m *meter) add(s sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := &m.buckets[min(len(m.buckets)-1, int(s.due/m.every))]
	if s.late > tooLate {
		m.late++
	}
	m.latest = max(m.latest, s.late)
	m.all.record(s.took)
	b.took.record(s.took)
	if s.err != nil {
		m.fail(s.err.Error())
		return
	}
	m.statuses[s.status]++
	if s.granted() {
		b.granted++
		m.grants[s.key]++
		m.granted.record(s.took)
		return
	}
	b.denied++
	m.denied.record(s.took)
}

func (m *meter) fail(why string) {
	if _, known := m.failures[why]; !known && len(m.failures) >= mostFailures {
		why = "others"
	}
	m.failures[why]++
}

// so far returns what has been counted until now.
func (m *meter) soFar() (requests, granted, denied, failed, late int64, p99 time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.failures {
		failed += n
	}
	return m.all.TotalCount(), m.granted.TotalCount(), m.denied.TotalCount(), failed, m.late, m.all.percentile(99)
}

// histogram counts spans of time in microseconds, up to mostSpan.
type histogram struct{ *hdrhistogram.Histogram }

const mostSpan = 5 * time.Minute

// newHistogram returns one that keeps so many digits.
func newHistogram(digits int) histogram {
	return histogram{hdrhistogram.New(1, mostSpan.Microseconds(), digits)}
}

func (h histogram) record(d time.Duration) {
	h.RecordValue(min(max(d, 0), mostSpan).Microseconds()) // within bounds it takes everything
}

func (h histogram) percentile(p float64) time.Duration {
	return time.Duration(h.ValueAtPercentile(p)) * time.Microsecond
}
