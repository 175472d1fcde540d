package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		p    Progress
		want string
	}{
		{Progress{Lines: 500, Bytes: 40, Total: 100, Took: 2 * time.Second}, "[############..................]  40%  250 lines/s  3s left"},
		{Progress{Lines: 500, Bytes: 120, Total: 100, Took: time.Second}, "[##############################] 100%  500 lines/s  0s left"},
		{Progress{Lines: 500, Bytes: 40, Took: 2 * time.Second}, "500 lines  250 lines/s"},
	} {
		if got := bar(tt.p) + figures(tt.p); got != tt.want {
			t.Errorf("%+v: %s; want %s", tt.p, got, tt.want)
		}
	}
}

// TestProgressInAFile shows progress ten times a second for half a minute.
func TestProgressInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := NewProgressBar(file)
	for i := range int64(300) {
		b.Show(Progress{Lines: 100 * i, Bytes: i, Total: 300, Took: time.Duration(i) * time.Second / 10})
	}
	b.Clear()
	const want = "replay:  33%  1000 lines/s  20s left\nreplay:  67%  1000 lines/s  10s left\n"
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%q, want %q (%v)", got, want, err)
	}
}

func TestProgressBarIsClearedOnce(t *testing.T) {
	var screen strings.Builder
	b := &ProgressBar{w: &screen, terminal: true}
	b.Clear()
	b.Show(Progress{Lines: 1, Took: time.Second})
	b.Clear()
	b.Clear()
	if want := "\r\x1b[K1 lines  1 lines/s\r\x1b[K"; screen.String() != want {
		t.Errorf("%q, want %q", screen.String(), want)
	}
}
