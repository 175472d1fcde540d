package strategies

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// counter stands between a client and a PostgreSQL server and counts the
// statements that the client has executed, whatever library it uses: the
// messages Query and Execute of the protocol (PostgreSQL manual, "Message
// Formats"). The connection must not be encrypted.
type counter struct {
	// URL leads to the server, through the counter.
	URL        string
	statements atomic.Int64

	listener        net.Listener
	network, server string
	mu              sync.Mutex
	open            map[net.Conn]struct{}
	closed          bool
	serving         sync.WaitGroup
}

func newCounter(server string) (*counter, error) {
	config, err := pgconn.ParseConfig(server)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &counter{listener: l, open: make(map[net.Conn]struct{})}
	c.network, c.server = pgconn.NetworkAddress(config.Host, config.Port)
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	q.Del("host")
	q.Del("port")
	u.RawQuery = q.Encode()
	c.URL = u.String()
	c.serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			c.serving.Go(func() { c.serve(client) })
		}
	})
	return c, nil
}

func (c *counter) close() {
	c.listener.Close()
	c.mu.Lock()
	c.closed = true
	for conn := range c.open {
		conn.Close()
	}
	c.mu.Unlock()
	c.serving.Wait()
}

// keep has close end conn. It reports false, and ends it, after close.
func (c *counter) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return false
	}
	c.open[conn] = struct{}{}
	return true
}

func (c *counter) end(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
	conn.Close()
}

func (c *counter) serve(client net.Conn) {
	if !c.keep(client) {
		return
	}
	defer c.end(client)
	server, err := net.Dial(c.network, c.server)
	if err != nil || !c.keep(server) {
		return
	}
	defer c.end(server)
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(client, server)
		client.Close()
	})
	c.count(server, client)
	server.Close()
	back.Wait()
}

// count passes on what a client says until it ends.
func (c *counter) count(server io.Writer, client io.Reader) {
	from := bufio.NewReader(client)
	for first := true; ; first = false {
		head := 5 // type and length
		if first {
			head = 4 // of the startup message: the length alone
		}
		b, err := from.Peek(head)
		if err != nil {
			return
		}
		if !first && (b[0] == 'Q' || b[0] == 'E') {
			c.statements.Add(1)
		}
		size := int64(binary.BigEndian.Uint32(b[head-4:])) + int64(head) - 4
		if _, err := io.CopyN(server, from, size); err != nil {
			return
		}
	}
}
