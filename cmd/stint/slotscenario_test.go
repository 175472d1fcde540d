package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/loadtest"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/slotstest"
)

// TestSlotScenarios puts loads on processes of stint serve, kills what can be killed,
// and looks into the ledger afterwards. Among other tests they are small. make
// scenarios runs them alone, and in full; one of them is
//
//	STINT_SCENARIOS=1 go test ./cmd/stint -v -run TestSlotScenarios/killed_nodes
//
// Each says what it has measured.
func TestSlotScenarios(t *testing.T) {
	bin := buildAll(t)
	postgres := servertest.StartPostgres(t)
	t.Run("one instant", func(t *testing.T) { testOneInstant(t, bin, postgres.URL) })
	t.Run("batches", func(t *testing.T) { testBatches(t, bin, postgres.URL) })
	t.Run("single calls", func(t *testing.T) { testSingleCalls(t, bin, postgres.URL) })
	t.Run("steady for now", func(t *testing.T) { testSteady(t, bin, postgres.URL, 0, sized(300, 3000), sized(3, 60)) })
	t.Run("steady for a day", func(t *testing.T) { testSteady(t, bin, postgres.URL, 24*time.Hour, sized(100, 3000), sized(3, 60)) })
	t.Run("changes", func(t *testing.T) { testChanges(t, bin, postgres.URL) })
	t.Run("killed nodes", func(t *testing.T) { testKilledNodes(t, bin, postgres.URL, sized(5, 200)) })
	t.Run("killed processes on SQLite", func(t *testing.T) {
		testKilledNodes(t, bin, "sqlite:"+filepath.Join(t.TempDir(), "slots.db"), sized(3, 40))
	})
	t.Run("killed PostgreSQL", func(t *testing.T) { testKilledPostgres(t, bin) })
}

// sized returns the size of something: little among other tests, or full.
func sized(little, full int) int {
	if os.Getenv("STINT_SCENARIOS") != "" {
		return full
	}
	return little
}

// instantOfWindow is what events are booked for: the beginning of a window, next week.
func instantOfWindow(window time.Duration) time.Time {
	return time.UnixMicro(time.Now().Add(7 * 24 * time.Hour).Truncate(window).UnixMicro()).UTC()
}

func forOne(at time.Time) func(int64) time.Time { return func(int64) time.Time { return at } }

// tight fails the test unless n events for one instant fill one window after another.
func tight(t *testing.T, r *slotstest.Report, n, most int, from time.Time, window time.Duration) {
	t.Helper()
	if r.Full != n/most || r.Partial != (n%most+most-1)/most || r.Worst != most {
		t.Errorf("%d windows are full, %d have room left, and an interval of a window's length holds %d; want %d, %d and %d", r.Full, r.Partial, r.Worst, n/most, n%most, most)
	}
	last := r.Events[len(r.Events)-1].At.Time()
	if until := from.Add(time.Duration((n+most-1)/most) * window); r.Events[0].At != plan.At(from) || !last.Before(until) {
		t.Errorf("the first is at %v, the last at %v; they want to lie from %v until before %v", r.Events[0].At.Time(), last, from, until)
	}
}

// testOneInstant: four processes book for one instant. No window has room left.
func testOneInstant(t *testing.T, bin, store string) {
	n, at := sized(8000, 500_000), instantOfWindow(4*time.Second)
	f, told := startFleet(t, bin, store, 4, 100, "PT4S"), newAnswers("event")
	f.single(t.Context(), t, told, 64, int64(n), false, forOne(at))
	t.Log(told)
	tight(t, f.audit(t, told), n, 100, at, 4*time.Second)
}

// testBatches: a hundred thousand for one instant in batches.
func testBatches(t *testing.T, bin, store string) {
	n, at := sized(20_000, 100_000), instantOfWindow(4*time.Second)
	f, told := startFleet(t, bin, store, 1, 100, "PT4S"), newAnswers("event")
	f.batches(t, told, 4, n, 1000, at)
	t.Log(told)
	tight(t, f.audit(t, told), n, 100, at, 4*time.Second)
}

// testSingleCalls: a hundred thousand for one instant, one by one, by 64 callers.
func testSingleCalls(t *testing.T, bin, store string) {
	n, at := sized(5000, 100_000), instantOfWindow(4*time.Second)
	f, told := startFleet(t, bin, store, 1, 100, "PT4S"), newAnswers("event")
	f.single(t.Context(), t, told, 64, int64(n), false, forOne(at))
	t.Log(told)
	tight(t, f.audit(t, told), n, 100, at, 4*time.Second)
}

// testSteady: so many single requests a second for some seconds, sent when they are due
// whatever the answers, for instants from now on: at once, or at random in a time ahead.
func testSteady(t *testing.T, bin, store string, ahead time.Duration, rate, seconds int) {
	const most = 20_000 // five thousand a second
	f, told := startFleet(t, bin, store, 1, most, "PT4S"), newAnswers("event")
	due := make([]time.Duration, seconds*rate)
	for i := range due {
		due[i] = time.Duration(i) * time.Second / time.Duration(rate)
	}
	loadtest.OpenLoop(t.Context(), time.Now().Add(100*time.Millisecond), due, 256, func(n int, due time.Time) {
		if err := f.bookOne(t.Context(), told, 0, told.id(int64(n)), due.Add(rand.N(ahead+1)), due); err != nil {
			t.Error(err)
		}
	})
	told.lasted = time.Since(told.begun)
	t.Log(told)
	if r := f.audit(t, told); len(r.Events) != len(due) || r.Worst > most {
		t.Errorf("%d of %d are booked, and an interval holds %d", len(r.Events), len(due), r.Worst)
	}
}

// testKilledNodes: while callers book, and cancel some, one of two nodes after the
// other is killed at any moment and started again. Callers ask the other one. What
// they are told is what is booked, once, and nothing else is.
func testKilledNodes(t *testing.T, bin, store string, kills int) {
	at := instantOfWindow(4 * time.Second)
	f, told := startFleet(t, bin, store, 2, 100, "PT4S"), newAnswers("event")
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	load.Go(func() { f.single(ctx, t, told, 16, 1<<40, true, forOne(at)) })
	random := rand.New(rand.NewPCG(3, 4))
	for k := range kills {
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond) // any moment
		f.nodes[k%2].Kill(t)
		f.nodes[k%2].Restart(t)
	}
	stop()
	load.Wait()
	t.Logf("%d kills; %v", kills, told)
	if r := f.audit(t, told); r.Worst > 100 {
		t.Errorf("an interval holds %d", r.Worst)
	}
	if t.Failed() {
		return
	}
	// They are booked still, and once: all that is left free is what was cancelled.
	again := newAnswers("event")
	for id := range told.at {
		if again.at[id] == 0 && len(again.at) < 1000 {
			if err := f.bookOne(t.Context(), again, 0, id, at, time.Now()); err != nil || again.at[id] != told.at[id] {
				t.Fatalf("%s is told %v again, and was told %v (%v)", id, again.at[id].Time(), told.at[id].Time(), err)
			}
		}
	}
	if again.repeated != len(again.at) {
		t.Errorf("%d of %d are known", again.repeated, len(again.at))
	}
}

// testKilledPostgres: the server is killed while callers book on two nodes. All that
// they were told is there, and they are answered soon after the server is back.
func testKilledPostgres(t *testing.T, bin string) {
	postgres, at := servertest.StartPostgres(t), instantOfWindow(4*time.Second)
	f, told := startFleet(t, bin, postgres.URL, 2, 100, "PT4S"), newAnswers("event")
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	load.Go(func() { f.single(ctx, t, told, 32, 1<<40, false, forOne(at)) })
	var longest time.Duration
	for k := range sized(1, 10) {
		time.Sleep(500 * time.Millisecond) // some of a burst
		postgres.Kill(t)
		postgres.Restart(t)
		began := time.Now()
		for node := range f.nodes {
			id, probe := fmt.Sprintf("probe-%d-%d", k, node), slotAnswer{}
			body := map[string]any{"eventId": id, "configName": f.config, "requestedTime": at}
			within(t, 5*time.Second, fmt.Sprintf("node %d books after the server is back", node), func() bool {
				_, err := f.call(t.Context(), node, http.MethodPost, "/api/v1/slots", body, &probe)
				return err == nil
			})
			longest = max(longest, time.Since(began))
			told.add(id, probe, time.Since(began))
		}
	}
	stop()
	load.Wait()
	t.Logf("%v; both nodes booked %v after the server was back, at the latest", told, longest.Round(time.Millisecond))
	if r := f.audit(t, told); r.Worst > 100 {
		t.Errorf("an interval holds %d", r.Worst)
	}
}

// testChanges changes the limit and the window while a million events lie ahead, and
// more are booked. None of them moves, and nothing is added to a window that would then
// hold more than the new limit, or to an interval that would hold more than it did under
// any limit of the two windows that it touches.
func testChanges(t *testing.T, bin, store string) {
	n, from := sized(20_000, 1_000_000), instantOfWindow(4*time.Second)
	f := startFleet(t, bin, store, 2, 100, "PT4S")
	const each = 80 * time.Millisecond // 50 in 4 s, so half of it is taken
	f.withLedger(t, func(l slots.Ledger) {
		s := slots.New(l, &slots.Options{Timeout: time.Minute})
		defer s.Close()
		for i := 0; i < n; i += 5000 {
			requests := make([]slots.Request, min(5000, n-i))
			for j := range requests {
				requests[j] = slots.Request{ID: fmt.Sprint("placed-", i+j), At: plan.At(from.Add(time.Duration(i+j) * each))}
			}
			if _, err := s.BookAll(t.Context(), f.config, requests); err != nil {
				t.Fatal(err)
			}
		}
	})
	before := f.events(t)
	if len(before) != n {
		t.Fatalf("%d of %d are booked", len(before), n)
	}
	for step, change := range []struct {
		most   int
		window string
		span   plan.Ticks
		// between is how many an interval may hold that touches two windows: what
		// was allowed in one of them before stays.
		between int
	}{{200, "PT4S", 4 * plan.Second, 200}, {50, "PT4S", 4 * plan.Second, 200}, {250, "PT10S", 10 * plan.Second, 250}, {25, "PT1S", plan.Second, 25}, {100, "PT4S", 4 * plan.Second, 100}} {
		told, at, took := newAnswers(fmt.Sprint("change-", step)), from.Add(rand.N(time.Duration(n)*each)), time.Duration(0)
		f.during(t, told, at, func() {
			told.wait(t, 50)
			took = f.configure(t, change.most, change.window)
			told.wait(t, told.count()+200)
		})
		after := f.events(t)
		made := f.changed(t)
		t.Logf("%d in %s, with %d events ahead: in force after %v", change.most, change.window, len(before), took.Round(100*time.Microsecond))
		stays(t, before, after)
		if len(after) != len(before)+len(told.at) {
			t.Errorf("%d events more are booked, and callers were told so of %d", len(after)-len(before), len(told.at))
		}
		addsNothingTooMuch(t, after, made, change.between, change.span)
		fillsNoWindow(t, after, made, change.most)
		before = after
	}
	f.withLedger(t, func(l slots.Ledger) {
		if _, err := slotstest.Audit(t.Context(), l, f.config); err != nil {
			t.Errorf("the ledger: %v", err)
		}
	})
}

// during calls do while callers book for an instant.
func (f *fleet) during(t *testing.T, told *answers, at time.Time, do func()) {
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	load.Go(func() { f.single(ctx, t, told, 8, 1<<40, false, forOne(at)) })
	do()
}

// changed returns when the newest version was made.
func (f *fleet) changed(t *testing.T) (made plan.Ticks) {
	f.withLedger(t, func(l slots.Ledger) {
		c, _, err := l.Config(t.Context(), f.config)
		if err != nil {
			t.Fatal(err)
		}
		made = c.Versions[len(c.Versions)-1].Made
	})
	return made
}

// events returns all that is booked, in the order of the instants.
func (f *fleet) events(t *testing.T) (all []slots.Event) {
	f.withLedger(t, func(l slots.Ledger) {
		q := slots.Query{From: plan.MinInstant, Until: plan.MaxInstant + 1, Limit: 5000}
		for {
			page, err := l.Events(t.Context(), f.config, q)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, page...)
			if len(page) < q.Limit {
				return
			}
			q.After = &page[len(page)-1]
		}
	})
	return all
}

// stays fails the test if an event of before is not where it was.
func stays(t *testing.T, before, after []slots.Event) {
	t.Helper()
	now := make(map[string]slots.Event, len(after))
	for _, e := range after {
		now[e.ID] = e
	}
	for _, e := range before {
		if now[e.ID] != e {
			t.Fatalf("%+v has become %+v", e, now[e.ID])
		}
	}
}

// addsNothingTooMuch looks at every interval as long as span that has an event booked
// since made: it must hold at most most events, of whatever age.
func addsNothingTooMuch(t *testing.T, events []slots.Event, made plan.Ticks, most int, span plan.Ticks) {
	t.Helper()
	from, added := 0, 0
	seen := false
	for i, e := range events {
		if e.Booked >= made {
			added++
			seen = true
		}
		for ; events[from].At <= e.At-span; from++ {
			if events[from].Booked >= made {
				added--
			}
		}
		if added > 0 && i-from+1 > most {
			t.Fatalf("the interval of %v that ends at %v holds %d events, %d of them booked since %d are allowed", span, e.At.Time(), i-from+1, added, most)
		}
	}
	if !seen {
		t.Error("nothing was booked since the change")
	}
}

// fillsNoWindow fails the test if a window has an event booked since made, and more
// than most.
func fillsNoWindow(t *testing.T, events []slots.Event, made plan.Ticks, most int) {
	t.Helper()
	type window struct {
		era   int
		index int64
	}
	held, added := make(map[window]int), make(map[window]bool)
	for _, e := range events {
		w := window{e.Era, e.Window}
		held[w]++
		added[w] = added[w] || e.Booked >= made
	}
	for w, n := range held {
		if added[w] && n > most {
			t.Errorf("window %d of era %d holds %d events, some of them booked since %d are allowed", w.index, w.era, n, most)
		}
	}
}

// wait waits until n are booked.
func (a *answers) wait(t *testing.T, n int) {
	t.Helper()
	within(t, 30*time.Second, fmt.Sprintf("%d are booked", n), func() bool { return a.count() >= n })
}
