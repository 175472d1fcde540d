// Package gate is the one chain that every transport calls: who is asking,
// which rules hold for them, and whether their limits admit the request.
//
// A transport translates its requests into the gate's and the gate's outcomes
// into its answers. It decides nothing.
package gate

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
)

// Identifier finds out who sends an HTTP request. The Request it returns may
// verify what the caller claims lazily, when an attribute is asked for.
type Identifier interface {
	Identify(r *http.Request) rules.Request
}

// Snapshot is what a gate works by. It does not change; a new configuration is
// a new Snapshot.
type Snapshot struct {
	Rules    *rules.Set
	Identity Identifier
}

// Ask is what a transport wants to know.
type Ask struct {
	// Requests are decided together: all of them are charged, or none.
	Requests []rules.Request
	// Cost is what each rule charges for each request. Defaults to the rule's own cost.
	Cost int64
	// Costs, if given, are what every rule charges for each of Requests, in place
	// of Cost: 0 is the rule's own cost, and Look charges nothing and asks whether
	// that much is left. A cost that a policy can never admit is then a denial, and
	// not an error as it is with Cost.
	Costs []int64
	// Instead, if given, is what applies to each of Requests in place of the rules;
	// the rules hold where it is nil.
	Instead [][]rules.Match
	// Peek decides without charging and without waiting in line.
	Peek bool
}

// Look in place of a cost charges nothing.
const Look = -1

// Options configure a Gate. The zero value is ready to use.
type Options struct {
	// Observer, if set, is told every decision.
	Observer Observer
	// Clock ends the overrides that have an end. Defaults to time.Now.
	Clock func() time.Time
	// Seats, if set, is told who gets and gives back seats.
	Seats isolate.Observer
	// Leaser, if set, is where this process and others share the seats of shared
	// plans. Without one each process has all of them.
	Leaser isolate.Leaser
	// Logger is told when the Leaser begins to fail, and ends to. Defaults to
	// slog.Default.
	Logger *slog.Logger
}

// Observer is told what a Gate decides. It is called on the way of a request
// and must not block. out is only valid during the call.
type Observer interface {
	Decided(out *Outcome, took time.Duration)
}

// Gate decides by the rules of its present Snapshot. It is safe for
// simultaneous use.
type Gate struct {
	limiter  *limit.Limiter
	state    atomic.Pointer[state]
	queue    limit.Queue
	clock    func() time.Time
	observer Observer

	swapping sync.Mutex
	sitting  isolate.Options
}

// state is what a Gate works by, and the seats that its rules ask for, if they do.
type state struct {
	*Snapshot
	seats *isolate.Isolator
}

// New returns a Gate that charges l by the rules of s. A nil o is the zero Options.
func New(l *limit.Limiter, s *Snapshot, o *Options) *Gate {
	g := &Gate{limiter: l, clock: time.Now}
	if o != nil {
		g.observer = o.Observer
		if o.Clock != nil {
			g.clock = o.Clock
		}
		g.sitting = isolate.Options{Observer: o.Seats, Leaser: o.Leaser, Logger: o.Logger}
	}
	g.state.Store(&state{})
	g.Swap(s)
	return g
}

// Swap makes s what the gate works by. Requests that are being decided end
// under the Snapshot that they began with, and keep the seats that they have.
func (g *Gate) Swap(s *Snapshot) {
	g.swapping.Lock()
	defer g.swapping.Unlock()
	next := &state{Snapshot: s, seats: g.state.Load().seats}
	if isolation := s.Rules.Isolation(); isolation != nil {
		var err error
		if next.seats == nil {
			next.seats, err = isolate.New(isolation.Config, &g.sitting)
		} else {
			err = next.seats.Reconfigure(isolation.Config)
		}
		if err != nil { // whoever compiled the rules has checked it
			panic(err)
		}
	}
	g.state.Store(next)
}

// Snapshot returns what the gate works by.
func (g *Gate) Snapshot() *Snapshot { return g.state.Load().Snapshot }

// Seats returns the seats of those who Enter; nil if the rules have never asked for any.
func (g *Gate) Seats() *isolate.Isolator { return g.state.Load().seats }

// HTTP identifies the sender of r and decides r alone.
func (g *Gate) HTTP(r *http.Request, out *Outcome) {
	began := g.begin()
	s := g.state.Load()
	request := s.Identity.Identify(r)
	out.reset()
	out.match(s.Rules, request, g.clock)
	out.replace()
	if done, ok := request.(interface{ Release() }); ok {
		done.Release()
	}
	g.decide(r.Context(), Ask{}, out)
	g.observe(out, began)
}

// Decide answers ask in out, whose former contents are overwritten.
func (g *Gate) Decide(ctx context.Context, ask Ask, out *Outcome) {
	began := g.begin()
	s := g.state.Load()
	out.reset()
	for i, request := range ask.Requests {
		if ask.Instead != nil && ask.Instead[i] != nil {
			out.matches = append(out.matches, ask.Instead[i]...)
			out.ends = append(out.ends, len(out.matches))
			continue
		}
		out.match(s.Rules, request, g.clock)
	}
	out.replace()
	g.decide(ctx, ask, out)
	g.observe(out, began)
}

// begin returns the time if somebody is going to ask how long a decision took.
func (g *Gate) begin() (t time.Time) {
	if g.observer != nil {
		t = time.Now()
	}
	return t
}

func (g *Gate) observe(out *Outcome, began time.Time) {
	if g.observer != nil {
		g.observer.Decided(out, time.Since(began)-out.Waited-out.SeatWaited)
	}
}
