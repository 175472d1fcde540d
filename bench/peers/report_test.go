package peers

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/loadtest/chart"
	"github.com/stint-dev/stint/loadtest/sidebyside"
)

// usage is what everything had used at an instant.
type usage struct {
	at            time.Time
	server, redis servertest.Usage
	others        time.Duration // of the CPU, by what is neither server nor generator
}

// result is what one measurement has shown.
type result struct {
	CPU       float64 // of the server, in seconds for a million decisions
	RedisCPU  float64 // the same of Redis
	PerSecond float64 // decisions
	P50, P99  time.Duration
	Memory    float64 // of the server, in MiB
	Others    float64 // how many cores other work took
}

func newResult(before, after usage, did done, descriptors int) *result {
	decisions := float64(len(did.took) * descriptors)
	return &result{
		CPU:       (after.server.CPU - before.server.CPU).Seconds() / decisions * 1e6,
		RedisCPU:  (after.redis.CPU - before.redis.CPU).Seconds() / decisions * 1e6,
		PerSecond: decisions / did.lasted.Seconds(),
		P50:       did.percentile(0.5),
		P99:       did.percentile(0.99),
		Memory:    float64(after.server.Memory) / (1 << 20),
		Others:    max(0, (after.others-before.others).Seconds()/after.at.Sub(before.at).Seconds()),
	}
}

type report struct {
	sidebyside.Report[string, result]
	loads []load
}

func newReport(all []load, rounds int, span time.Duration) *report {
	show := sidebyside.Show[result]
	r := &report{loads: all}
	r.Report = sidebyside.Report[string, result]{
		Title:  "Stint and its peers",
		About:  fmt.Sprintf("medians of %d rounds, %v each", rounds, span),
		Rounds: rounds,
		Ways:   "",
		Columns: []sidebyside.Column[result]{
			{Head: "CPU s for 1M", Text: func(g *sidebyside.Group[result], i int) string {
				return times(g.Ways[i].Median.CPU, g.Ways[0].Median.CPU, i)
			}},
			show("of Redis", func(r *result) string {
				if r.RedisCPU == 0 {
					return ""
				}
				return fmt.Sprintf("%.3g", r.RedisCPU)
			}),
			show("decisions/s", func(r *result) string { return chart.Number(r.PerSecond) }),
			show("p50, ms", func(r *result) string { return fmt.Sprintf("%.2f", r.P50.Seconds()*1e3) }),
			show("p99, ms", func(r *result) string { return fmt.Sprintf("%.1f", r.P99.Seconds()*1e3) }),
			show("memory, MiB", func(r *result) string { return fmt.Sprintf("%.0f", r.Memory) }),
			show("other work, cores", func(r *result) string { return fmt.Sprintf("%.1f", r.Others) }),
		},
		Bars: []sidebyside.Bar[result]{
			{Head: "CPU s for 1M, with Redis", Value: func(r *result) float64 { return r.CPU + r.RedisCPU }},
			{Head: "decisions/s", Value: func(r *result) float64 { return r.PerSecond }},
			{Head: "p99, ms", Value: func(r *result) float64 { return r.P99.Seconds() * 1e3 }},
			{Head: "memory, MiB", Value: func(r *result) float64 { return r.Memory }},
		},
	}
	for _, l := range all {
		var names []string
		for _, s := range l.subjects {
			names = append(names, s.name)
		}
		r.Groups = append(r.Groups, sidebyside.NewGroup[result](l.name, l.about, names))
	}
	return r
}

// times writes v, and how many times the first one it is.
func times(v, first float64, i int) string {
	text := fmt.Sprintf("%.3g", v)
	if i > 0 && first > 0 {
		text += fmt.Sprintf(" (%.2fx)", v/first)
	}
	return text
}

// machine says what this is measured on.
func machine(t *testing.T) string {
	t.Helper()
	model := "CPU of unknown model"
	if m := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindStringSubmatch(file("/proc/cpuinfo")); m != nil {
		model = m[1]
	}
	return fmt.Sprintf("%d cores (%s), Linux %s, %s; medians of %d rounds of %v; the load was %s at the beginning.",
		runtime.NumCPU(), model, strings.TrimSpace(file("/proc/sys/kernel/osrelease")), strings.Replace(runtime.Version(), "go", "Go ", 1),
		*rounds, *span, strings.Fields(file("/proc/loadavg") + " unknown")[0])
}

// file returns what a file says; nothing if it cannot be read.
func file(name string) string {
	text, _ := os.ReadFile(name)
	return string(text)
}

// busy is how long the cores of the machine have worked since it started.
func busy(t *testing.T) time.Duration {
	t.Helper()
	first, _, _ := strings.Cut(file("/proc/stat"), "\n")
	fields := strings.Fields(first)
	if len(fields) < 9 {
		t.Skip("what a machine does is only known on Linux")
	}
	var ticks int64
	for i, field := range fields[1:9] {
		if idle := i == 3 || i == 4; idle {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// ownCPU is what this process, the generator, has used.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// The tables stand between two lines of the page.
const tablesBegin, tablesEnd = "<!-- peers -->\n", "<!-- end -->"

// between puts tables into page in place of those that are there.
func between(page, tables string) (string, error) {
	head, rest, begins := strings.Cut(page, tablesBegin)
	_, tail, ends := strings.Cut(rest, tablesEnd)
	if !begins || !ends {
		return "", fmt.Errorf("%q and, behind it, %q are needed", strings.TrimSpace(tablesBegin), tablesEnd)
	}
	return head + tablesBegin + tables + tablesEnd + tail, nil
}

func TestBetween(t *testing.T) {
	got, err := between("a\n<!-- peers -->\nold\n<!-- end -->\nb\n", "new\n")
	if want := "a\n<!-- peers -->\nnew\n<!-- end -->\nb\n"; got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, page := range []string{"", "<!-- end -->\n<!-- peers -->\n", "<!-- peers -->\n"} {
		if got, err := between(page, "new\n"); err == nil {
			t.Errorf("%q becomes %q", page, got)
		}
	}
}

func TestNewResult(t *testing.T) {
	began := time.Now()
	before := usage{at: began, server: servertest.Usage{CPU: time.Second}, others: time.Second}
	after := usage{at: began.Add(2 * time.Second), server: servertest.Usage{CPU: 2 * time.Second, Memory: 3 << 20}, redis: servertest.Usage{CPU: time.Second / 2}, others: 2 * time.Second}
	did := done{took: []time.Duration{1, 2, 3, 4}, lasted: 2 * time.Second}
	want := result{CPU: 125_000, RedisCPU: 62_500, PerSecond: 4, P50: 3, P99: 4, Memory: 3, Others: 0.5}
	if got := newResult(before, after, did, 2); *got != want {
		t.Errorf("%+v, want %+v", *got, want)
	}
}
