package replay_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/replay"
	"github.com/stint-dev/stint/rules"
)

// arrivals is a random log in JSON, in steps that often fall on the bounds of
// a window.
func arrivals(t *rapid.T, keys int) string {
	var log strings.Builder
	at := start.UnixMilli()
	for range rapid.IntRange(1, 200).Draw(t, "arrivals") {
		at += rapid.SampledFrom([]int64{0, 0, 1, 10, 100, 900, 1000, 3333, 10_000, 25_000}).Draw(t, "step")
		fmt.Fprintf(&log, `{"time":%d,"user":"u%d"}`+"\n", at, rapid.IntRange(1, keys).Draw(t, "user"))
	}
	return log.String()
}

// TestSuggestionDeniesNoMore replays with the quota that was suggested, which
// must deny no more of the keys than allowed, and with one less, which must
// deny more.
func TestSuggestionDeniesNoMore(t *testing.T) {
	for _, algorithm := range []string{"gcra", "sliding", "sliding-proportional", "log", "fixed"} {
		for _, burst := range []*int64{nil, new(int64(3))} {
			if burst != nil && algorithm != "gcra" {
				continue
			}
			name := algorithm
			if burst != nil {
				name += " with a burst"
			}
			t.Run(name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { checkSuggestion(t, algorithm, burst) })
			})
		}
	}
}

func checkSuggestion(t *rapid.T, algorithm string, burst *int64) {
	const keys = 5
	share := rapid.SampledFrom([]float64{0, 0.2, 0.25, 0.5}).Draw(t, "share")
	cost := rapid.Int64Range(1, 3).Draw(t, "cost")
	log := arrivals(t, keys)
	replayWith := func(quota int64) replay.RuleReport {
		spec := rules.Spec{Rules: []rules.RuleSpec{{
			Name: "r", Key: []string{"user"}, Cost: cost,
			Limits: []rules.LimitSpec{{Algorithm: algorithm, Quota: quota, Burst: burst, Window: rules.Duration(10 * time.Second)}},
		}}}
		report, err := replay.Run(t.Context(), replay.Options{Spec: spec, Logs: []string{"-"}, Stdin: strings.NewReader(log), Suggest: &share})
		if err != nil {
			t.Fatal(err)
		}
		return report.Rules[0]
	}
	first := replayWith(1000)
	s := first.Suggestion
	if s.Quota == nil {
		if burst == nil {
			t.Fatalf("no quota suggested: %+v", s)
		}
		return
	}
	allowed := int64(math.Floor(share * float64(s.Keys)))
	with := replayWith(*s.Quota)
	if with.KeysDenied > allowed || with.KeysDenied != int64(s.KeysDenied) {
		t.Fatalf("quota %d denies %d of %d keys, at most %d are allowed and %d were foretold", *s.Quota, with.KeysDenied, s.Keys, allowed, s.KeysDenied)
	}
	if *with.Suggestion.Quota != *s.Quota {
		t.Fatalf("the suggestion depends on the quota in force: %d, then %d", *s.Quota, *with.Suggestion.Quota)
	}
	if less := *s.Quota - 1; s.Exact && less >= cost {
		if got := replayWith(less); got.KeysDenied <= allowed {
			t.Fatalf("quota %d denies %d of %d keys only, and %d was suggested", less, got.KeysDenied, s.Keys, *s.Quota)
		}
	}
}

// TestSuggestionIsAQuantile has 100 addresses, of which the n-th comes n times
// in one window.
func TestSuggestionIsAQuantile(t *testing.T) {
	var log strings.Builder
	for n := 1; n <= 100; n++ {
		for range n {
			log.WriteString(combined(fmt.Sprintf("192.0.2.%d", n), 0, "/"))
		}
	}
	for share, want := range map[float64]int64{0: 100, 0.01: 99, 0.1: 90, 0.105: 90, 0.29: 71, 0.99: 1} {
		report := run(t, replay.Options{Spec: perIP("fixed", 5), Logs: []string{"-"}, Stdin: strings.NewReader(log.String()), Suggest: &share})
		s := report.Rules[0].Suggestion
		if *s.Quota != want || s.Keys != 100 || int64(s.KeysDenied) != 100-want || !s.Exact {
			t.Errorf("share %v: quota %d denies %d of %d; want %d", share, *s.Quota, s.KeysDenied, s.Keys, want)
		}
	}
}

func TestSuggestionFromASample(t *testing.T) {
	report := run(t, replay.Options{
		Spec: perIP("fixed", 0), Logs: []string{"-"}, Stdin: &generated{lines: 20_000, keys: 10_000}, Suggest: new(0.01), MaxKeys: 1000,
	})
	rule := report.Rules[0]
	s := rule.Suggestion
	if s.Exact || s.SampledOf < 8 || s.Keys > 1000 || s.Keys < 200 || *s.Quota != 1 {
		t.Errorf("%+v", s)
	}
	if !rule.KeysEstimated || rule.KeysDenied < 8000 || rule.KeysDenied > 12000 {
		t.Errorf("about %d keys denied, want about 10000", rule.KeysDenied)
	}
	if k := rule.Top[0]; k.Error == 0 || k.Hits-k.Error > 2 {
		t.Errorf("every key was denied twice; reported %+v", k)
	}
}

func TestOverriddenCallersAreLeftOutOfASuggestion(t *testing.T) {
	spec := perIP("fixed", 1)
	spec.Rules[0].Overrides = []rules.OverrideSpec{
		{When: map[string]rules.Pattern{"ip": "192.0.2.1"}, Limits: []rules.LimitSpec{{Quota: 50, Window: rules.Duration(10 * time.Second)}}},
		{When: map[string]rules.Pattern{"ip": "192.0.2.2"}, Exempt: true},
	}
	log := strings.Repeat(combined("192.0.2.1", 0, "/"), 9) + strings.Repeat(combined("192.0.2.2", 0, "/"), 9) + combined("192.0.2.3", 0, "/")
	report := run(t, replay.Options{Spec: spec, Logs: []string{"-"}, Stdin: strings.NewReader(log), Suggest: new(0.0)})
	rule := report.Rules[0]
	if rule.Requests != 10 || rule.Denied != 0 || *rule.Suggestion.Quota != 1 || rule.Suggestion.Keys != 1 {
		t.Errorf("%+v, %+v", rule, rule.Suggestion)
	}
}

func TestNoQuotaIsLargeEnough(t *testing.T) {
	burst := int64(1)
	gcra := perIP("gcra", 100)
	gcra.Rules[0].Limits[0].Burst = &burst
	twice := strings.Repeat(combined("192.0.2.1", 0, "/"), 2)
	often := strings.Repeat(combined("192.0.2.1", 0, "/"), 4097)
	for _, tt := range []struct {
		spec rules.Spec
		log  string
		want string
	}{
		{gcra, twice, "more than burst 1 came at one instant"},
		{perIP("log", 1), often, "more is needed than log can count"},
	} {
		report := run(t, replay.Options{Spec: tt.spec, Logs: []string{"-"}, Stdin: strings.NewReader(tt.log), Suggest: new(0.0)})
		var table strings.Builder
		if err := report.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(table.String()), "\n")
		last := lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "LIMIT") })+1]
		if report.Rules[0].Suggestion.Quota != nil || !strings.Contains(last, "none") || !strings.HasSuffix(last, tt.want) {
			t.Errorf("%s; want none, %s", last, tt.want)
		}
	}
}
