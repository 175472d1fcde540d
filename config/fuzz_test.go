package config_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/config"
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
