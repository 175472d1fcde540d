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
	execute(t, newer, "PRAGMA user_version = 5")

	for _, test := range []struct{ name, path, want string }{
		{"the directory is missing", missing, "no such file or directory; make the directory first"},
		{"a directory", dir, "unable to open database file (14); it must be a file that this process may read and write"},
		{"not a database", noise, "file is not a database (26); name another file, or remove this one"},
		{"a newer schema", newer, "the file has schema version 5, and this Stint knows up to 4; run the newer Stint that made it"},
	} {
		t.Run(test.name, func(t *testing.T) { refuses(t, test.path, test.want) })
	}
	if _, err := os.Stat(filepath.Dir(missing)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the missing directory: %v, want it left alone", err)
	}
}

func refuses(t *testing.T, path, want string) {
	t.Helper()
	s, err := sqlite.Open(path, nil)
	if err == nil {
		s.Close()
		t.Fatal("it opens")
	}
	want = fmt.Sprintf("sqlite: open %s: %s", path, want)
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if fault, ok := errors.AsType[*limit.StoreError](err); !ok || fault.Sent {
		t.Errorf("%#v, want a *limit.StoreError that was not sent", err)
	}
}

func TestOpenRefusesWhatItMayNotWrite(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everything")
	}
	const (
		unreadable = "unable to open database file (14); it must be a file that this process may read and write"
		readOnly   = "attempt to write a readonly database (%d); this process must be allowed to write the file and its directory"
	)
	for _, test := range []struct {
		name      string
		dir, file fs.FileMode
		want      string
	}{
		{"a file to read", 0o700, 0o400, fmt.Sprintf(readOnly, 8)},
		{"a file not to read", 0o700, 0, unreadable},
		{"a directory to read", 0o500, 0o600, fmt.Sprintf(readOnly, 1544)},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "stint.db")
			s, err := sqlite.Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(dir, 0o700)
			if err := errors.Join(os.Chmod(path, test.file), os.Chmod(dir, test.dir)); err != nil {
				t.Fatal(err)
			}
			refuses(t, path, test.want)
		})
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
	t.Chdir(t.TempDir())
	for _, path := range []string{"50% a?mode=memory#b ü.db", ":memory:", "file:stint.db"} {
		s, err := sqlite.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%q: %v, %v; want the states in this very file", path, info, err)
		}
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

// A file that an older Stint has made is brought up to date, and keeps its states.
func TestOpenMigratesOlderFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stint.db")
	first, err := os.ReadFile("migrations/1.sql")
	if err != nil {
		t.Fatal(err)
	}
	execute(t, path, string(first)+"; PRAGMA user_version = 1; INSERT INTO stint_state VALUES (x'6b', 1, 2, 3, 1 << 60, x'')")
	s, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var kept, version int
	if err := raw(t, path).QueryRow("SELECT b, user_version FROM stint_state, pragma_user_version").Scan(&kept, &version); err != nil || kept != 3 || version != 4 {
		t.Errorf("the file holds %d, in version %d, %v; want 3, in version 3", kept, version, err)
	}
	if err := s.Ledger().Create(t.Context(), "payments"); err != nil {
		t.Errorf("slots in a file that was made before there were any: %v", err)
	}
}
