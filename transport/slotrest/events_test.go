package slotrest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/slots/plan"
)

// A repeat has the same answer for ever, whatever becomes of the config; it says that
// it is one, and whether it asks for another time.
func TestRepeats(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 3, "PT4S")
	a.book(t, "other")
	first := a.book(t, "pay-123")
	if first.Repeated || first.Conflict || first.ConfigName != "default" || first.RequestedTime != "2025-06-01T12:00:00Z" || first.BookedTime != "2025-06-01T12:00:00Z" {
		t.Errorf("first answer is %+v", first)
	}
	want := first
	want.Repeated = true
	a.now.Add(int64(plan.Hour))
	a.configure(t, "default", 1, "PT6S")
	again := a.book(t, "pay-123")
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("a repeat (-want +got):\n%s", diff)
	}
	want.Conflict = true
	other := strings.Replace(request("pay-123"), "12:00:00Z", "18:00:00Z", 1)
	if diff := cmp.Diff(want, answered[Booking](t, a, 200, "POST", "/api/v1/slots?onConflict=answer", other)); diff != "" {
		t.Errorf("a repeat for another time (-want +got):\n%s", diff)
	}
	p := answered[Problem](t, a, 409, "POST", "/api/v1/slots?onConflict=error", other)
	if p.Reason != Conflict || p.EventID != "pay-123" || p.Message != fmt.Sprintf(`Event "pay-123" was booked for 2025-06-01T12:00:00Z, and this asks for 2025-06-01T18:00:00Z. Its slot, at %s, stays as it is; PATCH moves it.`, first.ScheduledTime) {
		t.Errorf("a conflict that is an error is answered %+v", p)
	}
	if again := answered[Booking](t, a, 200, "POST", "/api/v1/slots?onConflict=error", request("pay-123")); !again.Repeated || again.Conflict {
		t.Errorf("a repeat for the same time is %+v", again)
	}
}

// A time in the past is taken for now, and delayMs counts from the time that was asked
// for, however long ago that is.
func TestTimesInThePast(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 1000, "PT1S")
	for i, when := range []string{"0001-01-01T00:00:00Z", "1969-07-20T20:17:40Z", "1970-01-01T00:00:00Z", "2025-06-01T11:59:59.999999Z", "2025-06-01T12:00:00+14:00"} {
		b := answered[Booking](t, a, 200, "POST", "/api/v1/slots", fmt.Sprintf(`{"eventId":"e%d","requestedTime":%q}`, i, when))
		got, asked := at(t, b.ScheduledTime), at(t, when)
		if got < noon || got >= noon+plan.Second || b.DelayMS != int64((got-asked)/plan.Millisecond) {
			t.Errorf("%s is booked for %s with a delay of %dms", when, b.ScheduledTime, b.DelayMS)
		}
	}
}

// Times far ahead are booked as any other, and there is nothing after the last.
func TestTimesFarAhead(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 2, "PT1S")
	for i, when := range []string{"2262-04-11T23:47:17Z", "2262-04-11T23:47:16.854775808Z", "9999-12-31T23:59:58Z"} {
		b := answered[Booking](t, a, 200, "POST", "/api/v1/slots", fmt.Sprintf(`{"eventId":"e%d","requestedTime":%q}`, i, when))
		if got, asked := at(t, b.ScheduledTime), at(t, when); got < asked || got >= asked+2*plan.Second || b.DelayMS >= 2000 {
			t.Errorf("%s is booked for %s with a delay of %dms", when, b.ScheduledTime, b.DelayMS)
		}
	}
	w := a.do(t, "POST", "/api/v1/slots", `{"eventId":"last","requestedTime":"9999-12-31T23:59:59.999999Z"}`)
	want := Problem{Refusal: Refusal{EventID: "last", Reason: Never, Message: "Nothing was booked: there is no free slot at that time or later."}}
	want.Title, want.Status, want.Detail, want.Instance = "Service Unavailable", 503, want.Message, "/api/v1/slots"
	if diff := cmp.Diff(want, problemOf(t, w)); diff != "" || w.Header().Get("Retry-After") != "" {
		t.Errorf("after the last slot of all, Retry-After %q (-want +got):\n%s", w.Header().Get("Retry-After"), diff)
	}
}

// Whoever waits for as long as a refusal says gets the slot that it has named.
func TestRefusalsSayWhenToComeAgain(t *testing.T) {
	for _, test := range []struct {
		name, config, request string
		reason                Reason
		detail                string
	}{
		{"the request's maximum delay", ``, `,"maxDelay":"PT8S"`, CapacityExhausted, "later than the maximum delay allows"},
		{"the config's maximum delay", `,"maxDelay":"PT8S"`, ``, CapacityExhausted, "later than the maximum delay allows"},
		{"the config's horizon", `,"horizon":"PT8S"`, ``, Horizon, "beyond the config's horizon"},
		{"both", `,"horizon":"PT10S","maxDelay":"PT8S"`, ``, CapacityExhausted, "later than the maximum delay allows"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newTestAPI(t)
			answered[Config](t, a, 201, "POST", "/admin/rate-limit/config", `{"maxPerWindow":1,"windowSize":"PT4S"`+test.config+`}`)
			ask := func(id string) string {
				return `{"eventId":"` + id + `","requestedTime":"2025-06-01T12:00:00Z"` + test.request + `}`
			}
			for _, id := range []string{"a", "b", "c"} { // at 12:00:00, :04, and :08 at the latest
				answered[Booking](t, a, 200, "POST", "/api/v1/slots", ask(id))
			}
			w := a.do(t, "POST", "/api/v1/slots", ask("d"))
			p := problemOf(t, w)
			if w.Code != 503 || p.Reason != test.reason || !strings.HasSuffix(p.Detail, test.detail+".") || p.EventID != "d" || p.EarliestTime != "2025-06-01T12:00:12Z" ||
				p.WindowsSearched == nil || *p.WindowsSearched != 3 || p.RetryAfterMS != 4000 || w.Header().Get("Retry-After") != "4" {
				t.Fatalf("refused with %d, Retry-After %q, %s", w.Code, w.Header().Get("Retry-After"), w.Body)
			}
			if w := a.do(t, "GET", "/api/v1/slots/d", ""); w.Code != 404 {
				t.Errorf("something of it was booked: %d %s", w.Code, w.Body)
			}
			again := fmt.Sprintf(`{"eventId":"d","requestedTime":"2025-06-01T12:00:04Z"%s}`, test.request)
			a.now.Add(int64(plan.Ticks(p.RetryAfterMS)*plan.Millisecond) - 1)
			if w := a.do(t, "POST", "/api/v1/slots", strings.Replace(again, "04Z", "00Z", 1)); w.Code != 503 {
				t.Errorf("a microsecond too early: %d %s", w.Code, w.Body)
			}
			a.now.Add(1)
			if b := answered[Booking](t, a, 200, "POST", "/api/v1/slots", again); b.ScheduledTime != p.EarliestTime {
				t.Errorf("in time, it is booked for %s and not for %s", b.ScheduledTime, p.EarliestTime)
			}
		})
	}
}

func TestUnknown(t *testing.T) {
	a := newTestAPI(t)
	p := answered[Problem](t, a, 404, "POST", "/api/v1/slots", request("a"))
	if p.Reason != UnknownConfig || p.EventID != "a" || p.Message != `There is no config "default".` {
		t.Errorf("an unknown config: %+v", p)
	}
	a.configure(t, "default", 1, "PT1S")
	for _, method := range []string{"GET", "DELETE", "PATCH"} {
		body := ""
		if method == "PATCH" {
			body = `{"requestedTime":"2025-06-01T13:00:00Z"}`
		}
		p := answered[Problem](t, a, 404, method, "/api/v1/slots/a%2Fb", body)
		if p.Reason != UnknownEvent || p.EventID != "a/b" || p.Message != `Config "default" has no event "a/b".` || p.Instance != "/api/v1/slots/a%2Fb" {
			t.Errorf("an unknown event: %+v", p)
		}
		if p := answered[Problem](t, a, 404, method, "/api/v1/slots/a?configName=other", body); p.Reason != UnknownConfig {
			t.Errorf("an event of an unknown config: %+v", p)
		}
	}
}

// An event is cancelled once, its slot is free for others, and its id never again.
func TestCancel(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 1, "PT4S")
	booked := a.book(t, "a").Slot
	a.now.Add(int64(plan.Second / 2))
	want := booked
	want.CancelledTime = "2025-06-01T12:00:00.5Z"
	for range 2 {
		got := answered[Slot](t, a, 200, "DELETE", "/api/v1/slots/a", "")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		a.now.Add(int64(plan.Second))
	}
	a.now.Store(int64(noon))
	if got := answered[Slot](t, a, 200, "GET", "/api/v1/slots/a", ""); got != want {
		t.Errorf("afterwards it is %+v", got)
	}
	for _, exchange := range []struct{ method, path, body string }{
		{"POST", "/api/v1/slots", request("a")},
		{"PATCH", "/api/v1/slots/a", `{"requestedTime":"2025-06-01T13:00:00Z"}`},
	} {
		p := answered[Problem](t, a, 410, exchange.method, exchange.path, exchange.body)
		if p.Reason != Cancelled || p.EventID != "a" || p.Message != `Event "a" was cancelled, and its id cannot be booked again.` {
			t.Errorf("%s of a cancelled event: %+v", exchange.method, p)
		}
	}
	if b := a.book(t, "b"); b.ScheduledTime != booked.ScheduledTime {
		t.Errorf("the slot at %s is not free again: b got %s", booked.ScheduledTime, b.ScheduledTime)
	}
}

// An event is moved, or stays where it is.
func TestReschedule(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 1, "PT4S")
	old := a.book(t, "a").Slot
	moved := answered[Slot](t, a, 200, "PATCH", "/api/v1/slots/a", `{"requestedTime":"2025-06-01T15:00:00+02:00"}`)
	want := Slot{EventID: "a", ScheduledTime: "2025-06-01T13:00:00Z", ConfigName: "default", RequestedTime: "2025-06-01T13:00:00Z", BookedTime: moved.BookedTime}
	if diff := cmp.Diff(want, moved); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
	if again := answered[Slot](t, a, 200, "PATCH", "/api/v1/slots/a", `{"requestedTime":"2025-06-01T13:00:00Z"}`); again != moved {
		t.Errorf("moved again to the same time it is %+v", again)
	}
	if b := a.book(t, "b"); b.ScheduledTime != old.ScheduledTime {
		t.Errorf("the old slot at %s is not free: b got %s", old.ScheduledTime, b.ScheduledTime)
	}
	p := answered[Problem](t, a, 503, "PATCH", "/api/v1/slots/b", `{"requestedTime":"2025-06-01T13:00:00Z","maxDelay":"PT3S"}`)
	if p.Reason != CapacityExhausted || p.EarliestTime != "2025-06-01T13:00:04Z" {
		t.Errorf("moved to where there is no room: %+v", p)
	}
	if b := answered[Slot](t, a, 200, "GET", "/api/v1/slots/b", ""); b.ScheduledTime != old.ScheduledTime {
		t.Errorf("it has not stayed: %+v", b)
	}
	if p := answered[Problem](t, a, 400, "PATCH", "/api/v1/slots/b", `{}`); p.EventID != "b" || p.Message != "requestedTime: missing; it is needed" {
		t.Errorf("without a time: %+v", p)
	}
}

// Whatever is in an id, it can be named in a path.
func TestIDsInPaths(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "payments", 1000, "PT4S")
	server := httptest.NewServer(a)
	defer server.Close()
	for _, id := range strangeIDs {
		booked := a.book(t, id, `"configName":"payments"`).Slot
		path := url.PathEscape(id)
		switch id {
		case "timeline", "openapi.yaml": // are paths of their own
			path = fmt.Sprintf("%%%02x%s", id[0], id[1:])
		case ".", "..": // would be taken for folders
			path = strings.ReplaceAll(id, ".", "%2e")
		}
		for _, method := range []string{"GET", "DELETE"} {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1/slots/"+path+"?configName=payments", nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			var got Slot
			err = json.NewDecoder(answer.Body).Decode(&got)
			answer.Body.Close()
			got.CancelledTime = ""
			if err != nil || answer.StatusCode != 200 || got != booked {
				t.Errorf("%s of %q is %d, %+v, %v; want %+v", method, id, answer.StatusCode, got, err, booked)
			}
		}
	}
	// A slash may also stand as it is.
	if w := a.do(t, "GET", "/api/v1/slots/a/b?configName=payments", ""); w.Code != 200 {
		t.Errorf("a/b is answered %d %s", w.Code, w.Body)
	}
}

// Each event of a batch has the answer that it would have got alone, in the order in
// which they were sent.
func TestBatch(t *testing.T) {
	a := newTestAPI(t)
	answered[Config](t, a, 201, "POST", "/admin/rate-limit/config", `{"maxPerWindow":1,"windowSize":"PT4S","horizon":"P1D"}`)
	a.book(t, "old")
	a.book(t, "gone")
	a.do(t, "DELETE", "/api/v1/slots/gone", "")
	const body = `{"configName":"default","requestedTime":"2025-06-01T12:00:00Z","maxDelay":"PT10S","events":[
		{"eventId":"old"}, {"eventId":"gone"}, {"eventId":""}, {"eventId":"a"}, {"requestedTime":"2025-06-01T12:00:00Z"},
		{"eventId":"old","requestedTime":"2025-06-01T13:00:00Z"}, {"eventId":"b","requestedTime":"noon"}, {"eventId":"c"},
		{"eventId":"late"}, {"eventId":"patient","maxDelay":"PT1M"}, {"eventId":"far","requestedTime":"2025-06-03T12:00:00Z"}, {"eventId":"a"}
	]}`
	got := answered[struct {
		Batch
		Results []struct {
			Status        int
			EventID       string
			ScheduledTime string
			Repeated      bool
			Conflict      bool
			Reason        Reason
			Error         string
			EarliestTime  string
		} `json:"results"`
	}](t, a, 200, "POST", "/api/v1/slots/batch", body)
	var lines []string
	for _, r := range got.Results {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%d %s %s repeated=%v conflict=%v %s %s", r.Status, r.EventID, r.ScheduledTime, r.Repeated, r.Conflict, r.Reason, r.EarliestTime), " "))
	}
	want := []string{
		"200 old 2025-06-01T12:00:00Z repeated=true conflict=false",
		"410 gone  repeated=false conflict=false CANCELLED",
		"400   repeated=false conflict=false",
		"200 a 2025-06-01T12:00:04Z repeated=false conflict=false",
		"400   repeated=false conflict=false",
		"200 old 2025-06-01T12:00:00Z repeated=true conflict=true",
		"400 b  repeated=false conflict=false",
		"200 c 2025-06-01T12:00:08Z repeated=false conflict=false",
		"503 late  repeated=false conflict=false CAPACITY_EXHAUSTED 2025-06-01T12:00:12Z",
		"200 patient 2025-06-01T12:00:12Z repeated=false conflict=false",
		"503 far  repeated=false conflict=false HORIZON 2025-06-03T12:00:00Z",
		"200 a 2025-06-01T12:00:04Z repeated=true conflict=false",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if got.Booked != 3 || got.Repeated != 3 || got.Refused != 6 {
		t.Errorf("%d booked, %d repeated, %d refused", got.Booked, got.Repeated, got.Refused)
	}
	for i, want := range map[int]string{
		2: "eventId: the event id is empty; 1 to 512 bytes are allowed",
		4: "eventId: missing; it is needed",
		6: `requestedTime: "noon"` + needTime,
	} {
		if got.Results[i].Error != want {
			t.Errorf("event %d: %s; want %s", i, got.Results[i].Error, want)
		}
	}
	strict := answered[struct{ Results []struct{ Status int } }](t, a, 200, "POST", "/api/v1/slots/batch?onConflict=error", body)
	if strict.Results[5].Status != 409 || strict.Results[0].Status != 200 {
		t.Errorf("with onConflict=error: %+v", strict.Results)
	}
	for _, id := range []string{"\xff", `\ud800`, `a\u0000`} {
		odd := answered[Batch](t, a, 200, "POST", "/api/v1/slots/batch", in(`"events":[{"eventId":"`+id+`"},{"eventId":"a"}]`))
		if odd.Refused != 1 || odd.Repeated != 1 || odd.Results[0].(map[string]any)["status"] != 400.0 {
			t.Errorf("with the id %q: %+v", id, odd)
		}
	}
	none := answered[Batch](t, a, 200, "POST", "/api/v1/slots/batch", `{"events":[{"eventId":"a"}]}`)
	if none.Refused != 1 || none.Results[0].(map[string]any)["error"] != "requestedTime: missing; it is needed" {
		t.Errorf("without any time: %+v", none)
	}
}

// The longest ids that there are fit into a batch of 10,000.
func TestLargestBatch(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 100, "PT4S")
	var body strings.Builder
	body.WriteString(`{"requestedTime":"2025-06-01T12:00:00Z","events":[`)
	for i := range MaxBatch {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"eventId":"%0512d","requestedTime":"2025-06-01T12:00:00.000000+00:00","maxDelay":"PT23H59M59.999999S"}`, i)
	}
	body.WriteString(`]}`)
	if got := answered[Batch](t, a, 200, "POST", "/api/v1/slots/batch", body.String()); got.Booked != MaxBatch || len(got.Results) != MaxBatch {
		t.Errorf("%d of %d were booked", got.Booked, len(got.Results))
	}
}

// A quote is what a batch then gets, and books nothing.
func TestQuote(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 2, "PT4S")
	a.book(t, "a")
	got := answered[Quote](t, a, 200, "POST", "/api/v1/slots/quote", in(`"count":4`))
	var slots []Quoted
	for i := range 4 {
		b := a.book(t, fmt.Sprint("b", i))
		slots = append(slots, Quoted{b.ScheduledTime, b.DelayMS})
	}
	want := Quote{ConfigName: "default", RequestedTime: "2025-06-01T12:00:00Z", Count: 4, Granted: 4, First: &slots[0], Median: &slots[1], Last: &slots[3]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	some := answered[Quote](t, a, 200, "POST", "/api/v1/slots/quote", in(`"count":1000000,"maxDelay":"PT16S"`))
	if some.Granted != 4 || some.Reason != CapacityExhausted || at(t, some.EarliestTime) <= noon+16*plan.Second || some.Last.DelayMS > 16_000 {
		t.Errorf("with a maximum delay: %+v", some)
	}
	none := answered[Quote](t, a, 200, "POST", "/api/v1/slots/quote", in(`"maxDelay":"PT1S"`))
	if none.Granted != 0 || none.First != nil || none.Reason != CapacityExhausted {
		t.Errorf("without any room: %+v", none)
	}
	// In the past, delays count from what was asked for, as they do when it is booked.
	past := answered[Quote](t, a, 200, "POST", "/api/v1/slots/quote", `{"requestedTime":"2025-06-01T11:00:00Z"}`)
	b := answered[Booking](t, a, 200, "POST", "/api/v1/slots", `{"eventId":"past","requestedTime":"2025-06-01T11:00:00Z"}`)
	if (Quoted{b.ScheduledTime, b.DelayMS}) != *past.First {
		t.Errorf("quoted %+v, and booked %+v", *past.First, b)
	}
	never := answered[Quote](t, a, 200, "POST", "/api/v1/slots/quote", `{"requestedTime":"9999-12-31T23:59:59.999999Z"}`)
	if never.Granted != 0 || never.Reason != Never || never.EarliestTime != "" {
		t.Errorf("at the end of time: %+v", never)
	}
	if page := answered[Page](t, a, 200, "GET", "/api/v1/slots?limit=1000", ""); len(page.Slots) != 6 {
		t.Errorf("%d slots are booked", len(page.Slots))
	}
}

// A list is cut into pages that follow each other without a gap.
func TestList(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 3, "PT4S")
	a.configure(t, "other", 3, "PT4S")
	var booked []Slot
	for i := range 10 {
		b := a.book(t, fmt.Sprint("e", i)).Slot
		if i == 4 {
			a.do(t, "DELETE", "/api/v1/slots/e4", "")
			continue
		}
		booked = append(booked, b)
	}
	a.book(t, "elsewhere", `"configName":"other"`)
	slices.SortFunc(booked, func(a, b Slot) int { return int(at(t, a.ScheduledTime) - at(t, b.ScheduledTime)) })
	list := func(query string) (all []Slot, pages int) {
		cursor := ""
		for {
			pages++
			page := answered[Page](t, a, 200, "GET", "/api/v1/slots?configName=default&"+query+cursor, "")
			all = append(all, page.Slots...)
			if page.NextCursor == "" {
				return all, pages
			}
			cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
		}
	}
	for query, pages := range map[string]int{"": 1, "limit=9": 1, "limit=8": 2, "limit=3": 3, "limit=1": 9} {
		got, n := list(query)
		if diff := cmp.Diff(booked, got); diff != "" || n != pages {
			t.Errorf("%q: %d pages, want %d (-want +got):\n%s", query, n, pages, diff)
		}
	}
	from, to := booked[2].ScheduledTime, booked[6].ScheduledTime
	if got, _ := list("limit=2&from=" + from + "&to=" + to); cmp.Diff(booked[2:6], got) != "" {
		t.Errorf("from %s to %s: %+v", from, to, got)
	}
	if got, _ := list("from=" + to + "&to=" + to); len(got) != 0 {
		t.Errorf("in no time at all: %+v", got)
	}
	if w := a.do(t, "GET", "/api/v1/slots?from=9000-01-01T00:00:00Z", ""); !strings.Contains(w.Body.String(), `"slots":[]`) {
		t.Errorf("an empty list is written %s", w.Body)
	}
}

// A timeline shows how full a config is, step by step.
func TestTimeline(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 100, "PT4S")
	for i := range 150 {
		a.book(t, fmt.Sprint("e", i))
	}
	got := answered[Timeline](t, a, 200, "GET", "/api/v1/slots/timeline?from=2025-06-01T11:59:56Z&to=2025-06-01T12:00:12Z&step=PT4S", "")
	want := Timeline{ConfigName: "default", From: "2025-06-01T11:59:56Z", To: "2025-06-01T12:00:12Z", Step: "PT4S", Steps: []Step{
		{"2025-06-01T11:59:56Z", 0, 0}, // before the config was made
		{"2025-06-01T12:00:00Z", 100, 100},
		{"2025-06-01T12:00:04Z", 50, 100},
		{"2025-06-01T12:00:08Z", 0, 100},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	a.configure(t, "default", 50, "PT4S")
	lowered := answered[Timeline](t, a, 200, "GET", "/api/v1/slots/timeline?from=2025-06-01T12:00:00Z&to=2025-06-01T12:00:16Z&step=PT8S", "")
	if diff := cmp.Diff([]Step{{"2025-06-01T12:00:00Z", 150, 100}, {"2025-06-01T12:00:08Z", 0, 100}}, lowered.Steps); diff != "" {
		t.Errorf("with half the capacity (-want +got):\n%s", diff)
	}
	finest := answered[Timeline](t, a, 200, "GET", "/api/v1/slots/timeline?from=2025-06-01T12:00:00Z&to=2025-06-01T12:00:10Z&step=PT0.001S", "")
	var used int64
	for _, s := range finest.Steps {
		used += s.Used
	}
	if len(finest.Steps) != MaxSteps || used != 150 {
		t.Errorf("%d steps hold %d slots", len(finest.Steps), used)
	}
}

// Nothing is booked in a pause; what is asked for then gets the slots after it.
func TestPause(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 1, "PT4S")
	c := answered[Config](t, a, 200, "POST", "/admin/rate-limit/pause", `{"configName":"default","until":"2025-06-01T13:00:00Z"}`)
	if c.PausedUntil != "2025-06-01T13:00:00Z" || c.ConfigName != "default" {
		t.Errorf("paused: %+v", c)
	}
	if b := a.book(t, "a"); b.ScheduledTime != "2025-06-01T13:00:00Z" || b.DelayMS != time.Hour.Milliseconds() {
		t.Errorf("in the pause: %+v", b)
	}
	q := answered[Quote](t, a, 200, "POST", "/api/v1/slots/quote", in(`"count":1`))
	if q.First.ScheduledTime != "2025-06-01T13:00:04Z" || q.First.DelayMS != 3_604_000 {
		t.Errorf("a quote in the pause: %+v", q.First)
	}
	c = answered[Config](t, a, 200, "POST", "/admin/rate-limit/pause", `{"until":null}`)
	if c.PausedUntil != "" {
		t.Errorf("after the pause: %+v", c)
	}
	if b := a.book(t, "b"); b.ScheduledTime != "2025-06-01T12:00:00Z" {
		t.Errorf("after the pause: %+v", b)
	}
	if p := answered[Problem](t, a, 404, "POST", "/admin/rate-limit/pause", `{"configName":"x","until":null}`); p.Reason != UnknownConfig {
		t.Errorf("of an unknown config: %+v", p)
	}
}
