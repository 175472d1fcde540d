package identity_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/rules"
)

// list writes problems, one a line.
func list(problems []rules.Problem) string {
	var lines []string
	for _, p := range problems {
		line := p.Error()
		if p.Warning {
			line = "warning: " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestProblems shows what is said about every mistake. Those that only opening
// a file or a connection can tell are in the tests below.
func TestProblems(t *testing.T) {
	const noKey = "has no key to verify tokens with; give one of hmac_secret_file, hmac_secret_env, pem_file, jwks_file and jwks_url, or write unverified: true to believe any token"
	const public = "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA"
	for _, tt := range []struct{ section, want string }{
		{"", ""},
		{"trusted_proxies: [10.0.0.0/8, '::1', 192.0.2.1, '2001:db8::/32', '::ffff:10.0.0.0/104']", ""},
		{"trusted_proxies: [10.0.0.0/33]", `trusted_proxies[0]: "10.0.0.0/33" is neither an address nor a CIDR; write 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32`},
		{"trusted_proxies: ['::1', lb.internal]", `trusted_proxies[1]: "lb.internal" is neither an address nor a CIDR; write 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32`},
		{"trusted_proxies: ['fe80::1%eth0']", `trusted_proxies[0]: "fe80::1%eth0" is neither an address nor a CIDR; write 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32`},
		{"trusted_proxies: [0.0.0.0/0]", `warning: trusted_proxies[0]: 0.0.0.0/0 trusts everyone, so every caller can claim any address; name the proxies in front`},
		{"trusted_proxies: [10.1.2.3/8]", `warning: trusted_proxies[0]: 10.1.2.3/8 is read as 10.0.0.0/8; write that, or the address alone`},
		{"forwarded_header: x-real-ip", `forwarded_header: "x-real-ip" is not a header that is known; x-forwarded-for and forwarded are allowed`},
		{"ipv6_prefix: 129", `ipv6_prefix: 129 is not a length of an IPv6 prefix; 1 to 128 are allowed`},
		{"ipv6_prefix: -1", `ipv6_prefix: -1 is not a length of an IPv6 prefix; 1 to 128 are allowed`},

		{"attributes: {ip: [{query: {name: ip}}]}", `attributes.ip: every request has the attribute ip; give yours another name`},
		{"attributes: {'the user': [{query: {name: u}}]}", `attributes.the user: "the user" is not a name for an attribute; letters, digits, _ and - are allowed, 1 to 64 of them`},
		{"attributes: {user: []}", `attributes.user: has no source; write a list, such as [{header: {name: X-User}}]`},
		{"attributes: {user: [" + strings.Repeat("{query: {name: u}},", 17) + "]}", `attributes.user: has 17 sources; 16 are allowed`},
		{"attributes: {user: [{}]}", `attributes.user[0]: names no source; one of jwt, api_key, header, cookie, basic_user, query, form and path is needed`},
		{"attributes: {user: [{query: {name: u}, path: {segment: 1}}]}", `attributes.user[0]: has query and path; a source is one of them, so make each an item of the list`},

		{"attributes: {user: [{header: {name: X-User}}]}", `attributes.user[0].header: nobody is trusted to send X-User, so it would never be read; list the proxies that set it in trusted_proxies, or write unverified: true to believe every caller`},
		{"attributes: {user: [{cookie: {name: sid}}]}", `attributes.user[0].cookie: nobody is trusted to send the cookie sid, so it would never be read; list the proxies that set it in trusted_proxies, or write unverified: true to believe every caller`},
		{"attributes: {user: [{basic_user: {}}]}", `attributes.user[0].basic_user: nobody is trusted to send a user name, so it would never be read; list the proxies that set it in trusted_proxies, or write unverified: true to believe every caller`},
		{"attributes: {user: [{header: {unverified: true}}]}", `attributes.user[0].header.name: is missing; give the name of the header`},
		{"attributes: {user: [{header: {name: 'X User', unverified: true}}]}", `attributes.user[0].header.name: "X User" is not the name of a header; letters, digits and - are allowed, and a few signs more`},
		{"attributes: {user: [{cookie: {name: 'a;b', unverified: true}}]}", `attributes.user[0].cookie.name: "a;b" is not the name of a cookie; letters, digits and - are allowed, and a few signs more`},
		{"attributes: {user: [{query: {}}]}", `attributes.user[0].query.name: is missing; give the name of the parameter`},
		{"attributes: {user: [{query: {name: " + strings.Repeat("u", 129) + "}}]}", `attributes.user[0].query.name: has 129 bytes; 128 are allowed`},
		{"attributes: {user: [{path: {}}]}", `attributes.user[0].path.segment: 0 is not a segment; 1 to 64 are allowed`},
		{"attributes: {user: [{path: {segment: 65}}]}", `attributes.user[0].path.segment: 65 is not a segment; 1 to 64 are allowed`},

		{"attributes: {client: [{api_key: {keys_file: k}}]}", ""},
		{"attributes: {client: [{api_key: {}}]}", `attributes.client[0].api_key: has no keys_file, so nobody's key is known; give one, or write unverified: true to count by any key that is sent`},
		{"attributes: {client: [{api_key: {keys_file: k, unverified: true}}]}", `attributes.client[0].api_key.unverified: keys_file verifies the key; remove one of them`},
		{"attributes: {client: [{api_key: {attribute: plan, unverified: true}}]}", `attributes.client[0].api_key.attribute: plan is looked up in keys_file, and there is none`},
		{"attributes: {client: [{api_key: {header: X-Key, query: key, keys_file: k}}]}", `attributes.client[0].api_key: has header and query; the key comes in one of them`},
		{"attributes: {client: [{api_key: {header: 'X Key', keys_file: k}}]}", `attributes.client[0].api_key.header: "X Key" is not the name of a header; letters, digits and - are allowed, and a few signs more`},

		{"attributes: {user: [{jwt: {}}]}", `attributes.user[0].jwt: ` + noKey},
		{"attributes: {user: [{jwt: {pem_file: k, jwks_url: 'https://a/b'}}]}", `attributes.user[0].jwt: has pem_file and jwks_url; one key is allowed`},
		{"attributes: {user: [{jwt: {pem_file: k, header: X-A, cookie: c}}]}", `attributes.user[0].jwt: has header and cookie; the token comes in one of them`},
		{"attributes: {user: [{jwt: {pem_file: k, unverified: true}}]}", `attributes.user[0].jwt.unverified: believes any token, so pem_file would not be used; remove the one or the other`},
		{"attributes: {user: [{jwt: {issuer: i, audience: a, leeway: 1s, refresh: 1m, algorithms: [RS256], unverified: true}}]}", `attributes.user[0].jwt.unverified: believes any token, so refresh and algorithms and issuer and audience and leeway would not be used; remove the one or the other`},
		{"attributes: {user: [{jwt: {pem_file: k, leeway: 2h}}]}", `attributes.user[0].jwt.leeway: 2h is out of bounds; 0s to 1h are allowed`},
		{"attributes: {user: [{jwt: {pem_file: k, refresh: 1m}}]}", `attributes.user[0].jwt.refresh: pem_file is read once; refresh is for jwks_file and jwks_url`},
		{"attributes: {user: [{jwt: {jwks_file: k, refresh: 10ms}}]}", `attributes.user[0].jwt.refresh: 10ms is out of bounds; 1s to 1d are allowed`},
		{"attributes: {user: [{jwt: {pem_file: k, algorithms: []}}]}", `attributes.user[0].jwt.algorithms: is empty, so no token would be accepted; remove it, or name some of ` + public},
		{"attributes: {user: [{jwt: {pem_file: k, algorithms: [None]}}]}", `attributes.user[0].jwt.algorithms: none is never accepted: anybody can write such a token`},
		{"attributes: {user: [{jwt: {pem_file: k, algorithms: [RS256, HS256]}}]}", `attributes.user[0].jwt.algorithms: "HS256" can't be verified with pem_file; ` + public + ` are allowed`},
		{"attributes: {user: [{jwt: {hmac_secret_env: K, algorithms: [RS256]}}]}", `attributes.user[0].jwt.algorithms: "RS256" can't be verified with hmac_secret_env; HS256, HS384, HS512 are allowed`},
		{"attributes: {user: [{jwt: {jwks_url: 'http://idp.example.com/keys'}}]}", `attributes.user[0].jwt.jwks_url: who can change the answer on its way could sign any token; https is needed, or http on this machine`},
		{"attributes: {user: [{jwt: {jwks_url: 'file:///keys'}}]}", `attributes.user[0].jwt.jwks_url: is not a URL; https://HOST/PATH is needed`},
		{"attributes: {user: [{jwt: {jwks_url: '%zz'}}]}", `attributes.user[0].jwt.jwks_url: is not a URL; https://HOST/PATH is needed`},
		{"attributes: {user: [{jwt: {jwks_url: 'https://me:pw@idp.example.com/'}}]}", `attributes.user[0].jwt.jwks_url: has a user or password in it, which is not allowed`},
		{"attributes: {user: [{jwt: {jwks_url: 'http://localhost:1/keys'}}]}", ""},
		{"attributes: {user: [{form: {name: username}}]}", `attributes.user[0].form: nobody is trusted to send the parameter username, so it would never be read; list the proxies that set it in trusted_proxies, or write unverified: true to believe every caller`},
		{"attributes: {user: [{form: {unverified: true}}]}", `attributes.user[0].form.name: is missing; give the name of the parameter`},
		{"attributes: {b: [{jwt: {}}], a: [{}, {path: {}}]}", `attributes.a[0]: names no source; one of jwt, api_key, header, cookie, basic_user, query, form and path is needed
attributes.a[1].path.segment: 0 is not a segment; 1 to 64 are allowed
attributes.b[0].jwt: ` + noKey},
	} {
		if got := list(identity.Validate(parse(t, tt.section))); got != tt.want {
			t.Errorf("%s\n%s", tt.section, cmp.Diff(tt.want, got))
		}
	}
}

func TestTooManyAttributes(t *testing.T) {
	spec := identity.Spec{Attributes: map[string][]identity.SourceSpec{}}
	for i := range 65 {
		spec.Attributes[fmt.Sprint("a", i)] = []identity.SourceSpec{{Query: &identity.QuerySpec{Name: "q"}}}
	}
	const want = "attributes: has 65 attributes; 64 are allowed"
	if got := list(identity.Validate(spec)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// TestProblemsOfFiles lets a section name a file "key", and shows what is said
// about what is in it. DIR stands for its folder.
func TestProblemsOfFiles(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	ec := newSigner(t, "ES256", "")
	private, _ := x509.MarshalPKCS8PrivateKey(ec.private)
	secret := strings.Repeat("s", 40)
	digest := sha256hex("k")
	const (
		hmac = "attributes: {user: [{jwt: {hmac_secret_file: key}}]}"
		key  = "attributes: {user: [{jwt: {pem_file: key}}]}"
		jwks = "attributes: {user: [{jwt: {jwks_file: key}}]}"
		api  = "attributes: {user: [{api_key: {keys_file: key}}]}"
	)
	for _, tt := range []struct{ name, section, content, want string }{
		{"no such file", strings.ReplaceAll(key, "key", "absent"), "", "attributes.user[0].jwt.pem_file: DIR/absent: no such file or directory"},
		{"no such key set", strings.ReplaceAll(jwks, "key", "absent"), "", "attributes.user[0].jwt.jwks_file: DIR/absent: no such file or directory"},
		{"no such keys file", "attributes: {user: [{api_key: {keys_file: absent}}]}", "", "attributes.user[0].api_key.keys_file: DIR/absent: no such file or directory"},
		{"large", key, strings.Repeat("x", 1<<20+1), "attributes.user[0].jwt.pem_file: DIR/key: has more than 1 MiB"},
		{"short secret", hmac, strings.Repeat("s", 31) + "\n", "attributes.user[0].jwt.hmac_secret_file: DIR/key: the secret is shorter than 32 bytes, the least that HS256 allows"},
		{"secret too short for the algorithm", "attributes: {user: [{jwt: {hmac_secret_file: key, algorithms: [HS256, HS512]}}]}", secret, "attributes.user[0].jwt.algorithms: HS512 does not fit the key in DIR/key, which is for HS256"},
		{"no environment", "attributes: {user: [{jwt: {hmac_secret_env: STINT_TEST_ABSENT}}]}", "", "attributes.user[0].jwt.hmac_secret_env: STINT_TEST_ABSENT: the environment has no such variable; set it to the secret"},
		{"not PEM", key, "hello", "attributes.user[0].jwt.pem_file: DIR/key: is not PEM; a public key or a certificate is needed"},
		{"private key", key, block("PRIVATE KEY", private), "attributes.user[0].jwt.pem_file: DIR/key: holds a private key, which has no business here; give the public key, as openssl pkey -pubout writes it"},
		{"another thing", key, block("X509 CRL", nil), "attributes.user[0].jwt.pem_file: DIR/key: holds a X509 CRL; a PUBLIC KEY or a CERTIFICATE is needed"},
		{"broken", key, block("PUBLIC KEY", []byte("x")), "attributes.user[0].jwt.pem_file: DIR/key: the PUBLIC KEY can't be read"},
		{"two keys", key, string(ec.pem(t)) + string(ec.pem(t)), "attributes.user[0].jwt.pem_file: DIR/key: holds more than one key; put several into a jwks_file"},
		{"a chain", key, string(ec.certificate(t)) + string(ec.certificate(t)), ""},
		{"small RSA", key, block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&small.PublicKey)), "attributes.user[0].jwt.pem_file: DIR/key: the RSA key has 1024 bits; 2048 or more are allowed"},
		{"an algorithm of other keys", "attributes: {user: [{jwt: {pem_file: key, algorithms: [RS256]}}]}", string(ec.pem(t)), "attributes.user[0].jwt.algorithms: RS256 does not fit the key in DIR/key, which is for ES256"},
		{"not JSON", jwks, "keys", "attributes.user[0].jwt.jwks_file: DIR/key: is not a JSON Web Key Set, which is an object with a list of keys"},
		{"no key", jwks, `{"keys": []}`, "attributes.user[0].jwt.jwks_file: DIR/key: has no public key for signatures"},
		{"no useful key", jwks, `{"keys": [{"kty": "oct", "k": "` + strings.Repeat("QUFB", 16) + `"}, {"kty": "x"}, 7]}`, "attributes.user[0].jwt.jwks_file: DIR/key: has no public key for signatures"},
		{"many keys", jwks, `{"keys": [` + strings.Repeat("{},", 64) + `{}]}`, "attributes.user[0].jwt.jwks_file: DIR/key: has 65 keys; 64 are allowed"},
		{"keys", api, "ann " + digest, ""},
		{"no keys", api, "# nobody yet\n", "attributes.user[0].api_key.keys_file: DIR/key: has no key; a line of a name and the SHA-256 of a key in hex makes one"},
		{"one word", api, "\nann\n", "attributes.user[0].api_key.keys_file: DIR/key: line 2: has one word; a name and the SHA-256 of a key in hex are needed"},
		{"a key in the clear", api, "ann my-secret-key", "attributes.user[0].api_key.keys_file: DIR/key: line 1: the second word is not a SHA-256 in hex, which is 64 digits"},
		{"a long digest", api, "ann " + digest + "00", "attributes.user[0].api_key.keys_file: DIR/key: line 1: the second word is not a SHA-256 in hex, which is 64 digits"},
		{"a key twice", api, "ann " + digest + "\nbob " + strings.ToUpper(digest), `attributes.user[0].api_key.keys_file: DIR/key: line 2: has the key of "ann" again; every key has one owner`},
		{"not a pair", api, "ann " + digest + " plan=gold eu", "attributes.user[0].api_key.keys_file: DIR/key: line 1: word 4 is not attribute=value"},
		{"a name again", api, "ann " + digest + " name=bob", "attributes.user[0].api_key.keys_file: DIR/key: line 1: has name twice"},
		{"an attribute that no key has", "attributes: {plan: [{api_key: {keys_file: key, attribute: plan}}]}", "ann " + digest, "warning: attributes.plan[0].api_key.attribute: no key in key has plan, so this is always absent; add plan=VALUE to its lines"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := write(t, "key", []byte(tt.content))
			id, problems := identity.New(parse(t, tt.section), &identity.Options{Dir: dir})
			got := strings.ReplaceAll(list(problems), dir, "DIR")
			if got != tt.want {
				t.Error(cmp.Diff(tt.want, got))
			}
			if failed := got != "" && !strings.HasPrefix(got, "warning: "); failed != (id == nil) {
				t.Errorf("the Identifier is %v", id)
			}
			if id != nil {
				id.Close()
			}
		})
	}
}

func TestProblemsOfKeySetURLs(t *testing.T) {
	serve := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			w.Write([]byte(body))
		}
	}
	redirect := func(target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) }
	}
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		"/404":      http.NotFound,
		"/html":     serve(200, "<!doctype html>"),
		"/large":    serve(200, strings.Repeat(" ", 1<<20+1)),
		"/scheme":   redirect("https://127.0.0.1/keys"),
		"/away":     redirect("http://idp.example.com/keys"),
		"/forever":  redirect("/forever"),
		"/shutdown": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		mux.Handle(path, h)
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	for path, want := range map[string]string{
		"/404?token=secret": "URL/404: the answer is 404 Not Found; 200 is needed",
		"/html":             "URL/html: is not a JSON Web Key Set, which is an object with a list of keys",
		"/large":            "URL/large: has more than 1 MiB",
		"/scheme":           "URL/scheme: redirect from http to https refused",
		"/away":             "URL/away: who can change the answer on its way could sign any token; https is needed, or http on this machine",
		"/forever":          "URL/forever: more than 3 redirects",
		"/shutdown":         "URL/shutdown: EOF",
	} {
		section := "attributes: {user: [{jwt: {jwks_url: '" + server.URL + path + "'}}]}"
		_, problems := identity.New(parse(t, section), nil)
		got := strings.ReplaceAll(list(problems), server.URL, "URL")
		if want = "attributes.user[0].jwt.jwks_url: " + want; got != want {
			t.Errorf("%s:\n%s", path, cmp.Diff(want, got))
		}
	}
}

type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAKeySetThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, problems := identity.New(parse(t, "attributes: {user: [{jwt: {jwks_url: 'https://idp.example.com/keys'}}]}"),
			&identity.Options{HTTPClient: &http.Client{Transport: silence{}}})
		const want = "attributes.user[0].jwt.jwks_url: https://idp.example.com/keys: no answer within 5s"
		if got := list(problems); got != want {
			t.Error(cmp.Diff(want, got))
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %v, want 5s", took)
		}
	})
}
