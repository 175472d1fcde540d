package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Hours are the hours of a week at which something is open, by the clock on the
// wall. No Hours at all means always.
type Hours []Opening

// Opening is one stretch of one day, From included and To not: both count from
// the midnight at which the day begins, 0 <= From < To <= Day.
type Opening struct {
	Day      time.Weekday
	From, To Ticks
}

// ParseHours reads opening hours such as
//
//	Mon-Fri 09:00-12:00 13:00-17:00, Sat 10:00-14:00
//	daily 06:00-22:00
//	Fri-Mon 22:00-06:00
//
// Days are Mon, Tue, Wed, Thu, Fri, Sat and Sun, a range of them (which may run
// over the weekend), or daily. Hours that end at or before their start run on
// into the next day; 24:00 is the end of a day. An empty text is refused.
func ParseHours(text string) (Hours, error) {
	var hours Hours
	for part := range strings.SplitSeq(text, ",") {
		fields := strings.Fields(part)
		if len(fields) < 2 {
			return nil, notHours(part, "days and hours are needed")
		}
		first, count, ok := parseDays(fields[0])
		if !ok {
			return nil, notHours(part, fmt.Sprintf("%q is neither a day, nor a range of days, nor daily", fields[0]))
		}
		for _, field := range fields[1:] {
			from, to, ok := parseHours(field)
			if !ok {
				return nil, notHours(part, fmt.Sprintf("%q is not a range of hours", field))
			}
			for i := range count {
				hours = hours.add((first+time.Weekday(i))%7, from, to)
			}
		}
	}
	return hours.merge(), nil
}

// add adds an opening that may run over midnight.
func (h Hours) add(day time.Weekday, from, to Ticks) Hours {
	if from < to {
		return append(h, Opening{day, from, to})
	}
	h = append(h, Opening{day, from, Day})
	if to > 0 {
		h = append(h, Opening{(day + 1) % 7, 0, to})
	}
	return h
}

// merge sorts the openings and joins those that touch.
func (h Hours) merge() Hours {
	slices.SortFunc(h, func(a, b Opening) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.From, b.From))
	})
	merged := h[:0]
	for _, o := range h {
		if n := len(merged); n > 0 && merged[n-1].Day == o.Day && o.From <= merged[n-1].To {
			merged[n-1].To = max(merged[n-1].To, o.To)
			continue
		}
		merged = append(merged, o)
	}
	return merged
}

func (h Hours) check() error {
	for _, o := range h {
		if o.Day < time.Sunday || o.Day > time.Saturday || o.From < 0 || o.From >= o.To || o.To > Day {
			return fmt.Errorf("hours: %+v is not a stretch of one day", o)
		}
	}
	return nil
}

func parseDays(text string) (first time.Weekday, count int, ok bool) {
	if text == "daily" {
		return time.Monday, 7, true
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, ok = parseDay(from)
	last, okLast := parseDay(to)
	return first, int(last-first+7)%7 + 1, ok && okLast
}

func parseDay(text string) (time.Weekday, bool) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if text == day.String()[:3] {
			return day, true
		}
	}
	return 0, false
}

func parseHours(text string) (from, to Ticks, ok bool) {
	start, end, _ := strings.Cut(text, "-")
	from, ok = parseClock(start)
	to, okEnd := parseClock(end)
	return from, to, ok && okEnd && from != to && from < Day
}

// parseClock reads hh:mm up to 24:00.
func parseClock(text string) (Ticks, bool) {
	if len(text) != 5 || text[2] != ':' || !digits(text[:2]) || !digits(text[3:]) {
		return 0, false
	}
	hours, _ := strconv.Atoi(text[:2])
	minutes, _ := strconv.Atoi(text[3:])
	at := Ticks(hours)*Hour + Ticks(minutes)*Minute
	return at, minutes < 60 && at <= Day
}

func notHours(part, why string) error {
	return fmt.Errorf("hours: %q is not allowed: %s; write Mon-Fri 09:00-17:00, or daily 06:00-22:00, with commas between such parts", strings.TrimSpace(part), why)
}

// Date is a day of the calendar, counted from 1970-01-01.
type Date int64

// ParseDate reads a date such as 2026-12-25.
func ParseDate(text string) (Date, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, fmt.Errorf("date: %q is not allowed; write 2026-12-25", text)
	}
	return Date(floorDiv(Ticks(t.UnixMicro()), Day)), nil
}

// String writes d as ParseDate reads it.
func (d Date) String() string {
	return time.Unix(0, 0).UTC().AddDate(0, 0, int(d)).Format(time.DateOnly)
}

func (d Date) weekday() time.Weekday {
	return time.Weekday((int64(d)%7 + 7 + int64(time.Thursday)) % 7)
}
