package identity_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/identity"
)

// Where each attribute came from, and why no other source yielded it. Nothing of what
// a caller proves itself by is told.
func TestFindings(t *testing.T) {
	t.Setenv("TOKEN_SECRET", strings.Repeat("k", 32))
	dir := write(t, "keys", []byte("robot "+sha256hex("robots-key")+" tenant=acme\n"))
	id := open(t, fmt.Sprintf(`
trusted_proxies: [10.0.0.1]
attributes:
  user:
    - jwt: {hmac_secret_env: TOKEN_SECRET}
    - api_key: {keys_file: %s/keys}
    - header: {name: X-User}
  tenant:
    - jwt: {hmac_secret_env: TOKEN_SECRET, claim: org.id}
    - api_key: {keys_file: %[1]s/keys, attribute: tenant}
    - query: {name: tenant}
  session: [{cookie: {name: sid, unverified: true}}]
  version: [{path: {segment: 2}}]
  login: [{basic_user: {unverified: true}}]
  form: [{form: {name: client, unverified: true}}]
`, dir), nil)
	const proof, key, owner, proxy = "claim sub of the token in header Authorization", "API key in header X-Api-Key", "header X-User", "connection, and X-Forwarded-For as far as the proxies are trusted"
	lost := "it is absent, or there more than once"
	for name, c := range map[string]struct {
		request *http.Request
		user    gate.Finding
	}{
		"nobody":      {get("/", "192.0.2.1:99"), gate.Finding{Missed: missed(proof, "there is no token", key, lost, owner, lost)}},
		"a key":       {get("/", "192.0.2.1:99", "X-Api-Key: robots-key"), gate.Finding{Value: "robot", Source: key, Missed: missed(proof, "there is no token")}},
		"a wrong key": {get("/", "192.0.2.1:99", "X-Api-Key: wrong-key", "X-User: ann"), gate.Finding{Missed: missed(proof, "there is no token", key, "the key is not known", owner, "the peer 192.0.2.1:99 is no trusted proxy")}},
		"a proxy":     {get("/", "10.0.0.1:99", "X-User: ann"), gate.Finding{Value: "ann", Source: owner, Missed: missed(proof, "there is no token", key, lost)}},
		"a bad token": {get("/", "", "Authorization: Bearer e30.e30.secretsignature", "X-User: ann"), gate.Finding{Missed: missed(proof, "the token is refused: of an algorithm that is not accepted", key, lost, owner, "the peer is not known, and so no trusted proxy")}},
		"too long":    {get("/", "10.0.0.1:99", "X-User: "+strings.Repeat("a", 9<<10)), gate.Finding{Missed: missed(proof, "there is no token", key, lost, owner, "it is longer than 8 KiB")}},
	} {
		t.Run(name, func(t *testing.T) {
			c.user.Attribute = "user"
			all := id.Identify(c.request).(gate.Finder).Findings()
			names := []string{}
			for _, f := range all {
				names = append(names, f.Attribute)
				if f.Attribute == "user" {
					if diff := cmp.Diff(c.user, f); diff != "" {
						t.Errorf("-want +got:\n%s", diff)
					}
				}
				want, _ := id.Identify(c.request).Attribute(f.Attribute)
				if f.Value != want || (f.Source == "") != (want == "") {
					t.Errorf("%s is said to be %q, from %q, and is %q", f.Attribute, f.Value, f.Source, want)
				}
			}
			if want := []string{"form", "ip", "login", "session", "tenant", "user", "version"}; !cmp.Equal(names, want) {
				t.Errorf("attributes %v, want %v", names, want)
			}
			for _, secret := range []string{"secretsignature", "wrong-key", "robots-key"} {
				if strings.Contains(fmt.Sprint(all), secret) {
					t.Errorf("%q is told: %v", secret, all)
				}
			}
		})
	}
	r := get("/v/2?tenant=t", "192.0.2.1:99", "Cookie: sid=abc")
	r.SetBasicAuth("joe", "pass")
	found := map[string]gate.Finding{}
	for _, f := range id.Identify(r).(gate.Finder).Findings() {
		found[f.Attribute] = f
	}
	for attribute, want := range map[string]gate.Finding{
		"session": {Value: "abc", Source: "cookie sid", Secret: true},
		"version": {Value: "2", Source: "segment 2 of the path"},
		"login":   {Value: "joe", Source: "user of Basic authentication"},
		"ip":      {Value: "192.0.2.1", Source: proxy},
		"form":    {Missed: missed("form field client", lost)},
	} {
		want.Attribute = attribute
		if diff := cmp.Diff(want, found[attribute]); diff != "" {
			t.Errorf("%s: -want +got:\n%s", attribute, diff)
		}
	}
	if tenant := found["tenant"]; tenant.Value != "t" || tenant.Source != "query parameter tenant" || len(tenant.Missed) != 2 {
		t.Errorf("tenant: %+v", tenant)
	}
}

// missed returns sources and why they yield nothing, in turn.
func missed(texts ...string) (all []gate.Missed) {
	for i := 0; i < len(texts); i += 2 {
		all = append(all, gate.Missed{Source: texts[i], Why: texts[i+1]})
	}
	return all
}

// A token that is not valid any more is told as such.
func TestFindingsTellWhyATokenIsRefused(t *testing.T) {
	s := newSigner(t, "ES256", "a")
	dir := write(t, "key.pem", s.pem(t))
	id := open(t, "attributes: {user: [{jwt: {pem_file: "+dir+"/key.pem}}]}", &identity.Options{Clock: atNoon})
	for token, want := range map[string]string{
		s.sign(t, claims{"sub": "ann", "exp": at(-time.Hour)}): "the token is refused: expired",
		s.sign(t, claims{"name": "ann", "exp": at(time.Hour)}): "the token has no such claim",
	} {
		for _, f := range id.Identify(withToken(token)).(gate.Finder).Findings() {
			if f.Attribute == "user" && (len(f.Missed) != 1 || f.Missed[0].Why != want) {
				t.Errorf("%+v, want %q", f, want)
			}
		}
	}
}
