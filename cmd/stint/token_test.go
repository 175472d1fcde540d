package main

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/config"
)

// What stint token prints for the configuration is understood there, and is the hash
// of the token, which is in neither.
func TestToken(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		code, out, errs := stint(t, "token", "ann: the \"admin\"", "--rights", "read")
		token := strings.TrimSuffix(out, "\n")
		if code != exitOK || len(token) != len("stint_")+43 || seen[token] {
			t.Fatalf("%d %q %q", code, out, errs)
		}
		seen[token] = true
		_, yaml, _ := strings.Cut(errs, "\n\n")
		f, problems := config.Parse("stint.yaml", []byte("version: 1\n"+yaml))
		if f == nil || len(f.Admin.Tokens) != 1 {
			t.Fatalf("%v in %s", problems, errs)
		}
		if got := f.Admin.Tokens[0]; got.Hash != config.HashToken(token) || got.Name != "ann: the \"admin\"" || got.Rights != "read" {
			t.Errorf("%+v from %s", got, errs)
		}
		if strings.Contains(errs, token) {
			t.Error("the token is beside its hash")
		}
	}
}
