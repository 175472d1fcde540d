package isolation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/identity"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/middleware"
)

// way is one way to serve the tenants.
type way struct {
	name string
	// alone leaves the noisy tenant out.
	alone bool
	// guarantee is that of Stint's seats; -1 is without Stint.
	guarantee int
	// queue is how many may wait for a worker; -1 is any number.
	queue int
}

// sharedQueue is the length of the one queue that all tenants share, and that of each
// tenant's by default with Stint.
const sharedQueue = 100

// Names of the ways that are no setting of Stint's.
const (
	alone     = "alone"
	unlimited = "none"
	fifo      = "one queue"
)

// ways returns what is compared, the victims alone first.
func (b *bench) ways() []way {
	all := []way{{name: alone, alone: true, guarantee: -1, queue: -1}}
	for _, g := range b.Guarantees {
		all = append(all, way{name: stint(g), guarantee: g, queue: -1})
	}
	return append(all,
		way{name: unlimited, guarantee: -1, queue: -1},
		way{name: fifo, guarantee: -1, queue: sharedQueue})
}

func stint(guarantee int) string { return fmt.Sprintf("stint %d %%", guarantee) }

// Rules returns the rules file by which Stint shares seats in a measurement.
func Rules(seats, guarantee int) string {
	return fmt.Sprintf(`version: 1
identity:
  trusted_proxies: [127.0.0.1/32]
  attributes: {tenant: [{header: {name: X-Tenant}}]}
isolation: {seats: %d, tenant: tenant, guarantee: %d}
`, seats, guarantee)
}

// service is a server with so many workers, which all requests need.
type service struct {
	url    string
	server *http.Server
	ended  chan struct{}
	// stop ends what runs.
	stop    context.Context
	cancel  context.CancelFunc
	handler Handler
	turns   int64
	queue   int
	workers chan struct{}
	waiting atomic.Int64
	close   func()

	mu   sync.Mutex
	busy int
	seen time.Time
	used time.Duration // worker-time up to seen
}

// noisyPath is where the noisy tenant's requests go, for the service to know how long
// they take. Who they are from is a header.
const noisyPath = "/noisy"

// serve starts a service that serves in one way.
func serve(h Handler, w way, turns int64) (*service, error) {
	s := &service{
		handler: h, turns: turns, queue: w.queue, workers: make(chan struct{}, h.Seats),
		ended: make(chan struct{}), seen: time.Now(), close: func() {},
	}
	s.stop, s.cancel = context.WithCancel(context.Background())
	var front http.Handler = s
	if w.guarantee >= 0 {
		limited, err := s.behindStint(h.Seats, w.guarantee)
		if err != nil {
			return nil, err
		}
		front = limited
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + l.Addr().String()
	s.server = &http.Server{Handler: front, ReadHeaderTimeout: 30 * time.Second}
	go func() {
		defer close(s.ended)
		s.server.Serve(l) // until shutdown
	}()
	return s, nil
}

// behindStint returns s behind the middleware, by a rules file.
func (s *service) behindStint(seats, guarantee int) (http.Handler, error) {
	file, problems := config.Parse("bench", []byte(Rules(seats, guarantee)))
	if file == nil {
		return nil, problems[0]
	}
	set, _ := rules.Compile(file.Spec) // Parse has found no problem
	who, found := identity.New(file.Identity, nil)
	if who == nil {
		return nil, found[0]
	}
	store := memory.New(nil)
	limiter := limit.New(store, nil)
	g := gate.New(limiter, &gate.Snapshot{Rules: set, Identity: who}, nil)
	s.close = func() {
		limiter.Close()
		store.Close()
		who.Close()
	}
	return middleware.New(g, nil)(s), nil
}

// shutdown stops what runs and waits until it is over.
func (s *service) shutdown() {
	s.cancel()
	s.server.Close()
	<-s.ended
	for range cap(s.workers) {
		s.workers <- struct{}{}
	}
	s.close()
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := s.take(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.give()
	length := s.handler.length(r.URL.Path == noisyPath)
	if s.handler.Spin {
		spin(int64(length.Seconds() * 1000 * float64(s.turns)))
		return
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stop.Done():
	}
}

// length draws how long a request runs.
func (h Handler) length(noisy bool) time.Duration {
	mean, factor := h.Victims, .9+.2*rand.Float64()
	switch {
	case noisy:
		mean = h.Noisy
	case h.Exponential:
		factor = rand.ExpFloat64()
	}
	return time.Duration(float64(mean) * factor)
}

var errQueueFull = errors.New("the queue is full")

// take waits for a worker, in the order of arrival. Who has gone does not wait on, which
// is kinder than most servers are.
func (s *service) take(ctx context.Context) error {
	select {
	case s.workers <- struct{}{}:
	default:
		if n := s.waiting.Add(1); s.queue >= 0 && n > int64(s.queue) {
			s.waiting.Add(-1)
			return errQueueFull
		}
		defer s.waiting.Add(-1)
		select {
		case s.workers <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.stop.Done():
			return s.stop.Err()
		}
	}
	s.count(1)
	return nil
}

func (s *service) give() {
	s.count(-1)
	<-s.workers
}

// count notes that so many more workers are busy.
func (s *service) count(more int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.used += now.Sub(s.seen) * time.Duration(s.busy)
	s.seen = now
	s.busy += more
	return s.used
}

// workerTime is what the workers have worked so far, together.
func (s *service) workerTime() time.Duration { return s.count(0) }

// spun keeps spin from being left out.
var spun atomic.Uint64

// spin computes for that many turns, however long they take.
func spin(turns int64) {
	x := uint64(turns) | 1
	for range turns {
		for range 100 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
	}
	spun.Store(x)
}

// calibrate returns how many turns a core makes in a millisecond when nothing disturbs
// it: the most of many tries.
func calibrate() int64 {
	const turns = 5000
	best := time.Duration(1<<63 - 1)
	for range 60 {
		began := time.Now()
		spin(turns)
		best = min(best, time.Since(began))
	}
	return max(1, int64(float64(turns)*float64(time.Millisecond)/float64(best)))
}
