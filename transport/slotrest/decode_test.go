package slotrest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

func TestParseTime(t *testing.T) {
	utc := func(year int, month time.Month, day, hour, minute, second, micros int) plan.Ticks {
		return plan.At(time.Date(year, month, day, hour, minute, second, micros*1000, time.UTC))
	}
	for text, want := range map[string]plan.Ticks{
		"2025-06-01T12:00:00Z":                noon,
		"2025-06-01t12:00:00z":                noon,
		"2025-06-01T12:00:00+00:00":           noon,
		"2025-06-01T12:00:00-00:00":           noon,
		"2025-06-01T14:00:00+02:00":           noon,
		"2025-06-01T00:30:00-11:30":           noon,
		"2025-06-02T11:59:00+23:59":           noon,
		"2025-06-01T12:00:00.5Z":              noon + plan.Second/2,
		"2025-06-01T12:00:00.000001Z":         noon + 1,
		"2025-06-01T12:00:00.0000010000000Z":  noon + 1,
		"2025-06-01T12:00:00.0000000001Z":     noon + 1, // never before what was asked for
		"2025-06-01T11:59:59.9999999Z":        noon,
		"2025-06-01T14:00:00.25+02:00":        noon + plan.Second/4,
		"2024-02-29T00:00:00Z":                utc(2024, 2, 29, 0, 0, 0, 0),
		"1969-07-20T20:17:40Z":                utc(1969, 7, 20, 20, 17, 40, 0),
		"1969-12-31T23:59:59.999999Z":         -1,
		"2262-04-11T23:47:17Z":                utc(2262, 4, 11, 23, 47, 17, 0), // where nanoseconds since 1970 end
		"2026-03-29T02:30:00Z":                utc(2026, 3, 29, 2, 30, 0, 0),   // which clocks in Berlin leave out
		"0001-01-01T00:00:00Z":                plan.MinInstant,
		"0001-01-01T14:00:00+14:00":           plan.MinInstant,
		"9999-12-31T23:59:59.999999Z":         plan.MaxInstant,
		"9999-12-31T12:59:59.999999000-11:00": plan.MaxInstant,
	} {
		if got, err := parseTime(text); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseTimeRefuses(t *testing.T) {
	const (
		notRFC  = " is not a time of RFC 3339; write it as 2026-12-24T18:00:00Z, or with a fraction or an offset as 2026-12-24T19:00:00.5+01:00"
		noSuch  = " is a day or an hour that there is not; write it as 2026-12-24T18:00:00Z, or with a fraction or an offset as 2026-12-24T19:00:00.5+01:00"
		outside = " is out of bounds; years 1 to 9999, in UTC, are allowed"
		leap    = " is a leap second, which cannot be booked; write the second after it"
	)
	for text, why := range map[string]string{
		"":                                notRFC,
		"now":                             notRFC,
		"1748779200":                      notRFC,
		"2025-06-01":                      notRFC,
		"2025-06-01T12:00:00":             notRFC,
		"2025-06-01T12:00Z":               notRFC,
		"2025-06-01 12:00:00Z":            notRFC,
		"2025-06-01T12:00:00Z ":           notRFC,
		"2025-06-01T12:00:00.Z":           notRFC,
		"2025-06-01T12:00:00,5Z":          notRFC,
		"2025-06-01T12:00:00.5":           notRFC,
		"2025-06-01T12:00:00+0200":        notRFC,
		"2025-06-01T12:00:00+02":          notRFC,
		"2025-06-01T12:00:00+24:00":       notRFC,
		"2025-06-01T12:00:00+02:60":       notRFC,
		"2025-06-01T12:00:00Z[UTC]":       notRFC,
		"2025-6-1T12:00:00Z":              notRFC,
		"2025-06-01T1:00:00Z":             notRFC,
		"20250601T120000Z":                notRFC,
		"٢025-06-01T12:00:00Z":            notRFC,
		"+2025-06-01T12:00:00Z":           notRFC,
		"-0001-01-01T00:00:00Z":           notRFC,
		"10000-01-01T00:00:00Z":           notRFC,
		"+10000-01-01T00:00:00Z":          notRFC,
		"2025-13-01T12:00:00Z":            noSuch,
		"2025-00-01T12:00:00Z":            noSuch,
		"2025-06-31T12:00:00Z":            noSuch,
		"2025-06-00T12:00:00Z":            noSuch,
		"2025-02-29T12:00:00Z":            noSuch,
		"2025-06-01T24:00:00Z":            noSuch,
		"2025-06-01T12:60:00Z":            noSuch,
		"2025-06-01T12:00:61Z":            noSuch,
		"2016-12-31T23:59:60Z":            leap,
		"2017-01-01T00:59:60.5+01:00":     leap,
		"0000-12-31T23:59:59Z":            outside,
		"0000-06-01T12:00:00Z":            outside,
		"0001-01-01T00:00:00+00:01":       outside,
		"9999-12-31T23:59:59.9999991Z":    outside,
		"9999-12-31T23:59:59-00:01":       outside,
		"2025-06-01T12:00:00Z" + "\x00":   notRFC,
		"2025-06-01T12:00:00.1.2Z":        notRFC,
		"2025-06-01T12:00:00.١Z":          notRFC,
		"2025-06-01T12:00:00Z2025-06-01T": notRFC,
	} {
		got, err := parseTime(text)
		if err == nil || err.Error() != fmt.Sprintf("%q", text)+why {
			t.Errorf("%q: %v, %v; want an error with%s", text, got, err, why)
		}
	}
}

// Every time that can be booked is read as it is written.
func TestTimesAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := plan.Ticks(rapid.Int64Range(int64(plan.MinInstant), int64(plan.MaxInstant)).Draw(t, "at"))
		if back, err := parseTime(formatTime(at)); back != at || err != nil {
			t.Fatalf("%d is written %s and read %d, %v", at, formatTime(at), back, err)
		}
	})
}

// Go's own reading of RFC 3339 and this one agree where Go's is strict.
func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"2025-06-01T12:00:00Z", "2025-06-01t12:00:00.123456789z", "9999-12-31T23:59:59.9-23:59", "0001-01-01T00:00:00+00:01", "2016-12-31T23:59:60Z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseTime(text)
		if err != nil {
			return
		}
		if at < plan.MinInstant || at > plan.MaxInstant {
			t.Fatalf("%q is read %d, which is out of bounds", text, at)
		}
		want, err := time.Parse(time.RFC3339, strings.ToUpper(text))
		if err != nil {
			t.Fatalf("%q is read %v; Go says %v", text, at.Time(), err)
		}
		if late := at.Time().Sub(want); late < 0 || late > time.Microsecond {
			t.Fatalf("%q is read %v; Go says %v", text, at.Time(), want)
		}
	})
}

func TestHoursAreReadAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{"Mon-Fri 09:00-12:00 13:00-17:00, Sat 10:00-14:00", "Mon-Sun 06:00-22:00", "Mon 00:00-24:00, Sun 00:00-24:00", "Wed 12:00-12:01"} {
		hours, err := plan.ParseHours(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := formatHours(hours); got != text {
			t.Errorf("%s is written %s", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var parts []string
		for range rapid.IntRange(1, 6).Draw(t, "parts") {
			day := rapid.SampledFrom([]string{"Mon", "Tue-Thu", "Fri-Mon", "daily", "Sun"}).Draw(t, "days")
			from, to := rapid.IntRange(0, 1439).Draw(t, "from"), rapid.IntRange(0, 1440).Draw(t, "to")
			if from == to {
				to++
			}
			parts = append(parts, fmt.Sprintf("%s %02d:%02d-%02d:%02d", day, from/60, from%60, to/60, to%60))
		}
		hours, err := plan.ParseHours(strings.Join(parts, ","))
		if err != nil {
			t.Fatal(err)
		}
		back, err := plan.ParseHours(formatHours(hours))
		if err != nil || !slices.Equal(back, hours) {
			t.Fatalf("%v is written %s and read %v, %v", hours, formatHours(hours), back, err)
		}
	})
}

// What is not allowed, and how it is told.
const (
	needTime     = " is not a time of RFC 3339; write it as 2026-12-24T18:00:00Z, or with a fraction or an offset as 2026-12-24T19:00:00.5+01:00"
	needDuration = "; write PT4S, PT0.5S, PT5M, PT1H30M or P1D"
)

// in puts a field into the body of a request for noon.
func in(field string) string { return `{"requestedTime":"2025-06-01T12:00:00Z",` + field + `}` }

// config puts a field into a config of 10 slots in 4 seconds.
func config(field string) string { return `{"maxPerWindow":10,"windowSize":"PT4S",` + field + `}` }

func calendar(field string) string { return config(`"calendar":{` + field + `}`) }

// Requests that are not allowed, and the exact error of each. All are 400, and none
// books anything.
func TestBadInput(t *testing.T) {
	const book, bookBatch, quote, configure, pause = "/api/v1/slots", "/api/v1/slots/batch", "/api/v1/slots/quote", "/admin/rate-limit/config", "/admin/rate-limit/pause"
	long := strings.Repeat("x", 513)
	tests := []struct{ path, body, want string }{
		// Not JSON, or not this JSON.
		{book, ` `, `body: the JSON ends too early, at byte 1`},
		{book, `{"eventId":"a"`, `body: the JSON ends too early, at byte 14`},
		{book, `{"eventId":"a",}`, `body: not JSON at byte 15`},
		{book, `{eventId:"a"}`, `body: not JSON at byte 1`},
		{book, `null`, `body: null; an object is needed`},
		{book, `[]`, `body: [; an object is needed`},
		{book, in(`"eventId":"a"`) + ` x`, `body: something follows the JSON object; send one object`},
		{book, in(`"eventId":"a"`) + `{}`, `body: something follows the JSON object; send one object`},
		{book, in(`"eventId":"a","resumeFromWindow":null`), `resumeFromWindow: unknown field; eventId, requestedTime, maxDelay and configName are allowed`},
		{book, in(`"eventID":"a"`), `eventID: unknown field; eventId, requestedTime, maxDelay and configName are allowed`},
		{book, in(`"eventId":"a","eventId":"a"`), `eventId: given twice`},
		{book, in(`"eventId":7`), `eventId: 7; a string is needed`},
		{book, in(`"eventId":null`), `eventId: null; a string is needed`},
		{book, in(`"eventId":["a"]`), `eventId: [; a string is needed`},

		// Ids.
		{book, in(`"configName":"default"`), `eventId: missing; it is needed`},
		{book, in(`"eventId":""`), `eventId: the event id is empty; 1 to 512 bytes are allowed`},
		{book, in(`"eventId":"` + long + `"`), `eventId: the event id has 513 bytes; 1 to 512 are allowed`},
		{book, in(`"eventId":"a\u0000b"`), `eventId: the event id has a NUL in it, at byte 1`},
		{book, in("\"eventId\":\"a\xffb\""), `eventId: not valid UTF-8`},
		{book, in("\"eventId\":\"a\xed\xa0\x80\""), `eventId: not valid UTF-8`},
		{book, in(`"eventId":"a\ud800"`), `eventId: half of a surrogate pair, such as \ud800, stands alone in it`},
		{book, in(`"eventId":"\ud800\ud800"`), `eventId: half of a surrogate pair, such as \ud800, stands alone in it`},
		{book, in(`"eventId":"\udc00\ud800"`), `eventId: half of a surrogate pair, such as \ud800, stands alone in it`},
		{book, in(`"eventId":"\ud83d\u0041"`), `eventId: half of a surrogate pair, such as \ud800, stands alone in it`},
		{book, "{\"\xff\":1}", `body: a name in it is not valid UTF-8`},

		// Names of configs.
		{book, in(`"eventId":"a","configName":""`), `configName: the config name is empty; 1 to 128 bytes are allowed`},
		{book, in(`"eventId":"a","configName":"` + long[:129] + `"`), `configName: the config name has 129 bytes; 1 to 128 are allowed`},
		{book, in("\"eventId\":\"a\",\"configName\":\"\xc3(\""), `configName: not valid UTF-8`},
		{configure, config(`"configName":"a\u0000"`), `configName: the config name has a NUL in it, at byte 1`},

		// Times.
		{book, `{"eventId":"a"}`, `requestedTime: missing; it is needed`},
		{book, `{"eventId":"a","requestedTime":"tomorrow"}`, `requestedTime: "tomorrow"` + needTime},
		{book, `{"eventId":"a","requestedTime":1748779200}`, `requestedTime: 1748779200; a string is needed`},
		{book, `{"eventId":"a","requestedTime":"-0001-01-01T00:00:00Z"}`, `requestedTime: "-0001-01-01T00:00:00Z"` + needTime},
		{book, `{"eventId":"a","requestedTime":"0000-01-01T00:00:00Z"}`, `requestedTime: "0000-01-01T00:00:00Z" is out of bounds; years 1 to 9999, in UTC, are allowed`},
		{book, `{"eventId":"a","requestedTime":"10000-01-01T00:00:00Z"}`, `requestedTime: "10000-01-01T00:00:00Z"` + needTime},
		{book, `{"eventId":"a","requestedTime":"2016-12-31T23:59:60Z"}`, `requestedTime: "2016-12-31T23:59:60Z" is a leap second, which cannot be booked; write the second after it`},
		{book, `{"eventId":"a","requestedTime":"` + long + `"}`, `requestedTime: "` + long[:64] + `..."` + needTime},

		// Durations.
		{book, in(`"eventId":"a","maxDelay":"4s"`), `maxDelay: "4s" is not allowed: it must begin with P, and have a T before hours, minutes and seconds` + needDuration},
		{book, in(`"eventId":"a","maxDelay":""`), `maxDelay: "" is not allowed: it must begin with P, and have a T before hours, minutes and seconds` + needDuration},
		{book, in(`"eventId":"a","maxDelay":"PT0S"`), `maxDelay: "PT0S" is not allowed: it must be longer than zero` + needDuration},
		{book, in(`"eventId":"a","maxDelay":8`), `maxDelay: 8; a string is needed`},

		// Batches.
		{bookBatch, `{}`, `events: missing; it is needed`},
		{bookBatch, `{"events":[]}`, `events: none; 1 to 10000 are needed`},
		{bookBatch, `{"events":{}}`, `events: {; an array is needed`},
		{bookBatch, `{"events":[1]}`, `events[0]: 1; an object is needed`},
		{bookBatch, in(`"events":[{"eventId":"a"},{"eventId":"b","configName":"c"}]`), `events[1].configName: unknown field; eventId, requestedTime and maxDelay are allowed`},
		{bookBatch, in("\"events\":[{\"eventId\":\"a\"},{\"\xff\":\"b\"}]"), `events[1]: a name in it is not valid UTF-8`},
		{bookBatch, in(`"events":[` + strings.Repeat(`{"eventId":"a"},`, MaxBatch) + `{"eventId":"a"}]`), `events: more than 10000 events; send several batches`},
		{bookBatch, `{"requestedTime":"noon","events":[{"eventId":"a"}]}`, `requestedTime: "noon"` + needTime},
		{bookBatch, `{"configName":"","events":[{"eventId":"a"}]}`, `configName: the config name is empty; 1 to 128 bytes are allowed`},

		// Quotes.
		{quote, `{}`, `requestedTime: missing; it is needed`},
		{quote, in(`"count":0`), `count: 0; a whole number from 1 to 1000000 is allowed`},
		{quote, in(`"count":1000001`), `count: 1000001; a whole number from 1 to 1000000 is allowed`},
		{quote, in(`"count":1.5`), `count: 1.5; a whole number from 1 to 1000000 is allowed`},
		{quote, in(`"count":99999999999999999999`), `count: 99999999999999999999; a whole number from 1 to 1000000 is allowed`},
		{quote, in(`"eventId":"a"`), `eventId: unknown field; configName, requestedTime, maxDelay and count are allowed`},

		// Configs.
		{configure, `{"windowSize":"PT4S"}`, `maxPerWindow: missing; it is needed`},
		{configure, `{"maxPerWindow":10}`, `windowSize: missing; it is needed`},
		{configure, `{"maxPerWindow":0,"windowSize":"PT4S"}`, `maxPerWindow: 0; a whole number from 1 to 4194304 is allowed`},
		{configure, `{"maxPerWindow":-1,"windowSize":"PT4S"}`, `maxPerWindow: -1; a whole number from 1 to 4194304 is allowed`},
		{configure, `{"maxPerWindow":4194305,"windowSize":"P1D"}`, `maxPerWindow: 4194305; a whole number from 1 to 4194304 is allowed`},
		{configure, `{"maxPerWindow":1e2,"windowSize":"PT4S"}`, `maxPerWindow: 1e2; a whole number from 1 to 4194304 is allowed`},
		{configure, `{"maxPerWindow":"10","windowSize":"PT4S"}`, `maxPerWindow: "10"; a whole number is needed`},
		{configure, `{"maxPerWindow":334,"windowSize":"PT0.001S"}`, `maxPerWindow: 334 is too large for a window of PT0.001S; at most 333 is allowed, one for each 3 microseconds`},
		{configure, `{"maxPerWindow":10,"windowSize":"PT0S"}`, `windowSize: "PT0S" is not allowed: it must be longer than zero` + needDuration},
		{configure, `{"maxPerWindow":10,"windowSize":"4s"}`, `windowSize: "4s" is not allowed: it must begin with P, and have a T before hours, minutes and seconds` + needDuration},
		{configure, `{"maxPerWindow":10,"windowSize":"P4"}`, `windowSize: "P4" is not allowed: "4" is not understood` + needDuration},
		{configure, `{"maxPerWindow":10,"windowSize":"PT-4S"}`, `windowSize: "PT-4S" is not allowed: "-4" is not a whole number` + needDuration},
		{configure, `{"maxPerWindow":10,"windowSize":"PT0.0000001S"}`, `windowSize: "PT0.0000001S" is not allowed: only seconds may have a fraction, of one to six digits` + needDuration},
		{configure, `{"maxPerWindow":10,"windowSize":"P1M"}`, `windowSize: "P1M" is not allowed: years and months vary in length` + needDuration},
		{configure, `{"maxPerWindow":1,"windowSize":"PT0.0005S"}`, `windowSize: 500 microseconds is out of bounds; PT0.001S to P366D is allowed`},
		{configure, `{"maxPerWindow":1,"windowSize":"P367D"}`, `windowSize: 31708800000000 microseconds is out of bounds; PT0.001S to P366D is allowed`},
		{configure, `{"maxPerWindow":1,"windowSize":"PT99999999999999999999S"}`, `windowSize: "PT99999999999999999999S" is not allowed: it is too long` + needDuration},
		{configure, config(`"mode":"even"`), `mode: "even"; jitter and spread are allowed`},
		{configure, config(`"mode":""`), `mode: ""; jitter and spread are allowed`},
		{configure, config(`"seed":-1`), `seed: -1; a whole number from 0 to 9007199254740991 is allowed`},
		{configure, config(`"seed":9007199254740992`), `seed: 9007199254740992; a whole number from 0 to 9007199254740991 is allowed`},
		{configure, config(`"horizon":"1h"`), `horizon: "1h" is not allowed: it must begin with P, and have a T before hours, minutes and seconds` + needDuration},
		{configure, config(`"effectiveFrom":"soon"`), `effectiveFrom: "soon"` + needTime},
		{configure, config(`"calendar":null`), `calendar: null; an object is needed`},
		{configure, calendar(``), `calendar.zone: missing; it is needed`},
		{configure, calendar(`"zone":"Berlin"`), `calendar.zone: "Berlin" is unknown; name one of the IANA database, such as Europe/Berlin or UTC (unknown time zone Berlin)`},
		{configure, calendar(`"zone":"Local"`), `calendar.zone: "Local" is not allowed; name one of the IANA database, such as Europe/Berlin or UTC`},
		{configure, calendar(`"zone":"UTC","hours":"9-5"`), `calendar.hours: "9-5" is not allowed: days and hours are needed; write Mon-Fri 09:00-17:00, or daily 06:00-22:00, with commas between such parts`},
		{configure, calendar(`"zone":"UTC","hours":"` + strings.Repeat(" ", 1025) + `"`), `calendar.hours: 1025 bytes; at most 1024 are allowed`},
		{configure, calendar(`"zone":"UTC","holidays":["2026-12-25","25.12.2026"]`), `calendar.holidays[1]: "25.12.2026" is not allowed; write 2026-12-25`},
		{configure, calendar(`"zone":"UTC","blackouts":[{"from":"2026-12-25T00:00:00Z"}]`), `calendar.blackouts[0].to: missing; it is needed`},
		{configure, calendar(`"zone":"UTC","blackouts":[{"from":"2026-12-25T00:00:00Z","to":"2026-12-24T00:00:00Z"}]`), `calendar.blackouts[0]: it ends at 2026-12-24T00:00:00Z and begins at 2026-12-25T00:00:00Z; it must end later than that`},
		{configure, calendar(`"zone":"UTC","blackouts":[{"from":"0001-01-01T00:00:00Z","to":"9999-12-31T00:00:00Z"}]`), `calendar: it is open for 0 seconds in the 366 days from 2025-06-01 on; at least an hour is needed`},

		// Pauses.
		{pause, `{}`, `until: missing; it is needed`},
		{pause, `{"until":"tomorrow"}`, `until: "tomorrow"` + needTime},
		{pause, `{"until":3}`, `until: 3; a string is needed`},
	}
	a := newTestAPI(t)
	a.configure(t, "default", 10, "PT4S")
	for _, test := range tests {
		w := a.do(t, "POST", test.path, test.body)
		if w.Code != 400 {
			t.Errorf("POST %s %.200s: %d %s; want 400 with %s", test.path, test.body, w.Code, w.Body, test.want)
		} else if p := problemOf(t, w); p.Detail != test.want {
			t.Errorf("POST %s %.200s:\n%s\nwant\n%s", test.path, test.body, p.Detail, test.want)
		}
	}
	if page := answered[Page](t, a, 200, "GET", "/api/v1/slots", ""); len(page.Slots) != 0 {
		t.Errorf("something was booked: %+v", page.Slots)
	}
	if h := answered[History](t, a, 200, "GET", "/admin/rate-limit/config/history", ""); len(h.Versions) != 1 {
		t.Errorf("the config was changed: %+v", h.Versions)
	}
}

// An id that can be read is named in the answer to a request that is not allowed.
func TestBadInputNamesTheEvent(t *testing.T) {
	a := newTestAPI(t)
	for body, want := range map[string]string{
		`{"eventId":"a","requestedTime":"noon"}`:                       "a",
		`{"requestedTime":"noon","eventId":"a"}`:                       "a",
		`{"eventId":"a"}`:                                              "a",
		in(`"eventId":"` + strings.Repeat("x", 513) + `"`):             "",
		`{"requestedTime":"2025-06-01T12:00:00Z","eventId":"a","x":1}`: "a",
	} {
		if w := a.do(t, "POST", "/api/v1/slots", body); w.Code != 400 || problemOf(t, w).EventID != want {
			t.Errorf("%.100s: %d %s", body, w.Code, w.Body)
		}
	}
}

// Ids are taken as they are, whatever is in them.
func TestIDsComeBackAsTheyWere(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 100, "PT4S")
	seen := make(map[string]bool)
	for _, id := range append(slices.Clone(strangeIDs), "\ufffd", `\ud800`, "\U0001f600\ufffd", `\\ufffd`) {
		got := a.book(t, id)
		if got.EventID != id || got.Repeated || seen[got.ScheduledTime] {
			t.Errorf("%q is booked as %+v", id, got)
		}
		seen[got.ScheduledTime] = true
	}
	escaped := answered[Booking](t, a, 200, "POST", "/api/v1/slots", in(`"eventId":"\ufffd"`))
	if !escaped.Repeated {
		t.Errorf("an escape of U+FFFD is another id than the character: %+v", escaped)
	}
}

// strangeIDs are allowed.
var strangeIDs = []string{
	"a", "a/b", "a//b", "/", "..", ".", "a b", "a%2Fb", "100%", "?x=y#z", "timeline", "batch", "openapi.yaml",
	"caf\u00e9", "cafe\u0301", "\u202eabc", "\U0001f600", "a\tb\nc\x01", `"\`, "+", ";", "*", strings.Repeat("\u20ac", 170),
}

func TestBadQueries(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 10, "PT4S")
	for _, test := range []struct{ method, url, want string }{
		{"GET", "/api/v1/slots?config=default", `config: unknown parameter; configName, from, to, cursor and limit are allowed`},
		{"GET", "/api/v1/slots?limit=1&limit=2", `limit: given twice`},
		{"GET", "/api/v1/slots?limit=0", `limit: "0"; a whole number from 1 to 1000 is allowed`},
		{"GET", "/api/v1/slots?limit=1001", `limit: "1001"; a whole number from 1 to 1000 is allowed`},
		{"GET", "/api/v1/slots?limit=", `limit: ""; a whole number from 1 to 1000 is allowed`},
		{"GET", "/api/v1/slots?from=2025-06-01T12:00:00+02:00", `from: "2025-06-01T12:00:00 02:00"` + needTime},
		{"GET", "/api/v1/slots?from=2025-06-01T12:00:00Z&to=2025-06-01T11:00:00Z", `to: 2025-06-01T11:00:00Z is before from, 2025-06-01T12:00:00Z`},
		{"GET", "/api/v1/slots?cursor=x", `cursor: it is not one that this API has given; send a nextCursor as it is, or none to begin with the first`},
		{"GET", "/api/v1/slots?cursor=_________wE", `cursor: it is not one that this API has given; send a nextCursor as it is, or none to begin with the first`},
		{"GET", "/api/v1/slots?configName=", `configName: the config name is empty; 1 to 128 bytes are allowed`},
		{"GET", "/api/v1/slots?from=%zz", `query: it cannot be read; write name=value pairs with & between them, percent-encoded`},
		{"POST", "/api/v1/slots?onConflict=fail", `onConflict: "fail"; answer and error are allowed`},
		{"GET", "/api/v1/slots/a%00b", `eventId: the event id has a NUL in it, at byte 1`},
		{"GET", "/api/v1/slots/%ff", `eventId: the event id is not valid UTF-8`},
		{"GET", "/api/v1/slots/", `eventId: the event id is empty; 1 to 512 bytes are allowed`},
		{"DELETE", "/api/v1/slots/" + strings.Repeat("x", 513), `eventId: the event id has 513 bytes; 1 to 512 are allowed`},
		{"GET", "/api/v1/slots/a?name=b", `name: unknown parameter; configName is allowed`},
		{"GET", "/api/v1/slots/timeline", `step: missing; it is needed`},
		{"GET", "/api/v1/slots/timeline?step=PT4S", `from: missing; it is needed`},
		{"GET", "/api/v1/slots/timeline?step=PT4S&from=2025-06-01T12:00:00Z", `to: missing; it is needed`},
		{"GET", "/api/v1/slots/timeline?step=PT4S&from=2025-06-01T12:00:00Z&to=2025-06-01T12:00:00Z", `to: it must lie 1 to 10000 steps of PT4S after from, without a rest`},
		{"GET", "/api/v1/slots/timeline?step=PT4S&from=2025-06-01T12:00:00Z&to=2025-06-01T12:00:06Z", `to: it must lie 1 to 10000 steps of PT4S after from, without a rest`},
		{"GET", "/api/v1/slots/timeline?step=PT0.000001S&from=0001-01-01T00:00:00Z&to=9999-12-31T00:00:00Z", `to: it must lie 1 to 10000 steps of PT0.000001S after from, without a rest`},
		{"GET", "/api/v1/slots/timeline?step=4s&from=2025-06-01T12:00:00Z&to=2025-06-01T12:00:06Z", `step: "4s" is not allowed: it must begin with P, and have a T before hours, minutes and seconds` + needDuration},
		{"GET", "/admin/rate-limit/config?configName=a", `configName: unknown parameter; name is allowed`},
		{"GET", "/admin/rate-limit/configs?cursor=%00", `cursor: it is not one that this API has given; send a nextCursor as it is, or none to begin with the first`},
		{"POST", "/admin/rate-limit/cache/flush?now=1", `now: unknown parameter; none is allowed`},
	} {
		body := ""
		if test.method == "POST" && test.url != "/admin/rate-limit/cache/flush?now=1" {
			body = request("a")
		}
		w := a.do(t, test.method, test.url, body)
		if w.Code != 400 {
			t.Errorf("%s %.200s: %d %s; want 400", test.method, test.url, w.Code, w.Body)
		} else if got := problemOf(t, w).Detail; got != test.want {
			t.Errorf("%s %.200s:\n%s\nwant\n%s", test.method, test.url, got, test.want)
		}
	}
}

// Whatever is understood is what the document says, and all of it is allowed.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		request("a"), in(`"eventId":"\ud83d\ude00","maxDelay":"PT1.5S","configName":"x"`), in("\"eventId\":\"\xff\""),
		in(`"events":[{"eventId":"a","requestedTime":"0001-01-01T00:00:00Z"},{"eventId":""}],"maxDelay":"P1D"`),
		in(`"count":7`), `{"requestedTime":"9999-12-31T23:59:59.999999Z"}`,
		calendar(`"zone":"Europe/Berlin","hours":"Mon-Fri 09:00-17:00","holidays":["2026-12-25"],"blackouts":[{"from":"2026-12-31T12:00:00Z","to":"2027-01-01T00:00:00Z"}]`),
		config(`"mode":"spread","seed":1,"maxDelay":"PT8H","horizon":"P30D","effectiveFrom":"2025-06-01T12:00:00+02:00"`),
		`{"until":null}`, `{"until":"2025-06-01T12:00:00Z","configName":"a"}`, `{"eventId":"a","x":{`, `[[`, `{"a":1,}`,
	} {
		f.Add([]byte(seed))
	}
	c := newContract(f)
	schema := func(name string) func(t *testing.T, body []byte) {
		misses := c.Schema(f, "components", "schemas", name)
		return func(t *testing.T, body []byte) {
			if err := misses(body); err != nil {
				t.Fatalf("%q was understood, and is not a %s as the document says: %v", body, name, err)
			}
		}
	}
	isRequest, isBatch, isQuote, isMove, isSetting, isPause := schema("Request"), schema("BatchRequest"), schema("QuoteRequest"), schema("Move"), schema("Setting"), schema("Pause")
	instant := func(t *testing.T, at plan.Ticks) {
		if at < plan.MinInstant || at > plan.MaxInstant {
			t.Fatalf("a time is read %d, which is out of bounds", at)
		}
	}
	known := func(t *testing.T, r slots.Request) {
		instant(t, r.At)
		if err := slots.CheckID(r.ID); err != nil || r.MaxDelay < 0 {
			t.Fatalf("%+v: %v", r, err)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if b, err := decodeBooking(body); err == nil {
			isRequest(t, body)
			known(t, b.Request)
			if !utf8.Valid(body) {
				t.Fatalf("%q was understood", body)
			}
			// The id is what it was in the body: encoding/json gives the same back.
			var again struct{ EventID string }
			if err := json.Unmarshal(body, &again); err != nil || again.EventID != b.ID {
				t.Fatalf("%q: the id is %q, and for encoding/json %q, %v", body, b.ID, again.EventID, err)
			}
		}
		if b, err := decodeBatch(body); err == nil {
			isBatch(t, body)
			for _, e := range b.events {
				if e.err == nil {
					known(t, e.Request)
				}
			}
		}
		if q, err := decodeQuestion(body); err == nil {
			isQuote(t, body)
			instant(t, q.At)
		}
		if m, err := decodeMove(body); err == nil {
			isMove(t, body)
			instant(t, m.At)
		}
		if s, err := decodeSetting(body); err == nil {
			isSetting(t, body)
			instant(t, s.From)
		}
		if p, err := decodePausing(body); err == nil {
			isPause(t, body)
			instant(t, p.until)
		}
	})
}

// What a query asks for cannot make a handler fail.
func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(formatCursor(slots.Event{ID: "a", Slot: plan.Slot{At: noon}}))
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parameters{"cursor": text}.cursor()
		if err != nil {
			return
		}
		if slots.CheckID(e.ID) != nil || e.At < plan.MinInstant || e.At > plan.MaxInstant {
			t.Fatalf("cursor %q is %+v", text, e)
		}
		again, err := parameters{"cursor": formatCursor(*e)}.cursor()
		if diff := cmp.Diff(e, again); diff != "" || err != nil {
			t.Fatalf("%v\n%s", err, diff)
		}
	})
}

// A batch is read in a time that is in proportion to its size.
func BenchmarkDecodeBatch(b *testing.B) {
	var body strings.Builder
	body.WriteString(`{"configName":"default","requestedTime":"2025-06-01T12:00:00Z","events":[`)
	for i := range MaxBatch {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(`{"eventId":"pay-` + strconv.Itoa(i) + `","requestedTime":"2025-06-01T12:00:00.5+02:00"}`)
	}
	body.WriteString(`]}`)
	text := []byte(body.String())
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if got, err := decodeBatch(text); err != nil || len(got.events) != MaxBatch {
			b.Fatal(err)
		}
	}
}
