package replay

import (
	"math"
	"strconv"
	"time"

	"github.com/stint-dev/stint/limit/algo"
)

// clfClock reads the times of the common log format, such as
// 10/Oct/2000:13:55:36 -0700. It remembers when the last day began, since
// neighbouring lines are almost always of one day and zone.
type clfClock struct {
	day, zone string
	midnight  int64 // Unix seconds
}

const (
	clfLayout = "02/Jan/2006:15:04:05 -0700"
	clfDay    = len("02/Jan/2006")
	clfZone   = len("02/Jan/2006:15:04:05 ")
)

func (c *clfClock) parse(s string) (algo.Ticks, error) {
	if len(s) != len(clfLayout) || s[clfDay] != ':' || s[14] != ':' || s[17] != ':' || s[20] != ' ' {
		return 0, errTime
	}
	day, zone := s[:clfDay], s[clfZone:]
	if day != c.day || zone != c.zone {
		midnight, err := time.Parse("02/Jan/2006 -0700", day+" "+zone)
		if err != nil {
			return 0, errTime
		}
		c.day, c.zone, c.midnight = day, zone, midnight.Unix()
	}
	hour, ok1 := twoDigits(s[12:])
	minute, ok2 := twoDigits(s[15:])
	second, ok3 := twoDigits(s[18:])
	// A leap second is written as 60.
	if !ok1 || !ok2 || !ok3 || hour > 23 || minute > 59 || second > 60 {
		return 0, errTime
	}
	return ticksOf(c.midnight + hour*3600 + minute*60 + second)
}

func twoDigits(s string) (n int64, ok bool) {
	a, b := s[0]-'0', s[1]-'0'
	return int64(a)*10 + int64(b), a <= 9 && b <= 9
}

func ticksOf(seconds int64) (algo.Ticks, error) {
	if seconds < 0 {
		return 0, errEarly
	}
	return algo.Ticks(seconds) * algo.Second, nil
}

const (
	errJSONTime  = malformed("the time is neither like 2006-01-02T15:04:05Z nor Unix seconds or milliseconds")
	errJSONRange = malformed("the time is out of range; Unix seconds or milliseconds are allowed")
)

// Numbers from msFrom on are milliseconds: as seconds they would be in the
// year 5138, and smaller ones as milliseconds in 1973.
const (
	msFrom = 1e11
	msTo   = 1e14
)

// parseInstant reads the time of a JSON line: RFC 3339, or Unix seconds or
// milliseconds, with or without a fraction.
func parseInstant(s string) (algo.Ticks, error) {
	if len(s) > 4 && s[4] == '-' {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return 0, errJSONTime
		}
		if t.Unix() < 0 {
			return 0, errEarly
		}
		return algo.Ticks(t.UnixMicro()), nil
	}
	return parseUnix(s)
}

// parseUnix reads a number exactly to the microsecond if it has no exponent.
func parseUnix(s string) (algo.Ticks, error) {
	whole, micros, unit := int64(0), int64(0), int64(1_000_000)
	fraction := false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.' && !fraction && i > 0:
			fraction = true
		case c < '0' || c > '9':
			return parseFloat(s)
		case fraction:
			unit /= 10
			micros += int64(c-'0') * unit
		default:
			whole = min(whole*10+int64(c-'0'), msTo)
		}
	}
	switch {
	case s == "":
		return 0, errJSONTime
	case whole >= msTo:
		return 0, errJSONRange
	case whole >= msFrom:
		return algo.Ticks(whole)*algo.Millisecond + algo.Ticks(micros/1000), nil
	}
	return algo.Ticks(whole)*algo.Second + algo.Ticks(micros), nil
}

func parseFloat(s string) (algo.Ticks, error) {
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(f):
		return 0, errJSONTime
	case f < 0:
		return 0, errEarly
	case f >= msTo:
		return 0, errJSONRange
	case f >= msFrom:
		f /= 1000
	}
	return algo.Ticks(math.Round(f * float64(algo.Second))), nil
}
