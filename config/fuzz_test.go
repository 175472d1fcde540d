package config_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
)

// FuzzParse: whatever is in a file, Parse comes back, every problem has a
// place in it, and only a file without problems is a File.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*/*.yaml"} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, problems := config.Parse("stint.yaml", data)
		lines := 1 + bytes.Count(data, []byte("\n"))
		last, fatal := 0, false
		for _, p := range problems {
			if p.Line < max(1, last) || p.Line > lines || p.Column < 1 || p.Message == "" {
				t.Errorf("misplaced in %d lines: %v", lines, p)
			}
			last, fatal = p.Line, fatal || !p.Warning
		}
		if fatal == (file != nil) {
			t.Errorf("File is %v with problems %v", file, problems)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var text bytes.Buffer
	text.WriteString("version: 1\nplans:\n  gold:\n    members:\n      tenant:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "        - tenant-%d\n", i)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if f, problems := config.Parse("stint.yaml", text.Bytes()); f == nil {
			b.Fatal(problems[0])
		}
	}
}

// What DecodeRow understands, EncodeRow writes so that it is understood the same; and
// a rule that is written as JSON is the same rule.
func FuzzRow(f *testing.F) {
	for _, seed := range []string{
		"path: /entity/#\ncalls: 10\nperiod: 1m", `{"path":"/a\u0000","calls":0,"period":"1ms"}`, "calls: 1", "name: x\npath: 'a: b'\ncalls: -1\nperiod: 0s",
		"name: x # note\nmatch: {path: /a, headers: {X-A: '*'}}\nkey: user\nlimits: [{quota: 0, window: 1d, burst: 3}]\noverrides: [{plan: pro, exempt: true, until: 2031-02-01T00:00:00Z}]\nqueue: {max_wait: 1s, max_queue: 3}\nmax_overshoot: 5",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		row, problems := config.DecodeRow(text)
		if row == (rules.Row{}) {
			if len(problems) == 0 {
				t.Errorf("%q is no row, and nothing is wrong with it", text)
			}
			return
		}
		again, problems := config.DecodeRow(config.EncodeRow(&row))
		if again != row {
			t.Errorf("%q is %+v, and then %+v: %v", text, row, again, problems)
		}
		if row.IsPlain() {
			return
		}
		spec, _ := config.DecodeRule(row.Rule)
		same, problems := config.DecodeRule(string(config.EncodeRule(spec)))
		if diff := cmp.Diff(spec, same, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q as JSON is %s, another rule (-was +is): %s %v", text, config.EncodeRule(spec), diff, problems)
		}
		for _, shadow := range []bool{true, false} {
			changed, err := config.SetShadow(row.Rule, shadow)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			same, problems := config.DecodeRule(changed)
			spec.Shadow = shadow
			if diff := cmp.Diff(spec, same, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%q in shadow %v is %q, another rule (-want +is): %s %v", text, shadow, changed, diff, problems)
			}
		}
	})
}
