package access_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/transport/access"
)

const (
	reader = "stint_a-token-to-look-with-0123456789"
	writer = "stint_a-token-to-change-with-0123456789"
)

func tokens() []access.Token {
	return []access.Token{
		{Name: "dashboard", Hash: sha256.Sum256([]byte(reader))},
		{Name: "ops", Hash: sha256.Sum256([]byte(writer)), Write: true},
	}
}

// spiffe is a certificate that has every kind of name.
func spiffe() *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: "deploy"}, DNSNames: []string{"deploy.example.com"}, EmailAddresses: []string{"deploy@example.com"},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/deploy"}},
	}
}

func TestAdmit(t *testing.T) {
	guarded := &access.Options{Tokens: tokens()}
	certified := func(name string, write bool) *access.Options {
		return &access.Options{Tokens: tokens(), Certificates: []access.Certificate{{Name: name, Write: write}}}
	}
	for _, tt := range []struct {
		name          string
		o             *access.Options
		method, host  string
		authorization string
		origin        string
		certificate   *x509.Certificate
		unverified    bool
		who           string
		status        int
	}{
		{name: "no token", o: guarded, status: 401},
		{name: "no token behind the scheme", o: guarded, authorization: "Bearer", status: 401},
		{name: "an empty token", o: guarded, authorization: "Bearer ", status: 401},
		{name: "a token with a letter too few", o: guarded, authorization: "Bearer " + writer[:len(writer)-1], status: 401},
		{name: "a token with a typo", o: guarded, authorization: "Bearer " + strings.Replace(writer, "change", "chance", 1), status: 401},
		{name: "a token and a blank", o: guarded, authorization: "Bearer " + writer + " ", status: 401},
		{name: "another scheme", o: guarded, authorization: "Basic " + writer, status: 401},
		{name: "no scheme", o: guarded, authorization: writer, status: 401},
		{name: "the hash in place of the token", o: guarded, authorization: "Bearer sha256:" + writer, status: 401},
		{name: "a reader looks", o: guarded, authorization: "Bearer " + reader, who: "dashboard"},
		{name: "a reader changes", o: guarded, method: "DELETE", authorization: "Bearer " + reader, status: 403},
		{name: "a reader looks at the head", o: guarded, method: "HEAD", authorization: "Bearer " + reader, who: "dashboard"},
		{name: "a writer looks", o: guarded, authorization: "Bearer " + writer, who: "ops"},
		{name: "a writer changes", o: guarded, method: "PUT", authorization: "bearer " + writer, who: "ops"},
		{name: "a writer from another site", o: guarded, method: "POST", authorization: "Bearer " + writer, origin: "https://evil.example", status: 403},

		{name: "a certificate that nobody names", o: guarded, certificate: spiffe(), status: 401},
		{name: "a common name", o: certified("deploy", true), method: "POST", certificate: spiffe(), who: "deploy"},
		{name: "a DNS name", o: certified("deploy.example.com", true), method: "POST", certificate: spiffe(), who: "deploy.example.com"},
		{name: "a mail address", o: certified("deploy@example.com", true), method: "POST", certificate: spiffe(), who: "deploy@example.com"},
		{name: "a URI", o: certified("spiffe://example.com/deploy", true), method: "POST", certificate: spiffe(), who: "spiffe://example.com/deploy"},
		{name: "a certificate for looking", o: certified("deploy", false), method: "POST", certificate: spiffe(), status: 403},
		{name: "another certificate", o: certified("backup", true), certificate: spiffe(), status: 401},
		{name: "a certificate that nobody verified", o: certified("deploy", true), certificate: spiffe(), unverified: true, status: 401},
		{name: "a wrong token beside a good certificate", o: certified("deploy", true), authorization: "Bearer no", certificate: spiffe(), status: 401},

		{name: "on loopback", o: nil, method: "POST", who: access.Nobody},
		{name: "on loopback with a certificate", o: nil, method: "POST", certificate: spiffe(), who: "deploy"},
		{name: "on loopback by its name", o: nil, host: "localhost:8080", who: access.Nobody},
		{name: "on loopback by IPv6", o: nil, host: "[::1]:8080", who: access.Nobody},
		{name: "on loopback by a name that was made to lead here", o: nil, host: "evil.example:8080", status: 403},
		{name: "on loopback from a page of another site", o: nil, method: "POST", origin: "https://evil.example", status: 403},
		{name: "closed", o: &access.Options{Closed: true}, status: 403},
		{name: "closed, and a token", o: &access.Options{Closed: true}, authorization: "Bearer " + writer, status: 403},
		{name: "not closed if there are tokens", o: &access.Options{Closed: true, Tokens: tokens()}, authorization: "Bearer " + writer, who: "ops"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method, host := tt.method, tt.host
			if method == "" {
				method = "GET"
			}
			if host == "" {
				host = "127.0.0.1:8080"
			}
			r := httptest.NewRequest(method, "/admin/rules", nil)
			r.Host = host
			if tt.authorization != "" {
				r.Header.Set("Authorization", tt.authorization)
			}
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			if tt.certificate != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{tt.certificate}}
				if !tt.unverified {
					r.TLS.VerifiedChains = [][]*x509.Certificate{{tt.certificate}}
				}
			}
			w := httptest.NewRecorder()
			who, refused := access.New(tt.o).Admit(w, r)
			switch {
			case refused == nil && (tt.status != 0 || who != tt.who):
				t.Errorf("let in as %q; want %q, %d", who, tt.who, tt.status)
			case refused != nil && refused.Status != tt.status:
				t.Errorf("refused: %+v; want %q, %d", *refused, tt.who, tt.status)
			case refused != nil && (refused.Status == 401) != (w.Header().Get("WWW-Authenticate") != ""):
				t.Errorf("%d has WWW-Authenticate %q", refused.Status, w.Header().Get("WWW-Authenticate"))
			}
		})
	}
}

func TestNilGuardLetsIn(t *testing.T) {
	var g *access.Guard
	if who, refused := g.Admit(httptest.NewRecorder(), httptest.NewRequest("DELETE", "/admin/rules", nil)); refused != nil || who != access.Nobody {
		t.Errorf("%q, %v", who, refused)
	}
}

// Refusals are logged once a second, with what was not shown, and never the token.
func TestRefusalsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := access.New(&access.Options{Tokens: tokens(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		typo := strings.Replace(writer, "change", "chance", 1)
		try := func(method, token string) {
			r := httptest.NewRequest(method, "/admin/rules?q=1", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			g.Admit(httptest.NewRecorder(), r)
		}
		try(http.MethodPost, writer)
		if log.Len() != 0 {
			t.Errorf("who is let in is nothing to tell: %s", &log)
		}
		for range 5 {
			try(http.MethodPost, typo)
		}
		time.Sleep(time.Second)
		try(http.MethodPost, reader)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines, want 2:\n%s", len(lines), &log)
		}
		for i, want := range []string{`status=401 who="" `, `status=403 who=dashboard `} {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s has no %s", lines[i], want)
			}
		}
		if !strings.HasSuffix(lines[1], "not_shown=4") {
			t.Errorf("%s does not tell of the 4 before", lines[1])
		}
		if strings.Contains(log.String(), typo) || strings.Contains(log.String(), reader) {
			t.Errorf("a token is in the log: %s", &log)
		}
	})
}
