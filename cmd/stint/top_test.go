package main

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/transport/access"
	"github.com/stint-dev/stint/transport/seatrest"
)

// isolated is a rules file with four seats, and a queue of two for each tenant.
const isolated = `
identity:
  trusted_proxies: [127.0.0.1/32]
  attributes: {tenant: [{header: {name: X-Tenant}}]}
isolation:
  seats: 4
  tenant: tenant
  guarantee: 0
  plans: {default: {queue: 2}}
`

// hold sends requests of a tenant that last until the test ends, and waits until so many
// run and wait.
func hold(t *testing.T, p *process, tenant string, n, busy, waiting int) {
	t.Helper()
	for range n {
		r, err := http.NewRequestWithContext(t.Context(), "GET", p.proxy+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Tenant", tenant)
		go func() {
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		}()
	}
	look := &looker{url: p.api + seatrest.Path, client: http.DefaultClient}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s, err := look.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Busy == busy && s.Waiting == waiting {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d busy and %d waiting; want %d and %d", s.Busy, s.Waiting, busy, waiting)
		}
	}
}

// TestTop runs the binary against a Stint that has a noisy tenant and one behind it.
func TestTop(t *testing.T) {
	bin := filepath.Join(buildAll(t), "stint")
	finish := make(chan struct{})
	p := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-finish:
		case <-r.Context().Done():
		}
	}), isolated)
	t.Cleanup(func() { close(finish) })
	hold(t, p, "noisy", 6, 4, 2)
	hold(t, p, "noisy", 1, 4, 2) // is refused
	hold(t, p, "acme", 1, 4, 3)

	// The canary waits behind them, too. It looks four times a second, and who waited
	// behind whom is worked out ten times a second.
	var out string
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		text, err := exec.CommandContext(t.Context(), bin, "top", "--api", p.api, "--once").Output()
		if err != nil {
			t.Fatal(err)
		}
		if out = string(text); strings.Contains(out, "acme behind") || time.Now().After(deadline) {
			break
		}
	}
	for _, want := range []string{
		`ISOLATION not known yet\n`, // nothing has ended yet
		`seats \[#{30}\] 4 of 4 busy, 0 kept, 3 requests waiting, \d tenants\n`,
		`\n *BUSY  WAITING  CAP  SHARE  DEMAND  HELD  REFUSED +PLAN +TENANT`,
		`\n +4 +2 +4 .* 1  default +tenant=noisy`,
		`s  tenant=acme behind tenant=noisy\n`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("this is missing: %s\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("colours where there is no terminal: %q", out)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	text, _ := exec.CommandContext(ctx, bin, "top", "--api", p.api, "--every", "100ms").Output()
	if n := strings.Count(string(text), "ISOLATION"); n < 2 || !strings.Contains(string(text), "requests 0.0/s started") {
		t.Errorf("looked %d times:\n%s", n, text)
	}
}

// On a terminal each picture takes the place of the last, and what is bad is red.
func TestTopOnATerminal(t *testing.T) {
	var b strings.Builder
	v := view{color: true, from: "stint:8080"}
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	s := &seatrest.Seats{
		Isolation: true, Seats: 10, Busy: 5, Kept: 2, Started: 100, Refused: 10,
		Canary:     &seatrest.Canary{Ratio: 1.1, TypicalSeconds: .05, WaitSeconds: .005, Probes: 240},
		BySeatTime: []seatrest.Tenant{{Tenant: "tenant=a", SeatSeconds: 10, Plan: "default"}},
	}
	if err := v.draw(&b, s, at); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.HasPrefix(got, home) || !strings.Contains(got, green+"1.10x"+reset+" (runs 50 ms, waits 5 ms)") || !strings.Contains(got, "[###############------.........] 5 of 10 busy, 2 kept") {
		t.Errorf("%q", got)
	}
	b.Reset()
	next := *s
	next.Started, next.Refused, next.Canary = 300, 30, &seatrest.Canary{Ratio: 3}
	next.BySeatTime = []seatrest.Tenant{{Tenant: "tenant=a", SeatSeconds: 15, Plan: "default"}, {Tenant: strings.Repeat("x", 100)}}
	next.Behind = []seatrest.Behind{{Waiter: "tenant=b", Holder: "tenant=a", WaitedSeconds: 4.12}}
	if err := v.draw(&b, &next, at.Add(2*time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{red + "3.00x", "requests 100.0/s started, " + red + "10.0" + reset + "/s refused", "  2.5  ", strings.Repeat("x", 47) + "…", "     4.1s  tenant=b behind tenant=a"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("this is missing: %q\n%q", want, b.String())
		}
	}
}

func TestTopFailures(t *testing.T) {
	closed := httptest.NewServer(seatrest.New(nil, &seatrest.Options{Admin: access.New(&access.Options{
		Tokens: []access.Token{{Name: "ops", Hash: sha256.Sum256([]byte("correct horse battery staple"))}},
	})}))
	defer closed.Close()
	other := httptest.NewServer(hello)
	defer other.Close()
	t.Setenv("STINT_ADMIN_TOKEN", "")
	for _, tt := range []struct{ args, want string }{
		{"--api stint.internal", `--api: "stint.internal" is not a URL`},
		{"--api http://127.0.0.1:1", "cannot be asked: .*; --api says where Stint listens"},
		{"--api " + closed.URL, "set STINT_ADMIN_TOKEN to it"},
		{"--api " + other.URL, "is not answered by a Stint"},
		{"--every 1ms", "--every: 1ms; 100ms to 1h is allowed"},
		{"--rows 0", "--rows: 0; 1 to 100 are allowed"},
	} {
		code, out, errs := stint(t, append([]string{"top", "--once"}, strings.Fields(tt.args)...)...)
		if code != exitFailed || out != "" || !regexp.MustCompile(tt.want).MatchString(errs) {
			t.Errorf("top %s: %d %q %q; want %s", tt.args, code, out, errs, tt.want)
		}
	}
	code, out, _ := stint(t, "top", "--help")
	for _, want := range []string{"stint top --once", "KEPT", "--token-env", "waited"} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Errorf("the help lacks %s:\n%s", want, out)
		}
	}
}
