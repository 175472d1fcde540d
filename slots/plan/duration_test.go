package plan_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/slots/plan"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]plan.Ticks{
		"PT4S":                 4 * plan.Second,
		"PT0.5S":               500 * plan.Millisecond,
		"PT1.5S":               1500 * plan.Millisecond,
		"PT0.001S":             plan.Millisecond,
		"PT0.000001S":          1,
		"PT5M":                 5 * plan.Minute,
		"PT90S":                90 * plan.Second,
		"PT1H30M":              90 * plan.Minute,
		"P1D":                  plan.Day,
		"P1DT12H":              36 * plan.Hour,
		"P2W":                  14 * plan.Day,
		"PT9223372036853.775S": 9_223_372_036_853_775 * plan.Millisecond,
	} {
		if got, err := plan.ParseDuration(text); got != want || err != nil {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestDurationsThatAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		"":                        "must begin with P",
		"4s":                      "must begin with P",
		"P":                       "must begin with P",
		"PT":                      "must begin with P",
		"P1DT":                    "must begin with P",
		"-PT4S":                   "must begin with P",
		"pt4s":                    "must begin with P",
		"P4S":                     `"4S" is not understood`,
		"PT0S":                    "longer than zero",
		"P0D":                     "longer than zero",
		"P1M":                     "years and months",
		"P1Y2D":                   "years and months",
		"PT-4S":                   `"-4" is not a whole number`,
		"PT+4S":                   `"+4" is not a whole number`,
		"PTS":                     `"" is not a whole number`,
		"PT.5S":                   `"" is not a whole number`,
		"PT1.S":                   "one to six digits",
		"PT0.0000001S":            "one to six digits",
		"PT1.5M":                  "only seconds",
		"PT1,5S":                  `"1,5" is not a whole number`,
		"PT4S1M":                  `"4S1" is not a whole number`,
		"PT4S4S":                  `"4S" is not understood`,
		"PT4SX":                   `"X" is not understood`,
		"P1W1D":                   `"1W1" is not a whole number`,
		"P1WT1H":                  `"1W" is not understood`,
		"PT4S\x00":                "is not understood",
		"PT9223372036854775807S":  "too long",
		"PT99999999999999999999S": "too long",
		"P106751991DT10H":         "too long",
	} {
		if got, err := plan.ParseDuration(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: got %d, %v; want an error with %q", text, got, err, why)
		} else if !strings.Contains(err.Error(), "PT4S") {
			t.Errorf("%q: the error does not say what to write: %v", text, err)
		}
	}
}

func TestDurationsAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := plan.Ticks(rapid.Int64Range(1, math.MaxInt64-int64(2*plan.Second)).Draw(t, "duration"))
		text := plan.FormatDuration(d)
		if got, err := plan.ParseDuration(text); got != d || err != nil {
			t.Fatalf("%d is written %s and read %d, %v", d, text, got, err)
		}
	})
	if got := plan.FormatDuration(4 * plan.Second); got != "PT4S" {
		t.Errorf("4 seconds are written %s", got)
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"PT4S", "P1DT2H3M4.5S", "P2W", "PT0S", "4s", "P1Y", "PT99999999999999999999S"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := plan.ParseDuration(text)
		if err != nil {
			return
		}
		if again, err := plan.ParseDuration(plan.FormatDuration(d)); again != d || d <= 0 || err != nil {
			t.Errorf("%q is read %d, written %s and read %d, %v", text, d, plan.FormatDuration(d), again, err)
		}
	})
}
