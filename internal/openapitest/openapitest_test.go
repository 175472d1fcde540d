package openapitest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const document = `
openapi: 3.1.0
paths:
  /things/{name}:
    parameters: [{$ref: '#/components/parameters/sort'}]
    put:
      parameters: [{name: header., in: query, schema: {type: object}}]
      requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/thing'}, examples: {one: {value: {size: 1}}}}}}
      responses:
        '200': {headers: {ETag: {}}, content: {application/json: {schema: {$ref: '#/components/schemas/thing'}}}}
        '400': {content: {application/problem+json: {schema: {type: object}}}}
components:
  parameters: {sort: {name: sort, in: query}}
  schemas:
    thing: {type: object, required: [size], properties: {size: {type: integer, maximum: 9}, note: {type: string}}, additionalProperties: false}
    open: {type: object}
`

type thing struct {
	Size int    `json:"size"`
	Note string `json:"note,omitempty"`
	Rank int    `json:"rank,omitempty"`
}

type open struct{}

// failures is a test that goes on, and says how it has failed.
type failures struct {
	testing.TB
	all []string
}

func (f *failures) Helper() {}
func (f *failures) Errorf(format string, args ...any) {
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

// Whatever the document and the handlers do not agree on is found.
func TestFindsWhatDiffers(t *testing.T) {
	type exchange struct {
		method, target, asked string
		status                int
		contentType, answer   string
		header                string
	}
	good := exchange{"PUT", "/things/a", `{"size":1}`, 200, "application/json", `{"size":1}`, "Etag"}
	try := func(change func(e *exchange)) []string {
		e := good
		change(&e)
		f := &failures{TB: t}
		r := httptest.NewRequest(e.method, e.target, strings.NewReader(e.asked))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", e.contentType)
		w.Header().Set(e.header, "x")
		w.WriteHeader(e.status)
		w.WriteString(e.answer)
		New(t, []byte(document)).Check(f, r, e.asked, w)
		return f.all
	}
	for name, test := range map[string]struct {
		change func(e *exchange)
		want   string
	}{
		"nothing":        {func(e *exchange) {}, ""},
		"a family":       {func(e *exchange) { e.target += "?sort=x&header.A=b" }, ""},
		"no such path":   {func(e *exchange) { e.target, e.status = "/others", 404 }, ""},
		"no such method": {func(e *exchange) { e.method, e.status = "POST", 405 }, ""},
		"another path":   {func(e *exchange) { e.target = "/others" }, "not in the document"},
		"a status":       {func(e *exchange) { e.status = 409 }, "not in the document"},
		"a content type": {func(e *exchange) { e.contentType = "text/plain" }, "Content-Type"},
		"a header":       {func(e *exchange) { e.header = "X-Other" }, "header X-Other"},
		"the answer":     {func(e *exchange) { e.answer = `{"size":"1"}` }, "the answer"},
		"no JSON":        {func(e *exchange) { e.answer = `{` }, "the answer"},
		"the request":    {func(e *exchange) { e.asked = `{"size":10}` }, "the request"},
		"a parameter":    {func(e *exchange) { e.target += "?other=x" }, "parameter other"},
		"refused, so any": {func(e *exchange) {
			e.status, e.contentType, e.header, e.asked = 400, "application/problem+json", "Content-Type", `{`
		}, "Content-Type"},
	} {
		got := strings.Join(try(test.change), "\n")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}

	c, f := New(t, []byte(document)), &failures{TB: t}
	type methods = map[string]http.HandlerFunc
	Routes(f, c, map[string]methods{"/things/{name}": {"PUT": nil}})
	if len(f.all) > 0 {
		t.Error(f.all)
	}
	Routes(f, c, map[string]methods{"/things/{name}": {"PUT": nil, "GET": nil}})
	c.Complete(f)
	c.Types(f, thing{}, open{})
	c.Bounds(f, Bound{[]string{"schemas", "thing", "properties", "size", "maximum"}, 9}, Bound{[]string{"schemas", "thing", "properties", "size", "maximum"}, 8})
	all := strings.Join(f.all, "\n")
	for _, want := range []string{`"GET"`, "PUT /things/{name} 200", "PUT /things/{name} 400", "thing: fields", "open: the document allows further fields", "is 9 in the document, and 8 in the code"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q does not tell %q", all, want)
		}
	}
	if len(f.all) != 6 {
		t.Errorf("%d faults: %s", len(f.all), all)
	}
	c.Never = []string{"rank"}
	f.all = nil
	if c.Types(f, thing{}); len(f.all) > 0 {
		t.Error(f.all)
	}
	if e := c.Examples(t); len(e) != 1 || e[0] != (Example{"PUT", "/things/{name}", "one", `{"size":1}`}) {
		t.Error(e)
	}
}
