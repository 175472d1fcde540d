package rest

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/memory"
)

const header = "Idempotency-Key"

// left returns how many items of user remain.
func (a *testAPI) left(t testing.TB, user string) int64 {
	t.Helper()
	peek := strings.TrimSuffix(one(user), "}") + `,"peek":true}`
	return decoded(t, a.post(t, peek)).Decisions[0].Remaining
}

func TestSameKeyIsChargedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAPI(t)
		first := a.post(t, one("alex"), header, "k1")
		time.Sleep(10*time.Minute - time.Second)
		again := a.post(t, one("alex"), header, "k1")

		if first.Header().Get("Idempotency-Replayed") != "" || again.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("Idempotency-Replayed: %q, then %q", first.Header().Get("Idempotency-Replayed"), again.Header().Get("Idempotency-Replayed"))
		}
		again.Header().Del("Idempotency-Replayed")
		if diff := cmp.Diff(first.Header(), again.Header()); diff != "" || first.Body.String() != again.Body.String() {
			t.Errorf("the second answer is %s, with header (-first +second):\n%s", again.Body, diff)
		}
		if n := a.left(t, "alex"); n != 2 {
			t.Errorf("%d items remain; want 2: what was spent is long back, and nothing was spent again", n)
		}

		time.Sleep(time.Second)
		if late := a.post(t, one("alex"), header, "k1"); late.Header().Get("Idempotency-Replayed") != "" || a.left(t, "alex") != 1 {
			t.Error("after 10 minutes the key is still remembered")
		}
	})
}

func TestDenialsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAPI(t)
		for range 2 {
			a.post(t, one("alex"))
		}
		for range 2 {
			if got := decoded(t, a.post(t, one("alex"), header, "k1")); got.Allowed || got.RetryAfterMS != 5000 {
				t.Errorf("answer is %+v; want the same denial", got)
			}
			time.Sleep(time.Minute)
		}
		if got := decoded(t, a.post(t, one("alex"), header, "k2")); !got.Allowed {
			t.Errorf("answer with a new key is %+v", got)
		}
	})
}

func TestSameKeyWithAnotherBody(t *testing.T) {
	a := newTestAPI(t)
	a.post(t, one("alex"), header, "k1")
	w := a.post(t, one("kim"), header, "k1")
	if w.Code != 422 || detail(t, w) != "Idempotency-Key: the key was used with another body; send a new key with a new request" {
		t.Errorf("answer is %d %s", w.Code, w.Body)
	}
	if n := a.left(t, "kim"); n != 2 {
		t.Errorf("%d items remain; want 2", n)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	a := newTestAPI(t)
	const want = "Idempotency-Key: one of 1 to 255 visible ASCII characters is allowed"
	for _, key := range []string{"", "a b", "caf\u00e9", "a\x7f", strings.Repeat("k", 256)} {
		if w := a.post(t, one("alex"), header, key); w.Code != 400 || detail(t, w) != want {
			t.Errorf("key %q: %d %s", key, w.Code, w.Body)
		}
	}
	r := request(t, one("alex"))
	r.Header[header] = []string{"k1", "k2"}
	w := httptest.NewRecorder()
	if a.ServeHTTP(w, r); w.Code != 400 || detail(t, w) != want {
		t.Errorf("two keys: %d %s", w.Code, w.Body)
	}
	if w := a.post(t, one("alex"), header, strings.Repeat("~", 255)); w.Code != 200 {
		t.Errorf("255 characters: %d %s", w.Code, w.Body)
	}
}

// slowStore answers updates when it is told to, or fails.
type slowStore struct {
	limit.Store
	answer chan error
}

func (s slowStore) Update(ctx context.Context, keys []string, fn func(algo.Ticks, []limit.Cell) error) error {
	if err := <-s.answer; err != nil {
		return &limit.StoreError{Store: "slow", Op: "update", Err: err}
	}
	return s.Store.Update(ctx, keys, fn)
}

func newSlowAPI(t testing.TB) (*testAPI, slowStore) {
	s := slowStore{memory.New(nil), make(chan error)}
	return &testAPI{New(newTestGate(t, s), nil), s, newContract(t)}, s
}

// begin posts in the background.
func (a *testAPI) begin(ctx context.Context, t testing.TB, key string) <-chan *httptest.ResponseRecorder {
	done := make(chan *httptest.ResponseRecorder, 1)
	r := request(t, `{"descriptors":[{"path":"/report"}]}`, header, key).WithContext(ctx)
	go func() {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		done <- w
	}()
	synctest.Wait()
	return done
}

func TestRepeatWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := newSlowAPI(t)
		first := a.begin(t.Context(), t, "k1")
		second := a.begin(t.Context(), t, "k1")
		if len(first)+len(second) > 0 {
			t.Fatal("answered before the store has")
		}
		s.answer <- nil // there is no second update to answer
		one, two := <-first, <-second
		if one.Code != 200 || two.Code != 200 || one.Body.String() != two.Body.String() {
			t.Errorf("answers are %d %s and %d %s", one.Code, one.Body, two.Code, two.Body)
		}
		if one.Header().Get("Idempotency-Replayed") != "" || two.Header().Get("Idempotency-Replayed") != "true" {
			t.Error("want the second answer marked as replayed, and only that")
		}
	})
}

func TestFailuresAreNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := newSlowAPI(t)
		first := a.begin(t.Context(), t, "k1")
		second := a.begin(t.Context(), t, "k1")
		s.answer <- errors.New("disk full")
		if w := <-first; w.Code != 503 {
			t.Errorf("first answer is %d %s", w.Code, w.Body)
		}
		s.answer <- nil // the second has become the first
		if w := <-second; w.Code != 200 || w.Header().Get("Idempotency-Replayed") != "" {
			t.Errorf("second answer is %d %s", w.Code, w.Body)
		}
	})
}

// Who loses the connection while the store is at work gets the answer with the
// next try, and is not charged again.
func TestCallerWhoLeavesFindsTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := newSlowAPI(t)
		ctx, leave := context.WithCancel(t.Context())
		first := a.begin(ctx, t, "k1")
		leave()
		synctest.Wait()
		s.answer <- nil
		<-first
		if w := <-a.begin(t.Context(), t, "k1"); w.Code != 200 || w.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("answer is %d %s", w.Code, w.Body)
		}
	})
}

func TestWaitingCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := newSlowAPI(t)
		first := a.begin(t.Context(), t, "k1")
		ctx, leave := context.WithCancel(t.Context())
		second := a.begin(ctx, t, "k1")
		leave()
		if w := <-second; w.Code != 503 {
			t.Errorf("answer to a caller who left is %d", w.Code)
		}
		s.answer <- nil
		<-first
	})
}

func sum(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }

func TestOldestAnswerIsForgotten(t *testing.T) {
	tests := []struct {
		name string
		max  int
		size int // of an answer
	}{{"by number", 2, 10}, {"by size", 10_000, maxAnswerBytes / 2}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newReplays(test.max)
			body := make([]byte, test.size)
			ask := func(key string) (replayed bool) {
				_, replayed, err := p.do(t.Context(), key, sum("x"), func() (answer, error) { return answer{body: body}, nil })
				if err != nil {
					t.Fatal(err)
				}
				return replayed
			}
			for _, key := range []string{"a", "b", "c"} {
				if ask(key) {
					t.Errorf("%s is answered from memory the first time", key)
				}
			}
			if !ask("c") || !ask("b") {
				t.Error("the two newest answers are forgotten")
			}
			if ask("a") {
				t.Error("the oldest answer is remembered")
			}
			if len(p.attempts) != 2 || len(p.answered) != 2 || p.bytes != 2*test.size {
				t.Errorf("%d attempts, %d answers, %d bytes are kept", len(p.attempts), len(p.answered), p.bytes)
			}
		})
	}
}

func TestAttemptThatPanicsIsForgotten(t *testing.T) {
	p := newReplays(10)
	func() {
		defer func() { recover() }()
		p.do(t.Context(), "k", sum("x"), func() (answer, error) { panic("boom") })
	}()
	if _, replayed, err := p.do(t.Context(), "k", sum("x"), func() (answer, error) { return answer{}, nil }); replayed || err != nil {
		t.Errorf("after a panic: replayed %v, %v", replayed, err)
	}
}
