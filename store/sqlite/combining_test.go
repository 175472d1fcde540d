package sqlite_test

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/sqlite"
)

// updates counts what a Limiter asks of its store.
type updates struct{ n, spends, remembered atomic.Int64 }

func (u *updates) Updated(spends int, _ time.Duration, _ error) {
	u.n.Add(1)
	u.spends.Add(int64(spends))
}
func (u *updates) Remembered() { u.remembered.Add(1) }

// TestHotKeyIsCombined has a thousand goroutines spend one key, twenty times
// each: with a quota for all of it, so that nothing can be denied from memory,
// and with one for a part.
func TestHotKeyIsCombined(t *testing.T) {
	const callers, each = 1000, 20
	for name, quota := range map[string]int64{"all admitted": callers * each, "most denied": 1234} {
		t.Run(name, func(t *testing.T) {
			store, err := sqlite.Open(filepath.Join(t.TempDir(), "stint.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			var seen updates
			l := limit.New(store, &limit.Options{Observer: &seen, Timeout: time.Minute})
			p := &limit.Policy{Name: "hot", Quota: quota, Window: 365 * 24 * time.Hour}
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range each {
						d, err := l.Take(t.Context(), p, "key", 1)
						if err != nil {
							t.Error(err)
							return
						}
						if d.Allowed {
							admitted.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if n := admitted.Load(); n != quota {
				t.Errorf("%d admitted, want exactly %d", n, quota)
			}
			n := seen.n.Load()
			if n*20 > callers*each {
				t.Errorf("%d updates for %d decisions; want at most one for 20", n, callers*each)
			}
			t.Logf("%d decisions: %d updates of %d spends, %d denied from memory", callers*each, n, seen.spends.Load(), seen.remembered.Load())
		})
	}
}
