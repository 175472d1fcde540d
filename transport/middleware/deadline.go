package middleware

import (
	"bufio"
	"context"
	"errors"
	"log"
	"maps"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"
)

// errTimeUp is the cause by which the context of a handler ends whose time is up.
var errTimeUp = errors.New("the time for this request is over")

// serveUntil runs next until the caller's time is up. Then the caller is answered by
// late, or cut off if the answer had begun, and next goes on by itself, with a context
// that has ended and a ResponseWriter that takes nothing any more. done is called when
// it has really returned.
func serveUntil(until time.Time, w http.ResponseWriter, r *http.Request, next http.Handler, late func(w http.ResponseWriter), done func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(errTimeUp)
	dw := &deadlineWriter{w: w, header: w.Header().Clone()}
	returned := make(chan any, 1) // what next panicked with, or nil
	go func() {
		defer func() {
			value := recover()
			done()
			if dw.end() && value != nil {
				logPanic(r, value) // nobody waits for it
			}
			returned <- value
		}()
		next.ServeHTTP(dw, r.WithContext(ctx))
	}()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case value := <-returned:
		dw.finish(value)
	case <-timer.C:
		if dw.expire(late) { // the connection is the handler's
			cancel(errTimeUp)
			dw.finish(<-returned)
		}
	}
}

// logPanic does what net/http does with a panic.
func logPanic(r *http.Request, value any) {
	if value == http.ErrAbortHandler {
		return
	}
	logger := log.Default()
	if server, _ := r.Context().Value(http.ServerContextKey).(*http.Server); server != nil && server.ErrorLog != nil {
		logger = server.ErrorLog
	}
	logger.Printf("http: panic serving %v, after its caller was answered: %v\n%s", r.RemoteAddr, value, debug.Stack())
}

// deadlineWriter is a ResponseWriter until the time is up.
type deadlineWriter struct {
	w      http.ResponseWriter
	header http.Header // the handler's own: w.Header() may be in use after the time is up

	mu       sync.Mutex
	begun    bool // the header has been sent
	hijacked bool
	over     bool // the time is up
}

// expire ends the time: whoever had no answer yet gets that of late, and others are cut
// off. It reports whether the connection was taken over.
func (d *deadlineWriter) expire(late func(w http.ResponseWriter)) (hijacked bool) {
	if !d.mu.TryLock() {
		// The handler is writing to a caller that may not be reading.
		http.NewResponseController(d.w).SetWriteDeadline(time.Now())
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	switch {
	case d.hijacked:
		return true
	case d.begun:
		d.over = true
		panic(http.ErrAbortHandler)
	}
	d.over = true
	d.w.Header().Set("Connection", "close") // the handler may still read from it
	late(d.w)
	return false
}

// finish does what is left when the handler has returned in time.
func (d *deadlineWriter) finish(value any) {
	if value != nil {
		panic(value)
	}
	h := d.w.Header()
	if !d.begun {
		clear(h)
	}
	maps.Copy(h, d.header) // if it was sent, what it has now may be trailers
}

// end reports whether the time was up when the handler returned.
func (d *deadlineWriter) end() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over
}

// Header implements http.ResponseWriter.
func (d *deadlineWriter) Header() http.Header { return d.header }

// WriteHeader implements http.ResponseWriter.
func (d *deadlineWriter) WriteHeader(status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.begin(status)
	}
}

func (d *deadlineWriter) begin(status int) {
	if d.begun {
		d.w.WriteHeader(status) // says that it is superfluous
		return
	}
	h := d.w.Header()
	clear(h)
	maps.Copy(h, d.header)
	d.begun = status >= 200 || status == http.StatusSwitchingProtocols
	d.w.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (d *deadlineWriter) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return 0, http.ErrHandlerTimeout
	}
	if !d.begun {
		d.begin(http.StatusOK)
	}
	return d.w.Write(p)
}

// control does what an http.ResponseController does, until the time is up.
func (d *deadlineWriter) control(do func(c *http.ResponseController) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return http.ErrHandlerTimeout
	}
	return do(http.NewResponseController(d.w))
}

// FlushError implements what an http.ResponseController asks for.
func (d *deadlineWriter) FlushError() error {
	return d.control(func(c *http.ResponseController) error {
		if !d.begun {
			d.begin(http.StatusOK)
		}
		return c.Flush()
	})
}

// Flush implements http.Flusher.
func (d *deadlineWriter) Flush() { d.FlushError() }

// Hijack implements http.Hijacker.
func (d *deadlineWriter) Hijack() (conn net.Conn, rw *bufio.ReadWriter, err error) {
	err = d.control(func(c *http.ResponseController) (err error) {
		conn, rw, err = c.Hijack()
		d.hijacked = err == nil
		return err
	})
	return conn, rw, err
}

// SetReadDeadline implements what an http.ResponseController asks for.
func (d *deadlineWriter) SetReadDeadline(t time.Time) error {
	return d.control(func(c *http.ResponseController) error { return c.SetReadDeadline(t) })
}

// SetWriteDeadline implements what an http.ResponseController asks for.
func (d *deadlineWriter) SetWriteDeadline(t time.Time) error {
	return d.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(t) })
}

// EnableFullDuplex implements what an http.ResponseController asks for.
func (d *deadlineWriter) EnableFullDuplex() error {
	return d.control(func(c *http.ResponseController) error { return c.EnableFullDuplex() })
}
