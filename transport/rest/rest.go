// Package rest answers programs that ask over HTTP whether something may
// happen now, and charge for it: POST /api/v1/decisions.
//
// Its callers are trusted. The attributes that they give are believed, so a
// server that lets anybody reach this API lets anybody spend anybody's quota.
package rest

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/strictjson"
)

// Document is the OpenAPI 3.1 description of the API.
//
//go:embed openapi.yaml
var Document []byte

// Options configure the API. The zero value is ready to use.
type Options struct {
	// Headers is the dialect of the rate limit fields. Defaults to Draft10.
	Headers httpanswer.Dialect
	// MaxAnswers is how many answers are remembered for requests that carry an
	// Idempotency-Key; the oldest is forgotten first. Defaults to 10000.
	MaxAnswers int
}

// New returns the API over g. A nil o is the zero Options. It answers what is
// not in Document with 404. The handler is safe for simultaneous use.
//
// Answers to requests with an Idempotency-Key are remembered in this handler
// alone, for 10 minutes.
func New(g *gate.Gate, o *Options) http.Handler {
	var opts Options
	if o != nil {
		opts = *o
	}
	a := &api{gate: g, headers: opts.Headers, replays: newReplays(cmp.Or(opts.MaxAnswers, 10_000))}
	return a.routes()
}

type api struct {
	gate     *gate.Gate
	headers  httpanswer.Dialect
	replays  *replays
	outcomes sync.Pool // of *gate.Outcome
}

// routes maps path and method to what answers them.
type routes map[string]map[string]http.HandlerFunc

func (a *api) routes() routes {
	return routes{
		"/api/v1/decisions":    {http.MethodPost: a.decisions},
		"/api/v1/explain":      {http.MethodPost: a.explain},
		"/api/v1/openapi.yaml": {http.MethodGet: document},
	}
}

func (rs routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	methods, known := rs[r.URL.Path]
	if !known {
		httpanswer.Problem{Status: http.StatusNotFound, Detail: "There is no such path. GET /api/v1/openapi.yaml describes those there are."}.Write(w, r)
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // the server leaves the body out
	}
	serve, allowed := methods[method]
	if !allowed {
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		httpanswer.Problem{Status: http.StatusMethodNotAllowed, Detail: r.Method + " is not allowed here."}.Write(w, r)
		return
	}
	serve(w, r)
}

func document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(Document)
}

// answer is a decision as it is sent, and sent again.
type answer struct {
	header http.Header
	body   []byte
}

func (a *api) decisions(w http.ResponseWriter, r *http.Request) {
	body, key, err := read(w, r)
	if err != nil {
		fail(w, r, err)
		return
	}
	ask, err := decodeAsk(body)
	if err != nil {
		fail(w, r, err)
		return
	}
	var got answer
	replayed := false
	if key == "" {
		got, err = a.decide(r.Context(), ask)
	} else {
		got, replayed, err = a.replays.do(r.Context(), key, sha256.Sum256(body), func() (answer, error) {
			// Who loses the connection and asks again is to find the answer.
			return a.decide(context.WithoutCancel(r.Context()), ask)
		})
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	h := w.Header()
	maps.Copy(h, got.header)
	if replayed {
		h.Set("Idempotency-Replayed", "true")
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.Write(got.body)
}

// read returns the body of r and its idempotency key, if it has one.
func read(w http.ResponseWriter, r *http.Request) (body []byte, key string, err error) {
	if got := r.Header.Get("Content-Type"); !isJSON(got) {
		return nil, "", &requestError{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type: %q is not supported; send application/json", strictjson.Shorten(got))}
	}
	if keys := r.Header.Values("Idempotency-Key"); len(keys) > 0 {
		key = keys[0]
		if len(keys) > 1 || !isKey(key) {
			return nil, "", &requestError{http.StatusBadRequest, fmt.Sprintf("Idempotency-Key: one of 1 to %d visible ASCII characters is allowed", maxKey)}
		}
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, "", &requestError{http.StatusRequestEntityTooLarge, fmt.Sprintf("body: more than %d bytes; ask in several requests", MaxBody)}
	}
	if err != nil {
		return nil, "", &requestError{http.StatusBadRequest, "body: could not be read to its end"}
	}
	return body, key, nil
}

func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}

func isKey(s string) bool {
	return s != "" && len(s) <= maxKey && strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}

// decide asks the gate. The error is the gate's: nothing could be decided.
func (a *api) decide(ctx context.Context, ask Ask) (answer, error) {
	out, _ := a.outcomes.Get().(*gate.Outcome)
	if out == nil {
		out = new(gate.Outcome)
	}
	defer a.outcomes.Put(out)

	requests := make([]rules.Request, len(ask.Descriptors))
	for i := range ask.Descriptors {
		requests[i] = descriptor{&ask.Descriptors[i]}
	}
	a.gate.Decide(ctx, gate.Ask{Requests: requests, Cost: ask.Cost, Peek: ask.Peek}, out)
	if out.Err != nil {
		return answer{}, out.Err
	}
	body, err := json.Marshal(newAnswer(out))
	if err != nil { // numbers and strings always encode
		panic(err)
	}
	header := make(http.Header, 2)
	httpanswer.SetHeaders(header, a.headers, out)
	return answer{header, append(body, '\n')}, nil
}

func newAnswer(out *gate.Outcome) Answer {
	a := Answer{
		Allowed:      out.Allowed,
		Status:       out.Status,
		RetryAfterMS: milliseconds(out.RetryAfter),
		Decisions:    make([]Decision, len(out.Decisions)),
	}
	for i, d := range out.Decisions {
		a.Decisions[i] = Decision{
			Descriptor:   d.Request,
			Rule:         d.Rule.Name,
			Policy:       d.Policy,
			Allowed:      d.Allowed,
			Shadow:       d.Rule.Shadow,
			Limit:        d.Limit,
			Remaining:    d.Remaining,
			RetryAfterMS: milliseconds(d.RetryAfter),
			ResetAfterMS: milliseconds(d.ResetAfter),
			Degraded:     d.Degraded,
		}
	}
	return a
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	n := d.Milliseconds()
	if d%time.Millisecond > 0 {
		n++
	}
	return n
}

// requestError is a request that cannot be understood, and the status to say so.
type requestError struct {
	status int
	detail string
}

func (e *requestError) Error() string { return e.detail }

// fail answers a request about which nothing was decided.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	problem := func(status int, detail string) {
		httpanswer.Problem{Status: status, Detail: detail}.Write(w, r)
	}
	if e, ok := errors.AsType[*requestError](err); ok {
		problem(e.status, e.detail)
	} else if e, ok := errors.AsType[*strictjson.Error](err); ok {
		problem(http.StatusBadRequest, e.Error())
	} else if errors.Is(err, limit.ErrCost) {
		problem(http.StatusBadRequest, "cost: "+strings.TrimPrefix(err.Error(), "limit: "))
	} else if errors.Is(err, errKeyReused) {
		problem(http.StatusUnprocessableEntity, "Idempotency-Key: "+err.Error()+"; send a new key with a new request")
	} else {
		httpanswer.Write(w, r, httpanswer.None, &gate.Outcome{Status: http.StatusServiceUnavailable, Err: err})
	}
}
