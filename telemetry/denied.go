package telemetry

import (
	"log/slog"
	"sync"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/rules"
)

// Observers tells several observers what a gate decides.
type Observers []gate.Observer

// Decided implements gate.Observer.
func (os Observers) Decided(out *gate.Outcome, took time.Duration) {
	for _, o := range os {
		o.Decided(out, took)
	}
}

// DenialLog writes a log line for requests that are refused, or would be by a
// rule in shadow: at most so many a second, and how many it left out.
type DenialLog struct {
	logger    *slog.Logger
	perSecond int

	mu      sync.Mutex
	second  time.Time
	written int
	left    int
}

// NewDenialLog returns a DenialLog that writes at most perSecond lines a
// second to logger. With 0 it writes none.
func NewDenialLog(logger *slog.Logger, perSecond int) *DenialLog {
	return &DenialLog{logger: logger, perSecond: perSecond}
}

// Decided implements gate.Observer.
func (l *DenialLog) Decided(out *gate.Outcome, _ time.Duration) {
	if out.Err != nil {
		if left, ok := l.admit(); ok {
			l.logger.Error("request could not be decided", "error", out.Err, "left_out", left)
		}
		return
	}
	if r := out.Refused; r != nil {
		if left, ok := l.admit(); ok {
			l.logger.Info("request got no seat", "tenant", rules.DescribeKey(r.Tenant), "reason", r.Reason.String(),
				"waited", out.SeatWaited, "retry_after", out.RetryAfter, "left_out", left)
		}
		return
	}
	for i := range out.Decisions {
		d := &out.Decisions[i]
		if d.Allowed {
			continue
		}
		left, ok := l.admit()
		if !ok {
			continue
		}
		what := "request denied"
		if d.Rule.Shadow {
			what = "request would be denied"
		}
		l.logger.Info(what, "rule", d.Rule.Name, "policy", d.Policy, "key", rules.DescribeKey(d.Key),
			"limit", d.Limit, "retry_after", d.RetryAfter, "left_out", left)
	}
}

// admit reports whether one more line may be written this second, and how many
// were left out since the last one.
func (l *DenialLog) admit() (left int, ok bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.second) >= time.Second {
		l.second, l.written = now, 0
	}
	if l.written >= l.perSecond {
		l.left++
		return 0, false
	}
	l.written++
	left, l.left = l.left, 0
	return left, true
}
