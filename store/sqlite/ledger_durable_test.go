package sqlite

import (
	"path/filepath"
	"testing"
)

// A transaction of a ledger waits for the disk, and those of limits, which use the
// same connection, do not.
func TestLedgerCommitsToTheDisk(t *testing.T) {
	const normal, full = 1, 2
	s, err := Open(filepath.Join(t.TempDir(), "stint.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		var inside, after int
		tx, giveBack, err := s.beginDurable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow("PRAGMA synchronous").Scan(&inside); err != nil {
			t.Fatal(err)
		}
		tx.Rollback()
		giveBack()
		if err := s.db.QueryRow("PRAGMA synchronous").Scan(&after); err != nil || inside != full || after != normal {
			t.Errorf("synchronous is %d, and afterwards %d, %v; want %d, then %d", inside, after, err, full, normal)
		}
	}
}
