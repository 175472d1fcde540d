package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/replay"
	"github.com/stint-dev/stint/rules"
)

// perIP is one rule: quota requests of an address in every 10s window.
func perIP(algorithm string, quota int64) rules.Spec {
	return rules.Spec{Rules: []rules.RuleSpec{{
		Name:   "per-ip",
		Key:    []string{"ip"},
		Limits: []rules.LimitSpec{{Algorithm: algorithm, Quota: quota, Window: rules.Duration(10 * time.Second)}},
	}}}
}

// start is on a boundary of every window used here.
var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// combined is a line of an access log, offset after start.
func combined(ip string, offset time.Duration, path string) string {
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 512 \"-\" \"curl/8.5\"\n",
		ip, start.Add(offset).Format("02/Jan/2006:15:04:05 -0700"), path)
}

func run(t *testing.T, o replay.Options) *replay.Report {
	t.Helper()
	report, err := replay.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// onStdin replays text by spec.
func onStdin(t *testing.T, spec rules.Spec, text string) *replay.Report {
	t.Helper()
	return run(t, replay.Options{Spec: spec, Logs: []string{"-"}, Stdin: strings.NewReader(text)})
}

// TestDenialsAreThoseOfAHandCount counts the windows of a generated log with a
// map, which is all that the fixed algorithm is.
func TestDenialsAreThoseOfAHandCount(t *testing.T) {
	const quota = 3
	random := rand.New(rand.NewPCG(1, 2))
	type window struct {
		ip string
		at int
	}
	var log strings.Builder
	spent, denied, keys, total := map[window]int{}, map[string]int64{}, map[string]bool{}, int64(0)
	for second := range 600 {
		for range random.IntN(4) {
			ip := fmt.Sprintf("192.0.2.%d", random.IntN(6))
			log.WriteString(combined(ip, time.Duration(second)*time.Second, "/"))
			total++
			w := window{ip, second / 10}
			if spent[w] == quota {
				denied["ip="+ip]++
				keys[ip] = true
				continue
			}
			spent[w]++
		}
	}
	report := onStdin(t, perIP("fixed", quota), log.String())
	rule := report.Rules[0]
	var sum int64
	for _, n := range denied {
		sum += n
	}
	if sum == 0 || rule.Requests != total || rule.Denied != sum || report.Denied != sum || rule.KeysDenied != int64(len(keys)) || rule.KeysEstimated {
		t.Errorf("%d requests, %d denied for %d keys; want %d, %d and %d", rule.Requests, rule.Denied, rule.KeysDenied, total, sum, len(keys))
	}
	got := map[string]int64{}
	for _, k := range rule.Top {
		got[k.Key] = k.Hits
	}
	if diff := cmp.Diff(denied, got); diff != "" {
		t.Errorf("denials by key (-want +got):\n%s", diff)
	}
	if !slices.IsSortedFunc(rule.Top, func(a, b replay.KeyHits) int { return int(b.Hits - a.Hits) }) {
		t.Errorf("not the most denied first: %v", rule.Top)
	}
}

func TestReport(t *testing.T) {
	spec := perIP("fixed", 2)
	spec.Rules = append(spec.Rules, rules.RuleSpec{
		Name: "report", Match: rules.MatchSpec{Path: "/report"}, Key: []string{"user|ip"},
		Limits: []rules.LimitSpec{{Quota: 1, Window: rules.Duration(time.Minute)}},
		Queue:  &rules.QueueSpec{MaxWait: rules.Duration(10 * time.Second), MaxQueue: 2},
	}, rules.RuleSpec{
		Name: "everyone", Shadow: true,
		Limits: []rules.LimitSpec{{Algorithm: "fixed", Quota: 4, Window: rules.Duration(time.Hour)}},
	})
	text := combined("192.0.2.7", 0, "/a") +
		combined("192.0.2.7", time.Second, "/a?q=1") +
		combined("192.0.2.7", 2*time.Second, "/a") + // one too many for per-ip
		"not a log line\n" +
		combined("2001:db8:0:1::7", 4*time.Second, "/report") +
		combined("2001:db8:0:1::8", 3*time.Second, "/%72eport") + // late, and one too many for report
		combined("2001:db8:0:2::8", 5*time.Second, "/report") +
		combined("192.0.2.9", 6*time.Second, "/") // the fifth that the others let through
	report := run(t, replay.Options{Spec: spec, Logs: []string{"-"}, Stdin: strings.NewReader(text), Suggest: new(0.0)})
	report.Took = 2 * time.Second

	var table, js bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteJSON(&js); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"report.txt": table.String(), "report.json": js.String()} {
		want, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFormats(t *testing.T) {
	const json = `{"ts":"2026-11-20T10:00:0%d.5Z","req":{"method":"GET","url":"/a?b=c"},"remote":"192.0.2.7:4711"}` + "\n"
	var common, combinedLog, object, vhost string
	for i := range 3 {
		line := combined("192.0.2.7", time.Duration(i)*time.Second, "/a?b=c")
		combinedLog += line
		common += strings.Split(line, ` "-"`)[0] + "\r\n"
		vhost += "www.example.com:443 " + line
		object += fmt.Sprintf(json, i)
	}
	spec := perIP("fixed", 2)
	spec.Rules[0].Match.Path = "/a"
	fields := map[string]string{"time": "ts", "method": "req.method", "path": "req.url", "ip": "remote"}
	for name, text := range map[string]string{"common": common, "combined": combinedLog, "virtual host": vhost, "json": object} {
		for _, format := range []replay.Format{replay.Auto, replay.Combined, replay.JSON} {
			report := run(t, replay.Options{Spec: spec, Logs: []string{"-"}, Stdin: strings.NewReader(text), Format: format, Fields: fields})
			fits := format == replay.Auto || (format == replay.JSON) == (name == "json")
			if fits && (report.Requests != 3 || report.Denied != 1 || report.Rules[0].Top[0].Key != "ip=192.0.2.7") || !fits && report.Malformed != 3 {
				t.Errorf("%s as %s: %+v", name, format, report)
			}
		}
	}
}

func TestTheFormatOfALogIsFoundBehindWhatIsMalformed(t *testing.T) {
	for _, good := range []string{combined("192.0.2.7", 0, "/"), `	{"time":1795168800,"ip":"192.0.2.7"}` + "\n"} {
		report := onStdin(t, perIP("fixed", 1), `{"time":17951`+"\n"+good+good)
		if want := []string{"-:1: not valid JSON"}; report.Requests != 2 || !slices.Equal(report.Examples, want) {
			t.Errorf("%s: %d requests, %q", good, report.Requests, report.Examples)
		}
	}
	report := onStdin(t, perIP("fixed", 1), "\n# started\n\n"+combined("192.0.2.7", 0, "/")+`{"time":1}`+"\n")
	if want := []string{"-:2: no time in brackets after host, identity and user", "-:5: no time in brackets after host, identity and user"}; report.Requests != 1 || !slices.Equal(report.Examples, want) {
		t.Errorf("%d requests, %q", report.Requests, report.Examples)
	}
}

// TestSeveralLogs reads a plain log, two that were compressed and put one
// behind the other, and standard input, in this order and in one time.
func TestSeveralLogs(t *testing.T) {
	dir := t.TempDir()
	plain, packed := filepath.Join(dir, "access.log.1"), filepath.Join(dir, "access.log")
	write(t, plain, []byte(combined("192.0.2.7", 0, "/")))
	write(t, packed, append(gz(t, combined("192.0.2.7", time.Second, "/")), gz(t, combined("192.0.2.7", 2*time.Second, "/"))...))
	report := run(t, replay.Options{
		Spec: perIP("fixed", 3),
		Logs: []string{plain, packed, "-"}, Stdin: strings.NewReader(combined("192.0.2.7", 3*time.Second, "/")),
	})
	if report.Lines != 4 || report.Denied != 1 || report.OutOfOrder != 0 || !report.Rules[0].FirstHit.Equal(start.Add(3*time.Second)) {
		t.Errorf("%+v", report)
	}
}

func TestWrongOptions(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		o    replay.Options
		want string
	}{
		{"no such log", replay.Options{Logs: []string{"-", "absent.log"}, Stdin: strings.NewReader("")}, "replay: log stat absent.log: no such file or directory"},
		{"a folder", replay.Options{Logs: []string{dir}}, "replay: " + dir + " is a folder; name the logs in it"},
		{"no log", replay.Options{}, "replay: no log is given; name those to read, or - for standard input"},
		{"no standard input", replay.Options{Logs: []string{"-"}}, `replay: log "-" is standard input, and there is none; set Stdin`},
		{"format", replay.Options{Format: "csv"}, `replay: format "csv" is unknown; auto, combined and json are allowed`},
		{"share", replay.Options{Suggest: new(1.0)}, "replay: suggest: 1 is out of bounds; a share of the keys from 0 to less than 1 is allowed"},
		{"field", replay.Options{Fields: map[string]string{"ip": "a..b"}}, `replay: field "ip"="a..b" is not allowed; name=field is, with dots between the names of nested fields, such as method=req.method`},
		{"rules", replay.Options{Spec: perIP("fixed", -1)}, "replay: rules[0].limits[0].quota: -1 is negative; 0 (admit nothing) or more is allowed"},
	} {
		report, err := replay.Run(t.Context(), tt.o)
		if report != nil || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %s", tt.name, err, tt.want)
		}
	}
}

func TestABrokenArchiveEndsTheReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log.gz")
	whole := gz(t, combined("192.0.2.7", 0, "/"))
	write(t, path, whole[:len(whole)-4])
	report, err := replay.Run(t.Context(), replay.Options{Spec: perIP("fixed", 1), Logs: []string{path}})
	if !errors.Is(err, io.ErrUnexpectedEOF) || !report.Partial || report.Requests != 1 {
		t.Errorf("%v, %+v", err, report)
	}
}

// TestCancel ends a replay whose log is a pipe that nobody writes to any more.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		io.WriteString(w, combined("192.0.2.7", 0, "/"))
		cancel()
	}()
	report, err := replay.Run(ctx, replay.Options{Spec: perIP("fixed", 1), Logs: []string{"-"}, Stdin: r})
	if !errors.Is(err, context.Canceled) || report == nil || !report.Partial {
		t.Errorf("%v, %+v", err, report)
	}
}

func TestCancelWhileReading(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	report, err := replay.Run(ctx, replay.Options{
		Spec: perIP("fixed", 1), Logs: []string{"-"}, Stdin: &endless{line: combined("192.0.2.7", 0, "/")},
		Progress: func(replay.Progress) { cancel() },
	})
	if !errors.Is(err, context.Canceled) || report.Requests == 0 {
		t.Errorf("%v, %+v", err, report)
	}
}

// endless is a log of one line over and over.
type endless struct {
	line string
	at   int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		c := copy(p[n:], e.line[e.at:])
		n += c
		e.at = (e.at + c) % len(e.line)
	}
	return n, nil
}

// generated is a log of lines by keys addresses, ten lines a second.
type generated struct {
	lines, keys, n int
	rest           []byte
	atEnd          func()
}

func (g *generated) Read(p []byte) (n int, err error) {
	for ; len(g.rest) < len(p) && g.n < g.lines; g.n++ {
		key := g.n * 7919 % g.keys
		g.rest = fmt.Appendf(g.rest, "10.%d.%d.%d - user%d [%s] \"GET /items/user%d?page=2 HTTP/1.1\" 200 5123 \"https://www.example.com/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36\"\n",
			key>>16, key>>8&255, key&255, key, start.Add(time.Duration(g.n/10)*time.Second).Format("02/Jan/2006:15:04:05 -0700"), key)
	}
	if len(g.rest) == 0 {
		if g.atEnd != nil {
			g.atEnd()
		}
		return 0, io.EOF
	}
	n = copy(p, g.rest)
	g.rest = append(g.rest[:0], g.rest[n:]...)
	return n, nil
}

// twoRules are by address and by a part of the path.
func twoRules() rules.Spec {
	spec := perIP("gcra", 100)
	spec.Rules = append(spec.Rules, rules.RuleSpec{
		Name: "items", Match: rules.MatchSpec{Path: "/items/{user}"}, Key: []string{"user"},
		Limits: []rules.LimitSpec{{Algorithm: "sliding", Quota: 20, Window: rules.Duration(time.Minute)}},
	})
	return spec
}

// TestMemoryDoesNotGrowWithTheLog holds the heap at the end of a log against
// that at the end of one ten times as long. All keys are new, and all are denied by a rule.
func TestMemoryDoesNotGrowWithTheLog(t *testing.T) {
	spec := twoRules()
	spec.Rules = append(spec.Rules, rules.RuleSpec{
		Name: "nobody", Key: []string{"ip"}, Shadow: true,
		Limits: []rules.LimitSpec{{Quota: 0, Window: rules.Duration(time.Second)}},
	})
	heap := func(lines int) uint64 {
		var m runtime.MemStats
		log := &generated{lines: lines, keys: lines, atEnd: func() {
			runtime.GC()
			runtime.ReadMemStats(&m)
		}}
		run(t, replay.Options{Spec: spec, Logs: []string{"-"}, Stdin: log, Suggest: new(0.01), MaxKeys: 500})
		return m.HeapAlloc
	}
	short, long := heap(20_000), heap(200_000)
	if long > short+1<<20 {
		t.Errorf("%d bytes at the end of a log, %d at that of one ten times as long", short, long)
	}
	t.Logf("%d and %d bytes", short, long)
}

func BenchmarkRun(b *testing.B) {
	const lines = 300_000
	log, err := io.ReadAll(&generated{lines: lines, keys: 10_000})
	if err != nil {
		b.Fatal(err)
	}
	for name, suggest := range map[string]*float64{"plain": nil, "suggest": new(0.01)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				report, err := replay.Run(b.Context(), replay.Options{Spec: twoRules(), Logs: []string{"-"}, Stdin: bytes.NewReader(log), Suggest: suggest})
				if err != nil || report.Requests != lines {
					b.Fatal(err, report)
				}
			}
			b.ReportMetric(float64(lines*b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
