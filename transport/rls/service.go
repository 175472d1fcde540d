package rls

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/httpanswer"
)

// service answers encoded requests, however they come in.
type service struct {
	gate    *gate.Gate
	headers httpanswer.Dialect
	logger  *slog.Logger
	observe func(code string, took time.Duration)
	calls   sync.Pool // of *call
}

func newService(g *gate.Gate, o *Options) *service {
	s := &service{gate: g, logger: slog.New(slog.DiscardHandler)}
	if o != nil {
		s.headers, s.observe = o.Headers, o.Observe
		if o.Logger != nil {
			s.logger = o.Logger
		}
	}
	return s
}

// call is one request on its way, and the room that it takes.
type call struct {
	message     string
	domain      string
	hits        uint64 // 0 is each rule's own cost
	descriptors []descriptor
	entries     []entry
	requests    []rules.Request
	costs       []int64
	out         gate.Outcome
	statuses    []said
	header      http.Header
	encoded     []byte
}

// maxKept is the most descriptors of a call whose room is used again.
const maxKept = 128

// ask is what a request asks the gate.
func (c *call) ask() gate.Ask {
	ask := gate.Ask{Requests: c.requests, Costs: c.costs}
	for i := range c.descriptors {
		d := &c.descriptors[i]
		ask.Requests = append(ask.Requests, d)
		ask.Costs = append(ask.Costs, d.cost(c.hits))
		if d.limit.given {
			if ask.Instead == nil {
				ask.Instead = make([][]rules.Match, len(c.descriptors))
			}
			ask.Instead[i] = d.instead()
		}
	}
	c.requests, c.costs = ask.Requests, ask.Costs
	return ask
}

// forget lets go of what c refers to.
func (c *call) forget() {
	clear(c.descriptors)
	clear(c.entries)
	clear(c.requests)
	clear(c.statuses)
	*c = call{
		descriptors: c.descriptors[:0], entries: c.entries[:0], requests: c.requests[:0], costs: c.costs[:0],
		out: c.out, statuses: c.statuses[:0], header: c.header, encoded: c.encoded,
	}
}

// answer answers message, a RateLimitRequest, with what use makes of a
// RateLimitResponse, which is only valid during the call. The error has a gRPC
// status: InvalidArgument says what is wrong with the request, Unavailable that
// nothing could be decided.
func (s *service) answer(ctx context.Context, message string, use func(response []byte) error) (err error) {
	if s.observe != nil {
		began := time.Now()
		defer func() { s.observe(status.Code(err).String(), time.Since(began)) }()
	}
	defer func() {
		if p := recover(); p != nil {
			s.logger.Error("a request made the rate limit service panic", "panic", p, "stack", string(debug.Stack()))
			err = status.Error(codes.Internal, "internal error")
		}
	}()
	c, _ := s.calls.Get().(*call)
	if c == nil {
		c = &call{header: make(http.Header)}
	}
	c.message = message
	if err := c.decode(); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s.gate.Decide(ctx, c.ask(), &c.out)
	if c.out.Err != nil {
		return undecided(ctx, c.out.Err)
	}
	if err := use(c.encode(s.headers)); err != nil {
		return err
	}
	if len(c.descriptors) <= maxKept {
		c.forget()
		s.calls.Put(c)
	}
	return nil
}

// undecided is the status of a request that was understood and could not be
// decided. What the store said stays in the process.
func undecided(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unavailable, "the limits of this request could not be checked")
}
