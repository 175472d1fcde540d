package plan

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"
)

// Calendar says when slots may lie. An instant is open if the clock on the wall
// in Zone shows one of the Hours, on a day that is no holiday, outside all
// Blackouts. So an hour that a change of the clocks repeats is open, or closed,
// both times, and one that it leaves out is missing.
type Calendar struct {
	// Zone is an IANA name, such as Europe/Berlin or UTC. The program must have
	// a time zone database; importing time/tzdata embeds one.
	Zone string
	// Hours of the week that are open; none means all.
	Hours Hours
	// Holidays are days, from midnight to midnight, on which all is closed.
	Holidays []Date
	// Blackouts are closed.
	Blackouts []Blackout
}

// Blackout lasts from From, included, until To, excluded.
type Blackout struct{ From, To Ticks }

// Equal reports whether c and o say the same in the same words. Either may be
// nil, which means always open.
func (c *Calendar) Equal(o *Calendar) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.Zone == o.Zone && slices.Equal(c.Hours, o.Hours) && slices.Equal(c.Holidays, o.Holidays) && slices.Equal(c.Blackouts, o.Blackouts)
}

// How far ahead a calendar is worked out, and how much it must be open.
const (
	calendarReach = 30 * 366 * Day
	leastOpen     = Hour
	leastOpenIn   = 366 * Day
)

// openTime maps instants to time that has been open and back, both ways
// monotone: windows live in open time, so none of their slots is ever closed. An
// interval of real time holds no more open time than it is long, so what holds
// for every W of open time holds for every W of real time.
//
// Open time counts from the midnight, in Zone, before the calendar came into
// force, so that windows that divide a day begin at the opening hour. A nil
// *openTime is always open, and counts from the Unix epoch.
type openTime struct {
	stretches []stretch
	total     Ticks
}

// stretch is open from from to to, when sum of open time has passed before.
type stretch struct{ from, to, sum Ticks }

// newOpenTime works c out from the instant from until 30 years after now.
func newOpenTime(c *Calendar, from, now Ticks) (*openTime, error) {
	if c.Zone == "" || c.Zone == "Local" {
		return nil, fmt.Errorf("zone: %q is not allowed; name one of the IANA database, such as Europe/Berlin or UTC", c.Zone)
	}
	zone, err := time.LoadLocation(c.Zone)
	if err != nil {
		return nil, fmt.Errorf("zone: %q is unknown; name one of the IANA database, such as Europe/Berlin or UTC (%w)", c.Zone, err)
	}
	if err := c.Hours.check(); err != nil {
		return nil, err
	}
	for _, b := range c.Blackouts {
		if b.From >= b.To {
			return nil, fmt.Errorf("blackout: it must end after it begins, not at %d after %d", b.To, b.From)
		}
	}
	now = max(from, now)
	o := &openTime{}
	o.fill(c, zone, from, min(now+calendarReach, MaxInstant))
	if open := o.since(min(now+leastOpenIn, MaxInstant)) - o.since(now); open < leastOpen {
		return nil, fmt.Errorf("calendar: it is open for %d seconds in the 366 days from %s on; at least an hour is needed", open/Second, time.UnixMicro(int64(now)).UTC().Format(time.DateOnly))
	}
	return o, nil
}

// fill works out the stretches from the midnight before from until end, one
// offset of the zone after the other: while it lasts, the clock on the wall runs
// as evenly as any.
func (o *openTime) fill(c *Calendar, zone *time.Location, from, end Ticks) {
	week := weekOf(c.Hours)
	holidays := make(map[Date]bool, len(c.Holidays))
	for _, d := range c.Holidays {
		holidays[d] = true
	}
	blackouts := slices.SortedFunc(slices.Values(c.Blackouts), func(a, b Blackout) int { return cmp.Compare(a.From, b.From) })

	for at := midnightBefore(from, zone); at < end; {
		t := time.UnixMicro(int64(at)).In(zone)
		_, seconds := t.Zone()
		shift := Ticks(seconds) * Second
		until := min(end, nextChange(t))
		for day := Date(floorDiv(at+shift, Day)); Ticks(day)*Day-shift < until; day++ {
			midnight := Ticks(day)*Day - shift
			if holidays[day] {
				continue
			}
			for _, h := range week[day.weekday()] {
				blackouts = o.open(max(at, midnight+h.From), min(until, midnight+h.To), blackouts)
			}
		}
		at = until
	}
}

// nextChange returns the next instant at which t's zone changes its offset; or
// one before it, but after t.
func nextChange(t time.Time) Ticks {
	_, change := t.ZoneBounds()
	if change.IsZero() {
		return MaxInstant
	}
	if !change.After(t) {
		// On the last day of a leap year that the rule of a zone is used for,
		// Go 1.26 takes the year to be over.
		change = t.Add(time.Hour)
	}
	return Ticks(change.UnixMicro())
}

func midnightBefore(at Ticks, zone *time.Location) Ticks {
	year, month, day := time.UnixMicro(int64(at)).In(zone).Date()
	return Ticks(time.Date(year, month, day, 0, 0, 0, 0, zone).UnixMicro())
}

// weekOf returns h by day; all of every day if there is none.
func weekOf(h Hours) (week [7][]Opening) {
	for _, o := range slices.Clone(h).merge() {
		week[o.Day] = append(week[o.Day], o)
	}
	if len(h) == 0 {
		for day := range week {
			week[day] = []Opening{{time.Weekday(day), 0, Day}}
		}
	}
	return week
}

// open adds what the blackouts leave of from to to, and returns those of the
// blackouts that may still matter afterwards.
func (o *openTime) open(from, to Ticks, blackouts []Blackout) []Blackout {
	if from >= to {
		return blackouts // hours that the clock's change cuts off; the next ones may begin before these
	}
	for len(blackouts) > 0 && blackouts[0].To <= from {
		blackouts = blackouts[1:]
	}
	for _, b := range blackouts {
		if b.From >= to {
			break
		}
		o.add(from, min(to, b.From))
		from = max(from, b.To)
	}
	o.add(from, to)
	return blackouts
}

func (o *openTime) add(from, to Ticks) {
	if from >= to {
		return
	}
	if n := len(o.stretches); n > 0 && o.stretches[n-1].to == from {
		o.stretches[n-1].to = to
	} else {
		o.stretches = append(o.stretches, stretch{from, to, o.total})
	}
	o.total += to - from
}

// since returns how much open time has passed at the instant at.
func (o *openTime) since(at Ticks) Ticks {
	if o == nil {
		return at
	}
	i := sort.Search(len(o.stretches), func(i int) bool { return o.stretches[i].from > at }) - 1
	if i < 0 {
		return 0
	}
	s := o.stretches[i]
	return s.sum + min(at, s.to) - s.from
}

// instant returns the open instant at which open time has passed: the first of
// all if that is negative, one past MaxInstant if there never is so much.
func (o *openTime) instant(open Ticks) Ticks {
	if o == nil {
		return open
	}
	if open >= o.total {
		return MaxInstant + 1
	}
	open = max(open, 0)
	i := sort.Search(len(o.stretches), func(i int) bool { return o.stretches[i].sum > open }) - 1
	return o.stretches[i].from + open - o.stretches[i].sum
}
