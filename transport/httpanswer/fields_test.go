package httpanswer_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/httpanswer"
)

var (
	enforced = &rules.Rule{Name: "enforced", Status: 429}
	shadow   = &rules.Rule{Name: "shadow", Status: 429, Shadow: true}
)

// admits is a decision that leaves remaining of quota per window.
func admits(policy string, quota, remaining int64, window, reset time.Duration) gate.Decision {
	return gate.Decision{Rule: enforced, Window: window, Decision: limit.Decision{
		Policy: policy, Allowed: true, Limit: quota, Remaining: remaining, ResetAfter: reset,
	}}
}

// denies is a decision that admits again after retry.
func denies(policy string, quota int64, window, retry time.Duration) gate.Decision {
	return gate.Decision{Rule: enforced, Window: window, Decision: limit.Decision{
		Policy: policy, Limit: quota, RetryAfter: retry, ResetAfter: window,
	}}
}

func under(r *rules.Rule, d gate.Decision) gate.Decision {
	d.Rule = r
	return d
}

func of(request int, d gate.Decision) gate.Decision {
	d.Request = request
	return d
}

func TestSetHeaders(t *testing.T) {
	burst := admits("burst", 100, 50, time.Minute, 30*time.Second)
	daily := admits("daily", 1000, 900, 24*time.Hour, 43_000*time.Second)
	unknown := under(enforced, gate.Decision{Window: time.Second, Decision: limit.Decision{Policy: "a", Limit: 5, Allowed: true, Degraded: true}})

	tests := []struct {
		name      string
		decisions []gate.Decision
		policy    string
		limit     string
	}{{
		"one item for each policy",
		[]gate.Decision{burst, daily},
		`"burst";q=100;w=60,"daily";q=1000;w=86400`,
		`"burst";r=50;t=30,"daily";r=900;t=43000`,
	}, {
		"a denial: t is when the same request is admitted",
		[]gate.Decision{denies("burst", 100, time.Minute, 600*time.Millisecond), daily},
		`"burst";q=100;w=60,"daily";q=1000;w=86400`,
		`"burst";r=0;t=1,"daily";r=900;t=43000`,
	}, {
		"t rounds up, never down",
		[]gate.Decision{admits("a", 5, 4, time.Second, time.Second+time.Microsecond)},
		`"a";q=5;w=1`,
		`"a";r=4;t=2`,
	}, {
		"w is whole seconds, at least one",
		[]gate.Decision{admits("a", 5, 4, time.Millisecond, 0), admits("b", 5, 4, 1500*time.Millisecond, 0)},
		`"a";q=5;w=1,"b";q=5;w=2`,
		`"a";r=4;t=0,"b";r=4;t=0`,
	}, {
		"integers have 15 digits at most",
		[]gate.Decision{admits("a", math.MaxInt64, math.MaxInt64-1, time.Second, time.Second)},
		`"a";q=999999999999999;w=1`,
		`"a";r=999999999999999;t=1`,
	}, {
		"names are escaped",
		[]gate.Decision{admits("a\"b\\c\r\n\u00e9", 5, 4, time.Second, time.Second)},
		`"a\"b\\c%0D%0A%C3%A9";q=5;w=1`,
		`"a\"b\\c%0D%0A%C3%A9";r=4;t=1`,
	}, {
		"shadow is not advertised",
		[]gate.Decision{burst, under(shadow, denies("trial", 1, time.Hour, time.Hour))},
		`"burst";q=100;w=60`,
		`"burst";r=50;t=30`,
	}, {
		"what was let pass without a store is not advertised",
		[]gate.Decision{burst, unknown},
		`"burst";q=100;w=60`,
		`"burst";r=50;t=30`,
	}, {
		"several requests: the policy nearest to exhaustion",
		[]gate.Decision{burst, daily, of(1, admits("burst", 100, 20, time.Minute, 48*time.Second)), of(1, daily)},
		`"burst";q=100;w=60`,
		`"burst";r=20;t=48`,
	}, {
		"nothing was asked",
		nil, "", "",
	}, {
		"only shadow was asked",
		[]gate.Decision{under(shadow, burst)}, "", "",
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := http.Header{}
			if slices.ContainsFunc(test.decisions, func(d gate.Decision) bool { return d.Degraded }) {
				want.Set("Stint-Degraded", "store")
			}
			if test.policy != "" {
				want.Set("RateLimit-Policy", test.policy)
				want.Set("RateLimit", test.limit)
			}
			got := http.Header{}
			httpanswer.SetHeaders(got, httpanswer.Draft10, &gate.Outcome{Decisions: test.decisions})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMoreThan16PoliciesAreNotListed(t *testing.T) {
	for _, n := range []int{16, 17} {
		var ds []gate.Decision
		for i := range n {
			ds = append(ds, admits(fmt.Sprintf("p%d", i), 100, int64(50-i), time.Minute, time.Second))
		}
		h := http.Header{}
		httpanswer.SetHeaders(h, httpanswer.Draft10, &gate.Outcome{Decisions: ds})
		got := h.Get("RateLimit")
		if nearest := fmt.Sprintf(`"p%d";r=%d;t=1`, n-1, 51-n); n > 16 && got != nearest {
			t.Errorf("%d policies: RateLimit is %s; want %s", n, got, nearest)
		} else if n <= 16 && len(got) < n*len(`"p0";r=1;t=1`) {
			t.Errorf("%d policies: RateLimit is %s; want all", n, got)
		}
	}
}

func TestSetHeadersDialects(t *testing.T) {
	quiet := admits("quiet", 1000, 900, 24*time.Hour, time.Hour)
	near := admits("near", 100, 3, time.Minute, 58_200*time.Millisecond)
	denied := denies("denied", 10, time.Minute, 5900*time.Millisecond)
	longer := denies("longer", 20, time.Hour, 6100*time.Millisecond)
	slower := admits("slower", 100, 3, time.Hour, 3500*time.Second)

	tests := []struct {
		name                    string
		decisions               []gate.Decision
		limit, remaining, reset string
	}{
		{"the fewest units remaining", []gate.Decision{quiet, near}, "100", "3", "59"},
		{"as few, for longer", []gate.Decision{near, slower}, "100", "3", "3500"},
		{"a denial before all", []gate.Decision{near, denied, quiet}, "10", "0", "6"},
		{"the longest of several denials", []gate.Decision{denied, longer}, "20", "0", "7"},
	}
	for _, dialect := range []struct {
		dialect httpanswer.Dialect
		prefix  string
	}{{httpanswer.Draft03, "X-RateLimit-"}, {httpanswer.Legacy, "RateLimit-"}} {
		for _, test := range tests {
			t.Run(dialect.dialect.String()+"/"+test.name, func(t *testing.T) {
				want := http.Header{}
				want.Set(dialect.prefix+"Limit", test.limit)
				want.Set(dialect.prefix+"Remaining", test.remaining)
				want.Set(dialect.prefix+"Reset", test.reset)
				got := http.Header{}
				httpanswer.SetHeaders(got, dialect.dialect, &gate.Outcome{Decisions: test.decisions})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("fields (-want +got):\n%s", diff)
				}
			})
		}
	}
	got := http.Header{}
	httpanswer.SetHeaders(got, httpanswer.None, &gate.Outcome{Decisions: []gate.Decision{near}})
	if len(got) > 0 {
		t.Errorf("dialect none sets %v", got)
	}
}

func TestDegradedDecisionsAreTold(t *testing.T) {
	without := func(d gate.Decision) gate.Decision {
		d.Degraded = true
		return d
	}
	near := admits("near", 100, 3, time.Minute, time.Second)
	for _, test := range []struct {
		name      string
		dialect   httpanswer.Dialect
		decisions []gate.Decision
		want      string
	}{
		{"with the store", httpanswer.Draft10, []gate.Decision{near}, ""},
		{"counted here", httpanswer.Draft10, []gate.Decision{near, without(near)}, "store"},
		{"denied here", httpanswer.Draft03, []gate.Decision{without(denies("near", 100, time.Minute, time.Second))}, "store"},
		{"let pass", httpanswer.Legacy, []gate.Decision{without(admits("near", 100, 0, time.Minute, 0))}, "store"},
		{"in shadow", httpanswer.Draft10, []gate.Decision{near, without(under(shadow, near))}, ""},
		{"no fields", httpanswer.None, []gate.Decision{without(near)}, ""},
	} {
		h := http.Header{}
		httpanswer.SetHeaders(h, test.dialect, &gate.Outcome{Decisions: test.decisions})
		if got := h.Get("Stint-Degraded"); got != test.want {
			t.Errorf("%s: Stint-Degraded is %q; want %q", test.name, got, test.want)
		}
	}
}

func TestSetHeadersReplaces(t *testing.T) {
	h := http.Header{}
	h.Set("RateLimit", `"upstream";r=1`)
	httpanswer.SetHeaders(h, httpanswer.Draft10, &gate.Outcome{Decisions: []gate.Decision{admits("a", 5, 4, time.Second, time.Second)}})
	if got := h.Values("RateLimit"); len(got) != 1 || got[0] != `"a";r=4;t=1` {
		t.Errorf("RateLimit is %q", got)
	}
	// A handler that adds a value must not write into the policy's.
	h.Add("RateLimit-Policy", `"own";q=1`)
	if got := h.Get("RateLimit"); got != `"a";r=4;t=1` {
		t.Errorf("after a RateLimit-Policy was added, RateLimit is %q", got)
	}
}

func TestParseDialect(t *testing.T) {
	for _, d := range []httpanswer.Dialect{httpanswer.Draft10, httpanswer.Draft03, httpanswer.Legacy, httpanswer.None} {
		if got, err := httpanswer.ParseDialect(d.String()); got != d || err != nil {
			t.Errorf("ParseDialect(%q) = %v, %v", d.String(), got, err)
		}
	}
	if got, err := httpanswer.ParseDialect(""); got != httpanswer.Draft10 || err != nil {
		t.Errorf(`ParseDialect("") = %v, %v; want draft10`, got, err)
	}
	_, err := httpanswer.ParseDialect("draft-10")
	const want = `"draft-10" is not a dialect of rate limit headers; draft10, draft03, legacy, none are allowed`
	if err == nil || err.Error() != want {
		t.Errorf("error %v; want %s", err, want)
	}
}

func TestSetHeadersAllocations(t *testing.T) {
	out := &gate.Outcome{Decisions: []gate.Decision{
		admits("burst", 100, 50, time.Minute, 30*time.Second),
		admits("daily", 1000, 900, 24*time.Hour, 43_000*time.Second),
	}}
	for _, d := range []httpanswer.Dialect{httpanswer.Draft10, httpanswer.Draft03, httpanswer.Legacy} {
		h := http.Header{}
		if n := testing.AllocsPerRun(100, func() { httpanswer.SetHeaders(h, d, out) }); n > 2 {
			t.Errorf("%v: %v allocations; want 2", d, n)
		}
	}
}

func BenchmarkSetHeaders(b *testing.B) {
	out := &gate.Outcome{Decisions: []gate.Decision{admits("burst", 100, 50, time.Minute, 30*time.Second)}}
	for _, d := range []httpanswer.Dialect{httpanswer.Draft10, httpanswer.Draft03} {
		b.Run(d.String(), func(b *testing.B) {
			h := http.Header{}
			b.ReportAllocs()
			for b.Loop() {
				httpanswer.SetHeaders(h, d, out)
			}
		})
	}
}
