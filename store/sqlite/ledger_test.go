package sqlite_test

import (
	"io"
	"testing"
	"time"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/slotstest"
	"github.com/stint-dev/stint/store/sqlite"
)

// ledgers is a harness over files of their own. All have one clock.
func (f *files) ledgers() slotstest.Harness {
	f.now.Store(time.Date(2026, 1, 14, 8, 0, 0, 0, time.UTC).UnixMicro())
	ledger := func(open func(t testing.TB) *sqlite.Store) func(t testing.TB) (slots.Ledger, io.Closer) {
		return func(t testing.TB) (slots.Ledger, io.Closer) {
			s := open(t)
			return s.Ledger(), s
		}
	}
	return slotstest.Harness{
		Open:      ledger(f.openFile),
		Reopen:    ledger(f.reopenFile),
		Advance:   func(_ testing.TB, d time.Duration) { f.now.Add(d.Microseconds()) },
		OneWriter: true,
	}
}

func TestLedger(t *testing.T) { slotstest.Run(t, new(files).ledgers()) }

func BenchmarkLedger(b *testing.B) { slotstest.Bench(b, new(files).ledgers()) }
