package identity_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/identity"
)

// FuzzForwarding lets a caller write anything into a forwarding header. The
// proxy appends the caller's address, and that is the one that must count.
func FuzzForwarding(f *testing.F) {
	for _, seed := range []string{
		"", ",", "1.1.1.1", "1.1.1.1, 10.0.0.2", "[2001:db8::1]:80", "::ffff:1.1.1.1", "fe80::1%eth0", `"`, `\`, `"\"`,
		"for=1.1.1.1", `for="[2001:db8::1]:80";proto=http`, `for="a,b`, `for=a";by="`, "for=;", strings.Repeat(" ", 300),
	} {
		f.Add(seed)
	}
	plain := open(f, "trusted_proxies: [10.0.0.0/8]", nil)
	forwarded := open(f, "trusted_proxies: [10.0.0.0/8]\nforwarded_header: forwarded", nil)
	for _, id := range []*identity.Identifier{plain, forwarded} {
		if got := ask(id, get("/", proxy), "ip"); got != "10.0.0.1" {
			f.Fatalf("ip = %q, want the peer", got)
		}
	}
	f.Fuzz(func(t *testing.T, written string) {
		r := get("/", proxy)
		r.Header["X-Forwarded-For"] = []string{written + ", 203.0.113.9"}
		r.Header["Forwarded"] = []string{written + ", for=203.0.113.9;proto=https"}
		for _, id := range []*identity.Identifier{plain, forwarded} {
			if got := ask(id, r, "ip"); got != "203.0.113.9" {
				t.Errorf("the caller passes for %q", got)
			}
		}
		r.Header["X-Forwarded-For"] = []string{written}
		r.Header["Forwarded"] = []string{written}
		for _, id := range []*identity.Identifier{plain, forwarded} {
			if got, ok := id.Identify(r).Attribute("ip"); !ok || strings.ContainsAny(got, ", %[]\"") {
				t.Errorf("ip = %q, which is no address", got)
			}
		}
	})
}

// FuzzAuthorization lets a caller write anything into the header of a token.
// Without the key there is only one name to get: that of a token seen before.
func FuzzAuthorization(f *testing.F) {
	s := newSigner(f, "HS256", "k")
	token := s.sign(f, claims{"sub": "ann"})
	for _, seed := range []string{
		"", "Bearer", "Bearer ", "Basic YTpi", "Bearer " + token, "bearer " + token + ".", "Bearer " + strings.ToLower(token),
		"Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJldmUifQ.", "Bearer e30.e30.", "Bearer ..", "Bearer e30.W10.e30",
	} {
		f.Add(seed)
	}
	id := open(f, `
attributes:
  user: [{jwt: {hmac_secret_file: secret}}]
  said: [{jwt: {unverified: true, claim: a.b}}]
`, &identity.Options{Dir: write(f, "secret", s.private.([]byte))})
	f.Fuzz(func(t *testing.T, authorization string) {
		r := get("/", stranger)
		r.Header["Authorization"] = []string{authorization}
		if got, ok := id.Identify(r).Attribute("user"); ok && got != "ann" {
			t.Errorf("the caller passes for %q", got)
		}
		if got, ok := id.Identify(r).Attribute("said"); ok != (got != "") {
			t.Errorf("said = %q, %v", got, ok)
		}
	})
}
