package algo_test

import (
	"math"
	"testing"

	"github.com/stint-dev/stint/limit/algo"
)

func TestCheck(t *testing.T) {
	tooLong := algo.MaxWindow + algo.Day
	for _, test := range []struct {
		a    *algo.Algorithm
		l    algo.Limit
		want string
	}{
		{algo.GCRA, algo.Limit{Quota: 1, Window: algo.MinWindow, Burst: 1}, ""},
		{algo.GCRA, algo.Limit{Quota: math.MaxInt64, Window: algo.MaxWindow, Burst: math.MaxInt64}, ""},
		{algo.GCRA, algo.Limit{Quota: 0, Window: algo.Minute}, ""},
		{algo.GCRA, algo.Limit{Quota: -1, Window: algo.Minute, Burst: 1}, "quota: -1 is negative; 0 (admit nothing) or more is allowed"},
		{algo.GCRA, algo.Limit{Quota: 1, Burst: 1}, "window: 0s is out of bounds; 1ms to 365d is allowed"},
		{algo.GCRA, algo.Limit{Quota: 1, Window: algo.MinWindow - 1, Burst: 1}, "window: 999us is out of bounds; 1ms to 365d is allowed"},
		{algo.GCRA, algo.Limit{Quota: 1, Window: tooLong, Burst: 1}, "window: 366d is out of bounds; 1ms to 365d is allowed"},
		{algo.GCRA, algo.Limit{Quota: 1, Window: -algo.Minute, Burst: 1}, "window: -1m is out of bounds; 1ms to 365d is allowed"},
		{algo.GCRA, algo.Limit{Quota: 1, Window: algo.Minute, Burst: 0}, "burst: 0 is too small; at least 1 is allowed"},
		{algo.Sliding, algo.Limit{Quota: math.MaxInt64, Window: algo.MinWindow}, ""},
		{algo.Sliding, algo.Limit{Quota: -5, Window: algo.Minute}, "quota: -5 is negative; 0 (admit nothing) or more is allowed"},
		{algo.Proportional, algo.Limit{Quota: math.MaxInt64, Window: algo.MaxWindow}, ""},
		{algo.Proportional, algo.Limit{Quota: 1, Window: tooLong}, "window: 366d is out of bounds; 1ms to 365d is allowed"},
		{algo.Log, algo.Limit{Quota: algo.MaxLogQuota, Window: algo.Minute}, ""},
		{algo.Log, algo.Limit{Quota: 5000, Window: algo.Minute}, "quota: 5000 is too large for the log algorithm; at most 4096 is allowed (sliding has no such bound)"},
		{algo.Fixed, algo.Limit{Quota: math.MaxInt64, Window: algo.MaxWindow}, ""},
		{algo.Fixed, algo.Limit{Quota: 1, Window: 90 * algo.Microsecond}, "window: 90us is out of bounds; 1ms to 365d is allowed"},
	} {
		got := ""
		if err := test.a.Check(test.l); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %+v:\n got %q\nwant %q", test.a, test.l, got, test.want)
		}
	}
}

func TestByName(t *testing.T) {
	ids := map[byte]string{}
	for _, a := range algo.All {
		if algo.ByName(a.Name) != a {
			t.Errorf("ByName(%q) is another algorithm", a.Name)
		}
		if other, taken := ids[a.ID]; taken {
			t.Errorf("%s and %s share the ID %q", a, other, a.ID)
		}
		ids[a.ID] = a.Name
	}
	if a := algo.ByName("GCRA"); a != nil {
		t.Errorf("ByName is not exact: %s", a)
	}
}

func TestTicksString(t *testing.T) {
	for ticks, want := range map[algo.Ticks]string{
		0:                        "0s",
		1:                        "1us",
		1500:                     "1ms500us",
		90 * algo.Second:         "1m30s",
		algo.Hour:                "1h",
		algo.Year:                "365d",
		algo.Day + 5*algo.Minute: "1d5m",
		-2 * algo.Second:         "-2s",
		math.MinInt64:            "-106751991d4h54s775ms808us",
	} {
		if got := ticks.String(); got != want {
			t.Errorf("%d: got %s, want %s", int64(ticks), got, want)
		}
	}
}
