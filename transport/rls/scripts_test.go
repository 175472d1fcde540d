package rls_test

import (
	"context"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/rls"
)

// TestDecisionScripts runs the scripts through the service: it gives the verdicts
// of the pure functions, as far as the protocol can tell them.
func TestDecisionScripts(t *testing.T) {
	for _, script := range limittest.Scripts() {
		t.Run(script.Name, func(t *testing.T) {
			s := &scripted{t: t}
			s.limiter = limit.New(memory.New(&memory.Options{Now: func() algo.Ticks { return s.now }}), nil)
			s.gate = gate.New(s.limiter, &gate.Snapshot{}, nil)
			_, conn := serve(t, s.gate, &rls.Options{Headers: httpanswer.None})
			s.client = pb.NewRateLimitServiceClient(conn)
			script.Run(t, s)
		})
	}
}

// scripted is the service as a subject of decision scripts. A policy is a rule of
// its own, counted by the entry key. What the protocol does not offer, to look for
// more than one unit, to refund and to reset, is done behind its back.
type scripted struct {
	t       *testing.T
	now     algo.Ticks
	limiter *limit.Limiter
	gate    *gate.Gate
	client  pb.RateLimitServiceClient
}

func (s *scripted) At(now algo.Ticks) { s.now = now }

// Grain implements limittest.Coarse: the protocol tells spans in seconds.
func (s *scripted) Grain() time.Duration { return time.Second }

func (s *scripted) Peek(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	m := s.load(p, key)
	return coarse(s.limiter.Peek(context.Background(), m.Policies[0], m.Key, cost))
}

func (s *scripted) Refund(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	m := s.load(p, key)
	return coarse(s.limiter.Refund(context.Background(), m.Policies[0], m.Key, cost))
}

func (s *scripted) Reset(p *limit.Policy, key string) error {
	m := s.load(p, key)
	return s.limiter.Reset(context.Background(), m.Policies[0], m.Key)
}

// coarse rounds up as the protocol does.
func coarse(d limit.Decision, err error) (limit.Decision, error) {
	for _, span := range []*time.Duration{&d.RetryAfter, &d.ResetAfter} {
		*span = (*span + time.Second - 1).Truncate(time.Second)
	}
	return d, err
}

// load makes p the only rule, and returns how it matches key.
func (s *scripted) load(p *limit.Policy, key string) rules.Match {
	spec := rules.LimitSpec{Algorithm: p.Algorithm.Name, Quota: p.Quota, Window: rules.Duration(p.Window)}
	if p.Algorithm.Bursts && p.Burst > 0 {
		spec.Burst = &p.Burst
	}
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{{Name: p.Name, Key: []string{"key"}, Limits: []rules.LimitSpec{spec}}}})
	if set == nil {
		s.t.Fatal(problems)
	}
	s.gate.Swap(&gate.Snapshot{Rules: set})
	return set.Match(nil, keyed(key), time.Now)[0]
}

// keyed is a request with nothing but the attribute key.
type keyed string

func (keyed) Method() string       { return "" }
func (keyed) Host() string         { return "" }
func (keyed) Path() string         { return "" }
func (keyed) Header(string) string { return "" }
func (k keyed) Attribute(name string) (string, bool) {
	return string(k), name == "key"
}

func (s *scripted) Take(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	s.load(p, key)
	if cost == 0 { // which over the protocol looks for one unit
		return s.Peek(p, key, 0)
	}
	answer, err := s.client.ShouldRateLimit(s.t.Context(), ask(costing(uint64(cost), d("key", key))))
	if err != nil {
		return limit.Decision{}, err
	}
	told := answer.Statuses[0]
	got := limit.Decision{
		Policy:    told.CurrentLimit.GetName(),
		Allowed:   told.Code == pb.RateLimitResponse_OK,
		Limit:     int64(told.CurrentLimit.GetRequestsPerUnit()),
		Remaining: int64(told.LimitRemaining),
	}
	after := told.DurationUntilReset.AsDuration()
	if got.Allowed {
		got.ResetAfter = after
		return got, nil
	}
	// The protocol tells one span, of a denial that until the next try.
	now, err := s.Peek(p, key, 0)
	got.RetryAfter, got.ResetAfter = after, now.ResetAfter
	return got, err
}
