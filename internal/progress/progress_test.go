package progress

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBarOnATerminal(t *testing.T) {
	for _, tt := range []struct {
		units int64
		part  float64
		took  time.Duration
		want  string
	}{
		{500, 0.4, 2 * time.Second, "[############..................]  40%  250 lines/s  3s left"},
		{500, 1.2, time.Second, "[##############################] 100%  500 lines/s  0s left"},
		{500, 0, 2 * time.Second, "500 lines  250 lines/s"},
	} {
		var screen strings.Builder
		b := &Bar{w: &screen, unit: "lines", terminal: true}
		b.Show(tt.units, tt.part, tt.took)
		if want := "\r\x1b[K" + tt.want; screen.String() != want {
			t.Errorf("%+v: %q; want %q", tt, screen.String(), want)
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
	b := New(file, "replay", "lines")
	for i := range int64(300) {
		b.Show(100*i, float64(i)/300, time.Duration(i)*time.Second/10)
	}
	b.Clear()
	const want = "replay:  33%  1000 lines/s  20s left\nreplay:  67%  1000 lines/s  10s left\n"
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%q, want %q (%v)", got, want, err)
	}
}

func TestBarIsClearedOnce(t *testing.T) {
	var screen strings.Builder
	b := &Bar{w: &screen, unit: "lines", terminal: true}
	b.Clear()
	b.Show(1, 0, time.Second)
	b.Clear()
	b.Clear()
	if want := "\r\x1b[K1 lines  1 lines/s\r\x1b[K"; screen.String() != want {
		t.Errorf("%q, want %q", screen.String(), want)
	}
}
