package loadtest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func everyMillisecond(n int) (due []time.Duration) {
	for i := range n {
		due = append(due, time.Duration(i)*time.Millisecond)
	}
	return due
}

func TestOpenLoopIsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().Add(time.Second)
		var mu sync.Mutex
		var seen []time.Duration
		openLoop(t.Context(), start, everyMillisecond(100), 3, 0, func(n int, due time.Time) {
			if want := start.Add(time.Duration(n) * time.Millisecond); due != want || time.Now() != want {
				t.Errorf("request %d, due at %v, comes at %v", n, due, time.Now())
			}
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, time.Since(start))
		})
		if !slices.Equal(seen, everyMillisecond(100)) {
			t.Errorf("%v", seen)
		}
	})
}

// TestOpenLoopDoesNotWaitForAnswers: two requests take 100 ms each, and the
// others come meanwhile, as long as a worker is free. What comes late is
// measured from when it was due.
func TestOpenLoopDoesNotWaitForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		took := make([]time.Duration, 50)
		openLoop(t.Context(), time.Now(), everyMillisecond(50), 2, 0, func(n int, due time.Time) {
			if n == 0 || n == 20 {
				time.Sleep(100 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			took[n] = time.Since(due)
		})
		for n, want := range map[int]time.Duration{
			0: 100, 1: 0, 19: 0, 20: 100, // one worker is left, and then none
			21: 79, 49: 51, // late by what was left of the first 100 ms
		} {
			if took[n] != want*time.Millisecond {
				t.Errorf("request %d took %v, want %v", n, took[n], want*time.Millisecond)
			}
		}
	})
}

func TestOpenLoopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond+time.Microsecond)
		defer cancel()
		var mu sync.Mutex
		n := 0
		openLoop(ctx, time.Now(), everyMillisecond(1000), 4, 0, func(int, time.Time) {
			mu.Lock()
			defer mu.Unlock()
			n++
		})
		if n != 11 {
			t.Errorf("%d requests in 10 ms, want 11", n)
		}
	})
}
