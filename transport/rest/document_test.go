package rest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/openapitest"
)

func newContract(t testing.TB) *openapitest.Contract {
	c := openapitest.New(t, Document)
	c.Understood = []int{http.StatusUnprocessableEntity, http.StatusServiceUnavailable}
	return c
}

// Every path, method and status in the document is what a handler answers, and
// no handler answers anything else.
func TestDocumentAndHandlersAgree(t *testing.T) {
	c := newContract(t)
	openapitest.Routes(t, c, new(api).routes())

	a := newTestAPI(t)
	a.contract = c
	a.post(t, one("alex"), "Idempotency-Key", "k") // 200
	a.post(t, one("alex"), "Idempotency-Key", "k") // 200, replayed
	a.post(t, one("kim"), "Idempotency-Key", "k")  // 422
	a.post(t, `{`)                                 // 400
	a.post(t, one("alex"), "Content-Type", "text/plain")
	a.post(t, strings.Repeat(" ", MaxBody+1))
	a.explain(t, `{"descriptor":{"path":"/items/alex"}}`) // 200
	a.explain(t, `{"peer":"here"}`)                       // 400
	a.explain(t, strings.Repeat(" ", MaxBody+1))          // 413
	a.explain(t, `{}`, "Content-Type", "text/plain")      // 415
	a.store.Close()
	a.post(t, one("alex")) // 503
	a.get(t, "/api/v1/openapi.yaml")
	c.Complete(t)
}

// The document's schemas have the fields of the Go types, and no others.
func TestDocumentAndTypesAgree(t *testing.T) {
	newContract(t).Types(t,
		Ask{}, Descriptor{}, Answer{}, Decision{},
		Question{}, Explanation{}, ExplainedRequest{}, Found{}, Missed{}, ExplainedSeat{}, ExplainedRule{}, ExplainedPolicy{}, ExplainedDecision{})
}

// The examples of the document are understood.
func TestDocumentExamples(t *testing.T) {
	a := newTestAPI(t)
	asks := map[string]func(testing.TB, string, ...string) *httptest.ResponseRecorder{
		"/api/v1/decisions": a.post, "/api/v1/explain": a.explain,
	}
	examples := a.contract.Examples(t)
	for _, e := range examples {
		if w := asks[e.Path](t, e.Body); w.Code != http.StatusOK {
			t.Errorf("%s, example %s: %d %s", e.Path, e.Name, w.Code, w.Body)
		}
	}
	if len(examples) < 2 {
		t.Errorf("the document has %d examples", len(examples))
	}
}

// The document's bounds are those of the decoder.
func TestDocumentBounds(t *testing.T) {
	newContract(t).Bounds(t,
		openapitest.Bound{In: []string{"schemas", "Ask", "properties", "descriptors", "maxItems"}, Want: MaxDescriptors},
		openapitest.Bound{In: []string{"schemas", "Ask", "properties", "cost", "maximum"}, Want: MaxCost},
		openapitest.Bound{In: []string{"schemas", "Descriptor", "properties", "attributes", "maxProperties"}, Want: MaxPairs},
		openapitest.Bound{In: []string{"schemas", "Descriptor", "properties", "attributes", "propertyNames", "maxLength"}, Want: MaxName},
		openapitest.Bound{In: []string{"schemas", "Descriptor", "properties", "attributes", "additionalProperties", "maxLength"}, Want: MaxValue})
}
