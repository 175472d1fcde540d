package loadtest

import (
	"os"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

func arrivalsAt(key string, milliseconds ...int) (all []arrival) {
	for _, ms := range milliseconds {
		all = append(all, arrival{time.Duration(ms) * time.Millisecond, key})
	}
	return all
}

func TestOracle(t *testing.T) {
	everySecond := &limit.Policy{Name: "l", Algorithm: algo.GCRA, Quota: 1, Window: time.Second}
	twoASecond := &limit.Policy{Name: "l", Algorithm: algo.Fixed, Quota: 2, Window: time.Second}
	for _, tt := range []struct {
		name      string
		policy    *limit.Policy
		instances [][]arrival
		want      Ideal
	}{
		{"one is granted", everySecond, [][]arrival{arrivalsAt("a", 0, 100, 200)}, Ideal{1, 1}},
		{"instances share the limit", everySecond, [][]arrival{arrivalsAt("a", 0, 1500), arrivalsAt("a", 100, 1600)}, Ideal{2, 2}},
		{"keys do not", everySecond, [][]arrival{arrivalsAt("a", 0, 100), arrivalsAt("b", 0, 100)}, Ideal{2, 2}},
		{"a period later, by a hair", everySecond, [][]arrival{arrivalsAt("a", 0, 1000)}, Ideal{1, 2}},
		{"another algorithm", twoASecond, [][]arrival{arrivalsAt("a", 100, 200, 300, 1100, 1200, 1300)}, Ideal{4, 4}},
	} {
		if got := ideal(tt.policy, tt.instances); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestFoundingIdeal: one request in 2 seconds for 10 minutes is 300 at most. An
// evenly spaced load loses some of them, whenever it is late by a hair.
func TestFoundingIdeal(t *testing.T) {
	text, err := os.ReadFile("../scenarios/partner-portal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, problems := Parse("partner-portal.yaml", text, 0)
	if s == nil {
		t.Fatal(problems)
	}
	if got, want := ideal(s.policy(), s.schedule()), (Ideal{296, 300}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestWhatALimitAdmits(t *testing.T) {
	gcra := &limit.Policy{Algorithm: algo.GCRA, Quota: 1, Window: 2 * time.Second}
	bursts := &limit.Policy{Algorithm: algo.GCRA, Quota: 10, Window: time.Second, Burst: 3}
	fixed := &limit.Policy{Algorithm: algo.Fixed, Quota: 10, Window: time.Second}
	for _, tt := range []struct {
		policy *limit.Policy
		span   time.Duration
		want   float64
	}{
		{gcra, 599990 * time.Millisecond, 300},
		{gcra, 600 * time.Second, 301},
		{bursts, 950 * time.Millisecond, 12},
		{fixed, 1500 * time.Millisecond, 30}, // of three windows
	} {
		if got := admits(tt.policy, tt.span); got != tt.want {
			t.Errorf("%+v in %v: %v, want %v", tt.policy.Limit(), tt.span, got, tt.want)
		}
	}
}
