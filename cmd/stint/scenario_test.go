package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/loadtest"
)

// TestFirstScenario runs scenarios/first.yaml from within this process, where
// the race detector looks on.
func TestFirstScenario(t *testing.T) {
	r := runScenario(t, "first.yaml")
	if r.Requests != 380 || r.Answered != 380 || r.Granted == 0 || r.Spacing.Grants != r.Granted {
		t.Errorf("%d of %d requests answered, %d granted, %+v", r.Answered, r.Requests, r.Granted, r.Spacing)
	}
}

// runScenario runs one of scenarios/ on an SQLite file. All its checks must hold.
func runScenario(t *testing.T, file string) *loadtest.Report {
	t.Helper()
	path := filepath.Join("../../scenarios", file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, problems := loadtest.Parse(path, text, 0)
	if s == nil {
		t.Fatal(problems)
	}
	report, err := loadtest.Run(t.Context(), s, &loadtest.Options{Binary: filepath.Join(buildAll(t), "stint"), OpenStore: openStore})
	if err != nil {
		t.Fatal(err)
	}
	if failed := report.Failed(); len(failed) > 0 {
		t.Errorf("these checks failed: %v", failed)
	}
	if err := report.WriteTable(t.Output()); err != nil {
		t.Error(err)
	}
	return report
}

// TestScenarioExitCodes runs the command as an operator does.
func TestScenarioExitCodes(t *testing.T) {
	bin, dir := buildAll(t), t.TempDir()
	text, err := os.ReadFile("../../scenarios/first.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]*strings.Replacer{
		"good.yaml":    strings.NewReplacer(),
		"failing.yaml": strings.NewReplacer("below_ideal: 20%", "least: 1000", "{from: 20, to: 100, for: 2s}", "{rate: 20, for: 100ms}"),
		"bad.yaml":     strings.NewReplacer("window: 200ms}", "window: soon}"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(change.Replace(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		file      string
		code      int
		out, errs []string
	}{
		{"good.yaml", exitOK, []string{"First scenario\n380 requests in 4s, limit 1 per 200ms (gcra)\n", "ok  successes", "ok  spacing"}, []string{"of 380 requests"}},
		{"failing.yaml", exitFailed, []string{"FAILED  successes", "at least 1000", "ok      spacing"}, []string{"failing.yaml: these checks failed: successes\n"}},
		{"bad.yaml", exitConfig, nil, []string{`bad.yaml:6:1: "soon" is not a duration`}},
		{"absent.yaml", exitConfig, nil, []string{"absent.yaml: the file cannot be read"}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			var out, errs strings.Builder
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "stint"), "bench", "scenario", "--json", "report.json", "--chart", "chart.svg", tt.file)
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
			cmd.Run() // the exit code says how it went
			if code := cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, want := range tt.out {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, &out)
				}
			}
			for _, want := range tt.errs {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("%q is not in\n%s", want, &errs)
				}
			}
		})
	}
	checkSVG(t, filepath.Join(dir, "chart.svg"))
	if report, err := os.ReadFile(filepath.Join(dir, "report.json")); err != nil || !strings.Contains(string(report), `"holds": false`) {
		t.Errorf("the report of the failing scenario: %v\n%s", err, report)
	}
}

func TestStrategiesNeedPostgreSQL(t *testing.T) {
	for store, want := range map[string]string{
		"sqlite:x.db":            "stint: --store: a PostgreSQL database is needed, such as postgres://USER@HOST/DATABASE\n",
		"postgres://a:hunter2@[": "stint: --store: a postgres URL has a host that is not a name, an address or several with commas between them; write postgres://USER@HOST/DATABASE, and signs within a password as %40 for @\n",
	} {
		if code, _, errs := stint(t, "bench", "strategies", "--store", store); code != exitFailed || errs != want {
			t.Errorf("%s: %d %q; want %q", store, code, errs, want)
		}
	}
}
