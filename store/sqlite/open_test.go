package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/sqlite"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing", "stint.db")
	noise := filepath.Join(dir, "noise.db")
	if err := os.WriteFile(noise, []byte("This is a text, and by no means a short one, but no database."), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	execute(t, newer, "PRAGMA user_version = 2")

	for _, test := range []struct{ name, path, want string }{
		{"the directory is missing", missing, "open " + missing + ": no such file or directory"},
		{"a directory", dir, "open " + dir + ": is a directory"},
		{"not a database", noise, "file is not a database (26)"},
		{"a newer schema", newer, "the file has schema version 2, and this Stint knows up to 1; run the newer Stint that made it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := sqlite.Open(test.path, nil)
			if err == nil {
				s.Close()
				t.Fatal("it opens")
			}
			want := fmt.Sprintf("sqlite: open %s: %s", test.path, test.want)
			if err.Error() != want {
				t.Errorf("got  %s\nwant %s", err, want)
			}
			if fault, ok := errors.AsType[*limit.StoreError](err); !ok || fault.Sent {
				t.Errorf("%#v, want a *limit.StoreError that was not sent", err)
			}
		})
	}
	if _, err := os.Stat(filepath.Dir(missing)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the missing directory: %v, want it left alone", err)
	}
}

// Callers' keys are in the file: nobody else is to read it.
func TestFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stint.db")
	s, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %v, want -rw-------", filepath.Base(name), mode)
		}
	}
}

// A path is no address: what is special in one is only a letter of the other.
func TestPathIsTakenAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "50% a?mode=memory#b ü.db")
	s, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("%v, %v; want the states in this very file", info, err)
	}
}

// raw opens the file at path with no Store in between.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func execute(t *testing.T, path, statement string) {
	t.Helper()
	if _, err := raw(t, path).Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// integrity returns what SQLite finds wrong with the file, or "ok".
func integrity(t *testing.T, path string) (problem string) {
	t.Helper()
	if err := raw(t, path).QueryRow("PRAGMA integrity_check").Scan(&problem); err != nil {
		t.Fatal(err)
	}
	return problem
}
