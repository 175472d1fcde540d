package limittest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
)

func notifier(t *testing.T, h Harness) {
	if _, ok := h.open(t).(limit.Notifier); !ok {
		t.Skip("the store is no limit.Notifier")
	}
	if !t.Run("by everyone", func(t *testing.T) { heardByEveryone(t, h) }) {
		return // the rest would wait in vain
	}
	t.Run("until the context ends", func(t *testing.T) { listensUntilTheEnd(t, h) })
	t.Run("until the store is closed", func(t *testing.T) {
		s := h.Open(t)
		l := listen(t.Context(), t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		storeError(t, "listen during close", l.end(t), limit.ErrClosed)
	})
	t.Run("until the connection is lost", func(t *testing.T) { listensUntilCut(t, h) })
}

// ear listens to a store.
type ear struct {
	cancel context.CancelFunc
	err    chan error // of Listen

	mu    sync.Mutex
	heard []string
}

// listen begins to listen to s, and returns when it does.
func listen(ctx context.Context, t testing.TB, s limit.Store) *ear {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	e := &ear{cancel: cancel, err: make(chan error, 1)}
	ready, busy := make(chan struct{}), new(sync.Mutex)
	go func() {
		e.err <- s.(limit.Notifier).Listen(ctx, func(message string) {
			if !busy.TryLock() {
				t.Error("a message is heard while another one is")
				return
			}
			defer busy.Unlock()
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.heard = append(e.heard, message); len(e.heard) == 1 {
				close(ready)
			}
		})
	}()
	select {
	case <-ready:
	case err := <-e.err:
		t.Fatalf("listen ends before it listens: %v", err)
	case <-time.After(patience):
		t.Fatalf("listen does not say that it listens in %v", patience)
	}
	return e
}

// messages waits until n messages have been heard after the first, which is "".
func (e *ear) messages(t testing.TB, n int) []string {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		heard := slices.Clone(e.heard)
		e.mu.Unlock()
		if heard[0] != "" {
			t.Errorf("the first that is heard is %q, want \"\"", heard[0])
		}
		if len(heard) > n {
			return heard[1:]
		}
		if time.Since(began) > patience {
			t.Fatalf("in %v only %d of %d messages are heard", patience, len(heard)-1, n)
		}
	}
}

// end waits until Listen returns, and returns its error.
func (e *ear) end(t testing.TB) error {
	t.Helper()
	select {
	case err := <-e.err:
		return err
	case <-time.After(patience):
		t.Fatalf("listen goes on for %v after it should have ended", patience)
		return nil
	}
}

// heardByEveryone has two clients send and two listen, and one of them twice.
func heardByEveryone(t *testing.T, h Harness) {
	const n = 50
	clients := h.clients(t)
	ears := []*ear{listen(t.Context(), t, clients[0]), listen(t.Context(), t, clients[1]), listen(t.Context(), t, clients[1])}
	var wg sync.WaitGroup
	sent := make([][]string, len(clients))
	for from, s := range clients {
		for i := range n {
			sent[from] = append(sent[from], fmt.Sprintf("message %d of client %d", i, from))
		}
		sent[from] = append(sent[from], fmt.Sprint(from), strings.Repeat(fmt.Sprint(from), 64), fmt.Sprint(from, ` '"\%$*;--{}`), fmt.Sprint(from, "~ !"))
		wg.Go(func() {
			for _, message := range sent[from] {
				if err := s.(limit.Notifier).Notify(timeout(t), message); err != nil {
					t.Errorf("notify %q: %v", message, err)
				}
			}
		})
	}
	wg.Wait()
	for i, e := range ears {
		heard := e.messages(t, len(sent[0])+len(sent[1]))
		for from, want := range sent {
			got := slices.DeleteFunc(slices.Clone(heard), func(m string) bool { return !slices.Contains(want, m) })
			if !slices.Equal(got, want) {
				t.Errorf("listener %d hears of client %d\n%q, want\n%q", i, from, got, want)
			}
		}
		if len(heard) != len(sent[0])+len(sent[1]) {
			t.Errorf("listener %d hears %q", i, heard)
		}
	}
}

// listensUntilTheEnd listens again and again: one who has stopped must not hold
// anything up, or keep a connection.
func listensUntilTheEnd(t *testing.T, h Harness) {
	s := h.open(t)
	for i := range 20 {
		e := listen(t.Context(), t, s)
		message := fmt.Sprint("message ", i)
		if err := s.(limit.Notifier).Notify(timeout(t), message); err != nil {
			t.Fatal(err)
		}
		if heard := e.messages(t, 1); !slices.Equal(heard, []string{message}) {
			t.Errorf("heard %q, want %q: what was sent before is not heard", heard, message)
		}
		e.cancel()
		if err := e.end(t); !errors.Is(err, context.Canceled) {
			t.Errorf("listen ends with %v, want one that is %q", err, context.Canceled)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.(limit.Notifier).Listen(ended, func(string) {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("listen by a context that had ended: %v, want an error that is %q", err, context.Canceled)
	}
}

func listensUntilCut(t *testing.T, h Harness) {
	if h.Break == nil {
		t.Skip("there is no connection to cut")
	}
	s := h.open(t)
	e := listen(t.Context(), t, s)
	repair := h.Break(t)
	storeError(t, "listen by a connection that was cut", e.end(t), nil)
	repair()
	persist(t, "a ping after the repair", s.Ping)
	persist(t, "listening after the repair", func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		listens := false
		err := s.(limit.Notifier).Listen(ctx, func(string) {
			listens = true
			cancel()
		})
		if listens {
			return nil
		}
		return err
	})
}
