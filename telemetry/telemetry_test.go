package telemetry_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/telemetry"
)

func compile(t *testing.T, names ...string) *rules.Set {
	var spec rules.Spec
	for i, name := range names {
		spec.Rules = append(spec.Rules, rules.RuleSpec{
			Name: name, Shadow: i == 1,
			Match:  rules.MatchSpec{Path: "/" + name},
			Limits: []rules.LimitSpec{{Quota: 1, Window: rules.Duration(time.Second)}},
		})
	}
	set, problems := rules.Compile(spec)
	if set == nil {
		t.Fatal(problems)
	}
	return set
}

// decided is an outcome in which rule said allowed.
func decided(rule *rules.Rule, allowed bool) *gate.Outcome {
	return &gate.Outcome{
		Allowed:   allowed || rule.Shadow,
		Decisions: []gate.Decision{{Decision: limit.Decision{Policy: rule.Name, Allowed: allowed, Limit: 1}, Rule: rule, Key: "\x04user\x04alex"}},
	}
}

func scrape(m *telemetry.Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	m := telemetry.NewMetrics("v1.2.3")
	set := compile(t, "login", "candidate")
	m.Loaded(set)
	login, candidate := set.Rules()[0], set.Rules()[1]
	for range 3 {
		m.Decided(decided(login, true), time.Microsecond)
	}
	m.Decided(decided(login, false), time.Microsecond)
	m.Decided(decided(candidate, false), time.Microsecond)
	m.Decided(&gate.Outcome{Status: 503, Err: errors.New("down")}, time.Microsecond)
	m.Decided(&gate.Outcome{Allowed: true, Waited: time.Second}, time.Microsecond)
	m.Updated(17, time.Millisecond, nil)
	m.Updated(1, time.Millisecond, errors.New("down"))
	m.Updated(0, time.Millisecond, nil) // the limiter's own affairs
	m.Remembered()
	m.Breaker(true)
	m.Breaker(false)
	m.Breaker(true)
	m.Nodes(3)
	m.Reloaded(false)

	text := scrape(m)
	for _, want := range []string{
		`stint_decisions_total{outcome="allowed",rule="login"} 3`,
		`stint_decisions_total{outcome="denied",rule="login"} 1`,
		`stint_decisions_total{outcome="would_deny",rule="candidate"} 1`,
		`stint_decisions_total{outcome="denied",rule="candidate"} 0`,
		`stint_policy_units_per_second{policy="login"} 1`,
		`stint_requests_total{outcome="allowed"} 5`,
		`stint_requests_total{outcome="denied"} 1`,
		`stint_requests_total{outcome="error"} 1`,
		`stint_decision_duration_seconds_count 7`,
		`stint_queue_wait_seconds_count 1`,
		`stint_store_updates_total{outcome="ok"} 2`,
		`stint_store_updates_total{outcome="error"} 1`,
		`stint_store_update_spends_sum 18`,
		`stint_store_update_spends_count 2`,
		`stint_denials_remembered_total 1`,
		`stint_store_breaker_open 1`,
		`stint_store_breaker_openings_total 2`,
		`stint_nodes 3`,
		`stint_config_reloads_total{outcome="error"} 1`,
		`stint_config_current 0`,
		`stint_build_info{version="v1.2.3"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("lacks %s", want)
		}
	}
	if strings.Contains(text, "alex") {
		t.Error("a key is in the metrics")
	}
}

func TestSeriesOfRulesThatAreGoneEnd(t *testing.T) {
	m := telemetry.NewMetrics("test")
	before := compile(t, "old", "shadow", "kept")
	m.Loaded(before)
	m.Decided(decided(before.Rules()[2], true), 0)
	m.Loaded(compile(t, "kept", "new"))
	m.Decided(decided(before.Rules()[0], true), 0) // one that was still under way
	text := scrape(m)
	if strings.Contains(text, `rule="old"`) {
		t.Error("a rule that is gone still has a series")
	}
	if !strings.Contains(text, `stint_decisions_total{outcome="allowed",rule="kept"} 1`) {
		t.Error("a rule that stays has lost its count")
	}
}

// The limiter finds these methods by asking its Observer for them.
var (
	_ limit.Observer        = (*telemetry.Metrics)(nil)
	_ limit.BreakerObserver = (*telemetry.Metrics)(nil)
	_ limit.NodesObserver   = (*telemetry.Metrics)(nil)
	_ limit.SyncObserver    = (*telemetry.Metrics)(nil)
)

func TestMetricsOfSyncedRules(t *testing.T) {
	of := func(mode string, names ...string) *rules.Set {
		var spec rules.Spec
		for _, name := range names {
			spec.Rules = append(spec.Rules, rules.RuleSpec{
				Name: name, Mode: mode, Match: rules.MatchSpec{Path: "/" + name},
				Limits: []rules.LimitSpec{{Quota: 1, Window: rules.Duration(time.Second)}},
			})
		}
		set, problems := rules.Compile(spec)
		if set == nil {
			t.Fatal(problems)
		}
		return set
	}
	m := telemetry.NewMetrics("test")
	m.Overshot("tokens", 1) // before there are rules
	m.Loaded(of("synced", "tokens", "old"))
	m.Synced(1000, 2, 3, time.Millisecond, nil)
	m.Synced(10, 1, 0, time.Millisecond, errors.New("down"))
	m.Overshot("tokens", 7)
	m.Overshot("tokens", 5)
	m.Overshot("made-up", 1)

	text := scrape(m)
	for _, want := range []string{
		`stint_sync_rounds_total{outcome="ok"} 1`,
		`stint_sync_rounds_total{outcome="error"} 1`,
		`stint_sync_duration_seconds_count 2`,
		`stint_sync_keys 10`,
		`stint_sync_statements_total 3`,
		`stint_sync_conflicts_total 3`,
		`stint_overshoot_units_total{policy="tokens"} 12`,
		`stint_overshoot_units_total{policy="old"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("lacks %s", want)
		}
	}
	m.Loaded(of("synced", "tokens"))
	m.Overshot("old", 1)
	m.Overshot("tokens", 1)
	text = scrape(m)
	if strings.Contains(text, "made-up") || strings.Contains(text, `policy="old"`) {
		t.Error("a policy that is not in the rules has a series")
	}
	if !strings.Contains(text, `stint_overshoot_units_total{policy="tokens"} 13`) {
		t.Error("a policy that stays has lost its count")
	}
	m.Loaded(of("exact", "tokens"))
	if strings.Contains(scrape(m), `stint_overshoot_units_total{policy="tokens"}`) {
		t.Error("a policy that is exact has a series of overshoot")
	}
}

func TestDenialLogIsSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := telemetry.NewDenialLog(slog.New(slog.NewTextHandler(&out, nil)), 2)
		set := compile(t, "login", "candidate")
		for range 5 {
			l.Decided(decided(set.Rules()[0], false), 0)
		}
		l.Decided(decided(set.Rules()[0], true), 0) // says nothing
		time.Sleep(time.Second)
		l.Decided(decided(set.Rules()[1], false), 0)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 {
			t.Fatalf("%d lines, want 3:\n%s", len(lines), &out)
		}
		for i, want := range []string{
			`msg="request denied" rule=login policy=login key="user=alex" limit=1`,
			`left_out=0`,
			`msg="request would be denied" rule=candidate policy=candidate key="user=alex" limit=1 retry_after=0s left_out=3`,
		} {
			if !strings.Contains(lines[i], want) {
				t.Errorf("line %d: %s\nlacks %s", i, lines[i], want)
			}
		}
	})
}

func TestDenialLogNamesTheError(t *testing.T) {
	var out bytes.Buffer
	l := telemetry.NewDenialLog(slog.New(slog.NewTextHandler(&out, nil)), 10)
	l.Decided(&gate.Outcome{Status: 503, Err: fmt.Errorf("sqlite: update: %w", errors.New("disk full"))}, 0)
	if !strings.Contains(out.String(), `level=ERROR msg="request could not be decided" error="sqlite: update: disk full"`) {
		t.Error(out.String())
	}
}
