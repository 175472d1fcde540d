package slotrest

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/openapitest"
	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/transport/access"
)

func newContract(t testing.TB) *openapitest.Contract {
	c := openapitest.New(t, Document)
	c.Never, c.Slashes = []string{"violated-policies"}, true
	return c
}

// Every path, method and status in the document is what a handler answers, and
// no handler answers anything else.
func TestDocumentAndHandlersAgree(t *testing.T) {
	c := newContract(t)
	openapitest.Routes(t, c, new(api).newRoutes())

	// All that can go wrong goes wrong with everything.
	a, fail := newFaultyAPI(t)
	a.contract = c
	token := newTestAPIWith(t, func(l slots.Ledger) slots.Ledger { return l }, &Options{Admin: access.New(&access.Options{Tokens: []access.Token{{Name: "reader", Hash: sha256.Sum256([]byte("token"))}}})})
	token.contract = c
	flush := struct{ method, path, body string }{"POST", "/admin/rate-limit/cache/flush", ""}
	all := append(slices.Clone(everything), flush)
	for _, e := range all {
		if e.method+e.path != "POST/admin/rate-limit/config" { // which makes the config
			a.do(t, e.method, e.path, e.body) // 404
		}
		question := "?"
		if strings.Contains(e.path, "?") {
			question = "&"
		}
		a.do(t, e.method, e.path+question+"no=such", e.body) // 400
		if e.body != "" {
			a.do(t, e.method, e.path, strings.Repeat(" ", MaxBatchBody+1))       // 413
			a.do(t, e.method, e.path, e.body, "Content-Type", "application/xml") // 415
		}
		if strings.HasPrefix(e.path, "/admin/") {
			token.do(t, e.method, e.path, e.body) // 401
			if e.method != "GET" {
				token.do(t, e.method, e.path, e.body, "Authorization", "Bearer token") // 403
			}
		}
	}
	a.configure(t, "default", 1, "PT4S")
	for _, e := range all {
		a.do(t, e.method, e.path, e.body) // 200, and 410
	}
	a.book(t, "b")
	a.do(t, "PATCH", "/api/v1/slots/b", `{"requestedTime":"2025-06-01T13:00:00Z"}`)
	a.do(t, "POST", "/api/v1/slots", request("a")) // 410
	a.do(t, "POST", "/api/v1/slots?onConflict=error", request("b"))
	a.do(t, "GET", "/api/v1/slots/openapi.yaml", "")
	a.do(t, "POST", "/admin/rate-limit/config", `{"maxPerWindow":1,"windowSize":"PT4S","delivery":{"url":"https://example.com"}}`) // 422
	for _, err := range []error{errors.New("a fault"), &slots.LedgerError{Store: "s", Op: "op", Err: errors.New("gone")}} {
		fail(err)
		for _, e := range everything {
			a.do(t, e.method, e.path, e.body) // 500, 503
		}
	}
	c.Complete(t)
}

// The document's schemas have the fields of the Go types, and no others.
func TestDocumentAndTypesAgree(t *testing.T) {
	newContract(t).Types(t,
		Problem{}, Slot{}, Booking{}, Batch{}, BookedItem{}, RefusedItem{}, Quote{}, Quoted{}, Page{}, Timeline{}, Step{},
		Config{}, Calendar{}, Blackout{}, History{}, Configs{}, Flushed{}, Delivery{}, DeadLetters{}, DeadLetter{}, Redriven{})
}

// The examples of the document are understood.
func TestDocumentExamples(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 100, "PT4S")
	a.book(t, "pay-0")
	examples := a.contract.Examples(t)
	// What pauses comes last.
	for _, e := range slices.Backward(examples) {
		if w := a.do(t, e.Method, strings.Replace(e.Path, "{eventId}", "pay-0", 1), e.Body); w.Code >= 300 {
			t.Errorf("%s %s, example %s: %d %s", e.Method, e.Path, e.Name, w.Code, w.Body)
		}
	}
	if len(examples) < 8 {
		t.Errorf("the document has %d examples", len(examples))
	}
}

// The document's bounds are those of the code.
func TestDocumentBounds(t *testing.T) {
	newContract(t).Bounds(t,
		openapitest.Bound{In: []string{"schemas", "EventID", "maxLength"}, Want: slots.MaxIDLen},
		openapitest.Bound{In: []string{"schemas", "ConfigName", "maxLength"}, Want: slots.MaxNameLen},
		openapitest.Bound{In: []string{"schemas", "BatchRequest", "properties", "events", "maxItems"}, Want: MaxBatch},
		openapitest.Bound{In: []string{"schemas", "QuoteRequest", "properties", "count", "maximum"}, Want: slots.MaxQuote},
		openapitest.Bound{In: []string{"schemas", "Setting", "properties", "maxPerWindow", "maximum"}, Want: plan.MaxMax},
		openapitest.Bound{In: []string{"schemas", "Setting", "properties", "seed", "maximum"}, Want: maxSeed},
		openapitest.Bound{In: []string{"schemas", "Timeline", "properties", "steps", "maxItems"}, Want: MaxSteps},
		openapitest.Bound{In: []string{"schemas", "Page", "properties", "slots", "maxItems"}, Want: MaxPage},
		openapitest.Bound{In: []string{"schemas", "DeadLetters", "properties", "dead", "maxItems"}, Want: MaxPage},
		openapitest.Bound{In: []string{"schemas", "Redrive", "properties", "eventIds", "maxItems"}, Want: MaxPage},
		openapitest.Bound{In: []string{"schemas", "Delivery", "properties", "url", "maxLength"}, Want: slots.MaxURLLen},
		openapitest.Bound{In: []string{"schemas", "DeadLetter", "properties", "error", "maxLength"}, Want: slots.MaxErrorLen},
		openapitest.Bound{In: []string{"parameters", "limit", "schema", "maximum"}, Want: MaxPage})
}
