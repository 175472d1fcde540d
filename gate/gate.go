// Package gate is the one chain that every transport calls: who is asking,
// which rules hold for them, and whether their limits admit the request.
//
// A transport translates its requests into the gate's and the gate's outcomes
// into its answers. It decides nothing.
package gate

import (
	"context"
	"net/http"
	"time"

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

// Outcome is the answer to one request.
type Outcome struct {
	// Allowed reports whether the request may go on.
	Allowed bool
	// Status is the HTTP status of a refusal: 429 or 503. 0 if Allowed.
	Status int
	// RetryAfter is how long the caller should wait before it tries again.
	RetryAfter time.Duration
	// Decisions are those of every policy that was asked, in the order of the
	// rules. They are valid until the Outcome is used again.
	Decisions []Decision
	// Err is why nothing could be decided. It is never a denial.
	Err error
	// Waited is how long the request stood in line.
	Waited time.Duration
}

// Decision is what one policy of one rule said.
type Decision struct {
	limit.Decision
	// Rule is the rule that the policy belongs to. If Rule.Shadow is set, a
	// Decision that is not Allowed denies nothing.
	Rule *rules.Rule
	// Window is the policy's window.
	Window time.Duration
	// Key is what was charged.
	Key string
}

// Ask is what a transport wants to know.
type Ask struct {
	// Requests are decided together: all of them are charged, or none.
	Requests []rules.Request
	// Cost is what each rule charges for each request. Defaults to the rule's own cost.
	Cost int64
	// Peek decides without charging and without waiting in line.
	Peek bool
}

// Options configure a Gate. The zero value is ready to use.
type Options struct {
	// Observer, if set, is told every decision.
	Observer Observer
	// Clock ends the overrides that have an end. Defaults to time.Now.
	Clock func() time.Time
}

// Observer is told what a Gate decides. It is called on the way of a request
// and must not block. out is only valid during the call.
type Observer interface {
	Decided(out *Outcome, took time.Duration)
}

// Gate decides by the rules of its present Snapshot. It is safe for
// simultaneous use.
type Gate struct{}

// New returns a Gate that charges l by the rules of s. A nil o is the zero Options.
func New(l *limit.Limiter, s *Snapshot, o *Options) *Gate { panic("being written") }

// Swap makes s what the gate works by. Requests that are being decided end
// under the Snapshot that they began with.
func (g *Gate) Swap(s *Snapshot) { panic("being written") }

// Snapshot returns what the gate works by.
func (g *Gate) Snapshot() *Snapshot { panic("being written") }

// Decide answers ask in out, whose former contents are overwritten.
func (g *Gate) Decide(ctx context.Context, ask Ask, out *Outcome) { panic("being written") }

// HTTP identifies the sender of r and decides r alone.
func (g *Gate) HTTP(r *http.Request, out *Outcome) { panic("being written") }
