package rest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// contract is the OpenAPI document, as tests hold it against the handlers.
type contract struct {
	root     map[string]any
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

// at returns what is at a path in the document, or nil.
func (c *contract) at(path ...string) map[string]any {
	node := c.root
	for _, name := range path {
		node, _ = node[name].(map[string]any)
		if ref, ok := node["$ref"].(string); ok {
			node = c.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return node
}

func (c *contract) schema(t testing.TB, path ...string) *jsonschema.Schema {
	t.Helper()
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

// check holds one exchange against the document.
func (c *contract) check(t testing.TB, r *http.Request, asked string, w *httptest.ResponseRecorder) {
	t.Helper()
	method, status := strings.ToLower(r.Method), strconv.Itoa(w.Code)
	where := []string{"paths", r.URL.Path, method, "responses", status}
	answer := c.at(where...)
	if answer == nil {
		t.Errorf("%s %s answers %s, which the document does not have", r.Method, r.URL.Path, status)
		return
	}
	c.seen[r.Method+" "+r.URL.Path+" "+status] = true

	contentType := w.Header().Get("Content-Type")
	body := append(slices.Clone(where), "content", contentType)
	if c.at(body...) == nil {
		t.Errorf("%s: Content-Type %s is not in the document", status, contentType)
	} else if strings.HasSuffix(contentType, "json") {
		if err := valid(c.schema(t, append(body, "schema")...), w.Body.Bytes()); err != nil {
			t.Errorf("%s: the answer %s is not what the document says: %v", status, w.Body, err)
		}
	}
	headers := c.at(append(slices.Clone(where), "headers")...)
	for name := range w.Header() {
		if name == "Content-Type" {
			continue
		}
		declared := slices.IndexFunc(slices.Collect(maps.Keys(headers)), func(n string) bool { return strings.EqualFold(n, name) })
		if declared < 0 {
			t.Errorf("%s: header %s is not in the document", status, name)
		}
	}
	if r.Method == http.MethodPost && (w.Code == 200 || w.Code == 422 || w.Code == 503) {
		if err := valid(c.schema(t, "paths", r.URL.Path, method, "requestBody", "content", "application/json", "schema"), []byte(asked)); err != nil {
			t.Errorf("%s: the request %s was understood, and is not what the document says: %v", status, asked, err)
		}
	}
}

// Every path, method and status in the document is what a handler answers, and
// no handler answers anything else.
func TestDocumentAndHandlersAgree(t *testing.T) {
	c := newContract(t)
	inDocument := make(map[string][]string)
	for path := range c.at("paths") {
		for method := range c.at("paths", path) {
			inDocument[path] = append(inDocument[path], strings.ToUpper(method))
		}
	}
	inHandlers := make(map[string][]string)
	for path, methods := range new(api).routes() {
		inHandlers[path] = slices.Sorted(maps.Keys(methods))
	}
	if diff := cmp.Diff(inDocument, inHandlers); diff != "" {
		t.Errorf("paths and methods (-document +handlers):\n%s", diff)
	}

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

	var missing []string
	for path := range c.at("paths") {
		for method := range c.at("paths", path) {
			for status := range c.at("paths", path, method, "responses") {
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
		Ask{}, Descriptor{}, Answer{}, Decision{},
		Question{}, Explanation{}, ExplainedRequest{}, Found{}, Missed{}, ExplainedSeat{}, ExplainedRule{}, ExplainedPolicy{}, ExplainedDecision{},
	} {
		typ := reflect.TypeOf(value)
		var fields, always []string
		for i := range typ.NumField() {
			name, option, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			fields = append(fields, name)
			if option != "omitempty" && option != "omitzero" {
				always = append(always, name)
			}
		}
		schema := c.at("components", "schemas", typ.Name())
		if diff := cmp.Diff(sorted(slices.Collect(maps.Keys(c.at("components", "schemas", typ.Name(), "properties")))), sorted(fields)); diff != "" {
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
	c := newContract(t)
	examples := c.at("paths", "/api/v1/decisions", "post", "requestBody", "content", "application/json", "examples")
	if len(examples) == 0 {
		t.Fatal("the document has no examples")
	}
	a := newTestAPI(t)
	a.contract = c
	for name := range examples {
		body, err := json.Marshal(examples[name].(map[string]any)["value"])
		if err != nil {
			t.Fatal(err)
		}
		if w := a.post(t, string(body)); w.Code != http.StatusOK {
			t.Errorf("example %s: %d %s", name, w.Code, w.Body)
		}
	}
	examples = c.at("paths", "/api/v1/explain", "post", "requestBody", "content", "application/json", "examples")
	for name := range examples {
		body, err := json.Marshal(examples[name].(map[string]any)["value"])
		if err != nil {
			t.Fatal(err)
		}
		if w := a.explain(t, string(body)); w.Code != http.StatusOK {
			t.Errorf("example %s: %d %s", name, w.Code, w.Body)
		}
	}
}

// The document's bounds are those of the decoder.
func TestDocumentBounds(t *testing.T) {
	c := newContract(t)
	ask := c.at("components", "schemas", "Ask", "properties")
	attributes := c.at("components", "schemas", "Descriptor", "properties", "attributes")
	got := []any{
		ask["descriptors"].(map[string]any)["maxItems"],
		ask["cost"].(map[string]any)["maximum"],
		attributes["maxProperties"],
		attributes["propertyNames"].(map[string]any)["maxLength"],
		attributes["additionalProperties"].(map[string]any)["maxLength"],
	}
	for i, want := range []int64{MaxDescriptors, MaxCost, MaxPairs, MaxName, MaxValue} {
		if got[i] != json.Number(strconv.FormatInt(want, 10)) {
			t.Errorf("bound %d is %v in the document, %d in the decoder", i, got[i], want)
		}
	}
}
