package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
)

// TestDecisionScripts runs the scripts through the API: it gives the verdicts
// of the pure functions.
func TestDecisionScripts(t *testing.T) {
	for _, script := range limittest.Scripts() {
		t.Run(script.Name, func(t *testing.T) {
			s := &scripted{t: t}
			s.limiter = limit.New(memory.New(&memory.Options{Now: func() algo.Ticks { return s.now }}), nil)
			s.gate = gate.New(s.limiter, &gate.Snapshot{}, nil)
			s.api = New(s.gate, nil)
			script.Run(t, s)
		})
	}
}

// scripted is the API as a subject of decision scripts. A policy is a rule of
// its own, counted by the attribute key. What the API does not offer, refund
// and reset, is done behind its back.
type scripted struct {
	t       *testing.T
	now     algo.Ticks
	limiter *limit.Limiter
	gate    *gate.Gate
	api     http.Handler
}

func (s *scripted) At(now algo.Ticks) { s.now = now }

// Grain implements limittest.Coarse: the API tells spans in milliseconds.
func (s *scripted) Grain() time.Duration { return time.Millisecond }

func (s *scripted) Take(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	return s.ask(p, key, cost, false)
}

func (s *scripted) Peek(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	return s.ask(p, key, cost, true)
}

func (s *scripted) Refund(p *limit.Policy, key string, cost int64) (limit.Decision, error) {
	m := s.load(p, key)
	return s.limiter.Refund(context.Background(), m.Policies[0], m.Key, cost)
}

func (s *scripted) Reset(p *limit.Policy, key string) error {
	m := s.load(p, key)
	return s.limiter.Reset(context.Background(), m.Policies[0], m.Key)
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
	return set.Match(nil, descriptor{&Descriptor{Attributes: map[string]string{"key": key}}}, time.Now)[0]
}

func (s *scripted) ask(p *limit.Policy, key string, cost int64, peek bool) (limit.Decision, error) {
	m := s.load(p, key)
	if cost == 0 { // which for the API is the rule's own cost
		return s.limiter.Peek(context.Background(), m.Policies[0], m.Key, 0)
	}
	body, err := json.Marshal(Ask{Descriptors: []Descriptor{{Attributes: map[string]string{"key": key}}}, Cost: cost, Peek: peek})
	if err != nil {
		return limit.Decision{}, err
	}
	r := httptest.NewRequest(http.MethodPost, "/api/v1/decisions", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return limit.Decision{}, fmt.Errorf("status %d: %s", w.Code, w.Body)
	}
	var answer Answer
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		return limit.Decision{}, err
	}
	d := answer.Decisions[0]
	return limit.Decision{
		Policy: d.Policy, Allowed: d.Allowed, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfter: time.Duration(d.RetryAfterMS) * time.Millisecond,
		ResetAfter: time.Duration(d.ResetAfterMS) * time.Millisecond,
	}, nil
}
