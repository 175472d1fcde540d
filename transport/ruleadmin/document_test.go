package ruleadmin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/limit/algo"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/rules/rulestest"
	"github.com/stint-dev/stint/store/memory"
	"github.com/stint-dev/stint/transport/access"
)

// table is what is made of a Source behind a file.
type table struct {
	source rules.Source
	file   *config.File
	mu     sync.Mutex
	made   config.Table
}

func (t *table) View(ctx context.Context) (*rules.TableView, error) {
	rows, err := t.source.List(ctx, 0, MaxRows)
	if err != nil {
		return nil, err
	}
	return t.Try(rows), nil
}

func (t *table) Try(rows []rules.Row) *rules.TableView {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made.View(t.file, rows)
}

const file = `
version: 1
plans: {pro: {members: {user: [ann]}}}
rules:
  - {name: all, key: user, limits: [{quota: 100, window: 1h}], on_store_error: deny}
  - {name: uploads, match: {path: /file/#}, key: user, limits: [{quota: 100, window: 1h}], overrides: [{when: {user: backup}, exempt: true}]}
`

// testAPI is the API over tables and counters in memory, whose exchanges are held
// against the document.
type testAPI struct {
	http.Handler
	source *rulestest.Memory
	store  *brokenStore
	log    *bytes.Buffer
	seen   map[string]bool
	root   map[string]any
	schema *jsonschema.Compiler
}

// brokenStore does not answer if it is told so.
type brokenStore struct {
	limit.Store
	fail error
}

func (s *brokenStore) Update(ctx context.Context, keys []string, fn func(now algo.Ticks, cells []limit.Cell) error) error {
	if s.fail != nil {
		return s.fail
	}
	return s.Store.Update(ctx, keys, fn)
}

func newTestAPI(t testing.TB, admin *access.Guard) *testAPI {
	t.Helper()
	f, problems := config.Parse("stint.yaml", []byte(file))
	if f == nil {
		t.Fatal(problems)
	}
	set, _ := rules.Compile(f.Spec)
	a := &testAPI{source: new(rulestest.Memory), store: &brokenStore{Store: memory.New(nil)}, log: new(bytes.Buffer), seen: map[string]bool{}}
	limiter := limit.New(a.store, nil)
	t.Cleanup(func() { limiter.Close() })
	logger := slog.New(slog.NewTextHandler(a.log, nil))
	a.Handler = New(gate.New(limiter, &gate.Snapshot{Rules: set}, nil), &Options{
		Table: &table{source: a.source, file: f}, Source: a.source, Admin: admin, Logger: logger,
	})
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
	a.root, a.schema = root.(map[string]any), jsonschema.NewCompiler()
	if err := a.schema.AddResource("openapi.json", root); err != nil {
		t.Fatal(err)
	}
	return a
}

// at returns what is at a path in the document, or nil, and the path without references.
func (a *testAPI) at(path ...string) (map[string]any, []string) {
	node, where := a.root, []string(nil)
	for _, name := range path {
		node, _ = node[name].(map[string]any)
		where = append(where, name)
		if ref, ok := node["$ref"].(string); ok {
			node, where = a.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return node, where
}

func first[A, B any](a A, _ B) A { return a }

// valid holds a text against the schema at a path.
func (a *testAPI) valid(text []byte, path ...string) error {
	path = slices.Clone(path)
	for i, name := range path {
		path[i] = strings.ReplaceAll(name, "/", "~1")
	}
	schema, err := a.schema.Compile("openapi.json#/" + strings.Join(path, "/"))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// do makes a request and holds the answer against the document. Headers are pairs.
func (a *testAPI) do(t testing.TB, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	path, _, _ := strings.Cut(target, "?")
	if rest, ok := strings.CutPrefix(path, rulesPath+"/"); ok && path != documentPath {
		_, verb, deeper := strings.Cut(rest, "/")
		path = rulesPath + "/{rule}"
		if deeper {
			path += "/" + verb
		}
	}
	operation := []string{"paths", path, strings.ToLower(method)}
	if w.Code == 405 || first(a.at(operation...)) == nil {
		return w
	}
	status := strconv.Itoa(w.Code)
	answer, where := a.at(append(operation, "responses", status)...)
	if answer == nil {
		t.Errorf("%s %s answers %s, which the document does not have: %s", method, target, status, w.Body)
		return w
	}
	a.seen[method+" "+path+" "+status] = true
	contentType := w.Header().Get("Content-Type")
	content := append(slices.Clone(where), "content", contentType, "schema")
	switch {
	case w.Code == 204:
	case first(a.at(content...)) == nil:
		t.Errorf("%s %s %s: Content-Type %s is not in the document", method, target, status, contentType)
	case strings.HasSuffix(contentType, "json"):
		if err := a.valid(w.Body.Bytes(), content...); err != nil {
			t.Errorf("%s %s %s: %.500s is not what the document says: %v", method, target, status, w.Body, err)
		}
	}
	declared, _ := a.at(append(slices.Clone(where), "headers")...)
	for name, values := range w.Header() {
		i := slices.IndexFunc(slices.Collect(maps.Keys(declared)), func(n string) bool { return strings.EqualFold(n, name) })
		if i < 0 && name != "Content-Type" {
			t.Errorf("%s %s %s: header %s: %q is not in the document", method, target, status, name, values)
		}
	}
	if media, where := a.at(append(operation, "requestBody", "content", "application/json")...); media != nil && w.Code < 300 && r.Header.Get("Content-Type") == "application/json" {
		if err := a.valid([]byte(body), append(where, "schema")...); err != nil {
			t.Errorf("%s %s: %.500s was understood, and is not what the document says: %v", method, target, body, err)
		}
	}
	return w
}

const (
	plainBody = `{"name":"plain","path":"/entity/#","calls":10,"period":"1m"}`
	fullBody  = `{"name":"full","match":{"path":"/full/#"},"key":["user"],"limits":[{"quota":5,"window":"1m"}]}`
)

// Every path, method and status in the document is what a handler answers, and no
// handler answers anything else.
func TestDocumentAndHandlersAgree(t *testing.T) {
	token := sha256.Sum256([]byte("token"))
	a := newTestAPI(t, nil)
	guarded := newTestAPI(t, access.New(&access.Options{Tokens: []access.Token{{Name: "reader", Hash: token}}, Logger: slog.New(slog.DiscardHandler)}))
	closed := newTestAPI(t, access.New(&access.Options{Closed: true, Logger: slog.New(slog.DiscardHandler)}))
	guarded.seen, closed.seen = a.seen, a.seen
	bare := newTestAPI(t, nil)
	bare.Handler, bare.seen = New(gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: first(rules.Compile(rules.Spec{}))}, nil), &Options{Logger: slog.New(slog.DiscardHandler)}), a.seen

	inDocument, inHandlers := map[string][]string{}, map[string][]string{}
	paths, _ := a.at("paths")
	for path := range paths {
		for method := range first(a.at("paths", path)) {
			if method != "parameters" {
				inDocument[path] = append(inDocument[path], strings.ToUpper(method))
			}
		}
		slices.Sort(inDocument[path])
	}
	for path, methods := range new(api).newRoutes() {
		inHandlers[path] = slices.Sorted(maps.Keys(methods))
	}
	if diff := cmp.Diff(inDocument, inHandlers); diff != "" {
		t.Errorf("paths and methods (-document +handlers):\n%s", diff)
	}

	// What can go wrong goes wrong with everything.
	type exchange struct{ method, path, body string }
	var everything []exchange
	for path, methods := range inHandlers {
		for _, method := range methods {
			e := exchange{method, strings.ReplaceAll(path, "{rule}", "full"), ""}
			switch {
			case strings.HasSuffix(path, "rollback"):
				e.body = `{"change":1}`
			case method == "PUT", method == "POST" && path == rulesPath:
				e.body = fullBody
			}
			everything = append(everything, e)
		}
	}
	for _, e := range everything {
		star := []string{"If-Match", "*"}
		if e.path != rulesPath && e.path != documentPath {
			a.do(t, e.method, e.path, e.body, star...) // 404, of rules and keys
		}
		bare.do(t, e.method, e.path, e.body) // 404
		guarded.do(t, e.method, e.path, e.body)
		closed.do(t, e.method, e.path, e.body)
		if e.path != documentPath {
			a.do(t, e.method, e.path+"?no=such", e.body, star...) // 400
		}
		if e.method == "POST" || e.method == "PUT" {
			a.do(t, e.method, e.path, strings.Repeat(" ", MaxBody+1))
			if e.body != "" {
				a.do(t, e.method, e.path, e.body, "Content-Type", "application/xml")
			}
		}
	}
	a.do(t, "POST", rulesPath, fullBody)                                                          // 201, 1
	a.do(t, "POST", rulesPath, plainBody)                                                         // 201, 2
	a.do(t, "POST", rulesPath, strings.Replace(fullBody, `"full"`, `"copy"`, 1))                  // 409
	a.do(t, "POST", rulesPath+"?enabled=false", strings.Replace(fullBody, `"full"`, `"copy"`, 1)) // 201, 3
	a.do(t, "POST", rulesPath, strings.Replace(fullBody, `5`, `-5`, 1))                           // 422
	for _, e := range everything {
		if e.path == documentPath || e.path == rulesPath || e.path == "/admin/keys" {
			continue
		}
		a.do(t, e.method, e.path, e.body, "If-Match", `"1-77"`) // 412
		if e.body != "" || e.method == "DELETE" {
			a.do(t, e.method, e.path, e.body) // 428
		}
	}
	bad := rules.Row{Name: "bad", Enabled: true, Rule: "name: bad"}  // by SQL, say
	if _, err := a.source.Put(t.Context(), bad, "sql"); err != nil { // 4
		t.Fatal(err)
	}
	off := rules.Row{Name: "wrong", Rule: "name: wrong\nlimits: [{quota: -1, window: 1m}]"}
	if _, err := a.source.Put(t.Context(), off, "sql"); err != nil { // 5
		t.Fatal(err)
	}
	shady := rules.Row{Name: "shady", Enabled: true, Rule: "name: shady\nshadow: true\nlimits: [{quota: -1, window: 1m}]"}
	if _, err := a.source.Put(t.Context(), shady, "sql"); err != nil { // 6
		t.Fatal(err)
	}
	for _, e := range [][]string{
		{"POST", rulesPath + "/shady/enforce", ""}, // 422
		{"POST", rulesPath + "/copy/enable", ""},   // 409
		{"POST", rulesPath + "/wrong/enable", ""},  // 422
		{"POST", rulesPath + "/bad/shadow", ""},    // 409
		{"POST", rulesPath + "/bad/enforce", ""},   // 409
		{"POST", rulesPath + "/wrong/shadow", ""},  // 422
		{"POST", rulesPath + "/bad/disable", ""},   // 200
		{"POST", rulesPath + "/full/shadow", ""},   // 200
		{"POST", rulesPath + "/full/enforce", ""},  // 200
		{"POST", rulesPath + "/full/disable", ""},  // 200
		{"POST", rulesPath + "/full/enable", ""},   // 200
		{"POST", rulesPath + "/plain/shadow", ""},  // 200
		{"PUT", rulesPath + "/full", fullBody, "If-Match", "*"},
		{"PUT", rulesPath + "/full", strings.Replace(fullBody, "5", "-5", 1), "If-Match", "*"},         // 422
		{"PUT", rulesPath + "/full", strings.Replace(fullBody, `"full"`, `"all"`, 1), "If-Match", "*"}, // 409
		{"GET", rulesPath + "/full", ""},
		{"GET", rulesPath + "/full", "", "Accept", "application/yaml"},
		{"GET", rulesPath + "?limit=2", ""},
		{"GET", rulesPath + "/1/history?limit=1", ""},
		{"GET", "/admin/history", ""},
		{"GET", documentPath, ""},
		{"POST", rulesPath + "/full/rollback", `{"change":1}`, "If-Match", "*"}, // 200
		{"GET", "/admin/keys?rule=uploads&path=/file/1&attribute.user=ann&header.X-A=b&method=GET&host=h", ""},
		{"GET", "/admin/keys?path=/file/1&attribute.user=backup", ""},
		{"GET", "/admin/keys?rule=uploads", ""}, // 422
		{"GET", "/admin/keys?rule=none", ""},    // 404
		{"DELETE", "/admin/keys?rule=all", ""},
		{"DELETE", "/admin/keys?rule=uploads", ""}, // 422
		{"DELETE", "/admin/keys?rule=none", ""},    // 404
		// One that another rule replaces can neither go nor be called otherwise.
		{"POST", rulesPath, `{"name":"over","match":{"path":"/full/1"},"limits":[{"quota":1,"window":"1m"}],"replaces":["full"]}`},
		{"DELETE", rulesPath + "/full", "", "If-Match", "*"},
		{"POST", rulesPath + "/full/disable", ""},
		{"DELETE", rulesPath + "/over", "", "If-Match", "*"},
		{"DELETE", rulesPath + "/full", "", "If-Match", "*"},
		{"POST", rulesPath + "/1/rollback", `{"change":1}`, "If-Match", "*"}, // 412
		{"POST", rulesPath + "/1/rollback", `{"change":1}`},                  // 200
	} {
		a.do(t, e[0], e[1], e[2], e[3:]...)
	}
	a.do(t, "POST", rulesPath+"/1/rollback", fmt.Sprintf(`{"change":%d}`, a.change(t, 5)), "If-Match", "*") // 404
	wrong := a.change(t, 4)
	a.do(t, "POST", rulesPath+"/4/rollback", fmt.Sprintf(`{"change":%d}`, wrong), "If-Match", "*") // 422
	a.do(t, "DELETE", rulesPath+"/1", "", "If-Match", "*")
	a.do(t, "POST", rulesPath, fullBody)
	a.do(t, "POST", rulesPath+"/1/rollback", `{"change":1}`) // 409

	a.source.Fail(errors.New("gone"))
	a.store.fail = errors.New("gone")
	for _, e := range everything {
		if e.path == "/admin/keys" {
			e.path += "?rule=all&attribute.user=ann"
		}
		a.do(t, e.method, e.path, e.body, "If-Match", "*") // 503
	}
	var missing []string
	for path := range paths {
		for method := range first(a.at("paths", path)) {
			for status := range first(a.at("paths", path, method, "responses")) {
				if exchange := strings.ToUpper(method) + " " + path + " " + status; !a.seen[exchange] {
					missing = append(missing, exchange)
				}
			}
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("the document has what no handler has answered:\n%s", strings.Join(missing, "\n"))
	}
}

// change returns the number of the first change of a row.
func (a *testAPI) change(t *testing.T, row int64) int64 {
	t.Helper()
	changes, err := a.source.History(t.Context(), rules.HistoryQuery{Row: row, Limit: 100})
	if err != nil || len(changes) == 0 {
		t.Fatal(changes, err)
	}
	return changes[len(changes)-1].N
}

// The document's schemas have the fields of the Go types, and no others.
func TestDocumentAndTypesAgree(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, value := range []any{Rule{}, Plain{}, Rules{}, History{}, Change{}, Keys{}, Key{}, PolicyState{}, FieldError{}, Problem{}} {
		typ := reflect.TypeOf(value)
		var fields, always []string
		for _, f := range reflect.VisibleFields(typ) {
			name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || !f.IsExported() || name == "violated-policies" { // which this API never has
				continue
			}
			fields = append(fields, name)
			if option != "omitempty" {
				always = append(always, name)
			}
		}
		properties, _ := a.at("components", "schemas", typ.Name(), "properties")
		if diff := cmp.Diff(slices.Sorted(maps.Keys(properties)), slices.Sorted(slices.Values(fields))); diff != "" {
			t.Errorf("%s: fields (-document +type):\n%s", typ.Name(), diff)
		}
		var required []string
		names, _ := first(a.at("components", "schemas", typ.Name()))["required"].([]any)
		for _, name := range names {
			required = append(required, name.(string))
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(required)), slices.Sorted(slices.Values(always))); diff != "" {
			t.Errorf("%s: required (-document +type):\n%s", typ.Name(), diff)
		}
	}
}

// The examples of the document are understood.
func TestDocumentExamples(t *testing.T) {
	a := newTestAPI(t, nil)
	examples, _ := a.at("components", "requestBodies", "Rule", "content", "application/json", "examples")
	if len(examples) != 2 {
		t.Errorf("%d examples", len(examples))
	}
	for name, example := range examples {
		body, err := json.Marshal(example.(map[string]any)["value"])
		if err != nil {
			t.Fatal(err)
		}
		if w := a.do(t, "POST", rulesPath, string(body)); w.Code != 201 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
