// Package openapitest holds handlers and Go types against the OpenAPI document that
// describes them, so that neither can have what the other lacks. Only tests import it.
package openapitest

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
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// Contract is an OpenAPI document. It is safe for simultaneous use.
type Contract struct {
	// Understood are statuses, besides those below 300, of answers to requests that
	// must be as the document says.
	Understood []int
	// Never are JSON fields of Go types that this API's answers do not have.
	Never []string
	// Slashes says that the name at the end of a path may stand for several segments.
	Slashes bool

	root     map[string]any
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	// seen are the exchanges that were checked: "POST /path 200".
	seen map[string]bool
}

// longText is from how many bytes on a text is like a shorter one, only slower to check.
const longText = 1 << 18

// New reads a document in YAML.
func New(t testing.TB, document []byte) *Contract {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal(document, &tree); err != nil {
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
	c := &Contract{root: root.(map[string]any), compiler: jsonschema.NewCompiler(), seen: make(map[string]bool)}
	if err := c.compiler.AddResource("openapi.json", root); err != nil {
		t.Fatal(err)
	}
	return c
}

// At returns what is at a path in the document, with references followed, or nil.
func (c *Contract) At(path ...string) map[string]any {
	node, _ := c.find(path...)
	return node
}

// find returns what is at a path, or nil, and the path to it without references.
func (c *Contract) find(path ...string) (node map[string]any, where []string) {
	node = c.root
	for _, name := range path {
		node, _ = node[name].(map[string]any)
		where = append(where, name)
		if ref, ok := node["$ref"].(string); ok {
			node, where = c.find(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return node, where
}

// Schema returns what says why a text is not what the schema at a path says. It may be
// called at the same time by many.
func (c *Contract) Schema(t testing.TB, path ...string) func(text []byte) error {
	t.Helper()
	path = slices.Clone(path)
	for i, name := range path {
		path[i] = strings.ReplaceAll(name, "/", "~1")
	}
	schema, err := c.compiler.Compile("openapi.json#/" + strings.Join(path, "/"))
	if err != nil {
		t.Fatal(err)
	}
	return func(text []byte) error {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return err
		}
		return schema.Validate(value)
	}
}

// template returns how the document names a request's path: as it is, or with a name in
// braces in place of as few of its segments as possible.
func (c *Contract) template(method, path string) string {
	best, fewest := path, len(path)
	for template := range c.At("paths") {
		if c.At("paths", template, method) == nil {
			continue
		}
		names, segments := strings.Split(template, "/"), strings.Split(path, "/")
		if last := len(names) - 1; c.Slashes && len(segments) > len(names) && strings.HasPrefix(names[last], "{") {
			segments = append(segments[:last], strings.Join(segments[last:], "/"))
		}
		if names, ok := matches(names, segments); ok && names < fewest {
			best, fewest = template, names
		}
	}
	return best
}

// matches reports whether a path is of a template, and how many names that has.
func matches(template, path []string) (names int, ok bool) {
	if len(template) != len(path) {
		return 0, false
	}
	for i, segment := range template {
		switch {
		case strings.HasPrefix(segment, "{"):
			names++
		case segment != path[i]:
			return 0, false
		}
	}
	return names, true
}

// Check holds one exchange against the document. asked is the request's body.
func (c *Contract) Check(t testing.TB, r *http.Request, asked string, w *httptest.ResponseRecorder) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	method, status := strings.ToLower(r.Method), strconv.Itoa(w.Code)
	path := c.template(method, r.URL.EscapedPath())
	operation := c.At("paths", path, method)
	if operation == nil && (w.Code == http.StatusNotFound || w.Code == http.StatusMethodNotAllowed) {
		return // neither has it
	}
	exchange := r.Method + " " + path + " " + status
	answer, where := c.find("paths", path, method, "responses", status)
	if answer == nil {
		t.Errorf("%s is not in the document: %.500s", exchange, w.Body)
		return
	}
	c.seen[exchange] = true

	contentType := w.Header().Get("Content-Type")
	body := append(slices.Clone(where), "content", contentType, "schema")
	switch {
	case w.Code == http.StatusNoContent:
	case c.At(body...) == nil:
		t.Errorf("%s: Content-Type %s is not in the document", exchange, contentType)
	case strings.HasSuffix(contentType, "json") && w.Body.Len() < longText:
		if err := c.Schema(t, body...)(w.Body.Bytes()); err != nil {
			t.Errorf("%s: the answer %.500s is not what the document says: %v", exchange, w.Body, err)
		}
	}
	headers := slices.Collect(maps.Keys(c.At(append(slices.Clone(where), "headers")...)))
	for name := range w.Header() {
		named := func(declared string) bool { return strings.EqualFold(declared, name) }
		if name != "Content-Type" && !slices.ContainsFunc(headers, named) {
			t.Errorf("%s: header %s is not in the document", exchange, name)
		}
	}
	if w.Code < 300 || slices.Contains(c.Understood, w.Code) {
		c.checkAsked(t, r, exchange, asked, operation, c.At("paths", path))
	}
}

// checkAsked holds a request that was understood against the document.
func (c *Contract) checkAsked(t testing.TB, r *http.Request, exchange, asked string, operation, item map[string]any) {
	t.Helper()
	contentType := r.Header.Get("Content-Type")
	_, where := c.find("paths", strings.Fields(exchange)[1], strings.ToLower(r.Method), "requestBody", "content", contentType, "schema")
	if operation["requestBody"] != nil && strings.HasSuffix(contentType, "json") && len(asked) < longText {
		if err := c.Schema(t, where...)([]byte(asked)); err != nil {
			t.Errorf("%s: the request %.500s was understood, and is not what the document says: %v", exchange, asked, err)
		}
	}
	var declared []string
	for _, level := range []map[string]any{operation, item} {
		list, _ := level["parameters"].([]any)
		for _, p := range list {
			parameter := p.(map[string]any)
			if ref, ok := parameter["$ref"].(string); ok {
				parameter = c.At(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
			if parameter["in"] == "query" {
				declared = append(declared, parameter["name"].(string))
			}
		}
	}
	for name := range r.URL.Query() {
		// One that ends with a dot stands for all that begin so.
		family, _, _ := strings.Cut(name, ".")
		if !slices.Contains(declared, name) && !slices.Contains(declared, family+".") {
			t.Errorf("%s: parameter %s was understood, and is not in the document", exchange, name)
		}
	}
}

// operations calls f for every path and method of the document.
func (c *Contract) operations(f func(path, method string)) {
	for _, path := range slices.Sorted(maps.Keys(c.At("paths"))) {
		for _, method := range slices.Sorted(maps.Keys(c.At("paths", path))) {
			if method != "parameters" {
				f(path, method)
			}
		}
	}
}

// Routes holds the methods of each path that handlers have against those of the
// document.
func Routes[H any](t testing.TB, c *Contract, routes map[string]map[string]H) {
	t.Helper()
	inDocument, inHandlers := make(map[string][]string), make(map[string][]string)
	c.operations(func(path, method string) {
		inDocument[path] = append(inDocument[path], strings.ToUpper(method))
	})
	for path, methods := range routes {
		inHandlers[path] = slices.Sorted(maps.Keys(methods))
	}
	if diff := cmp.Diff(inDocument, inHandlers); diff != "" {
		t.Errorf("paths and methods (-document +handlers):\n%s", diff)
	}
}

// Complete fails a test in which not every status of the document was an answer that
// was checked.
func (c *Contract) Complete(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations(func(path, method string) {
		for status := range c.At("paths", path, method, "responses") {
			if exchange := strings.ToUpper(method) + " " + path + " " + status; !c.seen[exchange] {
				t.Errorf("the document has what no handler has answered: %s", exchange)
			}
		}
	})
}

// Types holds the schemas that are called like the types of some values against these:
// they have the same fields, and no others.
func (c *Contract) Types(t testing.TB, values ...any) {
	t.Helper()
	for _, value := range values {
		typ := reflect.TypeOf(value)
		var fields, always []string
		for _, f := range reflect.VisibleFields(typ) {
			name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || !f.IsExported() || slices.Contains(c.Never, name) {
				continue
			}
			fields = append(fields, name)
			if option != "omitempty" && option != "omitzero" {
				always = append(always, name)
			}
		}
		schema := c.At("components", "schemas", typ.Name())
		properties := maps.Keys(c.At("components", "schemas", typ.Name(), "properties"))
		if diff := cmp.Diff(slices.Sorted(properties), slices.Sorted(slices.Values(fields))); diff != "" {
			t.Errorf("%s: fields (-document +type):\n%s", typ.Name(), diff)
		}
		var required []string
		names, _ := schema["required"].([]any)
		for _, name := range names {
			required = append(required, name.(string))
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(required)), slices.Sorted(slices.Values(always))); diff != "" {
			t.Errorf("%s: required (-document +type):\n%s", typ.Name(), diff)
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s: the document allows further fields", typ.Name())
		}
	}
}

// Example is the body of a request that the document shows.
type Example struct {
	Method, Path, Name string
	Body               string
}

// Examples returns those of all operations, in the order of paths and methods.
func (c *Contract) Examples(t testing.TB) (all []Example) {
	t.Helper()
	c.operations(func(path, method string) {
		examples := c.At("paths", path, method, "requestBody", "content", "application/json", "examples")
		for _, name := range slices.Sorted(maps.Keys(examples)) {
			body, err := json.Marshal(examples[name].(map[string]any)["value"])
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, Example{strings.ToUpper(method), path, name, string(body)})
		}
	})
	return all
}

// Bound is a number that the document and the code both have.
type Bound struct {
	// In is the path in the document, below its components.
	In   []string
	Want int64
}

// Bounds holds the document's bounds against those of the code.
func (c *Contract) Bounds(t testing.TB, bounds ...Bound) {
	t.Helper()
	for _, b := range bounds {
		last := len(b.In) - 1
		node := c.At(append([]string{"components"}, b.In[:last]...)...)
		if got := node[b.In[last]]; got != json.Number(strconv.FormatInt(b.Want, 10)) {
			t.Errorf("%v is %v in the document, and %d in the code", b.In, got, b.Want)
		}
	}
}
