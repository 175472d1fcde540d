package identity_test

import (
	"testing"

	"github.com/stint-dev/stint/identity"
)

func BenchmarkIdentify(b *testing.B) {
	rs, es, hs := newSigner(b, "RS256", ""), newSigner(b, "ES256", ""), newSigner(b, "HS256", "")
	jwt := func(s *signer) string { return "Authorization: Bearer " + s.sign(b, claims{"sub": "ann"}) }
	const behind = "trusted_proxies: [10.0.0.0/8]\n"
	for _, bb := range []struct {
		name, section string
		key           []byte
		peer, header  string
		attribute     string
	}{
		{"nothing asked", behind, nil, proxy, "X: y", ""},
		{"ip", "", nil, stranger, "X: y", "ip"},
		{"ip behind two proxies", behind, nil, proxy, "X-Forwarded-For: 203.0.113.9, 10.0.0.2", "ip"},
		{"ip v6", "", nil, "[2001:db8::1]:80", "X: y", "ip"},
		{"header", behind + "attributes: {user: [{header: {name: X-User}}]}", nil, proxy, "X-User: ann", "user"},
		{"cookie", behind + "attributes: {user: [{cookie: {name: sid}}]}", nil, proxy, "Cookie: a=b; sid=ann", "user"},
		{"api key", "attributes: {user: [{api_key: {keys_file: key}}]}", []byte("ann " + sha256hex("k")), stranger, "X-API-Key: k", "user"},
		{"HS256", "attributes: {user: [{jwt: {hmac_secret_file: key}}]}", hs.private.([]byte), stranger, jwt(hs), "user"},
		{"RS256", "attributes: {user: [{jwt: {pem_file: key}}]}", rs.pem(b), stranger, jwt(rs), "user"},
		{"ES256", "attributes: {user: [{jwt: {pem_file: key}}]}", es.pem(b), stranger, jwt(es), "user"},
		{"RS256, not asked", "attributes: {user: [{jwt: {pem_file: key}}]}", rs.pem(b), stranger, jwt(rs), "ip"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			id := open(b, bb.section, &identity.Options{Dir: write(b, "key", bb.key)})
			r := get("/", bb.peer, bb.header)
			b.ReportAllocs()
			for b.Loop() {
				q := id.Identify(r).(*identity.Request)
				if _, ok := q.Attribute(bb.attribute); !ok && bb.attribute != "" {
					b.Fatal(bb.attribute, "is absent")
				}
				q.Release()
			}
		})
	}
}
