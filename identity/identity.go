// Package identity finds out who sends an HTTP request: which user, which
// client, from which address.
//
// A [Spec] names attributes and says where each of them comes from. [New]
// checks all of it, reads the keys, and makes an [Identifier]. What that
// returns for a request knows nothing yet. It extracts an attribute, and
// verifies what the caller claims, when the attribute is asked for and at most
// once; a signed token that no rule depends on costs nothing.
//
// A caller can write anything into a request. So a claim counts only if it is
// proven (a signed token, a known API key), if a trusted proxy made it, or if
// the Spec asks for it by the name of unverified. What fails its proof is
// absent, like what was never sent.
package identity

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/rules"
)

// Options configure an Identifier. The zero value is ready to use.
type Options struct {
	// HTTPClient fetches key sets. Its CheckRedirect is not used. Defaults to
	// http.DefaultClient.
	HTTPClient *http.Client
	// Logger is told when keys cannot be refreshed and, at debug level, why a
	// token was refused. No token, key or secret is ever logged. Defaults to
	// slog.Default().
	Logger *slog.Logger
	// Clock tells whether a token is valid yet, or still. Defaults to time.Now.
	Clock func() time.Time
	// Dir is where relative file names start. Defaults to the working directory.
	Dir string
}

func (o *Options) withDefaults() Options {
	var filled Options
	if o != nil {
		filled = *o
	}
	if filled.HTTPClient == nil {
		filled.HTTPClient = http.DefaultClient
	}
	if filled.Logger == nil {
		filled.Logger = slog.Default()
	}
	if filled.Clock == nil {
		filled.Clock = time.Now
	}
	return filled
}

// Identifier finds out who sends a request, by one Spec. It is safe for
// simultaneous use.
type Identifier struct {
	network    network
	index      map[string]int // attribute to its place in sources
	sources    [][]source
	verifiers  []*verifier
	keySets    []*keySet
	requests   sync.Pool // of *Request
	stop       context.CancelFunc
	refreshing sync.WaitGroup
}

var _ gate.Identifier = (*Identifier)(nil)

// New checks all of spec, reads the files and fetches the key sets that it
// names, and returns an Identifier, and everything that is wrong. The
// Identifier is nil if there is any problem that is not a warning. The paths
// of the problems start at the identity section. Fetching a key set takes 5 s
// at most. A nil o is the zero Options.
//
// The Identifier keeps its key sets fresh until Close.
func New(spec Spec, o *Options) (*Identifier, []rules.Problem) {
	b := builder{Options: o.withDefaults()}
	id := b.build(spec)
	for _, p := range b.problems {
		if !p.Warning {
			return nil, b.problems
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	id.stop = stop
	for _, set := range id.keySets {
		id.refreshing.Go(func() { set.keepFresh(ctx) })
	}
	return id, b.problems
}

// Validate returns what is wrong with spec as far as it can be told without
// opening a file or a connection.
func Validate(spec Spec) []rules.Problem {
	b := builder{Options: (*Options)(nil).withDefaults(), offline: true}
	b.build(spec)
	return b.problems
}

// Close stops the refreshing of key sets and waits for its end. The Identifier
// still works afterwards, with the keys that it has.
func (id *Identifier) Close() {
	id.stop()
	id.refreshing.Wait()
}

// Trusts reports whether peer is one of the trusted proxies.
func (id *Identifier) Trusts(peer netip.Addr) bool { return id.network.trusts(peer) }

// Identify returns r as rules look at it. It is a *[Request], which may be
// released after use.
func (id *Identifier) Identify(r *http.Request) rules.Request {
	q := id.requests.Get().(*Request)
	q.http = r
	return q
}
