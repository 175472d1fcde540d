package identity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/stint-dev/stint/identity"
)

// issuer serves a key set, and counts how often it is asked.
type issuer struct {
	mu     sync.Mutex
	keys   []jose.JSONWebKey
	down   bool
	served atomic.Int32
}

func (i *issuer) publish(signers ...*signer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
	for _, s := range signers {
		i.keys = append(i.keys, jose.JSONWebKey{Key: s.public, KeyID: s.id, Use: "sig"})
	}
}

func (i *issuer) setDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *issuer) document() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	data, _ := json.Marshal(jose.JSONWebKeySet{Keys: i.keys})
	return data
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	i.served.Add(1)
	i.mu.Lock()
	down := i.down
	i.mu.Unlock()
	if down {
		http.Error(w, "out of order", http.StatusBadGateway)
		return
	}
	w.Write(i.document())
}

// RoundTrip makes an issuer reachable without a network.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

func TestRotation(t *testing.T) {
	old, next := newSigner(t, "RS256", "2025"), newSigner(t, "ES256", "2026")
	var i issuer
	i.publish(old)
	server := httptest.NewServer(&i)
	defer server.Close()
	var now atomic.Int64
	id := open(t, "attributes: {user: [{jwt: {jwks_url: '"+server.URL+"/keys'}}]}", &identity.Options{
		Clock: func() time.Time { return noon.Add(time.Duration(now.Load())) },
	})
	step := func(what string, s *signer, want string, served int32) {
		t.Helper()
		if got := ask(id, withToken(s.sign(t, claims{"sub": "ann"})), "user"); got != want {
			t.Errorf("%s: user = %q, want %q", what, got, want)
		}
		if n := i.served.Load(); n != served {
			t.Errorf("%s: the issuer was asked %d times, want %d", what, n, served)
		}
	}
	step("the key of the start", old, "ann", 1)
	step("a key that nobody knows", next, "-", 2)
	i.publish(old, next)
	step("published, but asked a moment ago", next, "-", 2)
	now.Add(int64(30 * time.Second))
	step("asked again", next, "ann", 3)
	step("known now", next, "ann", 3)
	step("the old key still holds", old, "ann", 3)

	i.publish(next)
	now.Add(int64(30 * time.Second))
	step("a key that nobody knows makes it read again", newSigner(t, "ES256", "x"), "-", 4)
	step("the old key is gone", old, "-", 4)
}

func TestManyTokensOfANewKeyAskTheIssuerOnce(t *testing.T) {
	old, next := newSigner(t, "ES256", "1"), newSigner(t, "ES256", "2")
	var i issuer
	i.publish(old)
	server := httptest.NewServer(&i)
	defer server.Close()
	id := open(t, "attributes: {user: [{jwt: {jwks_url: '"+server.URL+"'}}]}", nil)
	i.publish(old, next)
	token := next.sign(t, claims{"sub": "ann"})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if got := ask(id, withToken(token), "user"); got != "ann" {
				t.Errorf("user = %q, want ann", got)
			}
		})
	}
	wg.Wait()
	if n := i.served.Load(); n != 2 {
		t.Errorf("the issuer was asked %d times, want 2", n)
	}
}

func TestTheLastGoodKeysStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := newSigner(t, "ES256", "1"), newSigner(t, "ES256", "2")
		var i issuer
		i.publish(old)
		var log bytes.Buffer
		id := open(t, "attributes: {user: [{jwt: {jwks_url: 'https://idp.example.com/keys?token=hidden', refresh: 1m}}]}",
			&identity.Options{
				HTTPClient: &http.Client{Transport: &i},
				Logger:     slog.New(slog.NewTextHandler(&log, nil)),
			})
		user := func(s *signer) string { return ask(id, withToken(s.sign(t, claims{"sub": "ann"})), "user") }
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}

		i.setDown(true)
		pass(3 * time.Minute)
		if n := i.served.Load(); n != 4 {
			t.Errorf("the issuer was asked %d times, want 4", n)
		}
		if got := user(old); got != "ann" {
			t.Errorf("while the issuer is down, user = %q, want ann", got)
		}
		const line = `msg="identity: key set not refreshed, the last good one stays" source=https://idp.example.com/keys error="the answer is 502 Bad Gateway; 200 is needed"`
		if n := strings.Count(log.String(), line); n != 3 {
			t.Errorf("the log has %d lines of a failed refresh, want 3:\n%s", n, &log)
		}
		if strings.Contains(log.String(), "hidden") {
			t.Errorf("the log has the query of the URL:\n%s", &log)
		}

		i.setDown(false)
		i.publish(next)
		pass(time.Minute)
		if got := user(next); got != "ann" {
			t.Errorf("after a refresh, user = %q, want ann", got)
		}
		id.Close()
		pass(time.Hour)
		if n := i.served.Load(); n != 5 {
			t.Errorf("after Close the issuer was asked, %d times in all, want 5", n)
		}
		if got := user(next); got != "ann" {
			t.Errorf("after Close, user = %q, want ann", got)
		}
		if got := user(old); got != "-" {
			t.Errorf("after Close, user of an unknown key = %q, want it absent", got)
		}
	})
}

func TestAWaitingRequestMayLeave(t *testing.T) {
	known, unknown := newSigner(t, "ES256", "1"), newSigner(t, "ES256", "2")
	var i issuer
	i.publish(known)
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.served.Load() > 0 {
			asked <- struct{}{}
			<-answer
		}
		i.ServeHTTP(w, r)
	}))
	defer server.Close()
	defer close(answer)
	id := open(t, "attributes: {user: [{jwt: {jwks_url: '"+server.URL+"'}}]}", nil)

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r := withToken(unknown.sign(t, claims{"sub": "eve"})).WithContext(ctx)
	done := make(chan string)
	go func() { done <- ask(id, r, "user") }()
	<-asked
	if got := ask(id, withToken(known.sign(t, claims{"sub": "ann"})), "user"); got != "ann" {
		t.Errorf("while the issuer thinks, user of a known key = %q, want ann", got)
	}
	leave()
	if got := <-done; got != "-" {
		t.Errorf("user of who left = %q, want it absent", got)
	}
}

func TestKeySetFileIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := newSigner(t, "EdDSA", ""), newSigner(t, "EdDSA", "")
		var i issuer
		i.publish(old)
		dir := write(t, "keys.json", i.document())
		id := open(t, "attributes: {user: [{jwt: {jwks_file: keys.json}}]}", &identity.Options{Dir: dir})
		i.publish(next)
		if err := os.WriteFile(filepath.Join(dir, "keys.json"), i.document(), 0o600); err != nil {
			t.Fatal(err)
		}
		token := withToken(next.sign(t, claims{"sub": "ann"}))
		if got := ask(id, token, "user"); got != "-" {
			t.Errorf("before the refresh, user = %q, want it absent", got)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := ask(id, token, "user"); got != "ann" {
			t.Errorf("after the refresh, user = %q, want ann", got)
		}
	})
}

func TestKeySetsAreChosenFrom(t *testing.T) {
	rsa, ec := newSigner(t, "RS256", "a"), newSigner(t, "ES256", "a")
	secret := newSigner(t, "HS256", "s")
	set, _ := json.Marshal(map[string]any{"keys": []any{
		map[string]string{"kty": "quantum"},
		jose.JSONWebKey{Key: secret.private, KeyID: "s"},
		jose.JSONWebKey{Key: newSigner(t, "ES256", "p").private, KeyID: "p"},
		jose.JSONWebKey{Key: newSigner(t, "RS256", "e").public, KeyID: "e", Use: "enc"},
		jose.JSONWebKey{Key: rsa.public, KeyID: "a", Algorithm: "RS256"},
		jose.JSONWebKey{Key: ec.public, KeyID: "a"},
	}})
	id := open(t, "attributes: {user: [{jwt: {jwks_file: keys.json}}]}",
		&identity.Options{Dir: write(t, "keys.json", set), Clock: atNoon})
	anonymous, ps256 := *ec, *rsa
	anonymous.id, ps256.algorithm = "", "PS256"
	for _, tt := range []struct {
		name   string
		signer *signer
		want   string
	}{
		{"an ID that two keys share, of one type", rsa, "ann"},
		{"an ID that two keys share, of the other", ec, "ann"},
		{"no ID: the keys of the algorithm", &anonymous, "ann"},
		{"an algorithm that the key is not for", &ps256, "-"},
		{"a symmetric key proves nothing", secret, "-"},
	} {
		if got := ask(id, withToken(tt.signer.sign(t, claims{"sub": "ann"})), "user"); got != tt.want {
			t.Errorf("%s: user = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestSourcesShareAKeySet(t *testing.T) {
	s := newSigner(t, "ES256", "1")
	var i issuer
	i.publish(s)
	server := httptest.NewServer(&i)
	defer server.Close()
	jwt := "{jwt: {jwks_url: '" + server.URL + "', audience: "
	id := open(t, "attributes: {user: ["+jwt+"web}}, "+jwt+"api}}]}", nil)
	if got := ask(id, withToken(s.sign(t, claims{"sub": "ann", "aud": "api"})), "user"); got != "ann" {
		t.Errorf("user = %q, want ann", got)
	}
	if n := i.served.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times, want 1", n)
	}
}
