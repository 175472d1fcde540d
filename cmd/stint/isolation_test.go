package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/transport/seatrest"
)

// TestIsolationDocument serves the configuration that docs/isolation.md begins with, and
// finds what stands there.
func TestIsolationDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, fence, _ := strings.Cut(string(text), "```yaml\n# fragment\n")
	fence, _, found := strings.Cut(fence, "```")
	if !found {
		t.Fatal("no configuration in the document")
	}
	finish := make(chan struct{})
	p := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Tenant") == "noisy" && r.URL.Path == "/" {
			select {
			case <-finish:
			case <-r.Context().Done():
			}
		}
	}), fence)
	t.Cleanup(func() { close(finish) })
	send := func(tenant, path string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", p.proxy+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Tenant", tenant)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp
	}
	hold(t, p, "noisy", 66, 16, 50)

	resp := send("noisy", "/")
	var problem struct {
		Type, Detail string
		Status       int
	}
	if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || problem.Status != 503 ||
		!strings.HasSuffix(problem.Type, "#temporary-reduced-capacity") || !strings.HasPrefix(problem.Detail, "Too many requests of this caller are running and waiting: 16 at once are allowed, and 50 more may wait. Try again in ") {
		t.Errorf("a tenant whose queue is full: %v %+v", resp, problem)
	}
	for _, free := range []struct{ tenant, path string }{{"quiet", "/"}, {"acme", "/reports/1"}, {"noisy", "/health"}} {
		if resp := send(free.tenant, free.path); resp.StatusCode != 200 {
			t.Errorf("%s %s: %d", free.tenant, free.path, resp.StatusCode)
		}
	}
	look := &looker{url: p.api + seatrest.Path, client: http.DefaultClient}
	s, err := look.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plans := map[string]string{}
	for _, n := range s.BySeatTime {
		plans[n.Tenant] = n.Plan
	}
	if s.Seats != 32 || plans["tenant=noisy"] != "default" || s.ByRefusals[0].Tenant != "tenant=noisy" || s.Canary == nil {
		t.Errorf("%+v", s)
	}

	// The canary waits for nobody: 16 seats are free. What runs for how long is known
	// since the quiet ones have been served.
	ratio := regexp.MustCompile(`(?m)^stint_isolation_ratio (.+)$`)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		m := ratio.FindStringSubmatch(p.text(p.api + "/metrics"))
		if m == nil {
			t.Fatal("no stint_isolation_ratio in the metrics")
		}
		if v, err := strconv.ParseFloat(m[1], 64); err == nil && v >= 1 && v < 1.5 { // a busy machine is no wait for a seat
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("stint_isolation_ratio is %s", m[1])
		}
	}
	p.edit("seats: 32\n", "seats: 32\n  canary: false\n")
	for deadline := time.Now().Add(20 * time.Second); s.Canary != nil; time.Sleep(50 * time.Millisecond) {
		if s, err = look.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("canary: false is not in force")
		}
	}
	if m := ratio.FindStringSubmatch(p.text(p.api + "/metrics")); m == nil || m[1] != "0" && !strings.HasPrefix(m[1], "1") {
		t.Errorf("the ratio without a canary: %v", m)
	}
}

// TestBenchIsolation replays a small incident by the command line.
func TestBenchIsolation(t *testing.T) {
	dir := t.TempDir()
	report, chart := filepath.Join(dir, "report.json"), filepath.Join(dir, "chart.svg")
	args := []string{"bench", "isolation", "--handler", "longer", "--seats", "4", "--guarantee", "0", "--tenants", "6", "--devices", "5", "--every", "5s", "--duration", "3s"}
	code, out, errs := stint(t, append(args, "--factor", "60", "--json", report, "--chart", chart)...)
	if code != exitOK || !strings.Contains(out, "stint 0 %") || !strings.Contains(out, "one queue") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	checkJSON(t, report)
	checkSVG(t, chart)
	// Nothing collapses under a load that is no load, and so nothing is shown.
	code, _, errs = stint(t, append(args, "--factor", "1")...)
	if code != exitFailed || !strings.Contains(errs, "the load is too small to show anything") {
		t.Errorf("%d\n%s", code, errs)
	}
	code, _, errs = stint(t, append(args, "--tenants", "1")...)
	if code != exitFailed || !strings.Contains(errs, "tenants: 1; 2 to 10000 are allowed") {
		t.Errorf("%d\n%s", code, errs)
	}
}
