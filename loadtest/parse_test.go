package loadtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// good is a scenario without a problem.
const good = `name: Small
limit: {quota: 1, window: 200ms}
instances:
  count: 2
  config: |
    version: 1
    listen: {proxy: "${proxy}", api: "${api}"}
    proxy: {upstream: "${upstream}"}
    store: "${store}"
    rules:
      - {name: items, match: {path: "/items/{user}"}, key: user, limits: [{quota: ${quota}, window: ${window}}]}
load:
  path: /items/${key}
  keys: {list: [alex, max]}
  phases:
    - {rate: 50, for: 1s}
checks:
  metrics: true
  spacing: true
  latency: {p99: 1s}
`

// scenario is good with some texts replaced.
func scenario(t *testing.T, replace ...string) *Scenario {
	t.Helper()
	s, problems := Parse("small.yaml", []byte(strings.NewReplacer(replace...).Replace(good)), 0)
	if s == nil {
		t.Fatal(problems)
	}
	return s
}

func TestParseFillsInWhatIsLeftOpen(t *testing.T) {
	s := scenario(t)
	if s.Compress != 1 || s.Limit.Algorithm != "gcra" || s.Instances.Target != "http://${proxy}" ||
		s.Instances.Ready != "http://${api}/readyz" || s.Instances.Metrics != "http://${api}/metrics" ||
		s.Load.Method != "GET" || s.Load.Connections != 32 || s.Load.Timeout.String() != "10s" || !cmp.Equal(s.Load.Statuses, []whole{200, 429}) {
		t.Errorf("%+v", s)
	}
}

func TestProblems(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"no name", "name: Small", "about: x", "small.yaml:1:1: name: is required; it heads the report"},
		{"a field misspelled", "count: 2", "cuont: 2", `small.yaml:4:1: unknown field "cuont" (did you mean count?); allowed here: count, config, command, ready, target, metrics`},
		{"a field unknown", "count: 2", "colour: red", `small.yaml:4:1: unknown field "colour"; allowed here: count, config, command, ready, target, metrics`},
		{"a field of a phase", "rate: 50", "rates: 50", `small.yaml:16:1: unknown field "rates" (did you mean rate?); allowed here: rate, from, to, steps, for`},
		{"a field twice", "count: 2", "count: 2\n  count: 3", `small.yaml:5:1: mapping key "count" already defined at line 4`},
		{"text for a number", "count: 2", "count: two", "small.yaml:4:1: a whole number is allowed here"},
		{"a list for a mapping", "keys: {list: [alex, max]}", "keys: [alex]", "small.yaml:14:1: a mapping is allowed here, not a list"},
		{"a fraction", "count: 2", "count: 1.5", "small.yaml:4:1: a whole number is allowed here"},
		{"a duration without a unit", "window: 200ms", "window: 200", `small.yaml:2:1: "200" is not a duration; a number and a unit (us, ms, s, m, h, d, w) is allowed, such as 10s, 1m30s or 7d`},
		{"a share", "metrics: true", "successes: {below_ideal: 120%}", `small.yaml:18:1: "120%" is not a share; 0 to less than 1 is allowed, or 0% to less than 100%`},
		{"not YAML", "count: 2", "count: [2", "small.yaml:5:1: found character that cannot start any token"},
		{"compress", "name: Small", "name: Small\ncompress: 0.5", "small.yaml:2:11: compress: 0.5 is out of bounds; 1 to 1000 is allowed"},
		{"compress too much", "name: Small", "name: Small\ncompress: 300", "small.yaml:3:27: limit.window: 667us is out of bounds; 1ms to 365d is allowed, after compress 300"},
		{"algorithm", "{quota: 1,", "{algorithm: bucket, quota: 1,", `small.yaml:2:20: limit.algorithm: "bucket" is not known; gcra, sliding, sliding-proportional, log, fixed is allowed`},
		{"quota", "{quota: 1,", "{quota: -1,", "small.yaml:2:16: limit.quota: -1 is negative; 0 (admit nothing) or more is allowed"},
		{"no quota", "{quota: 1,", "{", "small.yaml:2:8: limit.quota: 0 admits nothing; 1 or more is allowed"},
		{"no instance", "count: 2", "count: -2", "small.yaml:4:10: instances.count: -2 is out of bounds; 1 to 32 is allowed"},
		{"config and command", "count: 2", "command: [nginx]", "small.yaml:4:3: instances: needs either config, for stint serve, or command"},
		{"a placeholder", "${upstream}", "${upsteam}", `small.yaml:5:11: instances.config: "${upsteam}" is not a placeholder; ${algorithm}, ${api}, ${burst}, ${instance}, ${proxy}, ${quota}, ${store}, ${upstream}, ${window} is allowed`},
		{"a placeholder cut off", "${upstream}", "${upstream", `small.yaml:5:11: instances.config: "${upstream\"}" is not a placeholder; ${algorithm}, ${api}, ${burst}, ${instance}, ${proxy}, ${quota}, ${store}, ${upstream}, ${window} is allowed`},
		{"the rules", "key: user", "kee: user", `small.yaml:11:1: instances.config: rules[0].kee: unknown field (did you mean key?); allowed here: name, match, key, limits, mode, max_overshoot, cost, shadow, status, on_store_error, queue, replaces, overrides`},
		{"another limit", "${quota}", "2", "small.yaml:5:11: instances.config: no rule has the limit that is promised; write it as quota: ${quota}, window: ${window}"},
		{"path", "path: /items/${key}", "path: items", `small.yaml:13:9: load.path: "items" does not begin with /; a path such as /items/${key} is allowed`},
		{"a placeholder of the load", "path: /items/${key}", "path: /items/${user}", `small.yaml:13:9: load.path: "${user}" is not a placeholder; ${key} is allowed`},
		{"a header", "load:", "load:\n  headers: {X Key: a}", `small.yaml:13:12: load.headers: "X Key" is not a header`},
		{"method", "load:", "load:\n  method: G T", `small.yaml:13:11: load.method: "G T" is not a method`},
		{"connections", "load:", "load:\n  connections: 1001", "small.yaml:13:16: load.connections: 1001 is out of bounds; 1 to 1000 is allowed"},
		{"timeout", "load:", "load:\n  timeout: 2m", "small.yaml:13:12: load.timeout: 2m is out of bounds; 1ms to 1m is allowed"},
		{"a status", "load:", "load:\n  statuses: [200, 503]", "small.yaml:13:19: load.statuses[1]: 503 is out of bounds; 200 to 499 is allowed"},
		{"no status", "load:", "load:\n  statuses: []", "small.yaml:13:13: load.statuses: is empty; leave it out for 200 and 429"},
		{"no keys", "{list: [alex, max]}", "{}", "small.yaml:14:9: load.keys: needs either list or count, such as list: [alex]"},
		{"a key", "[alex, max]", "[alex, a/b]", `small.yaml:14:23: load.keys.list[1]: "a/b" is not a key; 1 to 64 letters, digits, and . _ ~ @ - are allowed`},
		{"keys", "{list: [alex, max]}", "{count: -1}", "small.yaml:14:17: load.keys.count: -1 is out of bounds; 1 to 1000000 is allowed"},
		{"zipf", "{list: [alex, max]}", "{count: 9, zipf: 1}", "small.yaml:14:26: load.keys.zipf: 1 cannot be; with count, above 1 to 10 is allowed"},
		{"no phases", "    - {rate: 50, for: 1s}", "    []", "small.yaml:16:5: load.phases: has 0 phases; 1 to 100 are allowed"},
		{"rate and from", "rate: 50,", "rate: 50, from: 2,", "small.yaml:16:7: load.phases[0]: needs either rate, or from and to, and then steps if it is a staircase"},
		{"rate", "rate: 50,", "rate: .nan,", "small.yaml:16:14: load.phases[0].rate: NaN is out of bounds; 0 to 100000 requests a second are allowed"},
		{"steps", "rate: 50,", "from: 1, to: 2, steps: 1,", "small.yaml:16:31: load.phases[0].steps: 1 is out of bounds; 2 to 1000 is allowed"},
		{"no time", ", for: 1s", "", "small.yaml:16:7: load.phases[0].for: 0s is out of bounds; 1ms to 1d is allowed"},
		{"too many requests", "rate: 50, for: 1s", "rate: 50000, for: 1m", "small.yaml:16:5: load.phases: make 6000000 requests on all instances; 1 to 5000000 are allowed"},
		{"no request", "rate: 50", "rate: 0", "small.yaml:16:5: load.phases: make 0 requests on all instances; 1 to 5000000 are allowed"},
		{"spacing of a burst", "window: 200ms", "window: 200ms, burst: 3", "small.yaml:19:12: checks.spacing: needs instances.config, and a limit of algorithm gcra that admits one at a time (burst: 1)"},
		{"latency", "p99: 1s", "p1000: 1s", `small.yaml:20:20: checks.latency.p1000: "p1000" is not a percentile; p50, p99 or p99.9 is allowed`},
		{"updates", "metrics: true", "updates_per_request: -1", "small.yaml:18:24: checks.updates_per_request: -1 is out of bounds; 0 to 1000 is allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(good, tt.old) {
				t.Fatalf("%q is not in the good file", tt.old)
			}
			text := strings.Replace(good, tt.old, tt.new, 1)
			if tt.name == "spacing of a burst" {
				text = strings.Replace(text, "window: ${window}", "window: ${window}, burst: ${burst}", 1)
			}
			s, problems := Parse("small.yaml", []byte(text), 0)
			if s != nil {
				t.Fatal("no problem was found")
			}
			if got := problems[0].Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestProblemsOfTheWholeFile(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"empty":     {"", "s.yaml:1:1: the file is empty; docs/scenarios.md shows how one is written"},
		"two":       {good + "---\nname: x\n", "s.yaml:1:1: a file holds one scenario; remove what follows its second ---"},
		"too large": {strings.Repeat("#", maxSize+1), "s.yaml:1:1: the file is larger than 1 MiB, the most that is allowed"},
		"a list":    {"- a\n", "s.yaml:1:1: a mapping is allowed here, not a list"},
	} {
		if _, problems := Parse("s.yaml", []byte(tt.text), 0); len(problems) == 0 || problems[0].Error() != tt.want {
			t.Errorf("%s: %v; want %s", name, problems, tt.want)
		}
	}
}

// TestAllProblemsAreFoundAtOnce: whoever corrects a file wants to do so once.
func TestAllProblemsAreFoundAtOnce(t *testing.T) {
	text := strings.NewReplacer("name: Small", "about: x", "path: /items", "path: items", "rate: 50", "rate: -1", "p99", "q99").Replace(good)
	_, problems := Parse("small.yaml", []byte(text), 0)
	var paths []string
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	if diff := cmp.Diff([]string{"name", "load.path", "load.phases[0].rate", "checks.latency.q99"}, paths); diff != "" {
		t.Error(diff)
	}
}

func TestShippedScenarios(t *testing.T) {
	files, err := filepath.Glob("../scenarios/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	requests := map[string]int{"partner-portal.yaml": 59_700, "hot-key.yaml": 12_000, "first.yaml": 380}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, speed := range []float64{0, 10} {
			s, problems := Parse(file, text, speed)
			if s == nil {
				t.Fatal(problems)
			}
			n := 0
			for _, arrivals := range s.schedule() {
				n += len(arrivals)
			}
			if want := requests[filepath.Base(file)]; n != want {
				t.Errorf("%s at speed %v: %d requests, want %d", file, speed, n, want)
			}
		}
	}
}
