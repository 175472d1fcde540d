package servertest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Wire is a TCP connection to a server that can be cut and slowed down. What
// connects to Address is passed on to the server.
type Wire struct {
	Address string

	server   string
	listener net.Listener
	mu       sync.Mutex
	cut      bool
	delay    time.Duration
	open     map[net.Conn]struct{}
}

// NewWire returns a Wire to the server at address, until the test ends.
func NewWire(t testing.TB, server string) *Wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{Address: l.Addr().String(), server: server, listener: l, open: make(map[net.Conn]struct{})}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.Cut()
		serving.Wait()
	})
	return w
}

// Cut ends every connection and refuses new ones until Mend.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for c := range w.open {
		c.Close()
	}
}

// Mend ends a Cut.
func (w *Wire) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
}

// Delay makes everything that the server answers arrive later by d.
func (w *Wire) Delay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

func (w *Wire) serve(client net.Conn) {
	defer client.Close()
	if !w.keep(client) {
		return
	}
	defer w.drop(client)
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		return
	}
	defer server.Close()
	if !w.keep(server) {
		return
	}
	defer w.drop(server)
	var both sync.WaitGroup
	both.Go(func() {
		io.Copy(server, client)
		server.Close()
	})
	w.answer(client, server)
	client.Close()
	both.Wait()
}

// answer passes on what the server says.
func (w *Wire) answer(client, server net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		w.mu.Lock()
		delay := w.delay
		w.mu.Unlock()
		time.Sleep(delay)
		if _, failed := client.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (w *Wire) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return false
	}
	w.open[c] = struct{}{}
	return true
}

func (w *Wire) drop(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
}
