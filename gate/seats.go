package gate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stint-dev/stint/isolate"
	"github.com/stint-dev/stint/rules"
)

// Pass is what a request has that may run. The zero Pass holds nothing.
type Pass struct {
	seat isolate.Seat
	// Until is when the caller's time is up, if there is such a time. The request
	// may run on, and keeps its seat as long as it does.
	Until time.Time
}

// Held reports whether there is something to release.
func (p Pass) Held() bool { return p.seat != isolate.Seat{} }

// Release gives back what the request holds. It is called once, when the request has
// really ended.
func (p Pass) Release() { p.seat.Release() }

// Context returns a copy of ctx that carries the seat, so that a request that serves
// this one takes no other.
func (p Pass) Context(ctx context.Context) context.Context { return p.seat.Context(ctx) }

// Enter is HTTP for a transport in whose process r then runs: it needs a seat first, if
// there are any. If out is Allowed, the Pass has to be released.
//
// A request that is refused a seat is charged nothing, and one that its limits do not
// admit holds no seat.
func (g *Gate) Enter(r *http.Request, out *Outcome) (p Pass) {
	began := g.begin()
	s := g.state.Load()
	request := s.Identity.Identify(r)
	out.reset()
	admitted := true
	if s.Rules.Isolation() != nil {
		p, admitted = s.sit(r.Context(), request, out)
	}
	if admitted {
		out.match(s.Rules, request, g.clock)
	}
	if done, ok := request.(interface{ Release() }); ok {
		done.Release()
	}
	if admitted {
		g.decide(r.Context(), Ask{}, out)
	}
	if !out.Allowed && p.Held() {
		p.Release()
		p = Pass{}
	}
	g.observe(out, began)
	return p
}

// sit gets the seat that r needs, if it does.
func (s *state) sit(ctx context.Context, r rules.Request, out *Outcome) (p Pass, admitted bool) {
	isolation := s.Rules.Isolation()
	claim, needed := isolation.Claim(r)
	if !needed {
		return Pass{}, true
	}
	arrived := time.Now()
	seat, err := s.seats.AcquireFor(ctx, isolate.Request{
		Tenant: claim.Tenant, Plan: claim.Plan, Cost: claim.Cost, Priority: claim.Priority, Timeout: claim.Timeout,
	})
	if err != nil {
		out.SeatWaited = time.Since(arrived)
		if refused, ok := errors.AsType[*isolate.Rejection](err); ok {
			out.Refused, out.Status, out.RetryAfter = refused, isolation.Status, refused.RetryAfter
			out.AtOnce, out.Queue = isolation.Room(claim)
		} else {
			out.Err, out.Status, out.RetryAfter = err, http.StatusServiceUnavailable, unavailable
		}
		return Pass{}, false
	}
	p.seat = seat
	if claim.Timeout > 0 {
		p.Until = arrived.Add(claim.Timeout)
	}
	out.SeatWaited = seat.Waited()
	return p, true
}
