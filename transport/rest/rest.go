// Package rest answers programs that ask over HTTP whether something may
// happen now, and charge for it: POST /api/v1/decisions.
//
// Its callers are trusted. The attributes that they give are believed, so a
// server that lets anybody reach this API lets anybody spend anybody's quota.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

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
	gate    *gate.Gate
	headers httpanswer.Dialect
	replays *replays
	rooms   sync.Pool // of *room
}

// room is what a request takes while it is answered.
type room struct {
	out  gate.Outcome
	body bytes.Buffer
	text []byte // of the answer
}

// maxKept is the most bytes of a body or an answer whose room is used again.
const maxKept = 16 << 10

func (a *api) enter() *room {
	if m, ok := a.rooms.Get().(*room); ok {
		return m
	}
	return new(room)
}

func (a *api) leave(m *room) {
	if m.body.Cap() <= maxKept && cap(m.text) <= maxKept {
		m.body.Reset()
		a.rooms.Put(m)
	}
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
	m := a.enter()
	defer a.leave(m)
	key, err := read(w, r, &m.body)
	if err != nil {
		fail(w, r, err)
		return
	}
	ask, err := decodeAsk(m.body.Bytes())
	if err != nil {
		fail(w, r, err)
		return
	}
	h := w.Header()
	if key == "" {
		m.text, err = a.decide(r.Context(), &m.out, ask, h, m.text[:0])
	} else {
		m.text, err = a.once(r.Context(), key, m, ask, h)
	}
	if err != nil {
		fail(w, r, err)
		return
	}
	h["Content-Type"] = contentType
	h["Cache-Control"] = cacheControl
	w.Write(m.text)
}

// What these fields say in every answer.
var contentType, cacheControl = []string{"application/json"}, []string{"no-store"}

// once is decide for a request with an idempotency key.
func (a *api) once(ctx context.Context, key string, m *room, ask Ask, h http.Header) ([]byte, error) {
	got, replayed, err := a.replays.do(ctx, key, sha256.Sum256(m.body.Bytes()), func() (answer, error) {
		header := make(http.Header, 2)
		// Who loses the connection and asks again is to find the answer.
		text, err := a.decide(context.WithoutCancel(ctx), &m.out, ask, header, nil)
		return answer{header, text}, err
	})
	if err != nil {
		return nil, err
	}
	maps.Copy(h, got.header)
	if replayed {
		h.Set("Idempotency-Replayed", "true")
	}
	return append(m.text[:0], got.body...), nil
}

// read reads the body of r, and returns its idempotency key if it has one.
func read(w http.ResponseWriter, r *http.Request, body *bytes.Buffer) (key string, err error) {
	if got := r.Header.Get("Content-Type"); !isJSON(got) {
		return "", &requestError{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type: %q is not supported; send application/json", strictjson.Shorten(got))}
	}
	if keys := r.Header.Values("Idempotency-Key"); len(keys) > 0 {
		key = keys[0]
		if len(keys) > 1 || !isKey(key) {
			return "", &requestError{http.StatusBadRequest, fmt.Sprintf("Idempotency-Key: one of 1 to %d visible ASCII characters is allowed", maxKey)}
		}
	}
	_, err = body.ReadFrom(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return "", &requestError{http.StatusRequestEntityTooLarge, fmt.Sprintf("body: more than %d bytes; ask in several requests", MaxBody)}
	}
	if err != nil {
		return "", &requestError{http.StatusBadRequest, "body: could not be read to its end"}
	}
	return key, nil
}

func isJSON(contentType string) bool {
	if contentType == "application/json" { // as most write it
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}

func isKey(s string) bool {
	return s != "" && len(s) <= maxKey && strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}

// decide asks the gate, sets the rate limit fields in h and appends the answer to b.
// The error is the gate's: nothing could be decided.
func (a *api) decide(ctx context.Context, out *gate.Outcome, ask Ask, h http.Header, b []byte) ([]byte, error) {
	requests := make([]rules.Request, len(ask.Descriptors))
	for i := range ask.Descriptors {
		requests[i] = descriptor{&ask.Descriptors[i]}
	}
	a.gate.Decide(ctx, gate.Ask{Requests: requests, Cost: ask.Cost, Peek: ask.Peek}, out)
	if out.Err != nil {
		return b, out.Err
	}
	httpanswer.SetHeaders(h, a.headers, out)
	return appendAnswer(b, out), nil
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
