package replay

import (
	"os"
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
		if got := bar(tt.p); got != tt.want {
			t.Errorf("%+v: %s; want %s", tt.p, got, tt.want)
		}
	}
}

func TestProgressBarIsOnlyForTerminals(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := NewProgressBar(file)
	b.Show(Progress{Lines: 1, Took: time.Second})
	b.Clear()
	if info, err := file.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("wrote %d bytes to a file (%v)", info.Size(), err)
	}
}

func TestProgressBarIsClearedOnce(t *testing.T) {
	var screen strings.Builder
	b := &ProgressBar{w: &screen}
	b.Clear()
	b.Show(Progress{Lines: 1, Took: time.Second})
	b.Clear()
	b.Clear()
	if want := "\r\x1b[K1 lines  1 lines/s\r\x1b[K"; screen.String() != want {
		t.Errorf("%q, want %q", screen.String(), want)
	}
}
