package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/deliver"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/slotstest"
)

// receipt is what a receiver was sent, and when.
type receipt struct {
	deliver.Message
	at plan.Ticks
}

// receiver is a Sender that remembers. answer, if not nil, says what it answers.
type receiver struct {
	answer func(ctx context.Context, m *deliver.Message) error

	mu       sync.Mutex
	all      []receipt
	taken    map[string]int // how often, by config and id
	inFlight map[string]int
	most     map[string]int // in flight at once, by config
}

func (r *receiver) Send(ctx context.Context, m *deliver.Message) (err error) {
	r.mu.Lock()
	if r.taken == nil {
		r.taken, r.inFlight, r.most = make(map[string]int), make(map[string]int), make(map[string]int)
	}
	r.all = append(r.all, receipt{*m, plan.At(time.Now())})
	r.inFlight[m.Config]++
	r.most[m.Config] = max(r.most[m.Config], r.inFlight[m.Config])
	r.mu.Unlock()
	time.Sleep(time.Millisecond) // nothing takes no time
	if r.answer != nil {
		err = r.answer(ctx, m)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight[m.Config]--
	if err == nil {
		r.taken[m.Config+"/"+m.ID]++
	}
	return err
}

func (r *receiver) receipts() []receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// worst returns how many receipts there are at most in an interval of one window.
func worst(all []receipt, window plan.Ticks) (most int) {
	first := 0
	for i, r := range all {
		for all[first].at <= r.at-window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// grace is how late an event of a window of up to 5s may be sent.
const grace = 50 * plan.Millisecond

// early are the receipts of what had not come to its slot.
func early(all []receipt) (some []receipt) {
	for _, r := range all {
		if r.at < r.Slot || r.Now < r.Slot || r.Now > r.at {
			some = append(some, r)
		}
	}
	return some
}

// world is a ledger with a config, payments, and what delivers it.
type world struct {
	t      testing.TB
	ledger *slotstest.Memory
	slots  *slots.Scheduler
	bell   deliver.Bell
	outcomes
}

// outcomes counts what it observes.
type outcomes struct {
	mu sync.Mutex
	of map[deliver.Outcome]int
}

func (o *outcomes) Attempted(string, time.Duration, time.Duration, error) {}

func (o *outcomes) Ended(_ string, outcome deliver.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = make(map[deliver.Outcome]int)
	}
	o.of[outcome]++
}

func (o *outcomes) count(outcome deliver.Outcome) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[outcome]
}

func newWorld(t testing.TB, most int, window plan.Ticks) *world {
	w := &world{t: t, ledger: slotstest.NewMemory(nil)}
	w.slots = slots.New(w.ledger, &slots.Options{Observer: &w.bell})
	w.configure("payments", most, window, "https://example.com/payments")
	return w
}

func (w *world) configure(name string, most int, window plan.Ticks, url string) {
	w.t.Helper()
	v := slots.Version{Version: plan.Version{Max: most, Window: window}, DeliverTo: url}
	if _, err := w.slots.Configure(context.Background(), name, v); err != nil {
		w.t.Fatal(err)
	}
}

// book books events, and returns their ids.
func (w *world) book(config, prefix string, n int, at plan.Ticks) (ids []string) {
	w.t.Helper()
	var rs []slots.Request
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s %04d", prefix, i))
		rs = append(rs, slots.Request{ID: ids[i], At: at})
	}
	results, err := w.slots.BookAll(context.Background(), config, rs)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			w.t.Fatal(r.Err)
		}
	}
	return ids
}

// start runs a Deliverer until stop is called, which waits for its end.
func (w *world) start(outbox slots.Outbox, sender deliver.Sender, o deliver.Options) (stop func()) {
	o.Observer, o.Bell = &w.outcomes, &w.bell
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	d := deliver.New(w.slots, outbox, sender, &o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		d.Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (w *world) dead(config string) []slots.Delivery {
	w.t.Helper()
	dead, err := w.ledger.Dead(context.Background(), config, nil, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	return dead
}

func now() plan.Ticks { return plan.At(time.Now()) }

func onceEach(t testing.TB, r *receiver, ids []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if n := r.taken["payments/"+id]; n != 1 {
			t.Errorf("%s was delivered %d times, want once", id, n)
		}
	}
}

func TestDeliversEachEventOnceAtItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100, 4*plan.Second)
		r := new(receiver)
		stop1 := w.start(w.ledger, r, deliver.Options{})
		stop2 := w.start(w.ledger, r, deliver.Options{})
		ids := w.book("payments", "soon", 150, now())
		ids = append(ids, w.book("payments", "later", 850, now()+10*plan.Second)...)
		time.Sleep(2 * time.Minute)
		stop1()
		stop2()
		onceEach(t, r, ids)
		all := r.receipts()
		if some := early(all); len(some) > 0 {
			t.Errorf("%d are early: %+v", len(some), some[0])
		}
		for _, m := range all {
			if m.at-m.Slot > plan.Millisecond || m.Attempt != 1 || m.URL != "https://example.com/payments" || m.Config != "payments" {
				t.Errorf("delivered at %d: %+v", m.at, m.Message)
			}
		}
		if n := worst(all, 4*plan.Second); n != 100 {
			t.Errorf("a window holds %d, want 100 at most, and 100 at full", n)
		}
		if w.count(deliver.Delivered) != 1000 || w.count(deliver.Reslotted) != 0 {
			t.Errorf("outcomes: %v", w.of)
		}
	})
}

// What was due while nobody delivered is not made up for in a hurry.
func TestOverdueEventsAreReslotted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100, 4*plan.Second)
		ids := w.book("payments", "overdue", 2000, now())
		time.Sleep(10 * time.Minute)
		ids = append(ids, w.book("payments", "ahead", 300, now()+plan.Second)...)
		r := new(receiver)
		stop := w.start(w.ledger, r, deliver.Options{})
		time.Sleep(10 * time.Minute)
		stop()
		onceEach(t, r, ids)
		all := r.receipts()
		if n := worst(all, 4*plan.Second); n > 100 {
			t.Errorf("a window holds %d, want 100 at most", n)
		}
		if some := early(all); len(some) > 0 {
			t.Errorf("%d are early: %+v", len(some), some[0])
		}
		last := all[len(all)-1].at
		if took := last - all[0].at; took > 100*plan.Second {
			t.Errorf("2,300 events took %v, want about 92s", time.Duration(took)*time.Microsecond)
		}
		if n := w.count(deliver.Reslotted); n != 2000 {
			t.Errorf("%d were booked another slot, want 2000", n)
		}
		for _, id := range ids[:10] {
			e, err := w.ledger.Event(t.Context(), "payments", id)
			if err != nil || e.Requested > now()-10*plan.Minute {
				t.Errorf("%+v, %v: want what was asked for at first", e, err)
			}
		}
		if _, err := slotstest.Audit(t.Context(), w.ledger, "payments"); err != nil {
			t.Error(err)
		}
	})
}

var errBusy = errors.New("the receiver\nis\x00 busy " + strings.Repeat("ä", 200))

func TestFailuresAreRetriedAndThenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, plan.Second)
		r := &receiver{answer: func(_ context.Context, m *deliver.Message) error {
			switch {
			case strings.HasPrefix(m.ID, "twice") && m.Attempt > 2:
				return nil
			case strings.HasPrefix(m.ID, "gone"):
				return &deliver.Failure{Status: 410, Permanent: true, Err: errors.New("gone")}
			}
			return &deliver.Failure{Status: 500, Err: errBusy}
		}}
		stop := w.start(w.ledger, r, deliver.Options{Attempts: 4, Backoff: 10 * time.Second, MaxBackoff: 15 * time.Second})
		defer stop()
		twice := w.book("payments", "twice", 40, now())
		gone := w.book("payments", "gone", 20, now())
		never := w.book("payments", "never", 30, now())
		time.Sleep(10 * time.Minute)
		onceEach(t, r, twice)
		all := r.receipts()
		if n := worst(all, plan.Second); n > 10 {
			t.Errorf("a window holds %d attempts, want 10 at most", n)
		}
		attempts := make(map[string][]receipt)
		for _, m := range all {
			attempts[m.ID] = append(attempts[m.ID], m)
		}
		for ids, want := range map[*[]string]int{&twice: 3, &gone: 1, &never: 4} {
			for _, id := range *ids {
				if n := len(attempts[id]); n != want {
					t.Errorf("%s: %d attempts, want %d", id, n, want)
				}
				for i, m := range attempts[id] {
					backoff := []plan.Ticks{0, 10 * plan.Second, 15 * plan.Second, 15 * plan.Second}[i]
					if m.Attempt != i+1 || i > 0 && m.Slot < attempts[id][i-1].at+backoff {
						t.Errorf("%s: attempt %d at %d, after %+v", id, m.Attempt, m.at, attempts[id][max(0, i-1)])
					}
				}
			}
		}
		dead := w.dead("payments")
		if len(dead) != len(gone)+len(never) {
			t.Errorf("%d dead letters, want %d", len(dead), len(gone)+len(never))
		}
		for _, d := range dead {
			if strings.HasPrefix(d.ID, "gone") && (d.Status != 410 || d.Attempts != 1 || d.Error != "gone") ||
				strings.HasPrefix(d.ID, "never") && (d.Status != 500 || d.Attempts != 4 || len(d.Error) > slots.MaxErrorLen || !strings.HasPrefix(d.Error, "the receiver is  busy ää") || !strings.HasSuffix(d.Error, "ä...")) {
				t.Errorf("dead letter %+v", d)
			}
		}
		// A dead letter that is redriven begins anew.
		r.answer = nil
		if _, err := w.slots.Redrive(t.Context(), "payments", never); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		onceEach(t, r, never)
		last := r.receipts()
		if m := last[len(last)-1]; m.Attempt != 1 {
			t.Errorf("redriven, it is attempt %d", m.Attempt)
		}
		if n := worst(last[len(all):], plan.Second); n > 10 {
			t.Errorf("a window holds %d redriven, want 10 at most", n)
		}
	})
}

// A receiver that wants to be left alone is, and so it is during a pause.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, plan.Second)
		w.configure("refunds", 10, plan.Second, "https://example.com/refunds")
		var busy atomic.Int64 // until then
		r := &receiver{answer: func(_ context.Context, m *deliver.Message) error {
			if left := busy.Load() - time.Now().UnixMicro(); m.Config == "payments" && left > 0 {
				return &deliver.Failure{Status: 429, RetryAfter: time.Duration(left) * time.Microsecond, Err: errors.New("busy")}
			}
			return nil
		}}
		stop := w.start(w.ledger, r, deliver.Options{})
		defer stop()
		until := now() + 2*plan.Minute
		busy.Store(int64(until))
		began := now()
		ids := w.book("payments", "pay", 600, began)
		others := w.book("refunds", "refund", 600, began)
		time.Sleep(10 * time.Minute)
		onceEach(t, r, ids)
		inVain := 0
		for _, m := range r.receipts() {
			if m.Config == "payments" && m.at < until {
				if inVain++; m.at > began+plan.Second {
					t.Errorf("sent %v after the receiver wanted to be left alone", time.Duration(m.at-began)*time.Microsecond)
				}
			}
		}
		if inVain == 0 || inVain > 12 {
			t.Errorf("%d attempts in vain, want a few", inVain)
		}
		for _, id := range others {
			if r.taken["refunds/"+id] != 1 {
				t.Errorf("%s was delivered %d times: another config's receiver is none of its business", id, r.taken["refunds/"+id])
			}
		}

		// A pause by hand.
		before := len(r.receipts())
		ids = w.book("payments", "paused", 100, now()+plan.Minute)
		until = now() + 5*plan.Minute
		if _, err := w.slots.Pause(t.Context(), "payments", until); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		onceEach(t, r, ids)
		after := r.receipts()[before:]
		if after[0].at < until {
			t.Errorf("delivered at %d, and the pause ends at %d", after[0].at, until)
		}
		if n := worst(after, plan.Second); n > 10 {
			t.Errorf("after the pause a window holds %d, want 10 at most", n)
		}
	})
}

// A receiver that takes its time has others wait for it only so much, and those of
// other configs not at all.
func TestSlowReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 50, plan.Second)
		w.configure("refunds", 50, plan.Second, "https://example.com/refunds")
		r := &receiver{answer: func(ctx context.Context, m *deliver.Message) error {
			if m.Config == "refunds" {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(2 * time.Second):
				return nil
			}
		}}
		stop := w.start(w.ledger, r, deliver.Options{InFlight: 40, InFlightPerConfig: 20})
		defer stop()
		ids := w.book("payments", "slow", 400, now())
		w.book("refunds", "fast", 400, now())
		time.Sleep(5 * time.Minute)
		onceEach(t, r, ids)
		for _, m := range r.receipts() {
			if m.Config == "refunds" && m.at-m.Slot > plan.Millisecond {
				t.Errorf("%s was sent %d microseconds late", m.ID, m.at-m.Slot)
			}
		}
		if r.most["payments"] != 20 {
			t.Errorf("%d attempts were under way at once, want 20", r.most["payments"])
		}
	})
}

// cutOutbox is an Outbox behind a connection that can be cut.
type cutOutbox struct {
	slots.Outbox
	cut atomic.Bool
}

var errCut = &slots.LedgerError{Store: "memory", Op: "call", Err: errors.New("no connection")}

func (c *cutOutbox) Claim(ctx context.Context, claim slots.Claim) ([]slots.Delivery, plan.Ticks, error) {
	if c.cut.Load() {
		return nil, 0, errCut
	}
	return c.Outbox.Claim(ctx, claim)
}

func (c *cutOutbox) Settle(ctx context.Context, config string, s []slots.Settled) error {
	if c.cut.Load() {
		return errCut
	}
	return c.Outbox.Settle(ctx, config, s)
}

// One that is cut off, or dead, leaves its leases to the others when they end.
func TestLeasesAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100, 4*plan.Second)
		first := &cutOutbox{Outbox: w.ledger}
		hang := &receiver{answer: func(ctx context.Context, _ *deliver.Message) error {
			first.cut.Store(true)
			<-ctx.Done()
			return ctx.Err()
		}}
		ids := w.book("payments", "event", 100, now()+plan.Second)
		stop1 := w.start(first, hang, deliver.Options{Timeout: 5 * time.Second, Attempts: 1})
		time.Sleep(1500 * time.Millisecond)
		r := new(receiver)
		stop2 := w.start(w.ledger, r, deliver.Options{Timeout: 5 * time.Second})
		time.Sleep(2 * time.Minute)
		held := len(hang.receipts())
		if held == 0 {
			t.Fatal("the first has not begun")
		}
		onceEach(t, r, ids)
		for _, m := range r.receipts() {
			if slices.ContainsFunc(hang.receipts(), func(h receipt) bool { return h.ID == m.ID && m.at < h.at+5*plan.Second }) {
				t.Errorf("%s was sent again at %d while the other might have been sending it", m.ID, m.at)
			}
		}
		if n := worst(r.receipts(), 4*plan.Second); n > 100 {
			t.Errorf("a window holds %d, want 100 at most", n)
		}
		if n := w.count(deliver.Unsettled); n != held {
			t.Errorf("%d are unsettled, want the %d that the first has sent", n, held)
		}
		stop1()
		stop2()
	})
}

// While the outbox does not answer for a moment, nothing is sent twice.
func TestSettlesWhenTheOutboxIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100, 4*plan.Second)
		o := &cutOutbox{Outbox: w.ledger}
		r := new(receiver)
		r.answer = func(context.Context, *deliver.Message) error {
			if len(r.receipts()) == 50 {
				o.cut.Store(true)
				time.AfterFunc(5*time.Second, func() { o.cut.Store(false) })
			}
			return nil
		}
		stop := w.start(o, r, deliver.Options{})
		ids := w.book("payments", "event", 1000, now())
		time.Sleep(3 * time.Minute)
		stop()
		onceEach(t, r, ids)
		if n := worst(r.receipts(), 4*plan.Second-grace); n > 100 {
			t.Errorf("a window holds %d, want 100 at most", n)
		}
	})
}

// One that ends gives back what is not due yet, and writes what it has sent.
func TestEndsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100, 4*plan.Second)
		r := &receiver{answer: func(context.Context, *deliver.Message) error {
			time.Sleep(time.Second)
			return nil
		}}
		ids := w.book("payments", "event", 500, now())
		for range 40 {
			stop := w.start(w.ledger, r, deliver.Options{})
			time.Sleep(250 * time.Millisecond)
			began := time.Now()
			stop()
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the end took %v", took)
			}
		}
		stop := w.start(w.ledger, r, deliver.Options{})
		time.Sleep(2 * time.Minute)
		stop()
		onceEach(t, r, ids)
	})
}

// A config that delivers no more has dead letters, not secrets.
func TestNoReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100, 4*plan.Second)
		w.book("payments", "event", 3, now())
		w.configure("payments", 100, 4*plan.Second, "")
		r := new(receiver)
		stop := w.start(w.ledger, r, deliver.Options{})
		time.Sleep(time.Minute)
		stop()
		if dead := w.dead("payments"); len(dead) != 3 || dead[0].Error != "the config delivers no more" || dead[0].Attempts != 0 {
			t.Errorf("dead letters: %+v", dead)
		}
		if n := len(r.receipts()); n != 0 {
			t.Errorf("%d were sent", n)
		}
	})
}

// Whatever happens, no window of the receiver holds too many, nothing comes early,
// and everything is delivered or dead.
func TestWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.IntRange(1, 20).Draw(rt, "most")
		window := plan.Ticks(rapid.Int64Range(int64(100*plan.Millisecond), int64(5*plan.Second)).Draw(rt, "window"))
		failing := rapid.IntRange(0, 80).Draw(rt, "failing, of 100")
		type step struct {
			what string
			n    int
			wait time.Duration
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{
				rapid.SampledFrom([]string{"book", "outage", "pause", "cancel", "move"}).Draw(t, "what"),
				rapid.IntRange(1, 40).Draw(t, "n"),
				time.Duration(rapid.IntRange(0, 20_000).Draw(t, "wait")) * time.Millisecond,
			}
		}), 1, 8).Draw(rt, "steps")
		var fault string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, most, window)
			var calls atomic.Int64
			r := &receiver{answer: func(context.Context, *deliver.Message) error {
				if n := calls.Add(1); int(n*37%100) < failing {
					return errors.New("no")
				}
				return nil
			}}
			o := deliver.Options{Attempts: 3, Backoff: time.Second, Timeout: 2 * time.Second}
			stop := w.start(w.ledger, r, o)
			var ids []string
			gone := make(map[string]bool)
			for i, s := range steps {
				switch s.what {
				case "book":
					ids = append(ids, w.book("payments", fmt.Sprint(i), s.n, now()+plan.Ticks(s.n)*100*plan.Millisecond)...)
				case "outage":
					stop()
					time.Sleep(s.wait)
					stop = w.start(w.ledger, r, o)
				case "pause":
					if _, err := w.slots.Hold(context.Background(), "payments", now()+plan.Ticks(s.wait/time.Microsecond)); err != nil {
						t.Error(err)
					}
				case "cancel", "move":
					if len(ids) == 0 {
						break
					}
					id := ids[s.n%len(ids)]
					if s.what == "cancel" {
						w.slots.Cancel(context.Background(), "payments", id)
					} else {
						w.slots.Reschedule(context.Background(), "payments", slots.Request{ID: id, At: now() + plan.Second})
					}
					gone[id] = true
				}
				time.Sleep(s.wait)
			}
			time.Sleep(time.Duration(len(ids)) * time.Duration(window) * time.Microsecond * 10)
			time.Sleep(5 * time.Minute)
			stop()
			all := r.receipts()
			dead := make(map[string]bool)
			for _, d := range w.dead("payments") {
				dead[d.ID] = true
			}
			if n := worst(all, window-grace); n > most {
				fault = fmt.Sprintf("a window holds %d, want %d at most", n, most)
			}
			if some := early(all); len(some) > 0 {
				fault = fmt.Sprintf("early: %+v", some[0])
			}
			for _, id := range ids {
				if n := r.taken["payments/"+id]; !gone[id] && (n > 1 || n == 0 && !dead[id]) {
					fault = fmt.Sprintf("%s was delivered %d times, dead: %v", id, n, dead[id])
				}
			}
			if _, err := slotstest.Audit(context.Background(), w.ledger, "payments"); err != nil {
				fault = err.Error()
			}
		})
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}
