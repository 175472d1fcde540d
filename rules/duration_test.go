package rules_test

import (
	"math"
	"testing"
	"time"

	"github.com/stint-dev/stint/rules"
)

func TestDuration(t *testing.T) {
	const help = "; a number and a unit (us, ms, s, m, h, d, w) is allowed, such as 10s, 1m30s or 7d"
	for _, c := range []struct {
		text  string
		want  time.Duration
		write string // how it is written; "" means as it was read
		err   string
	}{
		{text: "10s", want: 10 * time.Second},
		{text: "1m30s", want: 90 * time.Second},
		{text: "1m", want: time.Minute},
		{text: "10m", want: 10 * time.Minute},
		{text: "1h", want: time.Hour},
		{text: "1h10m", want: 70 * time.Minute},
		{text: "1h0m5s", want: time.Hour + 5*time.Second},
		{text: "90m", want: 90 * time.Minute, write: "1h30m"},
		{text: "1.5h", want: 90 * time.Minute, write: "1h30m"},
		{text: "1d", want: 24 * time.Hour},
		{text: "24h", want: 24 * time.Hour, write: "1d"},
		{text: "1d12h", want: 36 * time.Hour},
		{text: "1w", want: 7 * 24 * time.Hour, write: "7d"},
		{text: "1w1d1h1m1s1ms1us", want: 8*24*time.Hour + time.Hour + time.Minute + time.Second + time.Millisecond + time.Microsecond, write: "8d1h1m1.001001s"},
		{text: "250us", want: 250 * time.Microsecond},
		{text: "2s1us", want: 2*time.Second + time.Microsecond, write: "2.000001s"},
		{text: "1.5d", want: 36 * time.Hour, write: "1d12h"},
		{text: "0.25w", want: 42 * time.Hour, write: "1d18h"},
		{text: "1.000001s", want: time.Second + time.Microsecond},
		{text: "1.0000000s", want: time.Second, write: "1s"},
		{text: "1.5ms", want: 1500 * time.Microsecond},
		{text: "0s", want: 0},
		{text: "0d", want: 0, write: "0s"},
		{text: "2562047h", want: 2562047 * time.Hour, write: "106751d23h"},

		{text: "", err: `"" is not a duration` + help},
		{text: "0", err: `"0" is not a duration` + help},
		{text: "5", err: `"5" is not a duration` + help},
		{text: "1d5", err: `"1d5" is not a duration` + help},
		{text: "1d0", err: `"1d0" is not a duration` + help},
		{text: "-1s", err: `"-1s" is not a duration` + help},
		{text: "+1s", err: `"+1s" is not a duration` + help},
		{text: "-1d", err: `"-1d" is not a duration` + help},
		{text: "1d-1h", err: `"1d-1h" is not a duration` + help},
		{text: "1.", err: `"1." is not a duration` + help},
		{text: "1.s", err: `"1.s" is not a duration` + help},
		{text: ".5s", err: `".5s" is not a duration` + help},
		{text: "1.2.3s", err: `"1.2.3s" is not a duration` + help},
		{text: "250µs", err: `"250µs" is not a duration` + help},
		{text: "d", err: `"d" is not a duration` + help},
		{text: "1d1w", err: `"1d1w" is not a duration` + help},
		{text: "1d1d", err: `"1d1d" is not a duration` + help},
		{text: "1h1d", err: `"1h1d" is not a duration` + help},
		{text: "10 s", err: `"10 s" is not a duration` + help},
		{text: "1month", err: `"1month" is not a duration` + help},
		{text: "1500ns", err: `"1500ns" is not a duration` + help},
		{text: "1.5us", err: `"1.5us" is finer than a microsecond` + help},
		{text: "0.000000000000000000000001w", err: `"0.000000000000000000000001w" is finer than a microsecond` + help},
		{text: "0.0000001s", err: `"0.0000001s" is finer than a microsecond` + help},
		{text: "9999999h", err: `"9999999h" is too long` + help},
		{text: "99999999999999999999s", err: `"99999999999999999999s" is too long` + help},
		{text: "106752d", err: `"106752d" is too long` + help},
		{text: "15000w15000d", err: `"15000w15000d" is too long` + help},
		{text: "106751d24h", err: `"106751d24h" is too long` + help},
		{text: "99999999999d", err: `"99999999999d" is too long` + help},
	} {
		var d rules.Duration
		err := d.UnmarshalText([]byte(c.text))
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%q: error %v, want %s", c.text, err, c.err)
			}
			continue
		}
		if err != nil || time.Duration(d) != c.want {
			t.Errorf("%q: %v, %v, want %v", c.text, time.Duration(d), err, c.want)
		}
		want := c.write
		if want == "" {
			want = c.text
		}
		if got := d.String(); got != want {
			t.Errorf("%q is written %q, want %q", c.text, got, want)
		}
	}
	if got := rules.Duration(-time.Second).String(); got != "-1s" {
		t.Errorf("-1s is written %q", got)
	}
	if got := rules.Duration(math.MinInt64).String(); got == "" {
		t.Error("the least Duration is written as nothing")
	}
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"", "5", "10s", "1d12h", "1w", "-1s", "1.5d", "9999999h", "250us", "106751d23h47m16.854775s", "0d", "1h0m5s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d, again rules.Duration
		if d.UnmarshalText([]byte(text)) != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is %v", text, d)
		}
		written, _ := d.MarshalText()
		if err := again.UnmarshalText(written); err != nil || again != d {
			t.Errorf("%q is written %q, which is read as %v, %v", text, written, again, err)
		}
	})
}
