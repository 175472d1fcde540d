package memory_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/store/memory"
)

func TestStore(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC).UnixMicro())
	limittest.Run(t, limittest.Harness{
		Open: func(testing.TB) limit.Store {
			return memory.New(&memory.Options{Now: func() algo.Ticks { return algo.Ticks(now.Load()) }})
		},
		Advance: func(_ testing.TB, d time.Duration) { now.Add(d.Microseconds()) },
	})
}

// With its own clock, which cannot be set.
func TestStoreInRealTime(t *testing.T) {
	limittest.Run(t, limittest.Harness{Open: func(testing.TB) limit.Store { return memory.New(nil) }})
}
