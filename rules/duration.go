package rules

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that people write with units: w, d, h, m, s, ms
// and us, the larger before the smaller, such as 10s, 1m30s or 7d.
type Duration time.Duration

var durationUnits = []struct {
	name string
	span time.Duration
}{
	{"w", 7 * day},
	{"d", day},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
}

const day = 24 * time.Hour

// What can be wrong with a duration.
var (
	errNotDuration = errors.New("is not a duration")
	errTooLong     = errors.New("is too long")
	errTooFine     = errors.New("is finer than a microsecond")
)

// UnmarshalText reads a duration. A number may have a fraction, but not one of
// a microsecond, and no sign.
func (d *Duration) UnmarshalText(text []byte) error {
	total, err := parseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q %w; a number and a unit (us, ms, s, m, h, d, w) is allowed, such as 10s, 1m30s or 7d", text, err)
	}
	*d = Duration(total)
	return nil
}

func parseDuration(s string) (total time.Duration, err error) {
	if s == "" {
		return 0, errNotDuration
	}
	units := durationUnits
	for s != "" {
		number := s[:len(s)-len(strings.TrimLeft(s, "0123456789."))]
		s = s[len(number):]
		name := s
		if end := strings.IndexAny(s, "0123456789."); end >= 0 {
			name = s[:end]
		}
		s = s[len(name):]
		for len(units) > 0 && units[0].name != name {
			units = units[1:]
		}
		if len(units) == 0 {
			return 0, errNotDuration
		}
		span, err := multiply(number, units[0].span)
		if err != nil {
			return 0, err
		}
		if span > math.MaxInt64-total {
			return 0, errTooLong
		}
		total += span
		units = units[1:]
	}
	return total, nil
}

// multiply returns number units, exactly.
func multiply(number string, unit time.Duration) (time.Duration, error) {
	whole, fraction, dotted := strings.Cut(number, ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if errors.Is(err, strconv.ErrRange) || err == nil && n > uint64(math.MaxInt64/unit) {
		return 0, errTooLong
	}
	if err != nil || dotted && strings.Trim(fraction, "0123456789") != "" || dotted && fraction == "" {
		return 0, errNotDuration
	}
	total := time.Duration(n) * unit
	part := unit
	for _, digit := range fraction {
		if part%(10*time.Microsecond) == 0 {
			part /= 10
		} else {
			part = 0 // the digits are used up
		}
		if part == 0 && digit != '0' {
			return 0, errTooFine
		}
		span := time.Duration(digit-'0') * part
		if span > math.MaxInt64-total {
			return 0, errTooLong
		}
		total += span
	}
	return total, nil
}

// String writes d as briefly as UnmarshalText reads it: 1d, 1m30s, 10s.
func (d Duration) String() string {
	if d <= 0 {
		return time.Duration(d).String()
	}
	days, rest := time.Duration(d)/day, time.Duration(d)%day
	var b strings.Builder
	if days > 0 {
		fmt.Fprintf(&b, "%dd", days)
	}
	if rest > 0 {
		clock := strings.Replace(rest.String(), "µs", "us", 1)
		if strings.HasSuffix(clock, "m0s") {
			clock = strings.TrimSuffix(clock, "0s")
		}
		if strings.HasSuffix(clock, "h0m") {
			clock = strings.TrimSuffix(clock, "0m")
		}
		b.WriteString(clock)
	}
	return b.String()
}

// MarshalText is String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
