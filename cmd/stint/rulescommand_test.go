package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/transport/ruleadmin"
)

// TestRulesCommand is a day of an administrator: every command, what it prints and
// its exit code.
func TestRulesCommand(t *testing.T) {
	table := sqliteTable.open(t)
	p := serve(t, hello, table.config()+adminConfig)
	t.Setenv("STINT_API", p.api)
	t.Setenv("STINT_API_TOKEN", opsToken)
	file := filepath.Join(t.TempDir(), "rule.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do := func(code int, want string, args ...string) string {
		t.Helper()
		got, out, errs := stint(t, args...)
		if got != code || !strings.Contains(out+errs, want) {
			t.Fatalf("stint %s: %d %q %q; want %d and %q", strings.Join(args, " "), got, out, errs, code, want)
		}
		return out
	}
	do(exitOK, "ID  NAME", "rules", "list")
	do(exitOK, "1   rule-1  in force  10/1m   ops", "rules", "set", "--path", "/entity/#", "--calls", "10", "--period", "1m")
	within(t, time.Second, "a rule of the command", func() bool { return quota(p, "/entity/5", "rule-1") == 10 })
	write("# of the store team\nname: uploads\nmatch: {path: /file/#}\nkey: user\nlimits: [{quota: 30, window: 1m}, {quota: 300, window: 1h}]\n")
	do(exitOK, "uploads  in force  30/1m, 300/1h  ops", "rules", "set", file)

	// What was got and changed is set, unless somebody was faster.
	got := do(exitOK, "# of the store team", "rules", "get", "uploads")
	write(strings.Replace(got, "quota: 30,", "quota: 40,", 1))
	do(exitOK, "40/1m", "rules", "set", file)
	do(exitFailed, "somebody has changed it meanwhile", "rules", "set", file)
	do(exitOK, "40/1m", "rules", "set", "--force", file)

	do(exitOK, "disabled", "rules", "disable", "uploads")
	do(exitOK, "in force", "rules", "enable", "2")
	do(exitOK, "in force, shadow", "rules", "shadow", "uploads")
	do(exitOK, "in force  40/1m", "rules", "shadow", "--off", "uploads")
	if text := do(exitOK, "", "rules", "get", "uploads"); strings.Contains(text, "quota: 30,") || !strings.Contains(text, "# of the store team") {
		t.Errorf("it is now %s", text)
	}

	// Problems are told one a line, and change nothing.
	write("name: uploads\nlimits:\n  - {quota: -1, window: 0s}\nstatus: 418\n")
	do(exitConfig, `rule: status: line 4: "418" is not allowed`, "rules", "set", file)
	write("name: uploads\nlimits:\n  - {quota: -1, window: 0s}\n")
	do(exitConfig, "rule: limits[0].window: 0s is out of bounds", "rules", "set", file)
	write("name: all\nlimits: [{quota: 1, window: 1m}]\n")
	do(exitConfig, `rule: name: "all" is already the name of rules[0]`, "rules", "set", file)
	do(exitFailed, "go together", "rules", "set", "--path", "/x")
	do(exitFailed, "give a file", "rules", "set")
	do(exitFailed, `no rule "none"`, "rules", "get", "none")
	do(exitFailed, `no rule "none"`, "rules", "rm", "none")

	// Back to what it was, and back from the dead.
	out := do(exitOK, "", "rules", "history", "uploads", "--format", "json")
	var history ruleadmin.History
	if err := json.Unmarshal([]byte(out), &history); err != nil || len(history.Changes) < 5 {
		t.Fatalf("%v %s", err, out)
	}
	first := func(changes []ruleadmin.Change) string {
		number, _ := json.Marshal(changes[len(changes)-1].Change)
		return string(number)
	}(history.Changes)
	do(exitOK, "30/1m", "rules", "rollback", "uploads", first)
	do(exitOK, "rollback brings it back", "rules", "rm", "uploads")
	do(exitFailed, `no rule "uploads"`, "rules", "get", "uploads")
	do(exitOK, "deleted", "rules", "history", "2")
	do(exitOK, "30/1m", "rules", "rollback", "2", first)
	do(exitFailed, "is no change of rule", "rules", "rollback", "2", "99")
	do(exitOK, "limits: [{quota: 30, window: 1m}", "rules", "history", "--text")

	// Keys.
	within(t, time.Second, "uploads", func() bool { return quotaOf(p, "ann", "/file/7", "uploads-1h") == 300 })
	for range 4 {
		quotaOf(p, "ann", "/file/7", "uploads")
	}
	do(exitOK, "uploads  user=ann  uploads-1h  295", "keys", "get", "--rule", "uploads", "--path", "/file/8", "user=ann")
	do(exitOK, "uploads  user=ann  uploads-1h  300", "keys", "reset", "--rule", "uploads", "--path", "/file/8", "user=ann")
	do(exitFailed, "is not for such a request", "keys", "get", "--rule", "uploads")
	do(exitFailed, `"ann" is not an attribute`, "keys", "get", "ann")
	var keys ruleadmin.Keys
	if err := json.Unmarshal([]byte(do(exitOK, "", "keys", "get", "--path", "/file/8", "user=ann", "--format", "json")), &keys); err != nil || len(keys.Keys) != 2 {
		t.Errorf("%v: %+v", err, keys)
	}

	// Who may do it.
	t.Setenv("STINT_API_TOKEN", readToken)
	do(exitOK, "uploads", "rules", "list")
	do(exitFailed, "for reading", "rules", "disable", "uploads")
	t.Setenv("STINT_API_TOKEN", "stint_nobody")
	do(exitFailed, "STINT_API_TOKEN has it", "rules", "list")
	do(exitFailed, "is a stint running there?", "rules", "list", "--api", "http://127.0.0.1:1")
	do(exitUsage, "", "rules", "get")
}

// TestRulesByCertificate has administrators who come with certificates and without
// tokens. The certificate's name is in the history.
func TestRulesByCertificate(t *testing.T) {
	serverCert, serverKey := servertest.Certificate(t)
	deployCert, deployKey := namedCertificate(t, "deploy")
	otherCert, otherKey := namedCertificate(t, "other")
	both := filepath.Join(t.TempDir(), "clients.pem")
	var pems []byte
	for _, file := range []string{deployCert, otherCert} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pems = append(pems, text...)
	}
	if err := os.WriteFile(both, pems, 0o600); err != nil {
		t.Fatal(err)
	}
	table := sqliteTable.open(t)
	p := serve(t, hello, table.config()+fmt.Sprintf("tls: {api: {cert_file: %q, key_file: %q, client_ca_file: %q}}\nadmin: {certificates: [{name: deploy, rights: write}]}\n", serverCert, serverKey, both))
	api := strings.Replace(p.api, "http:", "https:", 1)
	for _, tt := range []struct {
		what, want string
		code       int
		flags      []string
	}{
		{"a certificate that is let in", "deploy", exitOK, []string{"--cert-file", deployCert, "--key-file", deployKey}},
		{"a certificate that is not named", "STINT_API_TOKEN", exitFailed, []string{"--cert-file", otherCert, "--key-file", otherKey}},
		{"no certificate", "certificate required", exitFailed, nil},
	} {
		args := append([]string{"rules", "set", "--path", "/x", "--calls", "1", "--period", "1m", "--api", api, "--ca-file", serverCert}, tt.flags...)
		if code, out, errs := stint(t, args...); code != tt.code || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s: %d %q %q; want %d and %q", tt.what, code, out, errs, tt.code, tt.want)
		}
	}
}

// namedCertificate makes files of a certificate that has signed itself, and of its key.
func namedCertificate(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), "pem")
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("CERTIFICATE", cert), write("PRIVATE KEY", secret)
}
