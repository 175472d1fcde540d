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
		type served struct {
			Who     int
			Passage limit.Passage
		}
		var got []served
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				p, err := q.Wait(t.Context(), "k", turn, p.try)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, served{i, p})
			})
			synctest.Wait()
		}
		wg.Wait()
		want := []served{
			{0, limit.Passage{Admitted: true}},
			{4, limit.Passage{RetryAfter: 4 * time.Second}}, // their turns would come after MaxWait
			{5, limit.Passage{RetryAfter: 4 * time.Second}},
			{1, limit.Passage{Admitted: true, Waited: 1 * time.Second}},
			{2, limit.Passage{Admitted: true, Waited: 2 * time.Second}},
			{3, limit.Passage{Admitted: true, Waited: 3 * time.Second}},
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
		got, err := q.Wait(t.Context(), "k", turn, p.try)
		if err != nil || got != (limit.Passage{RetryAfter: 3 * time.Second}) {
			t.Errorf("%+v, %v; want to be refused with a turn in 3s", got, err)
		}
		if got, _ := q.Wait(t.Context(), "other", turn, (&pace{}).try); !got.Admitted {
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
				p, err := q.Wait(ctx, "k", turn, p.try)
				if gone := i == 0 || i == 2; gone != errors.Is(err, context.Canceled) || p.Admitted == gone {
					t.Errorf("caller %d: %+v, %v", i, p, err)
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
	p, err := q.Wait(t.Context(), "k", limit.Turn{MaxWait: time.Second, MaxQueue: 1}, func() (time.Duration, bool, error) { return 0, false, down })
	if p.Admitted || !errors.Is(err, down) {
		t.Errorf("%+v, %v; want the error of try", p, err)
	}
}
