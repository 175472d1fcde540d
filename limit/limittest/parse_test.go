package limittest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/limit/algo"
)

func TestParseErrors(t *testing.T) {
	const policy = "policy login gcra quota=5 window=1m\n"
	for _, test := range []struct{ text, want string }{
		{"", "x.txt:1: nothing is done; at least one line with at is needed"},
		{policy, "x.txt:1: nothing is done; at least one line with at is needed"},
		{"take alice 1", `x.txt:1: "take" begins no line; start, policy, at and # do`},
		{"start noon", `x.txt:1: start: "noon" is no instant from 1970 to 2255, such as 2026-01-01T00:00:00Z`},
		{"start", "x.txt:1: start has 0 words; one instant is allowed, such as 2026-01-01T00:00:00Z"},
		{policy + "start 2026-01-01T00:00:00Z", "x.txt:2: start comes too late; it is allowed once, before everything else"},
		{"policy login", "x.txt:1: policy needs a name and an algorithm, such as: policy login gcra quota=5 window=1m"},
		{"policy login leaky", `x.txt:1: algorithm: "leaky" is unknown; [gcra sliding sliding-proportional log fixed] are allowed`},
		{"policy login gcra quota=5", "x.txt:1: policy login: window: 0s is out of bounds; 1ms to 365d is allowed"},
		{"policy login gcra quota=-5", `x.txt:1: quota: "-5" is no whole number from 0 to 9223372036854775807`},
		{"policy login gcra limit=5", `x.txt:1: "limit=5" is not allowed here; quota, window and burst are, each once and as name=value`},
		{"policy login gcra quota=5 quota=6", `x.txt:1: "quota=6" is not allowed here; quota, window and burst are, each once and as name=value`},
		{"policy login gcra quota=5 window=1w", `x.txt:1: window: "1w" is no span of time, such as 1m30s; units are d, h, m, s, ms and us, in this order`},
		{"policy login log quota=5000 window=1m", "x.txt:1: policy login: quota: 5000 is too large for the log algorithm; at most 4096 is allowed (sliding has no such bound)"},
		{"at 0s take alice 1", "x.txt:1: no policy has been given yet; a line with policy must come first"},
		{policy + "at 0s", "x.txt:2: at needs an offset, a verb and a key, such as: at 1s take alice 1 -> allow"},
		{policy + "at noon take alice 1 -> allow", `x.txt:2: at: "noon" is no offset from 0s to 36500d, such as 1m30s`},
		{policy + "at 0s spend alice 1 -> allow", `x.txt:2: "spend" is no verb; take, peek, refund, reset and used are allowed`},
		{policy + "at 0s take alice -> allow", "x.txt:2: take has 0 words after its key; a cost is allowed, and under and a policy"},
		{policy + "at 0s take alice one -> allow", `x.txt:2: cost: "one" is no whole number from 0 to 9223372036854775807`},
		{policy + "at 0s take alice 6 -> deny", "x.txt:2: cost: 6 can never be admitted under login; at most 5 is allowed"},
		{policy + "at 0s take alice 1", "x.txt:2: -> must be followed by allow or deny"},
		{policy + "at 0s take alice 1 -> maybe", "x.txt:2: -> must be followed by allow or deny"},
		{policy + "at 0s take alice 1 -> deny wait=1s", `x.txt:2: "wait=1s" is not allowed here; remaining, retry and reset are, each once and as name=value`},
		{policy + "at 0s take alice 1 -> deny retry=soon", `x.txt:2: retry: "soon" is no span of time, such as 1m30s; units are d, h, m, s, ms and us, in this order`},
		{policy + "at 0s take alice 1 under logout -> allow", `x.txt:2: under: "logout" is no policy that has been given`},
		{policy + "policy api log quota=1 window=1s\nat 0s take alice 1 -> allow", "x.txt:3: under which policy? There are 2; add under and a name"},
		{policy + "at 0s reset alice 1", `x.txt:2: reset: "1" is too much; only a key is allowed`},
		{policy + "at 0s reset alice -> allow", "x.txt:2: reset: nothing is allowed after the key, not even ->"},
		{policy + "at 0s used alice", "x.txt:2: used: -> must be followed by one number"},
		{policy + "at 0s used alice -> NaN", `x.txt:2: used: "NaN" is no number of units, such as 10.25`},
	} {
		_, err := Parse("x.txt", test.text)
		if err == nil || err.Error() != test.want {
			t.Errorf("%q:\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
}

// A wrong expectation is told with its line and what was decided instead.
func TestScriptReports(t *testing.T) {
	const text = "policy login gcra quota=5 window=1m\nat 0s take alice 5 -> allow\n"
	for _, test := range []struct{ line, want string }{
		{"at 1s take alice 1 -> allow", "x.txt:3: at 1s take alice 1 under login: got {Policy:login Allowed:false Limit:5 Remaining:0 RetryAfter:11s ResetAfter:59s Degraded:false}, want allow"},
		{"at 1s take alice 1 -> deny retry=12s", "x.txt:3: at 1s take alice 1 under login: got retry=11s, want 12s; "},
		{"at 1s peek alice 1 -> deny remaining=1 reset=1m", "x.txt:3: at 1s peek alice 1 under login: got remaining=0, want 1; got reset=59s, want 1m0s; "},
		{"at 0s used alice -> 4", "x.txt:3: at 0s used alice under login: got 5, want 4"},
	} {
		script, err := Parse("x.txt", text+test.line)
		if err != nil {
			t.Fatal(err)
		}
		heard := &listener{TB: t}
		script.Run(heard, Pure())
		if heard.said != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.line, heard.said, test.want)
		}
	}
}

func TestSpans(t *testing.T) {
	for _, span := range []algo.Ticks{0, 1, 999, algo.Millisecond, 90 * algo.Second, algo.Year + algo.Hour + 1, 1<<63 - 1} {
		if got, err := parseSpan(span.String()); err != nil || got != span {
			t.Errorf("%v reads as %v, %v", span, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                      "a span of time is missing, such as 1m30s",
		"1s1m":                  `"1s1m" is no span of time, such as 1m30s; units are d, h, m, s, ms and us, in this order`,
		"1":                     `"1" is no span of time, such as 1m30s; units are d, h, m, s, ms and us, in this order`,
		"106751992d":            `"106751992d" is too long`,
		"99999999999999999999s": `"99999999999999999999s" is too long`,
	} {
		if got, err := parseSpan(text); err == nil || err.Error() != want {
			t.Errorf("%q reads as %v, %v; want %s", text, got, err, want)
		}
	}
}

// Whatever is a script can be played, and says of itself what it does.
func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/decisions/*.txt")
	if err != nil || len(names) == 0 {
		f.Fatalf("%d scripts, %v", len(names), err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("start 2255-01-01T00:00:00Z\npolicy p log quota=4096 window=365d\nat 36500d take k 4096 -> deny remaining=0 retry=1d reset=1us")
	f.Add("policy p gcra quota=1 window=365d burst=9223372036854775807\nat 0s refund k 9223372036854775807 under p -> allow")
	f.Fuzz(func(t *testing.T, text string) {
		script, err := Parse("fuzz.txt", text)
		if err != nil {
			return
		}
		for _, s := range script.Steps {
			if s.At < script.Start || s.Cost < 0 || s.Policy.Check() != nil {
				t.Fatalf("%+v of %q", s, text)
			}
		}
		script.Run(&listener{TB: t}, Pure())
	})
}

// listener hears what a script reports and does not fail.
type listener struct {
	testing.TB
	said string
}

func (l *listener) Helper() {}

func (l *listener) Errorf(format string, args ...any) { l.said += fmt.Sprintf(format, args...) }
