package config_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/memory"
)

// newTokenGate decides requests for tokens by testdata/good/oauth.yaml.
func newTokenGate(t *testing.T) *gate.Gate {
	t.Helper()
	t.Setenv("OAUTH_STORE", "memory")
	c, problems := config.Load("testdata/good/oauth.yaml", nil)
	if c == nil || len(problems) > 0 {
		t.Fatal(printed(problems))
	}
	t.Cleanup(c.Close)
	limiter := limit.New(memory.New(nil), nil)
	t.Cleanup(func() { limiter.Close() })
	return gate.New(limiter, &gate.Snapshot{Rules: c.Rules, Identity: c.Identity}, nil)
}

// token is a request for a token.
type token struct {
	basic string // the client, as HTTP Basic authentication has it
	form  string
}

func (tok token) request() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/oauth/token", strings.NewReader(tok.form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if tok.basic != "" {
		r.SetBasicAuth(tok.basic, "secret")
	}
	return r
}

// admitted sends the same request n times and returns how many were let through.
func admitted(t *testing.T, g *gate.Gate, tok token, n int) (passed int) {
	t.Helper()
	for range n {
		var out gate.Outcome
		g.HTTP(tok.request(), &out)
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		if out.Allowed {
			passed++
		}
	}
	return passed
}

const (
	forItself = "grant_type=client_credentials"
	forAnn    = "grant_type=password&username=ann&password=x"
	forBob    = "grant_type=password&username=bob&password=x"
	aCode     = "grant_type=authorization_code&code=abc"
)

// TestOAuth: an application that acts for itself counts by client, and one
// that acts for a user by client and user.
func TestOAuth(t *testing.T) {
	type step struct {
		token
		sent, admitted int
	}
	for name, steps := range map[string][]step{
		"by client":                     {{token{"shop", forItself}, 110, 100}, {token{"other", forItself}, 110, 100}},
		"by client and user":            {{token{"shop", forAnn}, 20, 10}, {token{"shop", forBob}, 20, 10}, {token{"other", forAnn}, 20, 10}},
		"one does not spend the other":  {{token{"shop", forItself}, 110, 100}, {token{"shop", forAnn}, 20, 10}, {token{"shop", forItself}, 1, 0}},
		"a user's name changes nothing": {{token{"shop", forItself + "&username=ann"}, 60, 60}, {token{"shop", forItself + "&username=bob"}, 60, 40}},
		"a client in the form":          {{token{"", forItself + "&client_id=shop"}, 60, 60}, {token{"shop", forItself}, 60, 40}},
		"a client spelled otherwise":    {{token{"my shop", forItself}, 60, 60}, {token{"my+shop", forItself}, 20, 20}, {token{"%6dy%20shop", forItself}, 60, 20}},
		"a client with its own quota":   {{token{"partner", forItself}, 510, 500}},
		"a client that is trusted":      {{token{"checkout", forItself}, 590, 590}, {token{"checkout", forAnn}, 10, 10}},
		"a grant without a user":        {{token{"shop", aCode}, 590, 590}},
		"a grant that comes twice":      {{token{"shop", forItself + "&" + forAnn}, 20, 10}},
		"clients that are made up":      {{token{"shop", forAnn}, 10, 10}, {token{"checkout", forItself}, 600, 590}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newTokenGate(t)
			for _, s := range steps {
				if got := admitted(t, g, s.token, s.sent); got != s.admitted {
					t.Errorf("%q, %s: %d of %d admitted, want %d", s.basic, s.form, got, s.sent, s.admitted)
				}
			}
		})
	}
}

// TestOAuthInShadow: the rule that is tried out reports what it would deny.
func TestOAuthInShadow(t *testing.T) {
	g := newTokenGate(t)
	if got := admitted(t, g, token{"shop", forAnn}, 5); got != 5 {
		t.Fatalf("%d of 5 admitted", got)
	}
	var out gate.Outcome
	g.HTTP(token{"shop", forAnn}.request(), &out)
	var said []string
	for _, d := range out.Decisions {
		verdict := d.Policy + " denies"
		if d.Allowed {
			verdict = d.Policy + " allows"
		}
		said = append(said, verdict)
	}
	if diff := cmp.Diff([]string{"users allows", "addresses allows", "users-next denies"}, said); !out.Allowed || diff != "" {
		t.Errorf("allowed=%v (-want +got):\n%s", out.Allowed, diff)
	}
}
