package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseDuration reads an ISO 8601 duration: PnW, or days, hours, minutes and
// seconds in this order, such as P1D, PT5M, PT1H30M or PT0.5S. Seconds may have
// a fraction of up to six digits. Years and months are refused because their
// length varies, and so is a duration that is not longer than zero.
func ParseDuration(s string) (Ticks, error) {
	date, clock, hasClock := strings.Cut(strings.TrimPrefix(s, "P"), "T")
	if !strings.HasPrefix(s, "P") || date == "" && !hasClock || hasClock && clock == "" {
		return 0, notDuration(s, "it must begin with P, and have a T before hours, minutes and seconds")
	}
	if strings.ContainsAny(date, "YM") {
		return 0, notDuration(s, "years and months vary in length")
	}
	units := []unit{{'D', Day}}
	if strings.HasSuffix(date, "W") && !hasClock {
		units = []unit{{'W', 7 * Day}}
	}
	days, err := sumUnits(s, date, units)
	if err != nil {
		return 0, err
	}
	rest, err := sumUnits(s, clock, []unit{{'H', Hour}, {'M', Minute}, {'S', Second}})
	if err != nil {
		return 0, err
	}
	if rest > math.MaxInt64-days {
		return 0, notDuration(s, "it is too long")
	}
	if days+rest == 0 {
		return 0, notDuration(s, "it must be longer than zero")
	}
	return days + rest, nil
}

type unit struct {
	sign byte
	span Ticks
}

// sumUnits adds up amounts such as 1H30M, each of the units at most once and in
// their order. s is the whole duration, for errors.
func sumUnits(s, text string, units []unit) (Ticks, error) {
	var sum Ticks
	for _, u := range units {
		amount, rest, found := strings.Cut(text, string(u.sign))
		if !found {
			continue
		}
		whole, fraction, hasFraction := strings.Cut(amount, ".")
		if hasFraction && (u.span != Second || !digits(fraction) || len(fraction) > 6) {
			return 0, notDuration(s, "only seconds may have a fraction, of one to six digits")
		}
		if !digits(whole) {
			return 0, notDuration(s, fmt.Sprintf("%q is not a whole number", whole))
		}
		n, err := strconv.ParseInt(whole, 10, 64)
		if err != nil || n > int64((math.MaxInt64-sum-Second)/u.span) {
			return 0, notDuration(s, "it is too long")
		}
		sum += Ticks(n) * u.span
		if hasFraction {
			micros, _ := strconv.Atoi((fraction + "00000")[:6])
			sum += Ticks(micros)
		}
		text = rest
	}
	if text != "" {
		return 0, notDuration(s, fmt.Sprintf("%q is not understood", text))
	}
	return sum, nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func notDuration(s, why string) error {
	return fmt.Errorf("duration: %q is not allowed: %s; write PT4S, PT0.5S, PT5M, PT1H30M or P1D", s, why)
}

// FormatDuration writes d, which is longer than zero, as ParseDuration reads it.
func FormatDuration(d Ticks) string {
	text := "P"
	if days := d / Day; days > 0 {
		text += fmt.Sprintf("%dD", days)
	}
	if d %= Day; d == 0 {
		return text
	}
	text += "T"
	if hours := d / Hour; hours > 0 {
		text += fmt.Sprintf("%dH", hours)
	}
	if minutes := d % Hour / Minute; minutes > 0 {
		text += fmt.Sprintf("%dM", minutes)
	}
	if seconds := d % Minute; seconds > 0 {
		text += fmt.Sprintf("%d", seconds/Second)
		if micros := seconds % Second; micros > 0 {
			text += strings.TrimRight(fmt.Sprintf(".%06d", micros), "0")
		}
		text += "S"
	}
	return text
}
