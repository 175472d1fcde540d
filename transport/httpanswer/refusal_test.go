package httpanswer_test

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/httpanswer"
)

func TestWrite(t *testing.T) {
	outage := &rules.Rule{Name: "outage", Status: 503}
	secret := errors.New("sqlite: update: disk I/O error on /var/lib/secret.db")

	tests := []struct {
		name    string
		outcome gate.Outcome
		status  int
		retry   string
		limit   string
		body    string
	}{{
		"a quota is exceeded",
		gate.Outcome{Status: 429, RetryAfter: 8100 * time.Millisecond, Decisions: []gate.Decision{
			denies("items", 1, 10*time.Second, 8100*time.Millisecond),
			admits("daily", 1000, 900, 24*time.Hour, 300*time.Second),
		}},
		429, "9", `"items";r=0;t=9,"daily";r=900;t=300`,
		`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
			`"detail":"Policy \"items\" allows 1 in 10s, and this request would exceed that. Try again in 9s.",` +
			`"instance":"/items/alex%2Fb","violated-policies":["items"]}`,
	}, {
		"several are: the one that lasts longest is explained",
		gate.Outcome{Status: 429, RetryAfter: 90 * time.Minute, Decisions: []gate.Decision{
			denies("items", 1, 10*time.Second, 8*time.Second),
			denies("daily", 100, 24*time.Hour, 90*time.Minute),
			under(shadow, denies("trial", 1, time.Hour, 23*time.Hour)),
		}},
		429, "5400", `"items";r=0;t=8,"daily";r=0;t=5400`,
		`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
			`"detail":"Policy \"daily\" allows 100 in 1d, and this request would exceed that. Try again in 1h30m.",` +
			`"instance":"/items/alex%2Fb","violated-policies":["items","daily"]}`,
	}, {
		"Retry-After is at least a second, and a policy is named once",
		gate.Outcome{Status: 429, RetryAfter: time.Millisecond, Decisions: []gate.Decision{
			denies("items", 100, time.Second, time.Millisecond),
			of(1, denies("items", 100, time.Second, time.Millisecond)),
		}},
		429, "1", `"items";r=0;t=1`,
		`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
			`"detail":"Policy \"items\" allows 100 in 1s, and this request would exceed that. Try again in 1s.",` +
			`"instance":"/items/alex%2Fb","violated-policies":["items"]}`,
	}, {
		"a rule that denies with 503",
		gate.Outcome{Status: 503, RetryAfter: 2 * time.Second, Decisions: []gate.Decision{
			under(outage, denies("capacity", 50, time.Second, 2*time.Second)),
		}},
		503, "2", `"capacity";r=0;t=2`,
		`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
			`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,` +
			`"detail":"Policy \"capacity\" allows 50 in 1s, and this request would exceed that. Try again in 2s.",` +
			`"instance":"/items/alex%2Fb","violated-policies":["capacity"]}`,
	}, {
		"a rule for an API",
		gate.Outcome{Status: 429, RetryAfter: 2 * time.Second, Decisions: []gate.Decision{
			under(&rules.Rule{Name: "rule-1", Status: 429, API: "/entity/#"}, denies("rule-1", 10, time.Minute, 2*time.Second)),
		}},
		429, "2", `"rule-1";r=0;t=2`,
		`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
			`"detail":"Policy \"rule-1\" allows 10 of /entity/# in 1m, and this request would exceed that. Try again in 2s.",` +
			`"instance":"/items/alex%2Fb","violated-policies":["rule-1"]}`,
	}, {
		"no seat for a caller that has all of its own",
		gate.Outcome{Status: 503, RetryAfter: 2 * time.Second, Refused: &isolate.Rejection{Reason: isolate.QueueFull}, AtOnce: 3},
		503, "2", "",
		`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
			`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,` +
			`"detail":"Too many requests of this caller are running and waiting: 3 at once are allowed, and 0 more may wait. Try again in 2s.",` +
			`"instance":"/items/alex%2Fb"}`,
	}, {
		"a store that does not answer, whose words stay inside",
		gate.Outcome{Status: 503, RetryAfter: time.Second, Err: secret},
		503, "1", "",
		`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
			`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,` +
			`"detail":"The limits of this request could not be checked. Try again in 1s.",` +
			`"instance":"/items/alex%2Fb"}`,
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/items/alex%2Fb?token=secret", nil)
			httpanswer.Write(w, r, httpanswer.Draft10, &test.outcome)

			h := w.Header()
			got := []any{w.Code, h.Get("Retry-After"), h.Get("RateLimit"), h.Get("Content-Type"), h.Get("Cache-Control"), strings.TrimSpace(w.Body.String())}
			want := []any{test.status, test.retry, test.limit, "application/problem+json", "no-store", test.body}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// What a client is told to wait must end no earlier than any t of a policy
// that denies, even if an Outcome says so.
func TestRetryAfterIsNotBeforeT(t *testing.T) {
	tests := []struct {
		outcome, policy time.Duration
		want            string
	}{
		{0, 0, "1"},
		{time.Second, 7 * time.Second, "7"},
		{7*time.Second + 1, time.Second, "8"},
		{math.MaxInt64, time.Second, "9223372036"},
	}
	for _, test := range tests {
		h := http.Header{}
		httpanswer.SetRetryAfter(h, &gate.Outcome{Status: 429, RetryAfter: test.outcome, Decisions: []gate.Decision{
			denies("a", 1, time.Minute, test.policy),
			under(shadow, denies("b", 1, time.Minute, time.Hour)),
		}})
		if got := h.Get("Retry-After"); got != test.want {
			t.Errorf("outcome %v, policy %v: Retry-After is %s; want %s", test.outcome, test.policy, got, test.want)
		}
	}
}

func TestProblemOfALongPath(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/"+strings.Repeat("a", 5000), nil)
	httpanswer.Problem{Status: http.StatusBadGateway, Detail: "No."}.Write(w, r)
	if got, want := strings.TrimSpace(w.Body.String()), `{"title":"Bad Gateway","status":502,"detail":"No."}`; got != want {
		t.Errorf("body is %s; want %s", got, want)
	}
}
