package peers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/stint-dev/stint/transport/rest"
)

// load is a number of callers, each of which calls again once it is answered.
type load struct {
	name, about string
	subjects    []subject
	// descriptors are those of a call, each of them a decision.
	descriptors int
	// connections with so many streams each. HTTP has one.
	connections, streams int
	// message encodes a call for those clients.
	message func(clients []string) []byte
	// dial opens a connection over which callers send messages. An answer that allows
	// begins like allows.
	dial   func(t *testing.T, address, allows string) (connection, error)
	allows string
}

// connection sends one message, and reports whether it was allowed.
type connection struct {
	send  func(message []byte) (allowed bool, err error)
	close func() error
}

var loads = []load{
	{"RLS, 4x32", "Envoy's service, 1 descriptor in a call, 4 connections with 32 streams each", rlsSubjects, 1, 4, 32, rlsMessage, dialGRPC, "\x08\x01"},
	{"RLS, 32x1", "the same on 32 connections, one call at a time on each", rlsSubjects, 1, 32, 1, rlsMessage, dialGRPC, "\x08\x01"},
	{"RLS, 100", "100 descriptors in a call, 8 connections, one call at a time on each", rlsSubjects, 100, 8, 1, rlsMessage, dialGRPC, "\x08\x01"},
	{"REST", "POST /api/v1/decisions, 1 descriptor, 32 connections", restSubjects, 1, 32, 1, restMessage, dialHTTP, `{"allowed":true,`},
	{"proxy", "GET of 6 bytes through a proxy, 32 connections", proxySubjects, 1, 32, 1, proxyMessage, dialHTTP, "hello\n"},
}

const (
	manyClients = 100_000
	manyCalls   = 1 << 16 // different messages, sent in turn, over 100 descriptors fewer
)

// messages returns encoded calls by clients, of which few call often.
func (l *load) messages() [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 1, manyClients-1)
	all := make([][]byte, manyCalls/l.descriptors)
	for i := range all {
		clients := make([]string, 0, l.descriptors)
		for len(clients) < l.descriptors {
			if c := fmt.Sprintf("client-%06d", zipf.Uint64()); !slices.Contains(clients, c) {
				clients = append(clients, c)
			}
		}
		all[i] = l.message(clients)
	}
	return all
}

// generator is a load that is connected.
type generator struct {
	callers     []func(n int) (allowed bool, err error)
	connections []connection
}

func (l *load) connect(t *testing.T, address string) *generator {
	t.Helper()
	messages := l.messages()
	g := new(generator)
	for range l.connections {
		c, err := l.dial(t, address, l.allows)
		if err != nil {
			t.Fatal(err)
		}
		g.connections = append(g.connections, c)
		for range l.streams {
			from := len(g.callers) * 7919
			g.callers = append(g.callers, func(n int) (bool, error) { return c.send(messages[(from+n)%len(messages)]) })
		}
	}
	return g
}

func (g *generator) close() {
	for _, c := range g.connections {
		c.close()
	}
}

// done is what a run has done.
type done struct {
	took   []time.Duration // of each call, sorted
	denied int
	lasted time.Duration
}

// run has all callers call for span.
func (g *generator) run(span time.Duration) (all done, first error) {
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		began = time.Now()
	)
	for _, call := range g.callers {
		group.Go(func() {
			var own []time.Duration
			denied := 0
			var failed error
			for at := began; failed == nil && at.Sub(began) < span; {
				allowed, err := call(len(own))
				now := time.Now()
				own = append(own, now.Sub(at))
				at, failed = now, err
				if !allowed {
					denied++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.took = append(all.took, own...)
			all.denied += denied
			if first == nil {
				first = failed
			}
		})
	}
	group.Wait()
	all.lasted = time.Since(began)
	slices.Sort(all.took)
	return all, first
}

// percentile requires that there was a call.
func (d *done) percentile(p float64) time.Duration {
	return d.took[min(len(d.took)-1, int(p*float64(len(d.took))))]
}

func rlsMessage(clients []string) []byte {
	r := &pb.RateLimitRequest{Domain: "bench"}
	for _, client := range clients {
		r.Descriptors = append(r.Descriptors, &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "client", Value: client}}})
	}
	return encoded(proto.Marshal(r))
}

// dialGRPC sends messages as they are and looks at the beginning of the answer only,
// so that the generator leaves the machine to the server.
func dialGRPC(t *testing.T, address, allows string) (connection, error) {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return connection{}, err
	}
	send := func(message []byte) (bool, error) {
		var answer mem.BufferSlice
		if err := c.Invoke(t.Context(), pb.RateLimitService_ShouldRateLimit_FullMethodName, message, &answer, grpc.ForceCodecV2(asIs{})); err != nil {
			return false, err
		}
		defer answer.Free()
		// The first field of every answer is the overall code.
		head := answer.Materialize()
		if len(head) < 2 || head[0] != allows[0] {
			return false, fmt.Errorf("an answer of %d bytes begins with no code", len(head))
		}
		return head[1] == allows[1], nil
	}
	return connection{send, c.Close}, nil
}

// asIs is a codec for messages that are encoded already.
type asIs struct{}

func (asIs) Name() string { return "proto" }

func (asIs) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (asIs) Unmarshal(data mem.BufferSlice, v any) error {
	data.Ref()
	*v.(*mem.BufferSlice) = data
	return nil
}

func restMessage(clients []string) []byte {
	var ask rest.Ask
	for _, client := range clients {
		ask.Descriptors = append(ask.Descriptors, rest.Descriptor{Attributes: map[string]string{"client": client}})
	}
	body := encoded(json.Marshal(ask))
	return fmt.Appendf(nil, "POST /api/v1/decisions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func proxyMessage(clients []string) []byte {
	return fmt.Appendf(nil, "GET /items HTTP/1.1\r\nHost: bench\r\nX-Client: %s\r\n\r\n", clients[0])
}

func encoded(message []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return message
}

// dialHTTP sends messages as they are.
func dialHTTP(t *testing.T, address, allows string) (connection, error) {
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return connection{}, err
	}
	answers := bufio.NewReader(c)
	var body bytes.Buffer
	send := func(message []byte) (bool, error) {
		if _, err := c.Write(message); err != nil {
			return false, err
		}
		r, err := http.ReadResponse(answers, nil)
		if err != nil {
			return false, err
		}
		body.Reset()
		_, err = io.Copy(&body, r.Body)
		switch {
		case err != nil:
			return false, err
		case r.StatusCode == http.StatusTooManyRequests || bytes.HasPrefix(body.Bytes(), []byte(`{"allowed":false,`)):
			return false, nil
		case r.StatusCode != http.StatusOK || !bytes.HasPrefix(body.Bytes(), []byte(allows)):
			return false, fmt.Errorf("answered %s: %q", r.Status, &body)
		}
		return true, nil
	}
	return connection{send, c.Close}, nil
}
