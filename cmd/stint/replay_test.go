package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const accessLog = `192.0.2.7 - - [20/Nov/2026:10:00:00 +0000] "GET /items/alice HTTP/1.1" 200 12
192.0.2.7 - - [20/Nov/2026:10:00:03 +0000] "GET /items/alice?page=2 HTTP/1.1" 200 12
192.0.2.8 - - [20/Nov/2026:10:00:04 +0000] "GET /items/bob HTTP/1.1" 200 12
`

const quickStart = "../../examples/quickstart/stint.yaml"

func TestReplay(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(log, []byte(accessLog), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := stint(t, "replay", "--config", quickStart, "--suggest", "1%", log)
	if code != exitOK || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{"3 lines, 0 malformed", "1 of 3 requests would have been denied", "user=alice", "at most 1.0% of the keys"} {
		if !strings.Contains(out, want) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
}

func TestReplayOfJSONFromStandardInput(t *testing.T) {
	in := strings.NewReader(`{"ts":1795168800,"req":{"method":"GET","url":"/items/alice"}}` + "\n" + `{"ts":1795168801,"req":{"method":"GET","url":"/items/alice"}}` + "\n")
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"replay", "-c", quickStart, "--format", "json", "--field", "time=ts,method=req.method,path=req.url", "-"}, streams{in, &out, &errs})
	var report struct {
		Requests, Denied int
		Rules            []struct{ Name string }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v: %s %s", err, out.String(), errs.String())
	}
	if code != exitOK || report.Requests != 2 || report.Denied != 1 || report.Rules[0].Name != "items" {
		t.Errorf("%d %+v", code, report)
	}
}

func TestReplayFailures(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-c", quickStart, "absent.log"}, exitFailed, "stint: replay: log stat absent.log: no such file or directory"},
		{[]string{"-c", bad, "access.log"}, exitConfig, "bad.yaml:1:"},
		{[]string{"-c", "absent.yaml", "access.log"}, exitConfig, "absent.yaml"},
		{[]string{"--suggest", "often", "access.log"}, exitUsage, `"often" is not a share; 0 to less than 1 is allowed, or 0% to less than 100%`},
		{[]string{"--suggest", "100%", "access.log"}, exitUsage, `"100%" is not a share`},
		{[]string{"--format", "xml", "access.log"}, exitUsage, `--format must be one of "table","json"`},
		{[]string{"-c", quickStart, "--field", "path=a..b", "-"}, exitFailed, `field "path"="a..b" is not allowed`},
	} {
		code, _, errs := stint(t, append([]string{"replay"}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit code %d, %s; want %d and %s", tt.args, code, errs, tt.code, tt.want)
		}
	}
}

func TestReplayInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"replay", "-c", quickStart, "-"}, streams{strings.NewReader(accessLog), &out, &errs})
	if code != exitFailed || !strings.Contains(out.String(), "ended early") || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("%d %s %s", code, out.String(), errs.String())
	}
}
