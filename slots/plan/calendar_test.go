package plan_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/slots/plan"
)

func TestHours(t *testing.T) {
	for text, want := range map[string]plan.Hours{
		"Mon 09:00-17:00": {{Day: time.Monday, From: 9 * plan.Hour, To: 17 * plan.Hour}},
		"Sun-Mon 08:00-09:30 10:00-11:00": {
			{Day: time.Sunday, From: 8 * plan.Hour, To: 9*plan.Hour + 30*plan.Minute}, {Day: time.Sunday, From: 10 * plan.Hour, To: 11 * plan.Hour},
			{Day: time.Monday, From: 8 * plan.Hour, To: 9*plan.Hour + 30*plan.Minute}, {Day: time.Monday, From: 10 * plan.Hour, To: 11 * plan.Hour},
		},
		"Sat 22:00-06:00":                  {{Day: time.Sunday, From: 0, To: 6 * plan.Hour}, {Day: time.Saturday, From: 22 * plan.Hour, To: plan.Day}},
		"Tue 00:00-24:00":                  {{Day: time.Tuesday, From: 0, To: plan.Day}},
		"Tue 20:00-00:00":                  {{Day: time.Tuesday, From: 20 * plan.Hour, To: plan.Day}},
		"Wed 08:00-12:00, Wed 10:00-13:00": {{Day: time.Wednesday, From: 8 * plan.Hour, To: 13 * plan.Hour}},
	} {
		if got, err := plan.ParseHours(text); !slices.Equal(got, want) || err != nil {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	if daily, err := plan.ParseHours("daily 06:00-22:00"); len(daily) != 7 || err != nil {
		t.Errorf("daily: %v, %v", daily, err)
	}
	for _, text := range []string{"", "Mon", "09:00-17:00", "mon 09:00-17:00", "Mon-Xxx 09:00-17:00", "Mon 9-17", "Mon 09:00", "Mon 09:00-09:00",
		"Mon 24:00-06:00", "Mon 09:60-10:00", "Mon 09:00-24:01", "Mon 09:00-17:00,", "Mon 09:00-17:00 Tue", "Mon -9:00-17:00"} {
		if got, err := plan.ParseHours(text); err == nil || !strings.Contains(err.Error(), "write Mon-Fri 09:00-17:00") {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func TestDates(t *testing.T) {
	for _, text := range []string{"1970-01-01", "1969-12-31", "0001-01-01", "2028-02-29", "9999-12-31"} {
		if d, err := plan.ParseDate(text); d.String() != text || err != nil {
			t.Errorf("%s is read %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "2027-02-29", "25.12.2026", "2026-12-25T00:00"} {
		if d, err := plan.ParseDate(text); err == nil {
			t.Errorf("%q is read %s", text, d)
		}
	}
}

func FuzzParseHours(f *testing.F) {
	for _, seed := range []string{"Mon-Fri 09:00-17:00, Sat 10:00-12:00 13:00-14:00", "daily 22:00-06:00", "Sun-Sat 00:00-24:00", "Fri-Mon 9-17"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hours, err := plan.ParseHours(text)
		if err != nil {
			return
		}
		for i, o := range hours {
			if o.From < 0 || o.From >= o.To || o.To > plan.Day || i > 0 && hours[i-1].Day == o.Day && hours[i-1].To >= o.From {
				t.Fatalf("%q is read %v", text, hours)
			}
		}
	})
}

func mustHours(t interface{ Fatal(...any) }, text string) plan.Hours {
	hours, err := plan.ParseHours(text)
	if err != nil {
		t.Fatal(err)
	}
	return hours
}

func mustDate(text string) plan.Date {
	d, err := plan.ParseDate(text)
	if err != nil {
		panic(err)
	}
	return d
}

func instant(text string) plan.Ticks {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return plan.Ticks(t.UnixMicro())
}

// office is open on weekdays in Berlin, but not on Christmas.
func office(t interface{ Fatal(...any) }) *plan.Calendar {
	return &plan.Calendar{
		Zone:     "Europe/Berlin",
		Hours:    mustHours(t, "Mon-Fri 09:00-17:00"),
		Holidays: []plan.Date{mustDate("2026-12-25"), mustDate("2027-01-01")},
	}
}

func TestSlotsLieInOpeningHours(t *testing.T) {
	for name, c := range map[string]struct {
		ask  string
		want []string // the first slot of every window, two in an hour
	}{
		"within":             {"2026-12-23T15:15:00+01:00", []string{"2026-12-23T15:30:00+01:00", "2026-12-23T16:00:00+01:00"}},
		"after closing":      {"2026-12-23T19:00:00+01:00", []string{"2026-12-24T09:00:00+01:00", "2026-12-24T09:30:00+01:00"}},
		"before a holiday":   {"2026-12-24T16:30:00+01:00", []string{"2026-12-24T16:30:00+01:00", "2026-12-28T09:00:00+01:00"}},
		"before summer time": {"2027-03-26T16:30:00+01:00", []string{"2027-03-26T16:30:00+01:00", "2027-03-29T09:00:00+02:00"}},
		"before winter time": {"2027-10-29T16:30:00+02:00", []string{"2027-10-29T16:30:00+02:00", "2027-11-01T09:00:00+01:00"}},
	} {
		line, err := plan.New(instant("2026-12-01T12:00:00Z"), plan.Version{
			From: instant("2026-12-01T12:00:00Z"), Max: 2, Window: plan.Hour, Mode: plan.Spread, Calendar: office(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		grants, err := newLedger().book(line, 0, plan.Request{At: instant(c.ask)}, plan.Request{At: instant(c.ask)})
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range grants {
			if g.At != instant(c.want[i]) {
				t.Errorf("%s: slot %d is at %v, not %s", name, i, time.UnixMicro(int64(g.At)).UTC(), c.want[i])
			}
		}
	}
}

// The clock on the wall goes back within the hours of a night; those of the next night
// are cut off by that change at first, and a blackout of now must not be over for them.
func TestBlackoutOverAChangeOfTheClock(t *testing.T) {
	from := instant("2027-04-02T07:00:00Z")
	c := &plan.Calendar{
		Zone: "Australia/Lord_Howe", Hours: mustHours(t, "daily 22:00-06:00"),
		Blackouts: []plan.Blackout{{From: from, To: from + 2*plan.Day}},
	}
	line := mustNew(t, from, plan.Version{From: from, Max: 1, Window: plan.Hour, Calendar: c})
	want := instant("2027-04-04T22:00:00+10:30")
	if g := mustBook(t, newLedger(), line, from, 1, plan.Request{At: from})[0]; g.At != want {
		t.Errorf("the first slot is at %v, want %v", g.At.Time(), want.Time())
	}
}

// isOpen says what a person says who looks at the clock on the wall.
func isOpen(c *plan.Calendar, zone *time.Location, at plan.Ticks) bool {
	local := time.UnixMicro(int64(at)).In(zone)
	for _, d := range c.Holidays {
		if local.Format(time.DateOnly) == d.String() {
			return false
		}
	}
	for _, b := range c.Blackouts {
		if b.From <= at && at < b.To {
			return false
		}
	}
	clock := plan.Ticks(local.Hour())*plan.Hour + plan.Ticks(local.Minute())*plan.Minute + plan.Ticks(local.Second())*plan.Second + plan.Ticks(local.Nanosecond()/1000)
	return len(c.Hours) == 0 || slices.ContainsFunc(c.Hours, func(o plan.Opening) bool {
		return o.Day == local.Weekday() && o.From <= clock && clock < o.To
	})
}

// Every calendar, at the changes of clocks of zones that do it at midnight, by
// half an hour, by leaving out a day, or never.
func TestSlotsAreOpenAndInOrderAndAsManyAsPromised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &plan.Calendar{
			Zone:  rapid.SampledFrom([]string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia", "Asia/Kathmandu", "UTC"}).Draw(t, "zone"),
			Hours: rapid.SampledFrom([]plan.Hours{nil, mustHours(t, "Mon-Fri 09:00-17:00"), mustHours(t, "daily 22:00-06:00"), mustHours(t, "Sun 01:30-02:30, Fri 00:00-24:00"), mustHours(t, "daily 00:00-01:00 02:15-02:45")}).Draw(t, "hours"),
		}
		from := instant(rapid.SampledFrom([]string{"2027-03-10T00:00:00Z", "2027-03-24T12:00:00Z", "2027-10-28T00:00:00Z", "2011-12-28T23:00:00Z", "2027-04-02T07:00:00Z", "1969-12-30T00:00:00Z"}).Draw(t, "from"))
		for range rapid.IntRange(0, 2).Draw(t, "blackouts") {
			start := from + plan.Ticks(rapid.Int64Range(0, int64(5*plan.Day)).Draw(t, "start"))
			c.Blackouts = append(c.Blackouts, plan.Blackout{From: start, To: start + plan.Ticks(rapid.Int64Range(1, int64(2*plan.Day)).Draw(t, "length"))})
		}
		if rapid.Bool().Draw(t, "holiday") {
			c.Holidays = []plan.Date{plan.Date(from/plan.Day) + 2}
		}
		v := plan.Version{From: from, Max: rapid.IntRange(1, 20).Draw(t, "max"), Window: plan.Ticks(rapid.IntRange(1, 30).Draw(t, "window")) * 10 * plan.Minute, Mode: modes.Draw(t, "mode"), Calendar: c}
		line, err := plan.New(from, v)
		if err != nil {
			t.Fatal(err)
		}
		l := newLedger()
		for _, at := range []plan.Ticks{0, 7 * plan.Hour, 3 * plan.Day} {
			if _, err := l.book(line, from, slices.Repeat([]plan.Request{{At: from + at}}, 60)...); err != nil {
				t.Fatal(err)
			}
		}
		zone, err := time.LoadLocation(c.Zone)
		if err != nil {
			t.Fatal(err)
		}
		instants := sortedByTime(l.events())
		for _, s := range l.events() {
			if !isOpen(c, zone, s.At) {
				t.Fatalf("%+v is closed at %v", c, time.UnixMicro(int64(s.At)).In(zone))
			}
			if n := most(instants, v.Window, s.At); n > v.Max {
				t.Fatalf("%d slots in an interval of one window around %v; %d are allowed", n, time.UnixMicro(int64(s.At)).In(zone), v.Max)
			}
		}
		if i := slices.Compact(slices.Clone(instants)); len(i) != len(instants) {
			t.Fatal("two slots lie at one instant")
		}
	})
}

// A calendar comes, goes or becomes another while slots are booked, some of
// which are in what is closed time now.
func TestPromiseHoldsWhenACalendarChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := instant("2027-03-26T12:00:00Z")
		calendars := []*plan.Calendar{nil, office(t), {Zone: "UTC", Hours: mustHours(t, "daily 22:00-06:00")}, {Zone: "Asia/Kathmandu", Hours: mustHours(t, "daily 00:00-01:00 02:15-02:45")}}
		var versions []plan.Version
		l := newLedger()
		for era := range 3 {
			v := plan.Version{From: now, Max: rapid.IntRange(1, 20).Draw(t, "max"), Window: plan.Ticks(rapid.IntRange(1, 30).Draw(t, "window")) * 10 * plan.Minute, Mode: modes.Draw(t, "mode"), Seed: uint64(era), Calendar: rapid.SampledFrom(calendars).Draw(t, "calendar")}
			versions = append(versions, v)
			line, err := plan.New(now, versions...)
			if err != nil {
				t.Fatal(err)
			}
			clear(l.full)
			var grants []plan.Grant
			for range 3 {
				more, err := l.book(line, now, slices.Repeat([]plan.Request{{At: now}}, 9)...)
				if err != nil {
					t.Fatal(err)
				}
				grants = append(grants, more...)
			}
			instants := sortedByTime(l.events())
			for _, g := range grants {
				if n := most(instants, v.Window, g.At); n > v.Max {
					t.Fatalf("%d slots in an interval of one window around %v; %d are allowed", n, time.UnixMicro(int64(g.At)).UTC(), v.Max)
				}
			}
			now += plan.Ticks(rapid.IntRange(0, 48).Draw(t, "hours")) * plan.Hour
		}
	})
}

func TestOpenTimeIsUsedInFull(t *testing.T) {
	// Two days of eight hours, a window of an hour: 16 windows.
	from := instant("2027-03-25T00:00:00Z") // a Thursday; on Sunday the clocks change
	line, err := plan.New(from, plan.Version{From: from, Max: 100, Window: plan.Hour, Calendar: office(t)})
	if err != nil {
		t.Fatal(err)
	}
	grants, err := newLedger().book(line, from, slices.Repeat([]plan.Request{{At: from}}, 1601)...)
	if err != nil {
		t.Fatal(err)
	}
	if last := grants[1599].At; last < instant("2027-03-26T16:00:00+01:00") || last >= instant("2027-03-26T17:00:00+01:00") {
		t.Errorf("the last of 1600 is at %v, not in the last hour of Friday", time.UnixMicro(int64(last)).UTC())
	}
	if next := grants[1600].At; next < instant("2027-03-29T09:00:00+02:00") || next > instant("2027-03-29T09:01:00+02:00") {
		t.Errorf("the next is at %v, not on Monday at nine", time.UnixMicro(int64(next)).UTC())
	}
}

func TestCalendarsThatAreRefused(t *testing.T) {
	year := plan.Blackout{From: 0, To: 400 * plan.Day}
	for why, c := range map[string]plan.Calendar{
		`zone: "" is not allowed`:            {},
		`zone: "Local" is not allowed`:       {Zone: "Local"},
		`zone: "Europe/Atlantis" is unknown`: {Zone: "Europe/Atlantis"},
		"open for 0 seconds":                 {Zone: "UTC", Blackouts: []plan.Blackout{year}},
		"open for 3120 seconds":              {Zone: "UTC", Hours: plan.Hours{{Day: time.Monday, From: 0, To: plan.Minute}}},
		"is not a stretch of one day":        {Zone: "UTC", Hours: plan.Hours{{Day: 7, From: 0, To: plan.Day}}},
		"it must end after it begins":        {Zone: "UTC", Blackouts: []plan.Blackout{{From: 5, To: 5}}},
	} {
		began := time.Now()
		_, err := plan.New(0, plan.Version{Max: 1, Window: plan.Hour, Calendar: &c})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("%s: it took %v to say so", why, took)
		}
	}
}

func TestNoSlotAfterWhatACalendarHolds(t *testing.T) {
	line, err := plan.New(0, plan.Version{Max: 1, Window: plan.Hour, Calendar: &plan.Calendar{Zone: "UTC", Blackouts: []plan.Blackout{{From: 5 * plan.Hour, To: math.MaxInt64}}}})
	if err != nil {
		t.Fatal(err)
	}
	grants, err := newLedger().book(line, 0, slices.Repeat([]plan.Request{{}}, 6)...)
	if err != nil {
		t.Fatal(err)
	}
	if grants[4].At != 4*plan.Hour || grants[5] != (plan.Grant{Refused: plan.Never}) {
		t.Errorf("in five open hours: %+v", grants)
	}
}
