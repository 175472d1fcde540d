package main

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/servertest"
)

// TestScenarios runs the scenarios that are shipped on PostgreSQL, the long one
// five times faster than written. They need a machine that is not busy with other
// tests, so make runs them alone.
func TestScenarios(t *testing.T) {
	if os.Getenv("STINT_SCENARIOS") == "" {
		t.Skip("make scenarios runs them, alone, in about four minutes")
	}
	bin := buildAll(t)
	for file, speed := range map[string]string{"first.yaml": "1", "hot-key.yaml": "1", "partner-portal.yaml": "5"} {
		t.Run(file, func(t *testing.T) {
			url := servertest.StartPostgres(t).URL
			bench(t, bin, "migrate", "--store", url)
			dir := t.TempDir()
			report, chart := filepath.Join(dir, "report.json"), filepath.Join(dir, "chart.svg")
			out := bench(t, bin, "bench", "scenario", "--store", url, "--speed", speed, "--json", report, "--chart", chart, "../../scenarios/"+file)
			t.Log(out)
			checkJSON(t, report)
			checkSVG(t, chart)
		})
	}
}

func TestStrategies(t *testing.T) {
	url := servertest.StartPostgres(t).URL
	dir := t.TempDir()
	report, chart := filepath.Join(dir, "report.json"), filepath.Join(dir, "chart.svg")
	out := bench(t, buildAll(t), "bench", "strategies", "--store", url, "--duration", "1s", "--rounds", "1", "--json", report, "--chart", chart)
	for _, want := range []string{"nowait", "range", "upsert", "stint"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table lacks %s:\n%s", want, out)
		}
	}
	checkJSON(t, report)
	checkSVG(t, chart)
}

// bench runs stint and fails the test if it does not exit with 0.
func bench(t *testing.T, bin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "stint"), args...)
	var progress strings.Builder
	cmd.Stderr = &progress
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("stint %s: %v\n%s\n%s", strings.Join(args, " "), err, out, progress.String())
	}
	return string(out)
}

func checkJSON(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(text) || len(text) < 100 {
		t.Errorf("%s is no report: %s", file, text)
	}
}

// checkSVG reports an error of the test unless file is a well-formed SVG that
// draws something and says what.
func checkSVG(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]int{}
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if start, ok := token.(xml.StartElement); ok {
			seen[start.Name.Local]++
		}
	}
	if seen["svg"] != 1 || seen["text"] < 5 || seen["path"]+seen["polyline"]+seen["rect"] < 3 {
		t.Errorf("%s draws %v", file, seen)
	}
}
