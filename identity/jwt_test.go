package identity_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/stint-dev/stint/identity"
)

type claims map[string]any

// signer is an issuer with one key.
type signer struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   any
	public    any
}

func newSigner(t testing.TB, algorithm, id string) *signer {
	t.Helper()
	s := &signer{id: id, algorithm: jose.SignatureAlgorithm(algorithm)}
	var err error
	switch algorithm {
	case "HS256", "HS512":
		secret := make([]byte, 64)
		for i := range secret {
			secret[i] = 'a' + byte(i%26)
		}
		s.private = secret
		return s
	case "RS256", "PS256":
		s.private, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ES256":
		s.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		s.private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "EdDSA":
		_, s.private, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.public = s.private.(crypto.Signer).Public()
	return s
}

func (s *signer) sign(t testing.TB, c claims) string {
	t.Helper()
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return s.signBytes(t, payload)
}

func (s *signer) signBytes(t testing.TB, payload []byte) string {
	t.Helper()
	var o jose.SignerOptions
	if s.id != "" {
		o.WithHeader("kid", s.id)
	}
	js, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: s.private}, &o)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := js.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// pem is the signer's public key.
func (s *signer) pem(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func (s *signer) certificate(t testing.TB) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, s.public, s.private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// noon is when the tests of tokens take place.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

func at(d time.Duration) int64 { return noon.Add(d).Unix() }

func withToken(token string) *http.Request {
	return get("/", stranger, "Authorization: Bearer "+token)
}

func TestTokensOfEveryKeyType(t *testing.T) {
	for _, algorithm := range []string{"HS256", "HS512", "RS256", "PS256", "ES256", "ES384", "EdDSA"} {
		t.Run(algorithm, func(t *testing.T) {
			s := newSigner(t, algorithm, "")
			section, file := "attributes: {user: [{jwt: {pem_file: key}}]}", []byte(nil)
			if s.public == nil {
				section, file = "attributes: {user: [{jwt: {hmac_secret_file: key}}]}", append(s.private.([]byte), '\n')
			} else {
				file = s.pem(t)
			}
			id := open(t, section, &identity.Options{Dir: write(t, "key", file), Clock: atNoon})
			token := s.sign(t, claims{"sub": "ann"})
			if got := ask(id, withToken(token), "user"); got != "ann" {
				t.Errorf("user = %q, want ann", got)
			}
			header, rest, _ := strings.Cut(token, ".")
			payload, signature, _ := strings.Cut(rest, ".")
			forged := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"eve"}`))
			none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
			for what, token := range map[string]string{
				"other claims":           header + "." + forged + "." + signature,
				"other signature":        header + "." + payload + "." + flip(signature),
				"no signature":           header + "." + payload + ".",
				"alg none":               none + "." + forged + ".",
				"alg none and signature": none + "." + payload + "." + signature,
				"two parts":              header + "." + payload,
				"four parts":             token + ".x",
				"another key":            reSigned(t, algorithm, claims{"sub": "eve"}),
				"garbage":                "x",
			} {
				if got := ask(id, withToken(token), "user"); got != "-" {
					t.Errorf("%s: user = %q, want it absent", what, got)
				}
			}
		})
	}
}

// flip changes a signature by one bit, and not only in the padding.
func flip(signature string) string {
	raw, _ := base64.RawURLEncoding.DecodeString(signature)
	raw[len(raw)/2] ^= 1
	return base64.RawURLEncoding.EncodeToString(raw)
}

// reSigned signs c with a key that is not the issuer's.
func reSigned(t *testing.T, algorithm string, c claims) string {
	other := newSigner(t, algorithm, "")
	if secret, ok := other.private.([]byte); ok {
		other.private = append([]byte("not "), secret...)
	}
	return other.sign(t, c)
}

func TestPublicKeyIsNoSecret(t *testing.T) {
	s := newSigner(t, "RS256", "")
	forger := &signer{algorithm: jose.HS256, private: s.pem(t)}
	forged := forger.sign(t, claims{"sub": "eve"})
	for _, section := range []string{
		"attributes: {user: [{jwt: {pem_file: key.pem}}]}",
		"attributes: {user: [{jwt: {pem_file: key.pem, algorithms: [RS256]}}]}",
	} {
		id := open(t, section, &identity.Options{Dir: write(t, "key.pem", s.pem(t))})
		if got := ask(id, withToken(forged), "user"); got != "-" {
			t.Errorf("%s: user = %q, want it absent", section, got)
		}
	}
}

func TestCertificate(t *testing.T) {
	s := newSigner(t, "ES256", "")
	id := open(t, "attributes: {user: [{jwt: {pem_file: cert.pem}}]}",
		&identity.Options{Dir: write(t, "cert.pem", s.certificate(t))})
	if got := ask(id, withToken(s.sign(t, claims{"sub": "ann"})), "user"); got != "ann" {
		t.Errorf("user = %q, want ann", got)
	}
}

func TestSecretFromTheEnvironment(t *testing.T) {
	s := newSigner(t, "HS256", "")
	t.Setenv("TOKEN_SECRET", string(s.private.([]byte)))
	id := open(t, "attributes: {user: [{jwt: {hmac_secret_env: TOKEN_SECRET}}]}", nil)
	if got := ask(id, withToken(s.sign(t, claims{"sub": "ann"})), "user"); got != "ann" {
		t.Errorf("user = %q, want ann", got)
	}
}

func TestRegisteredClaims(t *testing.T) {
	s := newSigner(t, "EdDSA", "")
	const key = "attributes: {user: [{jwt: {pem_file: key.pem%s}}]}"
	dir := write(t, "key.pem", s.pem(t))
	for _, tt := range []struct {
		name, settings string
		claims         claims
		want, reason   string
	}{
		{"nothing to check", "", claims{}, "ann", ""},
		{"not expired", "", claims{"exp": at(time.Minute)}, "ann", ""},
		{"expired, but within the leeway", "", claims{"exp": at(-30 * time.Second)}, "ann", ""},
		{"expired", "", claims{"exp": at(-31 * time.Second)}, "-", "expired"},
		{"no leeway", ", leeway: 0s", claims{"exp": at(-time.Second)}, "-", "expired"},
		{"more leeway", ", leeway: 1h", claims{"exp": at(-time.Hour)}, "ann", ""},
		{"valid now", "", claims{"nbf": at(0), "iat": at(0)}, "ann", ""},
		{"not yet, but within the leeway", "", claims{"nbf": at(30 * time.Second)}, "ann", ""},
		{"not yet", "", claims{"nbf": at(31 * time.Second)}, "-", "not valid yet"},
		{"issued in the future", "", claims{"iat": at(time.Minute)}, "-", "not valid yet"},
		{"expiry is no time", "", claims{"exp": "tomorrow"}, "-", "malformed"},
		{"right issuer", ", issuer: idp", claims{"iss": "idp"}, "ann", ""},
		{"wrong issuer", ", issuer: idp", claims{"iss": "other"}, "-", "of another issuer"},
		{"no issuer", ", issuer: idp", claims{}, "-", "of another issuer"},
		{"right audience", ", audience: api", claims{"aud": "api"}, "ann", ""},
		{"one of the audiences", ", audience: api", claims{"aud": []string{"web", "api"}}, "ann", ""},
		{"wrong audience", ", audience: api", claims{"aud": []string{"web"}}, "-", "for another audience"},
		{"no audience", ", audience: api", claims{}, "-", "for another audience"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			id := open(t, strings.ReplaceAll(key, "%s", tt.settings), &identity.Options{
				Dir: dir, Clock: atNoon,
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			tt.claims["sub"] = "ann"
			token := s.sign(t, tt.claims)
			if got := ask(id, withToken(token), "user"); got != tt.want {
				t.Errorf("user = %q, want %q", got, tt.want)
			}
			if !strings.Contains(log.String(), tt.reason) {
				t.Errorf("the log does not say %q:\n%s", tt.reason, &log)
			}
			for part := range strings.SplitSeq(token, ".") {
				if strings.Contains(log.String(), part) {
					t.Errorf("the log has a part of the token:\n%s", &log)
				}
			}
		})
	}
}

func TestClaims(t *testing.T) {
	s := newSigner(t, "EdDSA", "")
	payload := `{"sub": 9007199254740993, "admin": true, "rate": 1.50, "roles": ["a"], "none": null, "empty": "",
		"org": {"id": "acme", "unit": {"id": 7}}, "https://example.com/tenant": "t1", "a.b": {"c.d": "deep"}}`
	for _, tt := range []struct{ claim, want string }{
		{"sub", "9007199254740993"},
		{"admin", "true"},
		{"rate", "1.50"},
		{"roles", "-"},
		{"org", "-"},
		{"none", "-"},
		{"empty", "-"},
		{"missing", "-"},
		{"org.id", "acme"},
		{"org.unit.id", "7"},
		{"org.unit", "-"},
		{"org.id.x", "-"},
		{"https://example.com/tenant", "t1"},
		{"a.b.c.d", "deep"},
	} {
		id := open(t, "attributes: {x: [{jwt: {pem_file: key.pem, claim: '"+tt.claim+"'}}]}",
			&identity.Options{Dir: write(t, "key.pem", s.pem(t))})
		if got := ask(id, withToken(s.signBytes(t, []byte(payload))), "x"); got != tt.want {
			t.Errorf("claim %s = %q, want %q", tt.claim, got, tt.want)
		}
	}
}

func TestWhereTokensComeFrom(t *testing.T) {
	s := newSigner(t, "EdDSA", "")
	token := s.sign(t, claims{"sub": "ann"})
	longest := s.sign(t, claims{"sub": "ann", "pad": strings.Repeat("x", 12<<10-200)})
	tooLong := s.sign(t, claims{"sub": "ann", "pad": strings.Repeat("x", 12<<10)})
	const (
		standard = "pem_file: key.pem"
		other    = "pem_file: key.pem, header: x-assertion"
		inCookie = "pem_file: key.pem, cookie: token"
	)
	for _, tt := range []struct{ name, settings, header, want string }{
		{"bearer", standard, "Authorization: Bearer " + token, "ann"},
		{"any case", standard, "authorization: bEARER  " + token, "ann"},
		{"without a scheme", standard, "Authorization: " + token, "-"},
		{"another scheme", standard, "Authorization: Basic " + token, "-"},
		{"no token", standard, "Authorization: Bearer ", "-"},
		{"another header", other, "X-Assertion: " + token, "ann"},
		{"another header, bearer", other, "X-Assertion: Bearer " + token, "ann"},
		{"not there", other, "Authorization: Bearer " + token, "-"},
		{"cookie", inCookie, "Cookie: token=" + token, "ann"},
		{"not in the cookie", inCookie, "Cookie: session=" + token, "-"},
		{"long", standard, "Authorization: Bearer " + longest, "ann"},
		{"over 16 KiB", standard, "Authorization: Bearer " + tooLong, "-"},
	} {
		id := open(t, "attributes: {user: [{jwt: {"+tt.settings+"}}]}",
			&identity.Options{Dir: write(t, "key.pem", s.pem(t))})
		if got := ask(id, get("/", stranger, tt.header), "user"); got != tt.want {
			t.Errorf("%s: user = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestUnverifiedTokens(t *testing.T) {
	id := open(t, "attributes: {user: [{jwt: {unverified: true}}]}", nil)
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for token, want := range map[string]string{
		"x." + encode(`{"sub":"ann","exp":1}`) + ".": "ann",
		encode("{}") + "." + encode(`{}`) + ".sig":   "-",
		"x.x.x":                        "-",
		"x." + encode(`[]`) + ".x":     "-",
		"x." + encode(`{"sub":"ann"}`): "-",
	} {
		if got := ask(id, withToken(token), "user"); got != want {
			t.Errorf("user of %s = %q, want %q", token, got, want)
		}
	}
}

// TestTokensAreVerifiedOnceAndOnlyIfAsked counts verifications by the clock,
// which each of them reads once.
func TestTokensAreVerifiedOnceAndOnlyIfAsked(t *testing.T) {
	s := newSigner(t, "ES256", "")
	var verified atomic.Int32
	id := open(t, `
attributes:
  user: [{jwt: {pem_file: key.pem}}]
  plan: [{jwt: {pem_file: key.pem, claim: plan}}]
  none: [{jwt: {pem_file: key.pem, claim: none}}, {query: {name: none}}]
  strict: [{jwt: {pem_file: key.pem, audience: api}}]
  lang: [{query: {name: lang}}]
`, &identity.Options{Dir: write(t, "key.pem", s.pem(t)), Clock: func() time.Time {
		verified.Add(1)
		return noon
	}})
	q := id.Identify(withToken(s.sign(t, claims{"sub": "ann", "plan": "gold"})))
	for _, step := range []struct {
		attribute, want string
		verified        int32
	}{
		{"ip", "203.0.113.9", 0},
		{"lang", "", 0},
		{"user", "ann", 1},
		{"user", "ann", 1},
		{"plan", "gold", 1},
		{"none", "", 1},
		{"strict", "", 2}, // other settings
		{"strict", "", 2},
		{"user", "ann", 2},
	} {
		got, ok := q.Attribute(step.attribute)
		if got != step.want || ok != (step.want != "") {
			t.Errorf("%s = %q, %v; want %q", step.attribute, got, ok, step.want)
		}
		if n := verified.Load(); n != step.verified {
			t.Errorf("after %s: %d verifications, want %d", step.attribute, n, step.verified)
		}
	}
}
