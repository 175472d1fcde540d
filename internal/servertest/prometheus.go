package servertest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Prometheus is a Prometheus server.
type Prometheus struct {
	Process
	// URL leads to its API.
	URL string
}

// StartPrometheus starts a Prometheus server that scrapes the /metrics of
// targets, which are host:port, as often as interval says.
func StartPrometheus(t testing.TB, job string, interval time.Duration, targets ...string) *Prometheus {
	t.Helper()
	program := find(t, "prometheus")
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	config := fmt.Sprintf(`global:
  scrape_interval: %v
scrape_configs:
  - job_name: %s
    static_configs:
      - targets: ["%s"]
`, interval, job, strings.Join(targets, `", "`))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	p := &Prometheus{URL: "http://" + address}
	p.Process = Process{
		Name:    "prometheus",
		Address: address,
		command: func() *exec.Cmd {
			return grouped(exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address))
		},
		ready: func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/-/ready", nil)
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("answers %s", answer.Status)
			}
			return nil
		},
	}
	p.start(t)
	return p
}
