package isolate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// ErrExited is returned by Do if the function has ended its goroutine, as
// runtime.Goexit does.
var ErrExited = errors.New("isolate: the function has ended its goroutine")

// Do runs f while it holds seats for r, and returns what f returns. f's ctx carries
// the seat.
//
// If ctx ends, or the Timeout of r's plan passes, counted from now, Do returns that at
// once, and f's ctx ends; f keeps the seat until it returns. For that f runs in a
// goroutine of its own, unless there is neither. A panic of f comes out of Do with its
// stack; if Do has returned, it is logged.
func (i *Isolator) Do(ctx context.Context, r Request, f func(ctx context.Context) error) error {
	i.mu.Lock()
	timeout := i.room.Plan(r.Plan).Timeout
	i.mu.Unlock()
	s, err := i.AcquireFor(ctx, r)
	if err != nil {
		return err
	}
	ctx = s.Context(ctx)
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout-s.Waited())
		defer cancel()
	} else if ctx.Done() == nil {
		defer s.Release()
		return f(ctx)
	}
	run := &run{done: make(chan struct{})}
	go func() {
		run.f(ctx, s, f)
		if run.over() && run.panicked != nil {
			i.log().Error("a panic after the caller was answered", "panic", run.panicked)
		}
	}()
	select {
	case <-run.done:
	case <-ctx.Done():
		if !run.over() {
			return ctx.Err()
		}
	}
	if run.panicked != nil {
		panic(run.panicked)
	}
	return run.err
}

func (i *Isolator) log() *slog.Logger {
	if i.logger == nil {
		return slog.Default()
	}
	return i.logger
}

// run is one function on its way.
type run struct {
	err      error
	panicked any
	done     chan struct{}

	mu    sync.Mutex
	ended bool // f has, or Do
}

// over marks the end, and reports whether there was one before.
func (r *run) over() (before bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.ended = r.ended, true
	return before
}

// f runs f, releases its seat, and keeps what comes out of it, whatever that is.
func (r *run) f(ctx context.Context, s Seat, f func(context.Context) error) {
	r.err = ErrExited
	defer close(r.done)
	defer s.Release()
	defer func() {
		if p := recover(); p != nil {
			r.panicked = fmt.Sprintf("%v\n\n%s", p, debug.Stack())
		}
	}()
	r.err = f(ctx)
}
