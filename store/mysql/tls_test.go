package mysql_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/mysql"
)

// TestTLS is on a server that takes nobody without TLS.
func TestTLS(t *testing.T) {
	cert, key := servertest.Certificate(t)
	other, _ := servertest.Certificate(t)
	server := servertest.StartMariaDB(t, "--ssl-cert="+cert, "--ssl-key="+key, "--require-secure-transport=ON")
	url := server.URL + "stint"
	if _, err := mysql.Migrate(t.Context(), url+"?ssl-ca="+cert); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"?ssl-ca=" + cert:    "",
		"?tls=skip-verify":   "",
		"?tls=true":          "certificate signed by unknown authority",
		"?ssl-ca=" + other:   "certificate signed by unknown authority",
		"?ssl-ca=" + key:     "mysql: open: ssl-ca in the URL: " + key + " has no certificate in PEM",
		"?ssl-ca=/no/ca.pem": "mysql: open: ssl-ca in the URL: open /no/ca.pem: no such file or directory",
		"":                   "Access denied",
	} {
		s, err := mysql.Open(t.Context(), url+query, nil)
		if err == nil {
			p := &limit.Policy{Name: "tls", Quota: 10, Window: 1e9}
			err = spend(t.Context(), s, p, limit.StoreKey(p, "alex"))
			s.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}
