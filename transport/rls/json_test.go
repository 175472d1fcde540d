package rls_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/rls"
)

func TestJSON(t *testing.T) {
	s := httptest.NewServer(rls.JSON(newGate(t, on("user", "user", 1, time.Minute, "user")), &rls.Options{Headers: httpanswer.None}))
	defer s.Close()
	const alex = `{"domain": "d", "descriptors": [{"entries": [{"key": "user", "value": "alex"}]}]}`
	for _, tt := range []struct {
		method, body string
		status       int
		want         any // the answer, or what a problem's detail holds
	}{
		{"POST", alex, 200, answers(ok("user", 1, 0, minute, 60))},
		{"POST", alex, 429, answers(over("user", 1, minute, 60))},
		{"POST", `{"domain":"d","hitsAddend":1,"descriptors":[{"entries":[{"key":"other"}],"hitsAddend":"3"}]}`, 200, answers(unmatched())},
		{"GET", "", 405, "GET is not allowed here"},
		{"POST", "", 400, "body: "},
		{"POST", `{"domain":`, 400, "body: "},
		{"POST", `{"domains": "d"}`, 400, `unknown field`},
		{"POST", `{"descriptors": [{"entries": [{"key": "user"}]}]}`, 400, "domain: is empty"},
		{"POST", `{"domain": "d"}`, 400, "descriptors: none"},
		{"POST", `{"domain": "d", "descriptors": [{"entries": [{"key": "user"}], "limit": {"unit": 99}}]}`, 400, "descriptors[0].limit.unit: 99"},
		{"POST", `{"domain": "` + strings.Repeat("d", 1<<20) + `"}`, 413, "body: more than 1048576 bytes"},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), tt.method, s.URL+"/json", strings.NewReader(tt.body))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		short := tt.body[:min(len(tt.body), 90)]
		if answer.StatusCode != tt.status {
			t.Errorf("%s: status %d, want %d: %s", short, answer.StatusCode, tt.status, body)
		}
		if text, isText := tt.want.(string); isText {
			if !strings.Contains(string(body), text) || answer.Header.Get("Content-Type") != httpanswer.ContentType {
				t.Errorf("%s: %s\nlacks %q", short, body, text)
			}
			continue
		}
		got := new(pb.RateLimitResponse)
		if err := protojson.Unmarshal(body, got); err != nil {
			t.Errorf("%s: %v: %s", short, err, body)
		}
		if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", short, diff)
		}
	}
}

func TestJSONUndecided(t *testing.T) {
	rule := on("user", "user", 1, time.Minute, "user")
	rule.OnStoreError = "deny"
	set, problems := rules.Compile(rules.Spec{Rules: []rules.RuleSpec{rule}})
	if set == nil {
		t.Fatal(problems)
	}
	limiter := limit.New(failing{memory.New(nil)}, nil)
	t.Cleanup(func() { limiter.Close() })
	w := httptest.NewRecorder()
	rls.JSON(gate.New(limiter, &gate.Snapshot{Rules: set}, nil), nil).ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader(`{"domain":"d","descriptors":[{"entries":[{"key":"user"}]}]}`)))
	if w.Code != 503 || strings.Contains(w.Body.String(), "10.0.0.5") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
