package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/store/sqlite"
)

// lock makes the file at path busy, as another process that writes would.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	conn, err := raw(t, path).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
			t.Error(err)
		}
	}
}

// A context ends the wait for another process and for another caller alike.
func TestWaitEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stint.db")
	s, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	unlock := lock(t, path)

	outcomes := make(chan error)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for range 3 { // one has the connection and waits for the file; two wait for the connection
		go func() {
			outcomes <- s.Update(ctx, []string{"key"}, func(algo.Ticks, []limit.Cell) error {
				t.Error("fn is called while another process is writing")
				return nil
			})
		}()
	}
	for range 3 {
		select {
		case err := <-outcomes:
			fault, ok := errors.AsType[*limit.StoreError](err)
			if !ok || fault.Sent || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want a *limit.StoreError, not sent, that is the end of the context", err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("an update goes on waiting after its context has ended")
		}
	}

	go func() { outcomes <- s.Delete(t.Context(), "key") }()
	unlock()
	if err := <-outcomes; err != nil {
		t.Errorf("the file is free again: %v", err)
	}
}

func TestCloseWaitsForWhatIsUnderWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stint.db")
	s, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	inside, goOn, updated := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		updated <- s.Update(t.Context(), []string{"key"}, func(_ algo.Ticks, cells []limit.Cell) error {
			close(inside)
			<-goOn
			cells[0].State.A, cells[0].TTL, cells[0].Dirty = 7, algo.Day, true
			return nil
		})
	}()
	<-inside
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		t.Errorf("close: %v, while an update is under way", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	if err := errors.Join(<-updated, <-closed); err != nil {
		t.Fatal(err)
	}
	var kept int64
	if err := raw(t, path).QueryRow("SELECT a FROM stint_state").Scan(&kept); err != nil || kept != 7 {
		t.Errorf("after close the file holds %d, %v; want the 7 of the last update", kept, err)
	}
}

// Processes come and go while two Stores of this one share the file, too.
func TestStoresOfOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stint.db")
	var limiters [2]*limit.Limiter
	for i := range limiters {
		s, err := sqlite.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		limiters[i] = limit.New(s, nil)
	}
	const rounds = 3
	for round := range int64(rounds) {
		for i, l := range limiters {
			d, err := l.Take(t.Context(), shared(3*rounds), "alice", 1)
			if err != nil {
				t.Fatal(err)
			}
			if want := 3*(rounds-round) - 1 - int64(i); d.Remaining != want {
				t.Errorf("round %d: store %d has %d remaining, want %d", round, i, d.Remaining, want)
			}
		}
		visitor := start(t, path, 3*(round+1))
		if told := visitor.count(t, everything); told != 1 {
			t.Errorf("round %d: another process is admitted %d units, want 1", round, told)
		}
		if err := visitor.Wait(); err != nil {
			t.Error(err)
		}
	}
}
