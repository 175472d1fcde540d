package slots_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/slotstest"
)

// noon is the beginning of a window of any width that divides a day in two.
var noon = plan.At(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC))

// desk is a Scheduler over a ledger in memory, whose clock is at 11:00.
type desk struct {
	*slots.Scheduler
	t      *testing.T
	memory *slotstest.Memory
	now    *atomic.Int64
	n      int // of events so far
}

// open opens a desk with one config, payments. front, if not nil, comes before the
// ledger.
func open(t *testing.T, v slots.Version, front func(slots.Ledger) slots.Ledger, o *slots.Options) *desk {
	t.Helper()
	d := &desk{t: t, now: new(atomic.Int64)}
	d.now.Store(int64(noon - plan.Hour))
	d.memory = slotstest.NewMemory(func() plan.Ticks { return plan.Ticks(d.now.Load()) })
	ledger := slots.Ledger(d.memory)
	if front != nil {
		ledger = front(ledger)
	}
	d.Scheduler = slots.New(ledger, o)
	t.Cleanup(func() { d.Close() })
	d.configure(v)
	return d
}

func (d *desk) configure(v slots.Version) {
	d.t.Helper()
	if _, err := d.Configure(d.t.Context(), "payments", v); err != nil {
		d.t.Fatal(err)
	}
}

// windows is a version with so many slots in each second.
func windows(most int) slots.Version {
	return slots.Version{Version: plan.Version{Max: most, Window: plan.Second}}
}

// book books n new events for an instant.
func (d *desk) book(at plan.Ticks, n int) []slots.Event {
	d.t.Helper()
	var rs []slots.Request
	for range n {
		d.n++
		rs = append(rs, slots.Request{ID: fmt.Sprint("event ", d.n), At: at})
	}
	results, err := d.BookAll(d.t.Context(), "payments", rs)
	if err != nil {
		d.t.Fatal(err)
	}
	events := make([]slots.Event, n)
	for i, r := range results {
		if r.Err != nil || r.Repeated || r.Conflict {
			d.t.Errorf("%+v is answered by %+v", rs[i], r)
		}
		events[i] = r.Event
	}
	return events
}

// in is in how many seconds after noon events lie, by second.
func in(events []slots.Event) map[int]int {
	n := make(map[int]int)
	for _, e := range events {
		n[int((e.At-noon)/plan.Second)]++
	}
	return n
}

// audit checks all that is booked, and returns it.
func (d *desk) audit() *slotstest.Report {
	d.t.Helper()
	r, err := slotstest.Audit(d.t.Context(), d.memory, "payments")
	if err != nil {
		d.t.Errorf("audit: %v", err)
	}
	return r
}

// each is n events in each of so many seconds from noon on.
func each(seconds, n int) map[int]int {
	all := make(map[int]int)
	for k := range seconds {
		all[k] = n
	}
	return all
}

func (d *desk) equal(what string, want, got any) {
	d.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestWindowsAreFilledOneAfterTheOther(t *testing.T) {
	d := open(t, windows(2), nil, nil)
	d.equal("100 events, by second", each(50, 2), in(d.book(noon, 100)))
	d.equal("the 101st skips 50 windows", map[int]int{50: 1}, in(d.book(noon, 1)))
	d.equal("another that may go later", map[int]int{20_000: 1}, in(d.book(noon+20_000*plan.Second, 1)))
	if r := d.audit(); r.Full != 50 || r.Partial != 2 || r.Worst != 2 {
		t.Errorf("%d windows are full and %d in part, %d events in the worst interval; want 50, 2 and 2", r.Full, r.Partial, r.Worst)
	}
}

// In the window that is asked for, all that comes after the instant is used, and
// nothing before it.
func TestRestOfTheFirstWindowIsUsed(t *testing.T) {
	d := open(t, windows(100), nil, nil)
	d.equal("60 events, by second", map[int]int{0: 60}, in(d.book(noon, 60)))
	late := d.book(noon+plan.Second/2, 50)
	for _, e := range late {
		if e.At < noon+plan.Second/2 {
			t.Errorf("%+v lies before the instant that was asked for", e)
		}
	}
	d.equal("50 events for the second half", map[int]int{0: 40, 1: 10}, in(late))
	if r := d.audit(); r.Full != 1 || r.Worst > 100 {
		t.Errorf("%d windows are full, and an interval of a second holds %d; want 1, and 100 at most", r.Full, r.Worst)
	}
}

func TestWhatIsAskedForThePastIsForNow(t *testing.T) {
	d := open(t, windows(1), nil, nil)
	e := d.book(noon-24*plan.Hour, 1)[0]
	if now := plan.Ticks(d.now.Load()); e.At < now || e.At >= now+plan.Second || e.Requested != noon-24*plan.Hour {
		t.Errorf("%+v; want it within a second from %d on, and the instant kept that was asked for", e, now)
	}
}

func TestRaisedMaxOpensWindowsThatWereFull(t *testing.T) {
	d := open(t, windows(100), nil, nil)
	d.equal("before", each(10, 100), in(d.book(noon, 1000)))
	d.configure(windows(200))
	d.equal("after", each(10, 100), in(d.book(noon, 1000)))
	if r := d.audit(); r.Full != 10 || r.Worst != 200 {
		t.Errorf("%d windows are full, %d events in the worst interval; want 10 and 200", r.Full, r.Worst)
	}
}

func TestLoweredMaxLeavesWhatIsBooked(t *testing.T) {
	d := open(t, windows(80), nil, nil)
	before := d.book(noon, 150*80)
	d.configure(windows(50))
	if at := d.book(noon, 1)[0].At; at < noon+150*plan.Second || at >= noon+151*plan.Second {
		t.Errorf("the next event is booked for %v, want it in window 150", at.Time())
	}
	for _, e := range before {
		if now, err := d.memory.Event(t.Context(), "payments", e.ID); err != nil || now != e {
			t.Fatalf("%+v has become %+v, %v", e, now, err)
		}
	}
	d.audit()
}

func TestWindowsOfAnotherWidth(t *testing.T) {
	d := open(t, windows(2), nil, nil)
	d.book(noon, 10)
	d.configure(slots.Version{Version: plan.Version{Max: 2, Window: 4 * plan.Second}})
	d.book(noon, 10)
	r := d.audit()
	after := slices.DeleteFunc(slices.Clone(r.Events), func(e slots.Event) bool { return e.Era == 0 })
	if len(after) != 10 || r.Worst != 8 { // 2 in each of 4 seconds, from before
		t.Fatalf("%d events since the change, %d in the worst interval; want 10, and the 8 that were there", len(after), r.Worst)
	}
	for i, e := range after {
		n := 0
		for _, other := range r.Events {
			if other.At > e.At-4*plan.Second && other.At <= e.At {
				n++
			}
		}
		if n > 2 {
			t.Errorf("event %d since the change, at %d, is one of %d in 4s", i, e.At, n)
		}
	}
}

func TestConfigsShareNothing(t *testing.T) {
	d := open(t, windows(1), nil, nil)
	if _, err := d.Configure(t.Context(), "refunds", windows(1)); err != nil {
		t.Fatal(err)
	}
	for _, config := range []string{"payments", "refunds"} {
		r, err := d.Book(t.Context(), config, slots.Request{ID: "alice", At: noon})
		if err != nil || r.Repeated || r.At >= noon+plan.Second {
			t.Errorf("%s: %+v, %v; want a slot within a second", config, r, err)
		}
	}
}

func TestWindowFarAheadDoesNotAttract(t *testing.T) {
	d := open(t, windows(2), nil, nil)
	d.book(noon+30*plan.Day, 1)
	d.equal("by second", each(2, 2), in(d.book(noon, 4)))
	d.equal("the next one", map[int]int{2: 1}, in(d.book(noon, 1)))
	d.audit()
}

func TestRefusedRequestsConsumeNothing(t *testing.T) {
	v := windows(2)
	v.MaxDelay, v.Horizon = 5*plan.Second-1, 2*plan.Hour // a slot lies at the very beginning of a second
	d := open(t, v, nil, nil)
	d.equal("those that are in time", each(5, 2), in(d.book(noon, 10)))
	for _, test := range []struct {
		name    string
		request slots.Request
		reason  plan.Refusal
		windows int64
	}{
		{"the config's maximum delay", slots.Request{At: noon - plan.Second/2, MaxDelay: 0}, "", 0},
		{"another one after it", slots.Request{At: noon, MaxDelay: 0}, plan.TooLate, 5},
		{"its own", slots.Request{At: noon, MaxDelay: 3 * plan.Second}, plan.TooLate, 5},
		{"its own, longer than the config's", slots.Request{At: noon, MaxDelay: 7 * plan.Second}, "", 0},
		{"the horizon", slots.Request{At: noon + 70*plan.Minute}, plan.TooFar, 0},
		{"the last of all days", slots.Request{At: plan.MaxInstant - plan.Day}, plan.TooFar, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := len(d.audit().Events)
			test.request.ID = test.name
			r, err := d.Book(t.Context(), "payments", test.request)
			if test.reason == "" {
				if err != nil {
					t.Fatalf("%+v, %v; want a slot", r, err)
				}
				return
			}
			refused, ok := errors.AsType[*slots.Refused](err)
			if !ok || refused.Reason != test.reason || refused.Windows != test.windows || refused.At < test.request.At {
				t.Errorf("%+v, %+v; want it refused by %q, %d windows on", r, err, test.reason, test.windows)
			}
			if after := len(d.audit().Events); after != before {
				t.Errorf("%d events are booked, and there were %d", after, before)
			}
			if _, err := d.memory.Event(t.Context(), "payments", test.name); !errors.Is(err, slots.ErrNoEvent) {
				t.Errorf("the event is known: %v", err)
			}
		})
	}
}

func TestPause(t *testing.T) {
	d := open(t, windows(2), nil, nil)
	before := d.book(noon, 1)
	c, err := d.Pause(t.Context(), "payments", noon+10*plan.Second)
	if err != nil || c.PausedUntil != noon+10*plan.Second {
		t.Fatalf("%+v, %v", c, err)
	}
	d.equal("paused", map[int]int{10: 2, 11: 1}, in(d.book(noon, 3)))
	d.equal("later than the pause", map[int]int{20: 1}, in(d.book(noon+20*plan.Second, 1)))
	r, err := d.Book(t.Context(), "payments", slots.Request{ID: "urgent", At: noon, MaxDelay: plan.Second})
	if refused, ok := errors.AsType[*slots.Refused](err); !ok || refused.Reason != plan.TooLate {
		t.Errorf("one that cannot wait for the end of the pause: %+v, %v", r, err)
	}
	if now, err := d.memory.Event(t.Context(), "payments", before[0].ID); err != nil || now != before[0] {
		t.Errorf("what was booked before, %+v, has become %+v, %v", before[0], now, err)
	}
	again, err := d.Pause(t.Context(), "payments", noon+10*plan.Second)
	if err != nil || again.Revision != c.Revision {
		t.Errorf("paused until the same instant, it goes from revision %d to %d, %v", c.Revision, again.Revision, err)
	}
	if _, err := d.Pause(t.Context(), "payments", 0); err != nil {
		t.Fatal(err)
	}
	d.equal("after the pause was ended", map[int]int{0: 1, 1: 1}, in(d.book(noon, 2)))
	if _, err := d.Pause(t.Context(), "refunds", noon); !errors.Is(err, slots.ErrNoConfig) {
		t.Errorf("a config that is not there: %v", err)
	}
	if _, err := d.Pause(t.Context(), "payments", plan.MaxInstant+1); err == nil || !strings.Contains(err.Error(), "until: ") {
		t.Errorf("until the year 10000: %v", err)
	}
	d.audit()
}

func TestCancel(t *testing.T) {
	d := open(t, windows(2), nil, nil)
	events := d.book(noon, 6)
	d.now.Add(5)
	gone, err := d.Cancel(t.Context(), "payments", events[0].ID)
	if want := events[0]; err != nil || gone.Cancelled != plan.Ticks(d.now.Load()) || gone.Slot != want.Slot {
		t.Fatalf("%+v, %v; want %+v cancelled now", gone, err, want)
	}
	d.now.Add(5)
	if again, err := d.Cancel(t.Context(), "payments", events[0].ID); err != nil || again != gone {
		t.Errorf("cancelled again: %+v, %v; want %+v", again, err, gone)
	}
	d.equal("what is booked then", map[int]int{0: 1, 3: 1}, in(d.book(noon, 2)))
	if r, err := d.Book(t.Context(), "payments", slots.Request{ID: events[0].ID, At: noon}); !errors.Is(err, slots.ErrCancelled) || r.Event != gone || !r.Repeated {
		t.Errorf("booked again: %+v, %v; want that it was cancelled", r, err)
	}
	if _, err := d.Cancel(t.Context(), "payments", "nobody"); !errors.Is(err, slots.ErrNoEvent) {
		t.Errorf("an event that is not there: %v", err)
	}
	if _, err := d.Cancel(t.Context(), "refunds", "nobody"); !errors.Is(err, slots.ErrNoConfig) {
		t.Errorf("a config that is not there: %v", err)
	}
	d.audit()
}

func TestReschedule(t *testing.T) {
	v := windows(2)
	v.Horizon = 2 * plan.Hour
	d := open(t, v, nil, nil)
	events := d.book(noon, 6)
	last := slices.MaxFunc(events, func(a, b slots.Event) int { return int(a.At - b.At) })
	to := func(id string, at plan.Ticks) (slots.Event, error) {
		return d.Reschedule(t.Context(), "payments", slots.Request{ID: id, At: at})
	}
	moved, err := to(last.ID, noon+plan.Minute)
	if err != nil || moved.Requested != noon+plan.Minute || moved.At < noon+plan.Minute || moved.At >= noon+plan.Minute+plan.Second {
		t.Fatalf("%+v, %v; want it a minute later", moved, err)
	}
	if again, err := to(last.ID, noon+plan.Minute); err != nil || again != moved {
		t.Errorf("to where it is: %+v, %v; want %+v", again, err, moved)
	}
	d.equal("its slot is free", map[int]int{2: 1}, in(d.book(noon, 1)))

	// It may not be the earliest that is free, and yet the earliest that it can get.
	if kept, err := to(moved.ID, noon+plan.Minute-plan.Second/2); err != nil || kept.At > moved.At {
		t.Errorf("half a second earlier: %+v, %v; want a slot no later than %+v", kept, err, moved)
	}
	first := slices.MinFunc(events, func(a, b slots.Event) int { return int(a.At - b.At) })
	if kept, err := to(first.ID, noon-plan.Second/4); err != nil || kept.At > first.At {
		t.Errorf("a quarter of a second earlier: %+v, %v; want a slot no later than %+v", kept, err, first)
	}
	second := d.audit().Events[2]
	if kept, err := to(second.ID, second.At); err != nil || kept.Slot != second.Slot || kept.Requested != second.At {
		t.Errorf("to the very instant of its slot: %+v, %v; want the slot of %+v", kept, err, second)
	}

	_, err = to(second.ID, noon+3*plan.Hour)
	if refused, ok := errors.AsType[*slots.Refused](err); !ok || refused.Reason != plan.TooFar {
		t.Errorf("beyond the horizon: %v", err)
	}
	if now, err := d.memory.Event(t.Context(), "payments", second.ID); err != nil || now.Slot != second.Slot {
		t.Errorf("after that was refused, %+v is %+v, %v", second, now, err)
	}
	if _, err := to("nobody", noon); !errors.Is(err, slots.ErrNoEvent) {
		t.Errorf("an event that is not there: %v", err)
	}
	if _, err := d.Cancel(t.Context(), "payments", second.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := to(second.ID, noon+plan.Minute); !errors.Is(err, slots.ErrCancelled) {
		t.Errorf("an event that was cancelled: %v", err)
	}
	if n := len(d.audit().Events); n != 6 {
		t.Errorf("%d events are booked, want 6", n)
	}
}

func TestQuoteBooksNothing(t *testing.T) {
	v := windows(2)
	v.MaxDelay = 4*plan.Second - 1
	d := open(t, v, nil, nil)
	d.book(noon, 3)
	q, err := d.Quote(t.Context(), "payments", slots.Request{At: noon}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if q.Granted != 5 || q.Refused != plan.TooLate || q.Next.At < noon+4*plan.Second || q.First >= 2*plan.Second || q.Last < 3*plan.Second {
		t.Errorf("%+v; want 5 of 10 granted, in the seconds 1 to 3, and the next one too late", q)
	}
	if n := len(d.audit().Events); n != 3 {
		t.Errorf("%d events are booked, want 3", n)
	}
	got := d.book(noon, 5)
	if first := slices.MinFunc(got, func(a, b slots.Event) int { return int(a.At - b.At) }); first.Delay() != q.First {
		t.Errorf("the first to be booked has a delay of %d, and it was to be %d", first.Delay(), q.First)
	}
	for _, test := range []struct {
		config string
		at     plan.Ticks
		n      int
		want   string
	}{
		{"refunds", noon, 1, "no such config"},
		{"", noon, 1, "the config name is empty; 1 to 128 bytes are allowed"},
		{"payments", noon, 0, "n: 0 is out of bounds; 1 to 1000000 is allowed"},
		{"payments", noon, 1_000_001, "n: 1000001 is out of bounds; 1 to 1000000 is allowed"},
		{"payments", plan.MaxInstant + 1, 1, "the requested time is out of bounds; years 1 to 9999 are allowed"},
	} {
		if _, err := d.Quote(t.Context(), test.config, slots.Request{At: test.at}, test.n); err == nil || err.Error() != test.want {
			t.Errorf("quote for %d at %d of %q: got %v, want %s", test.n, test.at, test.config, err, test.want)
		}
	}
}

func TestConfigureRefuses(t *testing.T) {
	d := open(t, windows(2), nil, nil)
	before, _, err := d.memory.Config(t.Context(), "payments")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(v *slots.Version)
		want   string
	}{
		{"no events at all", func(v *slots.Version) { v.Max = 0 }, "max: 0 is too small; at least 1 is allowed"},
		{"no window", func(v *slots.Version) { v.Window = 0 }, "window: 0 microseconds is out of bounds; PT0.001S to P366D is allowed"},
		{"more than microseconds can hold", func(v *slots.Version) { v.Max = 333_334 }, "max: 333334 is too large for a window of PT1S; at most 333333 is allowed, one for each 3 microseconds"},
		{"an unknown mode", func(v *slots.Version) { v.Mode = "random" }, `mode: "random" is unknown; jitter and spread are allowed`},
		{"a negative delay", func(v *slots.Version) { v.MaxDelay = -1 }, "max delay: -1 microseconds is not allowed; 0, which is any time, or more is"},
		{"a negative horizon", func(v *slots.Version) { v.Horizon = -1 }, "horizon: -1 microseconds is not allowed; 0, which is any time, or more is"},
		{"closed for ever", func(v *slots.Version) {
			v.Calendar = &plan.Calendar{Zone: "UTC", Blackouts: []plan.Blackout{{From: plan.MinInstant, To: plan.MaxInstant}}}
		}, "calendar: it is open for 0 seconds in the 366 days from 2026-01-15 on; at least an hour is needed"},
	} {
		v := windows(2)
		test.change(&v)
		for _, config := range []string{"payments", "new"} {
			if _, err := d.Configure(t.Context(), config, v); err == nil || err.Error() != test.want {
				t.Errorf("%s: got %v, want %s", test.name, err, test.want)
			}
		}
	}
	if after, _, err := d.memory.Config(t.Context(), "payments"); err != nil || !cmp.Equal(before, after) {
		t.Errorf("%+v, %v; want it as before: %+v", after, err, before)
	}
	if _, _, err := d.memory.Config(t.Context(), "new"); !errors.Is(err, slots.ErrNoConfig) {
		t.Errorf("a config that was refused is there: %v", err)
	}
	if _, err := d.Configure(t.Context(), "a\x00b", windows(1)); err == nil || err.Error() != "the config name has a NUL in it, at byte 1" {
		t.Errorf("a name with a NUL: %v", err)
	}
}

// One bad request of a batch is answered by itself.
func TestBadRequests(t *testing.T) {
	d := open(t, windows(2), nil, nil)
	rs := []slots.Request{
		{ID: "", At: noon}, {ID: strings.Repeat("x", 513), At: noon}, {ID: "a\xff", At: noon}, {ID: "\x00", At: noon},
		{ID: "early", At: plan.MinInstant - 1}, {ID: "late", At: plan.MaxInstant + 1}, {ID: "hasty", At: noon, MaxDelay: -1},
		{ID: strings.Repeat("x", 512), At: noon},
	}
	want := []string{
		"the event id is empty; 1 to 512 bytes are allowed", "the event id has 513 bytes; 1 to 512 are allowed",
		"the event id is not valid UTF-8", "the event id has a NUL in it, at byte 0",
		"the requested time is out of bounds; years 1 to 9999 are allowed", "the requested time is out of bounds; years 1 to 9999 are allowed",
		"the maximum delay is -1 microseconds; 0 or more are allowed",
		"<nil>",
	}
	results, err := d.BookAll(t.Context(), "payments", rs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if fmt.Sprint(r.Err) != want[i] {
			t.Errorf("request %d: got %v, want %s", i, r.Err, want[i])
		}
	}
	if n := len(d.audit().Events); n != 1 {
		t.Errorf("%d events are booked, want 1", n)
	}
	if results, err := d.BookAll(t.Context(), "payments", rs[:1]); err != nil || results[0].Err == nil {
		t.Errorf("nothing but a bad request: %+v, %v", results, err)
	}
	if _, err := d.BookAll(t.Context(), "refunds", rs); !errors.Is(err, slots.ErrNoConfig) {
		t.Errorf("a config that is not there: %v", err)
	}
}
