package ruleadmin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/gate"
	"github.com/stint-dev/stint/internal/openapitest"
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

	contract *openapitest.Contract
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
	a := &testAPI{source: new(rulestest.Memory), store: &brokenStore{Store: memory.New(nil)}, log: new(bytes.Buffer), contract: openapitest.New(t, Document)}
	a.contract.Never = []string{"violated-policies"}
	limiter := limit.New(a.store, nil)
	t.Cleanup(func() { limiter.Close() })
	logger := slog.New(slog.NewTextHandler(a.log, nil))
	a.Handler = New(gate.New(limiter, &gate.Snapshot{Rules: set}, nil), &Options{
		Table: &table{source: a.source, file: f}, Source: a.source, Admin: admin, Logger: logger,
	})
	return a
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
	a.contract.Check(t, r, body, w)
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
	guarded.contract, closed.contract = a.contract, a.contract
	bare := newTestAPI(t, nil)
	bare.contract = a.contract
	none, _ := rules.Compile(rules.Spec{})
	bare.Handler = New(gate.New(limit.New(memory.New(nil), nil), &gate.Snapshot{Rules: none}, nil), &Options{Logger: slog.New(slog.DiscardHandler)})

	routes := new(api).newRoutes()
	openapitest.Routes(t, a.contract, routes)

	// What can go wrong goes wrong with everything.
	type exchange struct{ method, path, body string }
	var everything []exchange
	for path, methods := range routes {
		for method := range methods {
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
	a.contract.Complete(t)
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
	newTestAPI(t, nil).contract.Types(t, Rule{}, Plain{}, Rules{}, History{}, Change{}, Keys{}, Key{}, PolicyState{}, FieldError{}, Problem{})
}

// The examples of the document are understood.
func TestDocumentExamples(t *testing.T) {
	a := newTestAPI(t, nil)
	n := 0
	for _, e := range a.contract.Examples(t) {
		if e.Method != "POST" || e.Path != rulesPath {
			continue
		}
		n++
		if w := a.do(t, e.Method, e.Path, e.Body); w.Code != 201 {
			t.Errorf("%s: %d %s", e.Name, w.Code, w.Body)
		}
	}
	if n != 2 {
		t.Errorf("%d examples", n)
	}
}
