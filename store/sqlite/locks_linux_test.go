package sqlite_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/store/sqlite"
)

// Linux also tells a process of its own locks, if asked by this command.
const ofdGetLock = 36 // F_OFD_GETLK

// While a Store is open the file is locked against whoever would have it alone,
// also after another Store of the same process was opened.
func TestOpenKeepsTheLocksOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stint.db")
	for range 2 {
		s, err := sqlite.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	alone := syscall.Flock_t{Type: syscall.F_WRLCK, Start: 1<<30 + 2, Len: 510} // where SQLite locks
	if err := syscall.FcntlFlock(f.Fd(), ofdGetLock, &alone); err != nil {
		t.Fatal(err)
	}
	if alone.Type == syscall.F_UNLCK {
		t.Error("the file is open, and yet another process could have it alone")
	}
}
