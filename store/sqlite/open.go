package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/stint-dev/stint/limit/algo"
)

// Options configure a Store. The zero value is ready to use.
type Options struct {
	// Full makes every commit wait until the disk has it, so that it survives
	// a loss of power, too. It costs a flush of the disk for each update. Those
	// of slots do so in any case.
	Full bool
	// SweepEvery is how often the rows of expired states are deleted, in small
	// batches that hold nobody up. Defaults to 1m.
	SweepEvery time.Duration
	// Logger is told about sweeps that fail. Defaults to slog.Default().
	Logger *slog.Logger
	// Now is the store's clock. Defaults to the machine's, which all the
	// processes that share a file have in common.
	Now func() algo.Ticks
}

// openTimeout bounds what Open waits for another process that is writing.
const openTimeout = 10 * time.Second

// Open opens the file at path, and makes it if it is not there, readable and
// writable by its owner only. A nil o is the zero Options. The error is a
// *limit.StoreError that says what is wrong with the file.
func Open(path string, o *Options) (*Store, error) {
	s := &Store{path: path}
	if o != nil {
		s.opts = *o
	}
	if s.opts.SweepEvery <= 0 {
		s.opts.SweepEvery = time.Minute
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.Default()
	}
	if s.opts.Now == nil {
		s.opts.Now = func() algo.Ticks { return algo.Ticks(time.Now().UnixMicro()) }
	}
	if err := s.open(); err != nil {
		if s.db != nil {
			s.db.Close()
		}
		return nil, fault("open "+path, false, explain(err))
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stopSweeping = stop
	s.sweeping.Go(func() { s.sweepEvery(ctx) })
	return s, nil
}

func (s *Store) open() error {
	file, err := filepath.Abs(s.path) // for SQLite, ":memory:" is no file
	if err != nil {
		return err
	}
	if err := create(file); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	if s.db, err = sql.Open("sqlite", dsn(file, s.opts.Full)); err != nil {
		return err
	}
	s.db.SetMaxOpenConns(1)
	if err := s.retry(ctx, func() error { return s.db.PingContext(ctx) }); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	for stmt, text := range map[**sql.Stmt]string{
		&s.get:  "SELECT at, a, b, log, expires FROM stint_state WHERE key = ?",
		&s.put:  "INSERT INTO stint_state (key, at, a, b, log, expires) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET at = excluded.at, a = excluded.a, b = excluded.b, log = excluded.log, expires = excluded.expires",
		&s.drop: "DELETE FROM stint_state WHERE key = ?",
	} {
		if *stmt, err = s.db.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	return s.ledger.prepare(ctx, s.db)
}

// create makes the file, readable and writable by its owner only, unless it is
// there; SQLite would let everybody read it.
//
// A file that is there is not touched. Locks on a file belong to the process:
// to open and close it here would drop those of its other Stores, and then
// another process that leaves may delete the log that they write to.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func dsn(file string, full bool) string {
	synchronous := "NORMAL"
	if full {
		synchronous = "FULL"
	}
	q := url.Values{
		"_txlock": {"immediate"}, // a reader that turns writer could only fail
		"_pragma": {"journal_mode(WAL)", "synchronous(" + synchronous + ")"},
	}
	return (&url.URL{Scheme: "file", Opaque: url.PathEscape(file), RawQuery: q.Encode()}).String()
}

// explain adds what to do about err where the driver's words are too few.
func explain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // the path has been said
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; make the directory first", err)
	}
	if e, ok := errors.AsType[*driver.Error](err); ok {
		switch e.Code() & 0xff {
		case codes.SQLITE_CANTOPEN:
			return fmt.Errorf("%w; it must be a file that this process may read and write", err)
		case codes.SQLITE_READONLY:
			return fmt.Errorf("%w; this process must be allowed to write the file and its directory", err)
		case codes.SQLITE_NOTADB:
			return fmt.Errorf("%w; name another file, or remove this one", err)
		}
	}
	return err
}
