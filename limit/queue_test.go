package limit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/limit"
)

// pace admits one request every interval.
type pace struct {
	interval time.Duration
	next     time.Time
}

func (p *pace) try() (time.Duration, bool, error) {
	if wait := time.Until(p.next); wait > 0 {
		return wait, false, nil
	}
	p.next = time.Now().Add(p.interval)
	return 0, true, nil
}

func TestQueueServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q limit.Queue
		p := pace{interval: time.Second}
		turn := limit.Turn{MaxWait: 3 * time.Second, MaxQueue: 10, Pace: time.Second}
		began := time.Now()
		type served struct {
			Who  int
			At   time.Duration
			OK   bool
			Next time.Duration
		}
		var got []served
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				next, ok, err := q.Wait(t.Context(), "k", turn, p.try)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, served{i, time.Since(began), ok, next})
			})
			synctest.Wait()
		}
		wg.Wait()
		want := []served{
			{0, 0, true, 0},
			{4, 0, false, 4 * time.Second}, // their turns would come after MaxWait
			{5, 0, false, 4 * time.Second},
			{1, 1 * time.Second, true, 0},
			{2, 2 * time.Second, true, 0},
			{3, 3 * time.Second, true, 0},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q limit.Queue
		p := pace{interval: time.Second}
		turn := limit.Turn{MaxWait: time.Minute, MaxQueue: 2, Pace: time.Second}
		var wg sync.WaitGroup
		for range 3 { // one is served at once, two wait
			wg.Go(func() { q.Wait(t.Context(), "k", turn, p.try) })
			synctest.Wait()
		}
		next, ok, err := q.Wait(t.Context(), "k", turn, p.try)
		if ok || err != nil || next != 3*time.Second {
			t.Errorf("%v, %v, %v; want to be refused with a turn in 3s", next, ok, err)
		}
		if _, ok, _ := q.Wait(t.Context(), "other", turn, (&pace{}).try); !ok {
			t.Error("a full line holds up another key")
		}
		wg.Wait()
	})
}

func TestQueueIsLeftByCallersWhoGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q limit.Queue
		p := pace{interval: time.Second, next: time.Now().Add(time.Second)}
		turn := limit.Turn{MaxWait: time.Minute, MaxQueue: 10, Pace: time.Second}
		began := time.Now()
		var wg sync.WaitGroup
		var cancels []context.CancelFunc
		for i := range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels = append(cancels, cancel)
			wg.Go(func() {
				_, ok, err := q.Wait(ctx, "k", turn, p.try)
				if gone := i == 0 || i == 2; gone != errors.Is(err, context.Canceled) || ok == gone {
					t.Errorf("caller %d: %v, %v", i, ok, err)
				}
				if i == 3 && time.Since(began) != 2*time.Second {
					t.Errorf("the last was served after %v, want 2s: two before it have left", time.Since(began))
				}
			})
			synctest.Wait()
		}
		cancels[0]() // the head
		cancels[2]() // one in the middle
		wg.Wait()
	})
}

func TestQueueReturnsErrors(t *testing.T) {
	var q limit.Queue
	down := errors.New("store is down")
	_, ok, err := q.Wait(t.Context(), "k", limit.Turn{MaxWait: time.Second, MaxQueue: 1}, func() (time.Duration, bool, error) { return 0, false, down })
	if ok || !errors.Is(err, down) {
		t.Errorf("%v, %v; want the error of try", ok, err)
	}
}
