package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stint runs the program and returns what it did.
func stint(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, streams{strings.NewReader(""), &stdout, &stderr})
	return code, stdout.String(), stderr.String()
}

func TestVersion(t *testing.T) {
	if code, out, _ := stint(t, "version"); code != exitOK || out != "stint dev\n" {
		t.Errorf("%d %q", code, out)
	}
}

func TestHelpTeaches(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"serve", "validate", "migrate", "replay", "schema", "Exit codes", "stint serve --config stint.yaml"}},
		{[]string{"--help"}, []string{"Exit codes"}},
		{[]string{"serve", "--help"}, []string{"--config", "--set", "SIGHUP", "listen.proxy"}},
		{[]string{"validate", "--help"}, []string{"stint validate stint.yaml"}},
		{[]string{"migrate", "--help"}, []string{"--store", "--print", "env:NAME"}},
		{[]string{"replay", "--help"}, []string{"--suggest", "--format", "access.log"}},
		{[]string{"schema", "--help"}, []string{"yaml-language-server"}},
	} {
		code, out, errs := stint(t, tt.args...)
		if code != exitOK {
			t.Errorf("%v: exit code %d: %s", tt.args, code, errs)
		}
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: help does not mention %q:\n%s", tt.args, want, out)
			}
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"sevre"}, {"serve", "--confg", "x"}, {"validate"}, {"replay"}} {
		code, _, errs := stint(t, args...)
		if code != exitUsage || !strings.Contains(errs, "stint --help") {
			t.Errorf("%v: exit code %d, %q; want %d and a hint", args, code, errs, exitUsage)
		}
	}
}

func TestValidate(t *testing.T) {
	code, out, errs := stint(t, "validate", "../../examples/quickstart/stint.yaml")
	if code != exitOK || !strings.Contains(out, "ok, 3 rules: items, report, tokens") || errs != "" {
		t.Errorf("the quick start: %d %q %q", code, out, errs)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	text := "version: 1\nrules:\n  - name: login\n    limits: [{quota: -1, window: 10 sec}]\n    colour: red\n"
	if err := os.WriteFile(bad, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, errs = stint(t, "validate", bad)
	if code != exitConfig {
		t.Errorf("exit code %d, want %d", code, exitConfig)
	}
	for _, want := range []string{
		"bad.yaml:4:", "rules[0].limits[0].quota", "-1 is negative", "rules[0].limits[0].window", `"10 sec" is not a duration`,
		"bad.yaml:5:", "colour",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("does not say %q:\n%s", want, errs)
		}
	}
	if code, _, errs := stint(t, "validate", "absent.yaml"); code != exitConfig || !strings.Contains(errs, "absent.yaml") {
		t.Errorf("a file that is not there: %d %q", code, errs)
	}
}

func TestServeRefusesABadFile(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := stint(t, "serve", "--config", bad); code != exitConfig || !strings.Contains(errs, "bad.yaml:1:") {
		t.Errorf("%d %q", code, errs)
	}
}

func TestServeTakesWhatIsSet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stint.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, errs := stint(t, "serve", "--config", file, "--set", "listen.api=off", "--set", "store=postgre://stint:hunter2@a,b/stint?x=y")
	if code != exitConfig || !strings.Contains(errs, `store: "postgre" is not a store`) || strings.Contains(errs, "hunter2") {
		t.Errorf("%d %q", code, errs)
	}
	if code, _, errs := stint(t, "serve", "--config", file, "--set", "listen.api=off"); code != exitFailed || !strings.Contains(errs, "nothing to serve") {
		t.Errorf("%d %q", code, errs)
	}
}

func TestSchema(t *testing.T) {
	code, out, _ := stint(t, "schema")
	golden, err := os.ReadFile("../../docs/stint.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if code != exitOK || out != string(golden) {
		t.Error("prints something else than docs/stint.schema.json; run go test ./config -update")
	}
}
