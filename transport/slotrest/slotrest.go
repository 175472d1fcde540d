// Package slotrest answers programs that ask over HTTP when a thing may happen:
// they book, cancel and move slots under /api/v1/slots, and set the limits under
// /admin/rate-limit. It translates; what happens is decided by package slots.
//
// Its callers are trusted: whoever reaches it can book and cancel every slot. Who
// may change limits is for an [access.Guard] to say, see [Options].
package slotrest

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/transport/access"
	"github.com/stint-dev/stint/transport/strictjson"
)

// Document is the OpenAPI 3.1 description of the API.
//
//go:embed openapi.yaml
var Document []byte

// Options configure the API. The zero value is ready to use.
type Options struct {
	// Admin lets in the callers of the paths under /admin/. Nil lets in whoever reaches
	// them, so it must be set wherever that is not known to be the operator.
	Admin *access.Guard
	// Delivers says that somebody delivers what is due. If nobody does, a config that
	// asks for it is refused.
	Delivers bool
	// Logger is told why a request could not be answered, which callers are not.
	// Defaults to slog.Default().
	Logger *slog.Logger
}

// New returns the API over s, and l, which must be the Ledger that s books in: what
// only looks goes to l. A nil o is the zero Options. It answers /api/v1/slots, what is
// below that, and what is below /admin/rate-limit/, and all else with 404. The handler
// is safe for simultaneous use.
func New(s *slots.Scheduler, l slots.Ledger, o *Options) http.Handler {
	a := &api{slots: s, ledger: l, logger: slog.Default()}
	if o != nil {
		a.admin = o.Admin
		if o.Logger != nil {
			a.logger = o.Logger
		}
		a.delivers = o.Delivers
	}
	a.routes = a.newRoutes()
	return a
}

type api struct {
	slots  *slots.Scheduler
	ledger slots.Ledger
	logger *slog.Logger
	admin  *access.Guard
	routes routes
	// delivers says that somebody does.
	delivers bool
	warned   atomic.Int64 // the second of the last fault of the store that was logged
}

// routes maps path and method to what answers them.
type routes map[string]map[string]http.HandlerFunc

// Where events are, by their ids.
const (
	eventPath   = "/api/v1/slots/{eventId}"
	eventPrefix = "/api/v1/slots/"
	adminPrefix = "/admin/rate-limit/"
)

func (a *api) newRoutes() routes {
	return routes{
		"/api/v1/slots":                    {http.MethodPost: a.answerTo(MaxBody, a.book), http.MethodGet: a.answer(a.list)},
		"/api/v1/slots/batch":              {http.MethodPost: a.answerTo(MaxBatchBody, a.bookBatch)},
		"/api/v1/slots/quote":              {http.MethodPost: a.answerTo(MaxBody, a.quote)},
		"/api/v1/slots/timeline":           {http.MethodGet: a.answer(a.timeline)},
		"/api/v1/slots/dead":               {http.MethodGet: a.answer(a.dead)},
		"/api/v1/slots/dead/redrive":       {http.MethodPost: a.answerTo(MaxBatchBody, a.redrive)},
		"/api/v1/slots/openapi.yaml":       {http.MethodGet: document},
		eventPath:                          {http.MethodGet: a.answer(a.event), http.MethodDelete: a.answer(a.cancel), http.MethodPatch: a.answerTo(MaxBody, a.reschedule)},
		"/admin/rate-limit/config":         {http.MethodGet: a.answer(a.config), http.MethodPost: a.answerTo(MaxBody, a.configure)},
		"/admin/rate-limit/config/history": {http.MethodGet: a.answer(a.history)},
		"/admin/rate-limit/configs":        {http.MethodGet: a.answer(a.configs)},
		"/admin/rate-limit/pause":          {http.MethodPost: a.answerTo(MaxBody, a.pause)},
		"/admin/rate-limit/cache/flush":    {http.MethodPost: a.answer(a.flushCache)},
	}
}

// find returns what is allowed at a path, as it was sent. A path that stands for more
// than one thing, such as /api/v1/slots/batch, is an event's id for all methods that
// it has no meaning of its own for.
func (rs routes) find(path string) map[string]http.HandlerFunc {
	own := rs[path]
	if !strings.HasPrefix(path, eventPrefix) {
		return own
	}
	methods := maps.Clone(rs[eventPath])
	maps.Copy(methods, own)
	return methods
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if strings.HasPrefix(path, adminPrefix) {
		if _, refused := a.admin.Admit(w, r); refused != nil {
			problem(refused.Status, refused.Detail).write(w, r)
			return
		}
	}
	methods := a.routes.find(path)
	if methods == nil {
		problem(http.StatusNotFound, "There is no such path. GET /api/v1/slots/openapi.yaml describes those there are.").write(w, r)
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // the server leaves the body out
	}
	serve, allowed := methods[method]
	if !allowed {
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		problem(http.StatusMethodNotAllowed, r.Method+" is not allowed here.").write(w, r)
		return
	}
	serve(w, r)
}

func document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(Document)
}

// answer serves what f returns: a status and what is to be sent as JSON, or why not.
func (a *api) answer(f func(r *http.Request) (status int, answer any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, answer, err := f(r)
		if err != nil {
			a.problem(r, err).write(w, r)
			return
		}
		body, err := json.Marshal(answer)
		if err != nil { // strings and numbers always encode
			panic(err)
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		w.Write(append(body, '\n'))
	}
}

// answerTo is answer for requests with a body of at most so many bytes.
func (a *api) answerTo(most int64, f func(r *http.Request, body []byte) (status int, answer any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.answer(func(r *http.Request) (int, any, error) {
			body, err := bodyOf(w, r, most)
			if err != nil {
				return 0, nil, err
			}
			return f(r, body)
		})(w, r)
	}
}

// Bounds of what is sent.
const (
	MaxBody      = 64 << 10 // bytes of the body of a request that is not a batch
	MaxBatchBody = 8 << 20  // bytes of the body of a batch
	MaxBatch     = 10_000   // events of a batch
	MaxPage      = 1000     // events or configs of one answer
	MaxSteps     = 10_000   // of a timeline
)

// bodyOf returns the body of r. It reads no more than most bytes, and one.
func bodyOf(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if got := r.Header.Get("Content-Type"); !isJSON(got) {
		return nil, problem(http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type: %q is not supported; send application/json", strictjson.Shorten(got)))
	}
	tooLarge := func() ([]byte, error) {
		w.Header().Set("Connection", "close") // the server does not read the rest either
		return nil, problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("body: more than %d bytes; send no more here", most))
	}
	if r.ContentLength > most {
		return tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		return tooLarge()
	}
	if err != nil {
		return nil, problem(http.StatusBadRequest, "body: could not be read to its end")
	}
	return body, nil
}

func isJSON(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}
