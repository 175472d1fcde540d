// Package ruleadmin lets administrators see and change the rules of a table over
// HTTP, under /admin/rules, and see and reset what callers have spent, under
// /admin/keys. Whether rules can stand beside each other is for package rules to say.
package ruleadmin

import (
	"context"
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
	"sync"
	"time"

	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/access"
	"github.com/stint-dev/stint/transport/httpanswer"
	"github.com/stint-dev/stint/transport/strictjson"
)

// Document is the OpenAPI 3.1 description of the API.
//
//go:embed openapi.yaml
var Document []byte

// Table is the table of rules, and what is made of it.
type Table interface {
	// View returns what is made of the table as it is now.
	View(ctx context.Context) (*rules.TableView, error)
	// Try returns what would be made of other rows.
	Try(rows []rules.Row) *rules.TableView
}

// Options configure the API. The zero value is ready to use.
type Options struct {
	// Table has the rules, and Source is where they are changed. If they are nil,
	// there are only keys.
	Table  Table
	Source rules.Source
	// Admin lets in callers, and says who they are. Nil lets in whoever reaches the
	// API, so it must be set wherever that is not known to be the operator.
	Admin *access.Guard
	// Logger is told of every change and of every one that was refused. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// Bounds of what is sent.
const (
	MaxBody = rules.MaxRowRule // bytes
	MaxPage = 1000             // rules or changes of one answer
	MaxRows = 10_000           // of a table

	// maxReason is how much of why a change was refused is logged.
	maxReason = 512 // bytes

	// maxDrained is how much more is read of a body that is too large.
	maxDrained = 4 << 20 // bytes

	// longest is how long a request may take.
	longest = 10 * time.Second
)

// New returns the API over the rules that g works by. A nil o is the zero Options. It
// answers /admin/rules, /admin/history and /admin/keys and what is below them, and all
// else with 404. The handler is safe for simultaneous use.
func New(g *gate.Gate, o *Options) http.Handler {
	a := &api{gate: g}
	if o != nil {
		a.Options = *o
	}
	if a.Logger == nil {
		a.Logger = slog.Default()
	}
	a.routes = a.newRoutes()
	return a
}

type api struct {
	Options
	gate   *gate.Gate
	routes routes
	// changing is held by whoever looks what a change would do, and then makes it.
	changing sync.Mutex
}

// request is one from an administrator.
type request struct {
	*http.Request
	who  string
	body []byte
	// rule is the part of the path that names a rule, "" if there is none.
	rule string
}

// answer is what is sent: a status and JSON, or something else.
type answer struct {
	status int
	json   any
	yaml   string // in place of json
	etag   string
	// location is where what was made is, "" if nothing was.
	location string
}

// handler answers a request, or says why not.
type handler func(ctx context.Context, r *request) (answer, error)

// routes maps path and method to what answers them. {rule} stands for the id or the
// name of a rule.
type routes map[string]map[string]handler

const (
	rulesPath    = "/admin/rules"
	documentPath = "/admin/rules/openapi.yaml"
)

func (a *api) newRoutes() routes {
	return routes{
		rulesPath:                      {http.MethodGet: a.list, http.MethodPost: a.create},
		documentPath:                   {http.MethodGet: document},
		rulesPath + "/{rule}":          {http.MethodGet: a.get, http.MethodPut: a.replace, http.MethodDelete: a.remove},
		rulesPath + "/{rule}/enable":   {http.MethodPost: a.enable},
		rulesPath + "/{rule}/disable":  {http.MethodPost: a.disable},
		rulesPath + "/{rule}/shadow":   {http.MethodPost: a.shadow},
		rulesPath + "/{rule}/enforce":  {http.MethodPost: a.enforce},
		rulesPath + "/{rule}/history":  {http.MethodGet: a.history},
		rulesPath + "/{rule}/rollback": {http.MethodPost: a.rollback},
		"/admin/history":               {http.MethodGet: a.history},
		"/admin/keys":                  {http.MethodGet: a.keys, http.MethodDelete: a.resetKeys},
	}
}

// find returns what is allowed at a path, and the rule that it names.
func (rs routes) find(path string) (methods map[string]handler, rule string) {
	if methods, ok := rs[path]; ok && !strings.Contains(path, "{") {
		return methods, ""
	}
	rest, ok := strings.CutPrefix(path, rulesPath+"/")
	rule, verb, deeper := strings.Cut(rest, "/")
	if !ok || rule == "" {
		return nil, ""
	}
	if deeper {
		return rs[rulesPath+"/{rule}/"+verb], rule
	}
	return rs[rulesPath+"/{rule}"], rule
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, refused := a.Admin.Admit(w, r)
	if refused != nil {
		problem(refused.Status, "%s", refused.Detail).write(w, r)
		return
	}
	answer, err := a.serve(w, r, who)
	if err != nil {
		p := a.problem(r, err)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			a.Logger.WarnContext(r.Context(), "admin change refused", "who", who, "peer", r.RemoteAddr, "method", r.Method,
				"path", strictjson.Shorten(r.URL.EscapedPath()), "status", p.Status, "reason", p.Detail[:min(len(p.Detail), maxReason)])
		}
		p.write(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if answer.etag != "" {
		h.Set("ETag", answer.etag)
	}
	if answer.location != "" {
		h.Set("Location", answer.location)
	}
	switch {
	case answer.yaml != "":
		h.Set("Content-Type", "application/yaml")
		io.WriteString(w, answer.yaml)
	case answer.json == nil:
		w.WriteHeader(answer.status)
	default:
		body, err := json.Marshal(answer.json)
		if err != nil { // it is made of what always encodes
			panic(err)
		}
		h.Set("Content-Type", "application/json")
		w.WriteHeader(answer.status)
		w.Write(append(body, '\n'))
	}
}

func (a *api) serve(w http.ResponseWriter, r *http.Request, who string) (answer, error) {
	methods, rule := a.routes.find(r.URL.EscapedPath())
	if methods == nil {
		return answer{}, problem(http.StatusNotFound, "There is no such path. GET %s describes those there are.", documentPath)
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // the server leaves the body out
	}
	serve, allowed := methods[method]
	if !allowed {
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		return answer{}, problem(http.StatusMethodNotAllowed, "%s is not allowed here.", strictjson.Shorten(r.Method))
	}
	own := r.URL.Path == "/admin/keys" || r.URL.Path == documentPath
	if a.Table == nil && !own {
		return answer{}, problem(http.StatusNotFound, "This Stint takes its rules from its file alone. Name a table in rules_from.store of its configuration.")
	}
	asked := &request{Request: r, who: who, rule: rule}
	if method != http.MethodGet && method != http.MethodDelete {
		var err error
		if asked.body, err = bodyOf(w, r); err != nil {
			return answer{}, err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	return serve(ctx, asked)
}

func document(context.Context, *request) (answer, error) {
	return answer{yaml: string(Document)}, nil
}

// bodyOf returns the body of r. It reads no more than MaxBody bytes, and one.
func bodyOf(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := func() ([]byte, error) {
		io.CopyN(io.Discard, r.Body, maxDrained) // so that whoever still writes comes to read the answer
		w.Header().Set("Connection", "close")
		return nil, problem(http.StatusRequestEntityTooLarge, "body: more than %d bytes; a rule has no more, put callers that are alike into a plan", MaxBody)
	}
	if r.ContentLength > MaxBody {
		return tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		return tooLarge()
	}
	if err != nil {
		return nil, problem(http.StatusBadRequest, "body: could not be read to its end")
	}
	return body, nil
}

// mediaType returns the type of a body, "" if it is none.
func mediaType(r *http.Request) string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// Problem is the body of an answer that is not what the caller wanted: problem
// details of RFC 9457, with all that is wrong with a rule.
type Problem struct {
	httpanswer.Problem
	Errors []FieldError `json:"errors,omitempty"`
	// retryAfter says that the same request may succeed in a second.
	retryAfter bool
}

// FieldError is one thing that is wrong with a rule.
type FieldError struct {
	// Rule is the other rule that could not stand beside this one; left out if it is
	// this one that is wrong.
	Rule string `json:"rule,omitempty"`
	// Field leads to it, such as limits[0].window; left out if it is all of the rule.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	// Warning: the rule works as it is, and probably not as it was meant.
	Warning bool `json:"warning,omitempty"`
}

func problem(status int, format string, args ...any) *Problem {
	return &Problem{Problem: httpanswer.Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}}
}

func (p *Problem) Error() string { return p.Detail }

// maxInstance is the longest path that is repeated to the caller.
const maxInstance = 1024

// write answers r with p, which no cache may keep.
func (p *Problem) write(w http.ResponseWriter, r *http.Request) {
	if path := r.URL.EscapedPath(); len(path) <= maxInstance {
		p.Instance = path
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	h := w.Header()
	if p.retryAfter {
		h.Set("Retry-After", "1")
	}
	h.Set("Content-Type", httpanswer.ContentType)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// problem says what is wrong if err is what a handler returns.
func (a *api) problem(r *http.Request, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*strictjson.Error](err); ok {
		return problem(http.StatusBadRequest, "%s", e.Error())
	}
	if e, ok := errors.AsType[*rules.RowError](err); ok {
		return invalid([]FieldError{{Field: field(e.Field), Message: e.Message}})
	}
	switch {
	case errors.Is(err, rules.ErrNoRow):
		return problem(http.StatusNotFound, "There is no such rule any more: somebody has deleted it meanwhile.")
	case errors.Is(err, rules.ErrNameTaken), errors.Is(err, rules.ErrPathTaken):
		name := map[bool]string{true: "name", false: "path"}[errors.Is(err, rules.ErrNameTaken)]
		return conflict([]FieldError{{Field: name, Message: "another rule of the table has it already"}})
	}
	a.Logger.ErrorContext(r.Context(), "an admin request failed", "method", r.Method, "path", strictjson.Shorten(r.URL.EscapedPath()), "error", err)
	done := "Nothing was done"
	if e, ok := errors.AsType[*rules.SourceError](err); ok && e.Sent {
		done = "It may have been done; look before you try again"
	}
	if _, ok := errors.AsType[*limit.StoreError](err); ok {
		done = "What is asked twice about a key does no harm; try again"
	}
	p := problem(http.StatusServiceUnavailable, "The store did not answer. %s.", done)
	p.retryAfter = true
	return p
}

// invalid is a rule that can never be used.
func invalid(found []FieldError) *Problem {
	return wrong(http.StatusUnprocessableEntity, "The rule cannot be used. Nothing was changed.", found)
}

// conflict is a rule that others which are there leave no room for.
func conflict(found []FieldError) *Problem {
	return wrong(http.StatusConflict, "The rules could not stand beside each other. Nothing was changed.", found)
}

func wrong(status int, text string, found []FieldError) *Problem {
	first := found[0].Message
	if found[0].Field != "" {
		first = found[0].Field + ": " + first
	}
	if found[0].Rule != "" {
		first = "rule " + found[0].Rule + ": " + first
	}
	more := ""
	if n := len(found); n > 1 {
		more = fmt.Sprintf(" (and %d more)", n-1)
	}
	p := problem(status, "%s %s%s", text, first, more)
	p.Errors = found
	return p
}

// field returns how callers of this API know the field of a row.
func field(name string) string {
	if name == "period_ms" {
		return "period"
	}
	return name
}
