package slotrest

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/transport/strictjson"
)

// parseTime reads a time of RFC 3339, such as 2026-12-24T18:00:00.5+01:00. What is
// finer than a microsecond is rounded up, so that nothing is booked before the time.
// A leap second is refused: in the time that computers count in there is none.
func parseTime(text string) (plan.Ticks, error) {
	const example = "write it as 2026-12-24T18:00:00Z, or with a fraction or an offset as 2026-12-24T19:00:00.5+01:00"
	f := timeFields{rest: text}
	year, month, day := f.number(4), f.after("-", 2), f.after("-", 2)
	hour, minute, second := f.after("Tt", 2), f.after(":", 2), f.after(":", 2)
	micros := f.fraction()
	offset := f.offset()
	if f.bad || f.rest != "" {
		return 0, fmt.Errorf("%q is not a time of RFC 3339; %s", strictjson.Shorten(text), example)
	}
	if second == 60 {
		return 0, fmt.Errorf("%q is a leap second, which cannot be booked; write the second after it", strictjson.Shorten(text))
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	if t.Day() != day || int(t.Month()) != month || hour > 23 || minute > 59 || second > 59 {
		return 0, fmt.Errorf("%q is a day or an hour that there is not; %s", strictjson.Shorten(text), example)
	}
	at := plan.At(t) + micros - offset
	if year == 0 || at < plan.MinInstant || at > plan.MaxInstant {
		return 0, fmt.Errorf("%q is out of bounds; years 1 to 9999, in UTC, are allowed", strictjson.Shorten(text))
	}
	return at, nil
}

// timeFields reads a time from left to right.
type timeFields struct {
	rest string
	bad  bool
}

// number reads n digits.
func (f *timeFields) number(n int) (number int) {
	if f.bad || len(f.rest) < n {
		f.bad = true
		return 0
	}
	for _, c := range []byte(f.rest[:n]) {
		if c < '0' || c > '9' {
			f.bad = true
		}
		number = 10*number + int(c-'0')
	}
	f.rest = f.rest[n:]
	return number
}

// after reads one of the separators and n digits.
func (f *timeFields) after(separators string, n int) int {
	f.separator(separators)
	return f.number(n)
}

func (f *timeFields) separator(allowed string) (got byte) {
	if f.bad || f.rest == "" || !strings.Contains(allowed, f.rest[:1]) {
		f.bad = true
		return 0
	}
	got, f.rest = f.rest[0], f.rest[1:]
	return got
}

// fraction reads the fraction of a second, if there is one, in microseconds.
func (f *timeFields) fraction() (micros plan.Ticks) {
	fraction, is := strings.CutPrefix(f.rest, ".")
	if !is {
		return 0
	}
	f.rest = strings.TrimLeft(fraction, "0123456789")
	digits := fraction[:len(fraction)-len(f.rest)]
	if digits == "" {
		f.bad = true
		return 0
	}
	n, _ := strconv.Atoi((digits + "00000")[:6])
	if len(digits) > 6 && strings.Trim(digits[6:], "0") != "" {
		n++
	}
	return plan.Ticks(n)
}

// offset reads how far the clock is ahead of UTC.
func (f *timeFields) offset() plan.Ticks {
	sign := f.separator("Zz+-")
	if sign == 'Z' || sign == 'z' {
		return 0
	}
	hours, minutes := f.number(2), f.after(":", 2)
	if hours > 23 || minutes > 59 {
		f.bad = true
	}
	offset := plan.Ticks(hours)*plan.Hour + plan.Ticks(minutes)*plan.Minute
	if sign == '-' {
		return -offset
	}
	return offset
}

func formatTime(t plan.Ticks) string { return t.Time().Format("2006-01-02T15:04:05.999999Z") }

// formatSpan writes a duration; "" if it is 0.
func formatSpan(d plan.Ticks) string {
	if d == 0 {
		return ""
	}
	return plan.FormatDuration(d)
}

// formatHours writes opening hours as plan.ParseHours reads them, days with the same
// hours together.
func formatHours(hours plan.Hours) string {
	var week [7]string // Monday comes first
	for _, o := range hours {
		week[(o.Day+6)%7] += " " + formatClock(o.From) + "-" + formatClock(o.To)
	}
	var parts []string
	for first := 0; first < len(week); {
		last := first
		for last+1 < len(week) && week[last+1] == week[first] {
			last++
		}
		if week[first] != "" {
			days := dayName(first)
			if last > first {
				days += "-" + dayName(last)
			}
			parts = append(parts, days+week[first])
		}
		first = last + 1
	}
	return strings.Join(parts, ", ")
}

// dayName counts days from Monday.
func dayName(day int) string { return time.Weekday((day + 1) % 7).String()[:3] }

func formatClock(t plan.Ticks) string {
	return fmt.Sprintf("%02d:%02d", t/plan.Hour, t%plan.Hour/plan.Minute)
}

// parameters are those of a request's query.
type parameters map[string]string

// query reads the query of r, in which each of the allowed parameters may stand once.
func query(r *http.Request, allowed ...string) (parameters, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, strictjson.Within("query", strictjson.Bad("it cannot be read; write name=value pairs with & between them, percent-encoded"))
	}
	p := make(parameters, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(allowed, name):
			return nil, strictjson.Within(strictjson.Shorten(name), strictjson.Bad("unknown parameter; %s", strictjson.List(allowed)))
		case len(values[name]) > 1:
			return nil, strictjson.Within(name, strictjson.Bad("given twice"))
		}
		p[name] = values[name][0]
	}
	return p, nil
}

// config returns the name of the config that a parameter names.
func (p parameters) config(parameter string) (string, error) {
	name, given := p[parameter]
	if !given {
		return defaultConfig, nil
	}
	return name, strictjson.As(parameter, slots.CheckName(name))
}

// time returns the time in a parameter, fallback if there is none.
func (p parameters) time(parameter string, fallback plan.Ticks) (plan.Ticks, error) {
	text, given := p[parameter]
	if !given {
		return fallback, nil
	}
	at, err := parseTime(text)
	return at, strictjson.As(parameter, err)
}

// span returns the duration in a parameter, which must be there.
func (p parameters) span(parameter string) (plan.Ticks, error) {
	text, given := p[parameter]
	if !given {
		return 0, strictjson.Missing(parameter)
	}
	d, err := plan.ParseDuration(strictjson.Shorten(text))
	return d, strictjson.As(parameter, unnamed(err, "duration: "))
}

// limit returns how much is wanted of a list.
func (p parameters) limit() (int, error) {
	text, given := p["limit"]
	if !given {
		return 100, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxPage {
		return 0, strictjson.Within("limit", strictjson.Bad("%q; a whole number from 1 to %d is allowed", strictjson.Shorten(text), MaxPage))
	}
	return n, nil
}

// conflicts reports whether a repeat for another time is to be an error.
func (p parameters) conflicts() (isError bool, err error) {
	switch how, given := p["onConflict"]; {
	case !given, how == "answer":
		return false, nil
	case how == "error":
		return true, nil
	default:
		return false, strictjson.Within("onConflict", strictjson.Bad("%q; answer and error are allowed", strictjson.Shorten(how)))
	}
}

// A cursor is the time and the id of the last event of a page.
func formatCursor(e slots.Event) string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, uint64(e.At)), e.ID...))
}

// cursor returns the event that the page is to begin after; nil if there is none.
func (p parameters) cursor() (*slots.Event, error) {
	text, given := p["cursor"]
	if !given {
		return nil, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(data) < 8 || slots.CheckID(string(data[8:])) != nil {
		return nil, badCursor()
	}
	at := plan.Ticks(binary.BigEndian.Uint64(data))
	if at < plan.MinInstant || at > plan.MaxInstant {
		return nil, badCursor()
	}
	return &slots.Event{ID: string(data[8:]), Slot: plan.Slot{At: at}}, nil
}

// nameCursor is cursor for configs.
func (p parameters) nameCursor() (string, error) {
	text, given := p["cursor"]
	if !given {
		return "", nil
	}
	name, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || slots.CheckName(string(name)) != nil {
		return "", badCursor()
	}
	return string(name), nil
}

func badCursor() error {
	return strictjson.Within("cursor", strictjson.Bad("it is not one that this API has given; send a nextCursor as it is, or none to begin with the first"))
}

// eventID returns the id that r's path names.
func eventID(r *http.Request) (string, error) {
	id, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), eventPrefix))
	if err != nil { // the server has refused such a path already
		return "", strictjson.Within("eventId", strictjson.Bad("its percent-encoding cannot be read"))
	}
	return id, strictjson.As("eventId", slots.CheckID(id))
}
