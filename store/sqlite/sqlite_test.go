package sqlite_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/store/sqlite"
)

// files is a harness over files of their own. All have one clock.
type files struct {
	path string // of the last Open
	now  atomic.Int64
}

func (f *files) openFile(t testing.TB) *sqlite.Store {
	f.path = filepath.Join(t.TempDir(), "stint.db")
	return f.reopenFile(t)
}

func (f *files) reopenFile(t testing.TB) *sqlite.Store {
	s, err := sqlite.Open(f.path, &sqlite.Options{Now: func() algo.Ticks { return algo.Ticks(f.now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *files) harness() limittest.Harness {
	f.now.Store(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC).UnixMicro())
	return limittest.Harness{
		Open:    func(t testing.TB) limit.Store { return f.openFile(t) },
		Reopen:  func(t testing.TB) limit.Store { return f.reopenFile(t) },
		Advance: func(_ testing.TB, d time.Duration) { f.now.Add(d.Microseconds()) },
	}
}

func TestStore(t *testing.T) { limittest.Run(t, new(files).harness()) }

func BenchmarkStore(b *testing.B) { limittest.Bench(b, new(files).harness()) }
