package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// Each statement of a transaction goes straight to its rows, however many others
// there are: by all of a key, or by its beginning and a range.
func TestLedgerStatementsSearch(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "stint.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for stmt, text := range s.ledger.texts() {
		rows, err := s.db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, 1, 2, 3, 4, 5)
		if err != nil {
			t.Fatal(err)
		}
		searches := 0
		err = each(rows, func(rows *sql.Rows) error {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				return err
			}
			whole := stmt == &s.ledger.versions // of a config, all are wanted
			if strings.HasPrefix(step, "SCAN stint_") || strings.HasSuffix(step, "(config=?)") && !whole {
				t.Errorf("%s\nis done by: %s", text, step)
			}
			if strings.HasPrefix(step, "SEARCH") {
				searches++
			}
			return nil
		})
		if err != nil || searches == 0 {
			t.Errorf("%s\nhas %d searches, %v; want some", text, searches, err)
		}
	}
}
