package telemetry_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/telemetry"
)

var (
	byClient = &rules.Rule{Name: "by-client"}
	tried    = &rules.Rule{Name: "tried", Shadow: true}
)

// said is what a rule said of a request that is counted by an attribute.
func said(rule *rules.Rule, request int, attribute, value string, allowed bool) gate.Decision {
	key := string(rune(len(attribute))) + attribute + string(rune(len(value))) + value
	return gate.Decision{Rule: rule, Request: request, Key: key, Decision: limit.Decision{Allowed: allowed}}
}

// clientSeries returns the series of clients as the metrics have them, without zeros.
func clientSeries(m *telemetry.Metrics) (series []string) {
	for line := range strings.Lines(scrape(m)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "stint_client_decisions_total"); ok && !strings.HasSuffix(name, " 0") {
			series = append(series, name)
		}
	}
	return series
}

func TestTopClientsCountRequests(t *testing.T) {
	m := telemetry.NewMetrics("test")
	c := m.TopClients("client", 20)
	for _, out := range []gate.Outcome{
		{Allowed: true, Decisions: []gate.Decision{said(byClient, 0, "client", "shop", true)}},
		// Two limits and a shadow are one request.
		{Allowed: true, Decisions: []gate.Decision{said(byClient, 0, "client", "shop", true), said(byClient, 0, "client", "shop", true), said(tried, 0, "client", "shop", true)}},
		{Allowed: true, Decisions: []gate.Decision{said(byClient, 0, "client", "shop", true), said(tried, 0, "ip", "::1", false)}},
		{Allowed: true, Decisions: []gate.Decision{said(tried, 0, "client", "shop", false)}},
		// Another rule's denial is one, too.
		{Allowed: false, Decisions: []gate.Decision{said(byClient, 0, "client", "shop", true), said(byClient, 0, "ip", "::1", false)}},
		// Two requests that are decided together.
		{Allowed: true, Decisions: []gate.Decision{
			said(byClient, 0, "client", "one", true), said(byClient, 1, "client", "two", true),
			said(tried, 0, "client", "one", true), said(tried, 1, "client", "two", false), said(tried, 2, "client", "three", true),
		}},
		// Of nobody.
		{Allowed: true, Decisions: []gate.Decision{said(byClient, 0, "ip", "::1", true)}},
		{Allowed: true},
		{Err: errors.New("down"), Status: 503},
		{Allowed: true, Decisions: []gate.Decision{said(byClient, 0, "client", "\xff\"\n", true)}},
	} {
		c.Decided(&out, time.Microsecond)
	}
	want := []string{
		`{client="\"\\xff\\\"\\n\"",outcome="allowed"} 1`,
		`{client="one",outcome="allowed"} 1`,
		`{client="shop",outcome="allowed"} 2`,
		`{client="shop",outcome="denied"} 1`,
		`{client="shop",outcome="would_deny"} 2`,
		`{client="three",outcome="allowed"} 1`,
		`{client="two",outcome="would_deny"} 1`,
	}
	if diff := cmp.Diff(want, clientSeries(m)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTopClientsAreThoseOfThePresent: the series are bounded, whoever calls,
// and who has stopped makes room for who has begun.
func TestTopClientsAreThoseOfThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics("test")
		c := m.TopClients("client", 3)
		calls := func(client string, n int) {
			for range n {
				c.Decided(&gate.Outcome{Allowed: true, Decisions: []gate.Decision{said(byClient, 0, "client", client, true)}}, 0)
			}
		}
		names := func() (names []string) {
			for _, series := range clientSeries(m) {
				names = append(names, strings.Split(series, `"`)[1])
			}
			return names
		}
		for i := range 10_000 {
			calls(fmt.Sprint("random", i), 1)
		}
		calls("old", 8000)
		calls("steady", 7000)
		calls("third", 6000)
		if got := names(); !slices.Equal(got, []string{"old", "steady", "third"}) {
			t.Errorf("at the top are %v", got)
		}
		time.Sleep(time.Hour)
		calls("steady", 50)
		calls("new", 40)
		calls("newer", 30)
		if got := names(); !slices.Equal(got, []string{"new", "newer", "steady"}) {
			t.Errorf("an hour later, at the top are %v", got)
		}
		if !slices.Contains(clientSeries(m), `{client="steady",outcome="allowed"} 7050`) {
			t.Errorf("the count of who stays has changed: %v", clientSeries(m))
		}
	})
}
