package loadtest

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/memory"
)

// recording is a recorder over a store whose clock is set by hand, as two
// instances would use it.
type recording struct {
	*recorder
	t     *testing.T
	now   algo.Ticks
	old   time.Duration // how long ago the requests were sent
	store *memory.Store
	rule  *limit.Policy
}

func record(t *testing.T) *recording {
	r := &recording{t: t, now: algo.Second, rule: &limit.Policy{Name: "items", Algorithm: algo.GCRA, Quota: 1, Window: 200 * time.Millisecond}}
	r.store = memory.New(&memory.Options{Now: func() algo.Ticks { return r.now }})
	keyOf, err := scenario(t).keyReader()
	if err != nil {
		t.Fatal(err)
	}
	if r.recorder, err = listen(r.store, 200*time.Millisecond, keyOf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.recorder.close)
	return r
}

// grant spends from a user's limit in the store, if decide is set, and lets
// the service know of the grant.
func (r *recording) grant(path, user string, decide bool) {
	r.t.Helper()
	if key := "\x04user" + string(rune(len(user))) + user; decide {
		if d, err := limit.New(r.store, nil).Take(r.t.Context(), r.rule, key, 1); err != nil || !d.Allowed {
			r.t.Fatalf("%+v, %v", d, err)
		}
	}
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+path+user, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set(sentHeader, (time.Since(r.began) - r.old).String())
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != 200 {
		r.t.Fatalf("%d, %v", answer.StatusCode, err)
	}
}

func TestSpacingOfGrants(t *testing.T) {
	r := record(t)
	r.grant("/items/", "alex", true)
	r.now += 50 * algo.Millisecond
	r.grant("/items/", "max", true) // somebody else
	r.now += 150 * algo.Millisecond
	r.grant("/items/", "alex", true)
	r.now += 300 * algo.Millisecond
	r.grant("/items/", "alex", true)

	s := r.spacing()
	if s.Grants != 4 || s.TooClose != 0 || s.Smallest != 200*time.Millisecond || s.failure != nil {
		t.Errorf("%+v", s)
	}
}

// TestSpacingFindsAGrantTooMany: one that the store has never made shows as the
// instant of the one before, and one too early as a distance too small.
func TestSpacingFindsAGrantTooMany(t *testing.T) {
	r := record(t)
	r.grant("/items/", "alex", true)
	r.now += 100 * algo.Millisecond
	r.grant("/items/", "alex", false)
	if s := r.spacing(); s.TooClose != 1 || s.Smallest != 0 {
		t.Errorf("%+v", s)
	}
	r = record(t)
	r.grant("/items/", "alex", true)
	r.now += 199 * algo.Millisecond
	r.rule.Window = 150 * time.Millisecond // a limiter that is wrong
	r.grant("/items/", "alex", true)
	if s := r.spacing(); s.TooClose != 1 || s.Smallest != 199*time.Millisecond {
		t.Errorf("%+v", s)
	}
}

// TestSpacingPassesOverWhatComesTooLate: the store may have made another grant
// meanwhile, and the reading would be of that.
func TestSpacingPassesOverWhatComesTooLate(t *testing.T) {
	r := record(t)
	r.grant("/items/", "alex", true)
	r.old = 200 * time.Millisecond
	r.grant("/items/", "alex", false)
	if s := r.spacing(); s.Grants != 2 || s.Late != 1 || s.TooClose != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSpacingOfWhatNoRuleIsFor(t *testing.T) {
	r := record(t)
	r.grant("/others/", "alex", false)
	s := r.spacing()
	if want := "GET /others/alex reached the service, and no rule with the promised limit is for it"; s.failure == nil || s.failure.Error() != want {
		t.Errorf("%v, want %s", s.failure, want)
	}
}

func TestRunNeedsASharedStore(t *testing.T) {
	for store, want := range map[string]string{
		"memory":      "store: memory is not shared between instances; name a database, or sqlite:FILE",
		"oracle://db": `store: "oracle" is not a store; memory, sqlite:FILE, env:NAME, or the URL of a postgres, mysql, mariadb, mongodb or redis is allowed`,
	} {
		_, err := Run(t.Context(), scenario(t), &Options{Store: store})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", store, err, want)
		}
	}
}

// TestInstancesThatDoNotStart: the error has what the process said last.
func TestInstancesThatDoNotStart(t *testing.T) {
	s := scenario(t, "  spacing: true", "  spacing: false")
	binary := filepath.Join(t.TempDir(), "absent")
	if _, err := Run(t.Context(), s, &Options{Binary: binary}); err == nil {
		t.Error("a binary that is not there: no error")
	}
	s.Instances.Config, s.Instances.Command, s.Instances.Ready = "", []string{"sh", "-c", "echo port ${api} is taken; exit 3"}, "http://${api}/"
	_, err := Run(t.Context(), s, &Options{})
	if err == nil {
		t.Fatal("a command that fails: no error")
	}
	const want = `^instance 0 ended before it was ready \(exit status 3\); its last words:\nport 127.0.0.1:\d+ is taken$`
	if !matches(want, err.Error()) {
		t.Errorf("%v; want %s", err, want)
	}
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }
