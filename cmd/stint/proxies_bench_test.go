package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/loadtest"
)

// BenchmarkNginx sends 2,000 requests a second through nginx, in turn with and
// without deploy/nginx/fail-closed.conf, for a second each, and reports what asking
// Stint adds. Stint is a process of its own and the service is nginx itself. How
// long an answer took counts from when its request was due. An operation is one
// round of both; the medians of all rounds are reported, and the p99 of the best,
// which is what other work on the machine has disturbed least.
func BenchmarkNginx(b *testing.B) {
	const rate, span, workers = 2000, time.Second, 64
	api, plain, asked, service := freeBench(b), freeBench(b), freeBench(b), freeBench(b)
	startStint(b, api, `
identity: {trusted_proxies: [127.0.0.1]}
rules:
  - name: items
    match: {path: "/items/{user}"}
    key: [user, ip]
    limits: [{quota: 1000000000, window: 1h}]
`)
	servertest.StartNginx(b, asked, placed(b, "nginx/fail-closed.conf", asked, api, "", service)+fmt.Sprintf(`
server { listen %s; location / { proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection ""; } }
server { listen %s; keepalive_requests 1000000; location / { return 200 "hello\n"; } }
`, plain, service))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers, MaxConnsPerHost: workers}}
	defer client.CloseIdleConnections()
	round := func(address string) []time.Duration {
		due := make([]time.Duration, rate*span/time.Second)
		for i := range due {
			due[i] = time.Duration(i) * time.Second / rate
		}
		took := make([]time.Duration, len(due))
		loadtest.OpenLoop(b.Context(), time.Now().Add(50*time.Millisecond), due, workers, func(n int, at time.Time) {
			answer, err := client.Get(fmt.Sprintf("http://%s/items/user-%d?page=1", address, n%100))
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				b.Errorf("status %d", answer.StatusCode)
			}
			took[n] = time.Since(at)
		})
		slices.Sort(took)
		return took
	}
	round(plain) // opens the connections
	round(asked)
	var results [2][2][]time.Duration // p50 and p99 of each
	for b.Loop() {
		for i, address := range []string{plain, asked} {
			took := round(address)
			for j, share := range []float64{0.5, 0.99} {
				results[i][j] = append(results[i][j], took[int(share*float64(len(took)))])
			}
		}
	}
	median := func(ds []time.Duration) float64 {
		slices.Sort(ds)
		return float64(ds[len(ds)/2].Microseconds()) / 1000
	}
	for j, name := range []string{"p50", "p99"} {
		without, with := median(results[0][j]), median(results[1][j])
		b.ReportMetric(without, "plain-"+name+"-ms")
		b.ReportMetric(with, "asked-"+name+"-ms")
		b.ReportMetric(with-without, "added-"+name+"-ms")
	}
	for i, name := range []string{"plain", "asked"} { // median has sorted them
		b.ReportMetric(float64(results[i][1][0].Microseconds())/1000, name+"-best-p99-ms")
	}
	b.ReportMetric(0, "ns/op") // a round takes what it takes
}

// startStint starts stint serve as a process of its own until the benchmark ends.
func startStint(b *testing.B, api, yaml string) {
	b.Helper()
	dir := b.TempDir()
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", filepath.Join(dir, "stint"), ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(dir, "stint.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nlisten: {api: "+api+"}\n"+yaml), 0o600); err != nil {
		b.Fatal(err)
	}
	process := exec.Command(filepath.Join(dir, "stint"), "serve", "--config", file)
	if err := process.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		process.Process.Signal(syscall.SIGTERM)
		process.Wait()
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		answer, err := http.Get("http://" + api + "/readyz")
		if err == nil {
			answer.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
	}
}

// freeBench returns an address of loopback that nobody listens on.
func freeBench(b *testing.B) string { return fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(b)) }
