package config_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
)

var update = flag.Bool("update", false, "write the golden files afresh")

// golden compares got with what is in the file at path.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); if it should be so, run go test -update:\n%s", path, diff)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no file is %s: %v", pattern, err)
	}
	return paths
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// printed writes problems as a person sees them.
func printed(problems []config.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.Error() + "\n")
	}
	return b.String()
}

// TestBad loads each file of testdata/bad and compares what is printed with
// the text file beside it.
func TestBad(t *testing.T) {
	for _, path := range glob(t, "testdata/bad/*/*.yaml") {
		c, problems := config.Load(path, nil)
		if c != nil {
			c.Close()
		}
		golden(t, strings.TrimSuffix(path, ".yaml")+".txt", printed(problems))
	}
}

func TestTooLarge(t *testing.T) {
	path := write(t, t.TempDir(), "large.yaml", "version: 1\n#"+strings.Repeat(" ", 9<<20))
	c, problems := config.Load(path, nil)
	want := path + ":1:1: the file is larger than 8 MiB, the most that is allowed; put callers that are alike into a plan, or tell the plan by an attribute\n"
	if got := printed(problems); got != want || c != nil {
		t.Errorf("got %v\n%s", c, cmp.Diff(want, got))
	}
}

func TestUnreadable(t *testing.T) {
	for path, want := range map[string]string{
		"testdata/none.yaml": "testdata/none.yaml: the file cannot be read: no such file or directory\n",
		"testdata":           "testdata: the file cannot be read: is a directory\n",
	} {
		if _, problems := config.Load(path, nil); printed(problems) != want {
			t.Errorf("got  %swant %s", printed(problems), want)
		}
	}
}

func TestGood(t *testing.T) {
	for _, path := range append(glob(t, "testdata/good/*.yaml"), glob(t, "../examples/*/stint*.yaml")...) {
		f, problems := config.Parse(path, read(t, path))
		if f == nil || len(problems) > 0 {
			t.Error(printed(problems))
		}
	}
}

// TestFull reads a file that has every field, and again with the YAML
// library's own decoder, which is lenient. Both must see the same.
func TestFull(t *testing.T) {
	data := read(t, "testdata/good/full.yaml")
	got, problems := config.Parse("full.yaml", data)
	if got == nil {
		t.Fatal(printed(problems))
	}
	var want config.File
	if err := yaml.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("-library +config:\n%s", diff)
	}
	for _, m := range config.Mappings() {
		for _, f := range m.Fields {
			if !config.HasField(data, m.Path, f.Name) {
				t.Errorf("full.yaml does not have %s in %q", f.Name, m.Path)
			}
		}
	}
}

// TestDefaults reads the least that a file can be.
func TestDefaults(t *testing.T) {
	got, problems := config.Parse("stint.yaml", []byte("version: 1"))
	if got == nil {
		t.Fatal(printed(problems))
	}
	want := &config.File{
		Version:       1,
		Listen:        config.Listen{Proxy: "127.0.0.1:8000", API: "127.0.0.1:8080", GRPC: "off"},
		Proxy:         config.Proxy{Timeout: duration(t, "30s")},
		Store:         "memory",
		Memory:        config.Memory{MaxKeys: 1_000_000},
		StoreTimeout:  duration(t, "1s"),
		Sync:          config.Sync{Every: duration(t, "200ms"), MaxKeys: 1_000_000},
		Slots:         config.Slots{Store: "off", Timeout: duration(t, "5s"), Delivery: config.Delivery{Timeout: duration(t, "10s"), Attempts: 12}},
		RulesFrom:     config.RulesFrom{Store: "off", Every: duration(t, "200ms"), Key: []string{"user|ip"}},
		Headers:       "draft10",
		Log:           config.Log{Format: "text", Level: "info", DeniedPerSecond: 10},
		Telemetry:     config.Telemetry{TopClients: config.TopClients{Size: 20}},
		ShutdownGrace: duration(t, "20s"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestLoad makes everything of a file, whose relative names start at its folder.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "secret", strings.Repeat("s", 32))
	path := write(t, dir, "stint.yaml", `
version: 1
store: sqlite:data/stint.db
identity:
  attributes:
    user: [{jwt: {hmac_secret_file: secret}}]
rules:
  - {name: items, key: user, limits: [{quota: 1, window: 10s}]}
`)
	c, problems := config.Load(path, nil)
	if c == nil || len(problems) > 0 {
		t.Fatal(printed(problems))
	}
	defer c.Close()
	if want := "sqlite:" + filepath.Join(dir, "data/stint.db"); c.File.Store != want {
		t.Errorf("the store is %q, want %q", c.File.Store, want)
	}
	if got := len(c.Rules.Rules()); got != 1 {
		t.Errorf("there are %d rules, want 1", got)
	}
	if c.Identity == nil {
		t.Error("there is no Identity")
	}
}

// TestWarning: a file that only has warnings can be used.
func TestWarning(t *testing.T) {
	c, problems := config.Load("testdata/bad/meaning/unknown-attribute.yaml", nil)
	if c == nil || len(problems) == 0 {
		t.Fatalf("got %v with\n%s", c, printed(problems))
	}
	c.Close()
}

func TestAddresses(t *testing.T) {
	const upstream = "proxy: {upstream: http://127.0.0.1:9000}\n"
	for _, tt := range []struct{ text, proxy, api string }{
		{"", "", "127.0.0.1:8080"},
		{upstream, "127.0.0.1:8000", "127.0.0.1:8080"},
		{"listen: {proxy: ':80', api: off}\n" + upstream, ":80", ""},
		{"listen: {proxy: off, api: '[::1]:0'}\n" + upstream, "", "[::1]:0"},
		{"listen: {proxy: localhost:0, api: localhost:0}\n" + upstream, "localhost:0", "localhost:0"},
	} {
		f, problems := config.Parse("stint.yaml", []byte("version: 1\n"+tt.text))
		if f == nil {
			t.Fatal(printed(problems))
		}
		if f.ProxyAddress() != tt.proxy || f.APIAddress() != tt.api {
			t.Errorf("%s: proxy %q, API %q; want %q, %q", tt.text, f.ProxyAddress(), f.APIAddress(), tt.proxy, tt.api)
		}
	}
}

func TestNeedRestart(t *testing.T) {
	for _, tt := range []struct {
		change string
		want   []string
	}{
		{"rules: [{name: a, limits: [{quota: 1, window: 1s}]}]", nil},
		{"plans: {gold: {members: {tenant: acme}}}", nil},
		{"identity: {ipv6_prefix: 48}", nil},
		{"listen: {proxy: 127.0.0.1:8000}", nil}, // the default
		{"log: {level: debug}", []string{"log"}},
		{"store: sqlite:a.db\nlisten: {api: off}", []string{"listen", "store"}},
	} {
		before, _ := config.Parse("stint.yaml", []byte("version: 1\n"))
		after, problems := config.Parse("stint.yaml", []byte("version: 1\n"+tt.change))
		if after == nil {
			t.Fatal(printed(problems))
		}
		if diff := cmp.Diff(tt.want, before.NeedRestart(after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.change, diff)
		}
	}
}

// TestAliasBomb reads few lines that stand for a billion rules.
func TestAliasBomb(t *testing.T) {
	bomb := "version: 1\nrules:\n  - &rule\n    name: a\n    limits: [{quota: 1, window: 1s}]\n    overrides: &overrides\n" +
		"      - {plan: gold, limits: &limits [" + strings.Repeat("{quota: 1, window: 1s}, ", 1000) + "]}\n" +
		strings.Repeat("      - {plan: gold, limits: *limits}\n", 1000) + strings.Repeat("  - *rule\n", 1000)
	_, problems := config.Parse("bomb.yaml", []byte(bomb))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "more than 1000000 values") {
		t.Error(printed(problems))
	}
}

// TestManyProblems: what is wrong throughout is not printed in full.
func TestManyProblems(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("version: 1\n")
	for i := range 5000 {
		text.WriteString("field" + strings.Repeat("x", i%50) + ":\n")
	}
	_, problems := config.Parse("stint.yaml", text.Bytes())
	if len(problems) != 1001 || problems[1000].Message != "only 1000 problems are shown; correct these first" {
		t.Errorf("%d problems, the last is %v", len(problems), problems[len(problems)-1])
	}
}

// TestManyWarnings: they don't hide that the file cannot be used.
func TestManyWarnings(t *testing.T) {
	text := "version: 1\nplans:\n" +
		"  bronze: {members: {tenant: [acme]}}\n" +
		"  gold: {members: {tenant: [" + strings.Repeat("acme, ", 5000) + "]}}\n"
	f, problems := config.Parse("stint.yaml", []byte(text))
	last := problems[len(problems)-1]
	if f == nil || len(problems) != 501 || !last.Warning || last.Message != "only 500 problems are shown; correct these first" {
		t.Errorf("%d problems, the last is %v; the File is %v", len(problems), last, f)
	}
	f, problems = config.Parse("stint.yaml", []byte(text+"rules: [{name: A, limits: [{quota: 1, window: 1s}]}]\n"))
	if f != nil || !strings.Contains(printed(problems), "rules[0].name") {
		t.Errorf("a problem is hidden by %d warnings", len(problems))
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func duration(t *testing.T, text string) (d rules.Duration) {
	t.Helper()
	if err := d.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return d
}
