package replay_test

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/rules"
)

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func gz(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHostileLines(t *testing.T) {
	good := combined("192.0.2.7", 0, "/")
	longest := strings.TrimSuffix(combined("192.0.2.7", 0, "/"+strings.Repeat("a", 64<<10-len(good))), "\n")
	garbage := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{}).Read(garbage)
	for i, c := range garbage {
		if c == '\n' {
			garbage[i] = 0
		}
	}
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"a line of 1 MiB", good + strings.Repeat("x", 1<<20) + "\n" + good, []string{"-:2: the line is longer than 64 KiB"}},
		{"at the end", good + good + `{` + strings.Repeat(" ", 1<<20), []string{"-:3: the line is longer than 64 KiB"}},
		{"as long as allowed", longest + "\n" + good, nil},
		{"one byte longer", good + good + longest + "a\n", []string{"-:3: the line is longer than 64 KiB"}},
		{"binary garbage", good + string(garbage) + "\n" + good, []string{"-:2: the line is longer than 64 KiB"}},
		{"less of it", good + "\x00\x80" + string(garbage[:99]) + "\n" + good, []string{"-:2: no time in brackets after host, identity and user"}},
		{"nothing but line ends", "\n\r\n" + good + "\n" + good, nil},
		{"no line end", good + strings.TrimSuffix(good, "\n"), nil},
		{
			"more than are told apart", good + strings.Repeat("x\n", 7) + good,
			[]string{
				"-:2: no time in brackets after host, identity and user", "-:3: no time in brackets after host, identity and user",
				"-:4: no time in brackets after host, identity and user", "-:5: no time in brackets after host, identity and user",
				"-:6: no time in brackets after host, identity and user",
			},
		},
	} {
		report := onStdin(t, perIP("fixed", 1), tt.text)
		if !slices.Equal(report.Examples, tt.want) || report.Requests != 2 || report.Malformed != report.Lines-2 {
			t.Errorf("%s: %d lines, %d requests, %d malformed: %q", tt.name, report.Lines, report.Requests, report.Malformed, report.Examples)
		}
	}
}

// TestTimeNeverGoesBack has a line that is a minute late: it is decided at the
// time of the line before it, under which the window is full.
func TestTimeNeverGoesBack(t *testing.T) {
	text := combined("192.0.2.7", 2*time.Minute, "/") + combined("192.0.2.7", time.Minute, "/") + combined("192.0.2.7", 3*time.Minute, "/")
	report := onStdin(t, perIP("fixed", 1), text)
	if report.OutOfOrder != 1 || report.Denied != 1 || !report.First.Equal(start.Add(time.Minute)) || !report.Last.Equal(start.Add(3*time.Minute)) {
		t.Errorf("%+v", report)
	}
}

func TestOverridesEndInTheTimeOfTheLog(t *testing.T) {
	spec := perIP("fixed", 1)
	spec.Rules[0].Overrides = []rules.OverrideSpec{{
		When: map[string]rules.Pattern{"ip": "192.0.2.7"}, Exempt: true, Until: new(start.Add(30 * time.Second)),
	}}
	text := strings.Repeat(combined("192.0.2.7", 20*time.Second, "/"), 5) + strings.Repeat(combined("192.0.2.7", 40*time.Second, "/"), 5)
	if report := onStdin(t, spec, text); report.Denied != 4 || report.Rules[0].Requests != 5 {
		t.Errorf("%+v", report)
	}
}
