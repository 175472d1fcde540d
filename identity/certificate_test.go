package identity_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"testing"

	"github.com/stint-dev/stint/identity"
)

func TestWithCertificate(t *testing.T) {
	base := open(t, `attributes: {service: [{header: {name: X-Service, unverified: true}}]}`, nil)
	id := identity.WithCertificate(base, "service")
	spiffe := &url.URL{Scheme: "spiffe", Host: "example.org", Path: "/billing"}
	all := &x509.Certificate{URIs: []*url.URL{spiffe}, DNSNames: []string{"billing.example.org"}, Subject: pkix.Name{CommonName: "billing"}}
	verified := func(c *x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
	}
	for _, tt := range []struct {
		what, want string
		tls        *tls.ConnectionState
	}{
		{"a URI", "spiffe://example.org/billing", verified(all)},
		{"a DNS name", "billing.example.org", verified(&x509.Certificate{DNSNames: all.DNSNames, Subject: all.Subject})},
		{"a common name", "billing", verified(&x509.Certificate{Subject: all.Subject})},
		{"nobody's", "header", verified(&x509.Certificate{})},
		{"not verified", "header", &tls.ConnectionState{PeerCertificates: []*x509.Certificate{all}}},
		{"none", "header", &tls.ConnectionState{}},
		{"no TLS", "header", nil},
	} {
		r := get("/", "192.0.2.1:80", "X-Service: header")
		r.TLS = tt.tls
		q := id.Identify(r)
		if got, _ := q.Attribute("service"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
		if ip, _ := q.Attribute("ip"); ip != "192.0.2.1" {
			t.Errorf("%s: ip %q", tt.what, ip)
		}
		q.(interface{ Release() }).Release()
	}
}
