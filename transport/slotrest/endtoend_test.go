package slotrest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
)

// What follows is over HTTP and a real ledger, from end to end.

// A config, an event, and a flush of what is not cached.
func TestQuickStart(t *testing.T) {
	a := newTestAPI(t)
	w := a.do(t, "POST", "/admin/rate-limit/config", `{
    "configName": "default",
    "maxPerWindow": 100,
    "windowSize": "PT4S"
  }`)
	if w.Code != 201 {
		t.Fatalf("config: %d %s", w.Code, w.Body)
	}
	w = a.do(t, "POST", "/api/v1/slots", `{
    "eventId": "pay-123",
    "configName": "default",
    "requestedTime": "2025-06-01T12:00:00Z"
  }`)
	var answer struct {
		EventID       string
		ScheduledTime time.Time
		DelayMS       int64
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
		t.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	delay := answer.ScheduledTime.Sub(noon.Time())
	if answer.EventID != "pay-123" || delay < 0 || delay >= 4*time.Second || answer.DelayMS != delay.Milliseconds() {
		t.Errorf("answer is %s", w.Body)
	}
	if w := a.do(t, "POST", "/admin/rate-limit/cache/flush", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"status":"cache flushed"`) {
		t.Errorf("flush: %d %s", w.Code, w.Body)
	}
}

// windows returns how many slots lie in each window of a length, from noon on.
func windows(t testing.TB, a *testAPI, config string, length plan.Ticks, n int) (counts []int64) {
	t.Helper()
	path := fmt.Sprintf("/api/v1/slots/timeline?configName=%s&from=%s&to=%s&step=%s", config, formatTime(noon), formatTime(noon+plan.Ticks(n)*length), plan.FormatDuration(length))
	for _, s := range answered[Timeline](t, a, 200, "GET", path, "").Steps {
		counts = append(counts, s.Used)
	}
	return counts
}

// sliding returns the most slots that any interval of a length holds.
func sliding(t testing.TB, a *testAPI, length plan.Ticks) (most int) {
	t.Helper()
	var times []plan.Ticks
	cursor := ""
	for {
		page := answered[Page](t, a, 200, "GET", "/api/v1/slots?limit=1000"+cursor, "")
		for _, s := range page.Slots {
			times = append(times, at(t, s.ScheduledTime))
		}
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	if !slices.IsSorted(times) {
		t.Error("the list is out of order")
	}
	for first, last := 0, 0; last < len(times); last++ {
		for times[last]-times[first] >= length {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// batchOf asks for n slots at noon.
func batchOf(n int, prefix string) string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf(`{"eventId":"%s%d"}`, prefix, i)
	}
	return `{"requestedTime":"2025-06-01T12:00:00Z","events":[` + strings.Join(ids, ",") + `]}`
}

// More events for one instant than a hundred windows hold.
func TestOneInstant(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 100, "PT4S")
	if b := answered[Batch](t, a, 200, "POST", "/api/v1/slots/batch", batchOf(MaxBatch, "e")); b.Booked != MaxBatch {
		t.Fatalf("of 10,000, %d were booked", b.Booked)
	}
	last := a.book(t, "the 10,001st")
	if when := at(t, last.ScheduledTime); when < noon+400*plan.Second || when >= noon+404*plan.Second {
		t.Errorf("the 10,001st is booked for %s", last.ScheduledTime)
	}
	for i, n := range windows(t, a, "default", 4*plan.Second, 102) {
		want := int64(100)
		if i >= 100 {
			want = int64(101 - i)
		}
		if n != want {
			t.Errorf("window %d holds %d; want %d", i, n, want)
		}
	}
	if most := sliding(t, a, 4*plan.Second); most != 100 {
		t.Errorf("some 4 seconds hold %d slots", most)
	}
}

// The same with one request for each event, from many callers at once.
func TestOneByOne(t *testing.T) {
	const events, callers = 10_001, 64
	a := newTestAPI(t)
	a.configure(t, "default", 100, "PT4S")
	var next, granted atomic.Int64
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for {
				i := next.Add(1)
				if i > events {
					return
				}
				r := httptest.NewRequest("POST", "/api/v1/slots", strings.NewReader(request(fmt.Sprint("e", i))))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				a.ServeHTTP(w, r)
				if w.Code == 200 {
					granted.Add(1)
				} else {
					t.Errorf("event %d: %d %s", i, w.Code, w.Body)
				}
			}
		})
	}
	group.Wait()
	counts := windows(t, a, "default", 4*plan.Second, 101)
	if granted.Load() != events || slices.Max(counts) != 100 || slices.Min(counts[:100]) != 100 || counts[100] != 1 {
		t.Errorf("%d of %d are granted, in windows of %v", granted.Load(), events, counts)
	}
	if most := sliding(t, a, 4*plan.Second); most != 100 {
		t.Errorf("some 4 seconds hold %d slots", most)
	}
}

func TestRaise(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 100, "PT4S")
	answered[Batch](t, a, 200, "POST", "/api/v1/slots/batch", batchOf(1000, "a"))
	a.configure(t, "default", 200, "PT4S")
	answered[Batch](t, a, 200, "POST", "/api/v1/slots/batch", batchOf(1000, "b"))
	if got, want := windows(t, a, "default", 4*plan.Second, 11), slices.Concat(slices.Repeat([]int64{200}, 10), []int64{0}); !slices.Equal(got, want) {
		t.Errorf("windows hold %v; want %v", got, want)
	}
}

// What was booked stays, and the next event goes to the first window that has fewer
// than 50.
func TestLower(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 100, "PT4S")
	for half := range 2 {
		events := make([]string, 6000)
		for i := range events {
			window := half*75 + i/80
			events[i] = fmt.Sprintf(`{"eventId":"%d-%d","requestedTime":%q}`, half, i, formatTime(noon+plan.Ticks(window)*4*plan.Second))
		}
		if b := answered[Batch](t, a, 200, "POST", "/api/v1/slots/batch", `{"events":[`+strings.Join(events, ",")+`]}`); b.Booked != len(events) {
			t.Fatalf("%d were booked", b.Booked)
		}
	}
	a.configure(t, "default", 50, "PT4S")
	next := a.book(t, "next")
	if when := at(t, next.ScheduledTime); when < noon+600*plan.Second || when >= noon+604*plan.Second {
		t.Errorf("after 150 windows of 80 it is booked for %s", next.ScheduledTime)
	}
	if got := windows(t, a, "default", 4*plan.Second, 150); !slices.Equal(got, slices.Repeat([]int64{80}, 150)) {
		t.Errorf("what was booked has changed: %v", got)
	}
}

func TestConfigsShareNothing(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "A", 1, "PT4S")
	a.configure(t, "B", 1, "PT6S")
	for _, name := range []string{"A", "B"} {
		for i := range 3 {
			b := a.book(t, "e"+fmt.Sprint(i), `"configName":"`+name+`"`)
			window := map[string]plan.Ticks{"A": 4 * plan.Second, "B": 6 * plan.Second}[name]
			if when := at(t, b.ScheduledTime) - noon; when/window != plan.Ticks(i) || b.Repeated || b.ConfigName != name {
				t.Errorf("event %d of %s is booked %v after noon: %+v", i, name, when, b)
			}
		}
	}
}

// nodes are APIs over one file.
func nodes(t *testing.T, n int) []*testAPI {
	file := filepath.Join(t.TempDir(), "slots.db")
	now := new(atomic.Int64)
	now.Store(int64(noon))
	contract := newContract(t)
	all := make([]*testAPI, n)
	for i := range all {
		l := openLedger(t, file, now)
		s := slots.New(l, nil)
		t.Cleanup(func() { s.Close() })
		all[i] = &testAPI{New(s, l, &Options{Logger: slog.New(slog.DiscardHandler)}), now, l, contract}
	}
	return all
}

// What one node is told is in force on the others with their next booking, without any
// flush.
func TestConfigOnAnotherNode(t *testing.T) {
	n := nodes(t, 2)
	n[0].configure(t, "default", 1, "PT4S")
	n[1].book(t, "a")
	n[1].book(t, "b")
	n[0].configure(t, "default", 3, "PT4S")
	for _, id := range []string{"c", "d"} {
		if b := n[1].book(t, id); at(t, b.ScheduledTime) >= noon+4*plan.Second {
			t.Errorf("%s is booked for %s, as if the config had not changed", id, b.ScheduledTime)
		}
	}
	if c := answered[Config](t, n[1], 200, "GET", "/admin/rate-limit/config", ""); c.MaxPerWindow != 3 || c.ConfigID != 2 {
		t.Errorf("the other node says %+v", c)
	}
}

// Odd spans, times and ids are taken as they are meant, or refused. TestBadInput has
// the rest.
func TestOddInput(t *testing.T) {
	a := newTestAPI(t)
	for _, size := range []string{"PT0.5S", "PT1.5S"} {
		c := a.configure(t, "sized "+size, 2, size)
		if c.WindowSize != size {
			t.Errorf("%s is made as %s", size, c.WindowSize)
		}
		window, err := plan.ParseDuration(size)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 6 {
			b := a.book(t, "e"+fmt.Sprint(i), `"configName":"sized `+size+`"`)
			if k := (at(t, b.ScheduledTime) - noon) / window; k != plan.Ticks(i/2) {
				t.Errorf("%s: event %d lies in window %d: %+v", size, i, k, b)
			}
		}
	}
	a.configure(t, "default", 1, "PT4S")
	for body, status := range map[string]int{
		`{"eventId":"old","requestedTime":"1969-07-20T20:17:40Z"}`:                         200,
		`{"eventId":"` + strings.Repeat("x", 300) + `","requestedTime":"` + isoNoon + `"}`: 200,
		`{"eventId":"","requestedTime":"` + isoNoon + `"}`:                                 400,
		`{"eventId":"a","requestedTime":`:                                                  400,
	} {
		if w := a.do(t, "POST", "/api/v1/slots", body); w.Code != status {
			t.Errorf("%.80s: %d %s; want %d", body, w.Code, w.Body, status)
		}
	}
	for _, size := range []string{"PT0S", "4s", ""} {
		if w := a.do(t, "POST", "/admin/rate-limit/config", `{"maxPerWindow":1,"windowSize":"`+size+`"}`); w.Code != 400 {
			t.Errorf("%s: %d %s; want 400", size, w.Code, w.Body)
		}
	}
}

const isoNoon = "2025-06-01T12:00:00Z"

// One id, from 10 callers on each of three nodes, for other times and in another config:
// one slot in each config, and the same answer for all.
func TestOneEventManyCallers(t *testing.T) {
	n := nodes(t, 3)
	n[0].configure(t, "default", 100, "PT4S")
	n[0].configure(t, "other", 100, "PT4S")
	type answer struct {
		Booking
		asked string
	}
	var mu sync.Mutex
	answers := make(map[string][]answer)
	var group sync.WaitGroup
	for i := range 30 {
		group.Go(func() {
			name := []string{"default", "other"}[i%2]
			asked := formatTime(noon + plan.Ticks(i%5)*plan.Minute)
			b := answered[Booking](t, n[i%3], 200, "POST", "/api/v1/slots", fmt.Sprintf(`{"eventId":"pay-1","configName":%q,"requestedTime":%q}`, name, asked))
			mu.Lock()
			defer mu.Unlock()
			answers[name] = append(answers[name], answer{b, asked})
		})
	}
	group.Wait()
	for name, got := range answers {
		slices.SortFunc(got, func(a, b answer) int { return cmp.Compare(fmt.Sprint(a.Repeated), fmt.Sprint(b.Repeated)) })
		first := got[0]
		for i, b := range got {
			if b.Slot != first.Slot || b.Repeated != (i > 0) || b.Conflict != (b.asked != first.RequestedTime) {
				t.Errorf("%s: one caller gets %+v, and another %+v", name, first, b)
			}
		}
		page := answered[Page](t, n[2], 200, "GET", "/api/v1/slots?configName="+name, "")
		if len(page.Slots) != 1 || page.Slots[0] != first.Slot {
			t.Errorf("%s: booked are %+v", name, page.Slots)
		}
	}
}

func TestMaximumDelay(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 1, "PT4S")
	for _, id := range []string{"a", "b"} {
		a.book(t, id, `"maxDelay":"PT7.999S"`)
	}
	w := a.do(t, "POST", "/api/v1/slots", request("c", `"maxDelay":"PT7.999S"`))
	p := problemOf(t, w)
	if w.Code != http.StatusServiceUnavailable || p.Reason != CapacityExhausted || w.Header().Get("Retry-After") != "1" || p.EventID != "c" || p.Message == "" || p.WindowsSearched == nil {
		t.Errorf("the third is answered %d, Retry-After %q, %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	if b := a.book(t, "d"); at(t, b.ScheduledTime) >= noon+12*plan.Second {
		t.Errorf("the third has used up a slot: d is booked for %s", b.ScheduledTime)
	}
}
