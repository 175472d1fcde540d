// Package sqlite keeps rate limit states in one SQLite file. It needs no
// server, survives a restart, and is shared by the processes of one machine
// that open the same file.
//
// The file is in WAL mode. A commit survives the end of its process, kill -9
// included. If the machine loses power the newest commits may be lost, unless
// Options.Full is set; callers may then spend again what they spent last.
package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
)

// Options configure a Store. The zero value is ready to use.
type Options struct {
	// Full makes every commit wait until the disk has it, so that it survives
	// a loss of power, too. It costs a flush of the disk for each update.
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

// Store is a [limit.Store] in a file. It is safe for simultaneous use.
type Store struct {
	path string
	opts Options
	// db has one connection: SQLite has one writer at a time, and whoever
	// waits for it can be called off.
	db             *sql.DB
	get, put, drop *sql.Stmt
	closed         atomic.Bool
	stopSweeping   context.CancelFunc
	sweeping       sync.WaitGroup
}

var (
	_ limit.Store  = (*Store)(nil)
	_ limit.Lister = (*Store)(nil)
)

// openTimeout bounds what Open waits for another process that is writing.
const openTimeout = 10 * time.Second

// Open opens the file at path, and makes it if it is not there, readable and
// writable by its owner only. A nil o is the zero Options.
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
		return nil, s.fault("open "+path, false, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stopSweeping = stop
	s.sweeping.Go(func() { s.sweepEvery(ctx) })
	return s, nil
}

func (s *Store) open() error {
	// Made by us, because SQLite would let everybody read it, and because its
	// own message for a path that is wrong says little.
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	if s.db, err = sql.Open("sqlite", s.dsn()); err != nil {
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
	return nil
}

func (s *Store) dsn() string {
	synchronous := "NORMAL"
	if s.opts.Full {
		synchronous = "FULL"
	}
	q := url.Values{
		"_txlock": {"immediate"}, // a reader that turns writer could only fail
		"_pragma": {"journal_mode(WAL)", "synchronous(" + synchronous + ")"},
	}
	return (&url.URL{Scheme: "file", Opaque: url.PathEscape(s.path), RawQuery: q.Encode()}).String()
}

// Update implements [limit.Store].
func (s *Store) Update(ctx context.Context, keys []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	if err := s.ready(ctx, "update", keys); err != nil {
		return err
	}
	tx, err := s.begin(ctx)
	if err != nil {
		return s.fault("update", false, err)
	}
	defer tx.Rollback()
	now := s.opts.Now()
	cells, err := s.load(ctx, tx, now, keys)
	if err != nil {
		return s.fault("update", false, err)
	}
	if err := fn(now, cells); err != nil {
		return err
	}
	changed, err := s.save(ctx, tx, now, cells)
	if err != nil {
		return s.fault("update", false, err)
	}
	if !changed {
		return nil
	}
	if err := tx.Commit(); err != nil {
		return s.fault("update", true, err)
	}
	return nil
}

func (s *Store) load(ctx context.Context, tx *sql.Tx, now algo.Ticks, keys []string) ([]limit.Cell, error) {
	get := tx.StmtContext(ctx, s.get)
	cells := make([]limit.Cell, len(keys))
	for i, key := range keys {
		c := &cells[i]
		c.Key = key
		var log []byte
		var expires algo.Ticks
		err := get.QueryRowContext(ctx, []byte(key)).Scan(&c.State.At, &c.State.A, &c.State.B, &log, &expires)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return nil, err
		case expires <= now:
			c.State = algo.State{}
		default:
			c.State = c.State.WithEntries(string(log))
		}
	}
	return cells, nil
}

func (s *Store) save(ctx context.Context, tx *sql.Tx, now algo.Ticks, cells []limit.Cell) (changed bool, err error) {
	put, drop := tx.StmtContext(ctx, s.put), tx.StmtContext(ctx, s.drop)
	for i := range cells {
		c := &cells[i]
		switch {
		case !c.Dirty:
			continue
		case c.TTL <= 0:
			_, err = drop.ExecContext(ctx, []byte(c.Key))
		default:
			expires := now + min(c.TTL, 1<<63-1-now)
			_, err = put.ExecContext(ctx, []byte(c.Key), c.State.At, c.State.A, c.State.B, []byte(c.State.Entries()), expires)
		}
		if err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

// Delete implements [limit.Store]. The keys are forgotten together.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := s.ready(ctx, "delete", keys); err != nil {
		return err
	}
	tx, err := s.begin(ctx)
	if err != nil {
		return s.fault("delete", false, err)
	}
	defer tx.Rollback()
	drop := tx.StmtContext(ctx, s.drop)
	for _, key := range keys {
		if _, err := drop.ExecContext(ctx, []byte(key)); err != nil {
			return s.fault("delete", false, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return s.fault("delete", true, err)
	}
	return nil
}

// Ping implements [limit.Store].
func (s *Store) Ping(ctx context.Context) error {
	if err := s.ready(ctx, "ping", nil); err != nil {
		return err
	}
	if _, err := s.db.ExecContext(ctx, "SELECT 1 FROM stint_state LIMIT 1"); err != nil {
		return s.fault("ping", false, err)
	}
	return nil
}

// Close implements [limit.Store]. It waits for what is under way.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stopSweeping()
	s.sweeping.Wait()
	return s.db.Close()
}

// pageLen is how many rows are read, or swept, at a time.
const pageLen = 500

// List implements [limit.Lister]. It reads in pages, so it holds nobody up and
// the loop may call the store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[limit.Cell, error] {
	return func(yield func(limit.Cell, error) bool) {
		if err := s.ready(ctx, "list", nil); err != nil {
			yield(limit.Cell{}, err)
			return
		}
		now := s.opts.Now()
		for from := prefix; ; {
			page, err := s.page(ctx, from, prefix)
			if err != nil {
				yield(limit.Cell{}, s.fault("list", false, err))
				return
			}
			for _, r := range page {
				if r.expires > now && !yield(limit.Cell{Key: r.key, State: r.state, TTL: r.expires - now}, nil) {
					return
				}
			}
			if len(page) < pageLen {
				return
			}
			from = page[len(page)-1].key + "\x00" // the next key that there can be
		}
	}
}

type row struct {
	key     string
	state   algo.State
	expires algo.Ticks
}

// page reads the first rows from key on that begin with prefix.
func (s *Store) page(ctx context.Context, from, prefix string) (page []row, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT key, at, a, b, log, expires FROM stint_state WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
		[]byte(from), after(prefix), pageLen)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		var key, log []byte
		if err := rows.Scan(&key, &r.state.At, &r.state.A, &r.state.B, &log, &r.expires); err != nil {
			return nil, err
		}
		r.key, r.state = string(key), r.state.WithEntries(string(log))
		page = append(page, r)
	}
	return page, rows.Err()
}

// after returns what comes after every key that begins with prefix.
func after(prefix string) []byte {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return bytes.Repeat([]byte{0xff}, limit.MaxKeyLen+1)
	}
	b[len(b)-1]++
	return b
}

// ready returns why op cannot be done with keys, if so.
func (s *Store) ready(ctx context.Context, op string, keys []string) error {
	if s.closed.Load() {
		return s.fault(op, false, limit.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return s.fault(op, false, err)
	}
	for _, k := range keys {
		if len(k) == 0 || len(k) > limit.MaxKeyLen {
			return s.fault(op, false, limit.ErrKeyLen)
		}
	}
	return nil
}

// begin begins a transaction that may write. It waits for other processes as
// long as ctx allows.
func (s *Store) begin(ctx context.Context) (tx *sql.Tx, err error) {
	err = s.retry(ctx, func() error {
		tx, err = s.db.BeginTx(ctx, nil)
		return err
	})
	return tx, err
}

// retry calls do again while another process is writing. SQLite's own way of
// waiting could not be called off.
func (s *Store) retry(ctx context.Context, do func() error) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		err := do()
		if e, ok := errors.AsType[*driver.Error](err); !ok || e.Code()&0xff != codes.SQLITE_BUSY {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("another process is writing: %w", ctx.Err())
		}
	}
}

func (s *Store) fault(op string, sent bool, err error) error {
	if s.closed.Load() {
		err = limit.ErrClosed
	}
	return &limit.StoreError{Store: "sqlite", Op: op, Sent: sent, Err: err}
}
