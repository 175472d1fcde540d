package sqlite_test

import (
	"context"
	"database/sql"
	"io"
	"testing"

	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/rules/rulestest"
	"github.com/stint-dev/stint/store/sqlite"
)

// ruleSources is a harness over files of their own.
func (f *files) ruleSources() rulestest.Harness {
	source := func(open func(t testing.TB) *sqlite.Store) func(t testing.TB) (rules.Source, io.Closer) {
		return func(t testing.TB) (rules.Source, io.Closer) {
			s := open(t)
			return s.Rules(), s
		}
	}
	return rulestest.Harness{
		Open:   source(f.openFile),
		Reopen: source(f.reopenFile),
		Session: func(t testing.TB) func(text string) {
			db, err := sql.Open("sqlite", f.path)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			db.SetMaxOpenConns(1)
			t.Cleanup(func() { db.Close() })
			return func(text string) {
				if _, err := db.ExecContext(context.Background(), text); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
		},
		OneWriter: true,
	}
}

func TestRules(t *testing.T) { rulestest.Run(t, new(files).ruleSources()) }
