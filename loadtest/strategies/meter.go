package strategies

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what one measurement has shown. Spans of time are in nanoseconds.
type Result struct {
	// PerSecond is how many requests were decided, errors not among them.
	PerSecond float64       `json:"per_second"`
	Granted   int64         `json:"granted"`
	Denied    int64         `json:"denied"`
	GrantP50  time.Duration `json:"grant_p50_ns"`
	GrantP99  time.Duration `json:"grant_p99_ns"`
	DenialP50 time.Duration `json:"denial_p50_ns"`
	DenialP99 time.Duration `json:"denial_p99_ns"`
	// Worst is the longest that an answer or an error took.
	Worst     time.Duration `json:"worst_ns"`
	Deadlocks int64         `json:"deadlocks"`
	Errors    int64         `json:"errors"` // others than deadlocks
	// FirstError is the first of Errors.
	FirstError string `json:"first_error,omitempty"`
	// StatementsPerDecision is of the medians only. It was counted in a run of its
	// own.
	StatementsPerDecision float64 `json:"statements_per_decision,omitempty"`
}

func (r *Result) decisions() int64 { return r.Granted + r.Denied }

// meter adds up answers. It is safe for simultaneous use.
type meter struct {
	mu              sync.Mutex
	took            time.Duration // all of it
	granted, denied *hdrhistogram.Histogram
	worst           time.Duration
	deadlocks       int64
	errors          int64
	first           error
}

func newMeter() *meter {
	most := (2 * callTime).Microseconds()
	return &meter{granted: hdrhistogram.New(1, most, 3), denied: hdrhistogram.New(1, most, 3)}
}

func (m *meter) add(ok bool, err error, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.worst = max(m.worst, took)
	span := min(took, 2*callTime).Microseconds()
	switch {
	case failedWith(err, deadlockDetected):
		m.deadlocks++
	case err != nil:
		if m.errors++; m.first == nil {
			m.first = err
		}
	case ok:
		m.granted.RecordValue(span) // within bounds it takes everything
	default:
		m.denied.RecordValue(span)
	}
}

func (m *meter) result() *Result {
	at := func(h *hdrhistogram.Histogram, p float64) time.Duration {
		return time.Duration(h.ValueAtPercentile(p)) * time.Microsecond
	}
	r := &Result{
		Granted: m.granted.TotalCount(), Denied: m.denied.TotalCount(),
		GrantP50: at(m.granted, 50), GrantP99: at(m.granted, 99),
		DenialP50: at(m.denied, 50), DenialP99: at(m.denied, 99),
		Worst: m.worst, Deadlocks: m.deadlocks, Errors: m.errors,
	}
	r.PerSecond = float64(r.decisions()) / m.took.Seconds()
	if m.first != nil {
		r.FirstError = m.first.Error()
	}
	return r
}
