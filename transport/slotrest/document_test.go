package slotrest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/transport/access"
)

// contract is the OpenAPI document, as tests hold it against the handlers. It is safe
// for simultaneous use.
type contract struct {
	root map[string]any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	// seen are the exchanges that were checked: "POST /path 200".
	seen map[string]bool
}

func newContract(t testing.TB) *contract {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal(Document, &tree); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := &contract{root: root.(map[string]any), compiler: jsonschema.NewCompiler(), seen: make(map[string]bool)}
	if err := c.compiler.AddResource("openapi.json", root); err != nil {
		t.Fatal(err)
	}
	return c
}

// at returns what is at a path in the document, or nil, and the path itself without
// references.
func (c *contract) at(path ...string) (map[string]any, []string) {
	node, where := c.root, []string(nil)
	for _, name := range path {
		node, _ = node[name].(map[string]any)
		where = append(where, name)
		if ref, ok := node["$ref"].(string); ok {
			node, where = c.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return node, where
}

func (c *contract) schema(t testing.TB, path ...string) *jsonschema.Schema {
	t.Helper()
	path = slices.Clone(path)
	for i, name := range path {
		path[i] = strings.ReplaceAll(name, "/", "~1")
	}
	s, err := c.compiler.Compile("openapi.json#/" + strings.Join(path, "/"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// valid returns why text is not what schema says.
func valid(schema *jsonschema.Schema, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// longAnswer is from how many bytes on a text is like a shorter one, only slower to check.
const longAnswer = 1 << 18

// template returns how the document names a path.
func (c *contract) template(method, path string) string {
	if operation, _ := c.at("paths", path, method); operation == nil && strings.HasPrefix(path, eventPrefix) {
		return eventPath
	}
	return path
}

// check holds one exchange against the document.
func (c *contract) check(t testing.TB, r *http.Request, asked string, w *httptest.ResponseRecorder) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	method, status := strings.ToLower(r.Method), strconv.Itoa(w.Code)
	path := c.template(method, r.URL.EscapedPath())
	answer, where := c.at("paths", path, method, "responses", status)
	if answer == nil {
		t.Errorf("%s %s answers %s, which the document does not have: %s", r.Method, path, status, w.Body)
		return
	}
	c.seen[r.Method+" "+path+" "+status] = true

	contentType := w.Header().Get("Content-Type")
	body := append(slices.Clone(where), "content", contentType, "schema")
	if schema, _ := c.at(body...); schema == nil {
		t.Errorf("%s: Content-Type %s is not in the document", status, contentType)
	} else if strings.HasSuffix(contentType, "json") && w.Body.Len() < longAnswer {
		if err := valid(c.schema(t, body...), w.Body.Bytes()); err != nil {
			t.Errorf("%s %s %s: the answer %.500s is not what the document says: %v", r.Method, path, status, w.Body, err)
		}
	}
	headers, _ := c.at(append(slices.Clone(where), "headers")...)
	for name := range w.Header() {
		if name == "Content-Type" {
			continue
		}
		declared := slices.IndexFunc(slices.Collect(maps.Keys(headers)), func(n string) bool { return strings.EqualFold(n, name) })
		if declared < 0 {
			t.Errorf("%s %s %s: header %s is not in the document", r.Method, path, status, name)
		}
	}
	operation, _ := c.at("paths", path, method)
	if operation["requestBody"] != nil && w.Code < 300 && len(asked) < longAnswer {
		if err := valid(c.schema(t, "paths", path, method, "requestBody", "content", "application/json", "schema"), []byte(asked)); err != nil {
			t.Errorf("%s: the request %.500s was understood, and is not what the document says: %v", status, asked, err)
		}
	}
	declared := make(map[string]bool)
	for _, level := range []map[string]any{operation, first2(c.at("paths", path))} {
		list, _ := level["parameters"].([]any)
		for _, p := range list {
			parameter, _ := c.at(strings.Split(strings.TrimPrefix(p.(map[string]any)["$ref"].(string), "#/"), "/")...)
			if parameter["in"] == "query" {
				declared[parameter["name"].(string)] = true
			}
		}
	}
	for name := range r.URL.Query() {
		if !declared[name] && w.Code < 400 {
			t.Errorf("%s %s: parameter %s was understood, and is not in the document", r.Method, path, name)
		}
	}
}

func first2[A, B any](a A, _ B) A { return a }

// Every path, method and status in the document is what a handler answers, and
// no handler answers anything else.
func TestDocumentAndHandlersAgree(t *testing.T) {
	c := newContract(t)
	inDocument := make(map[string][]string)
	paths, _ := c.at("paths")
	for path := range paths {
		for method := range first2(c.at("paths", path)) {
			if method != "parameters" {
				inDocument[path] = append(inDocument[path], strings.ToUpper(method))
			}
		}
		slices.Sort(inDocument[path])
	}
	inHandlers := make(map[string][]string)
	for path, methods := range new(api).newRoutes() {
		inHandlers[path] = slices.Sorted(maps.Keys(methods))
	}
	if diff := cmp.Diff(inDocument, inHandlers); diff != "" {
		t.Errorf("paths and methods (-document +handlers):\n%s", diff)
	}

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

	var missing []string
	for path := range paths {
		for method := range first2(c.at("paths", path)) {
			for status := range first2(c.at("paths", path, method, "responses")) {
				if exchange := strings.ToUpper(method) + " " + path + " " + status; !c.seen[exchange] {
					missing = append(missing, exchange)
				}
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("the document has what no handler has answered: %q", missing)
	}
}

// The document's schemas have the fields of the Go types, and no others.
func TestDocumentAndTypesAgree(t *testing.T) {
	c := newContract(t)
	for _, value := range []any{
		Problem{}, Slot{}, Booking{}, Batch{}, BookedItem{}, RefusedItem{}, Quote{}, Quoted{}, Page{}, Timeline{}, Step{},
		Config{}, Calendar{}, Blackout{}, History{}, Configs{}, Flushed{}, Delivery{}, DeadLetters{}, DeadLetter{}, Redriven{},
	} {
		typ := reflect.TypeOf(value)
		var fields, always []string
		for _, f := range reflect.VisibleFields(typ) {
			name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "violated-policies" { // which this API never has
				continue
			}
			fields = append(fields, name)
			if option != "omitempty" {
				always = append(always, name)
			}
		}
		schema, _ := c.at("components", "schemas", typ.Name())
		properties, _ := c.at("components", "schemas", typ.Name(), "properties")
		if diff := cmp.Diff(sorted(slices.Collect(maps.Keys(properties))), sorted(fields)); diff != "" {
			t.Errorf("%s: fields (-document +type):\n%s", typ.Name(), diff)
		}
		var required []string
		names, _ := schema["required"].([]any)
		for _, name := range names {
			required = append(required, name.(string))
		}
		if diff := cmp.Diff(sorted(required), sorted(always)); diff != "" {
			t.Errorf("%s: required (-document +type):\n%s", typ.Name(), diff)
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s: the document allows further fields", typ.Name())
		}
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// The examples of the document are understood.
func TestDocumentExamples(t *testing.T) {
	a := newTestAPI(t)
	a.configure(t, "default", 100, "PT4S")
	a.book(t, "pay-0")
	c := a.contract
	n := 0
	paths, _ := c.at("paths")
	// What pauses comes last.
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(paths))) {
		for method := range first2(c.at("paths", path)) {
			examples, _ := c.at("paths", path, method, "requestBody", "content", "application/json", "examples")
			for name := range examples {
				n++
				body, err := json.Marshal(examples[name].(map[string]any)["value"])
				if err != nil {
					t.Fatal(err)
				}
				if w := a.do(t, strings.ToUpper(method), strings.Replace(path, "{eventId}", "pay-0", 1), string(body)); w.Code >= 300 {
					t.Errorf("%s %s, example %s: %d %s", method, path, name, w.Code, w.Body)
				}
			}
		}
	}
	if n < 8 {
		t.Errorf("the document has %d examples", n)
	}
}

// The document's bounds are those of the code.
func TestDocumentBounds(t *testing.T) {
	c := newContract(t)
	for _, test := range []struct {
		path []string
		want int64
	}{
		{[]string{"schemas", "EventID", "maxLength"}, slots.MaxIDLen},
		{[]string{"schemas", "ConfigName", "maxLength"}, slots.MaxNameLen},
		{[]string{"schemas", "BatchRequest", "properties", "events", "maxItems"}, MaxBatch},
		{[]string{"schemas", "QuoteRequest", "properties", "count", "maximum"}, slots.MaxQuote},
		{[]string{"schemas", "Setting", "properties", "maxPerWindow", "maximum"}, plan.MaxMax},
		{[]string{"schemas", "Setting", "properties", "seed", "maximum"}, maxSeed},
		{[]string{"schemas", "Timeline", "properties", "steps", "maxItems"}, MaxSteps},
		{[]string{"schemas", "Page", "properties", "slots", "maxItems"}, MaxPage},
		{[]string{"schemas", "DeadLetters", "properties", "dead", "maxItems"}, MaxPage},
		{[]string{"schemas", "Redrive", "properties", "eventIds", "maxItems"}, MaxPage},
		{[]string{"schemas", "Delivery", "properties", "url", "maxLength"}, slots.MaxURLLen},
		{[]string{"schemas", "DeadLetter", "properties", "error", "maxLength"}, slots.MaxErrorLen},
		{[]string{"parameters", "limit", "schema", "maximum"}, MaxPage},
	} {
		last := len(test.path) - 1
		node, _ := c.at(append([]string{"components"}, test.path[:last]...)...)
		if got := node[test.path[last]]; fmt.Sprint(got) != strconv.FormatInt(test.want, 10) {
			t.Errorf("%v is %v in the document, and %d in the code", test.path, got, test.want)
		}
	}
}
