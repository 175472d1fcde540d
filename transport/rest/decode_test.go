package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeAsk(t *testing.T) {
	got, err := decodeAsk([]byte(` {"peek":true, "cost":5, "descriptors":[
		{"method":"GET","host":"a.example:80","path":"/items/alex%2Fb","headers":{"x-a":"1"},"attributes":{"user":"alex","Tenant":""}},
		{}
	]} ` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Ask{Peek: true, Cost: 5, Descriptors: []Descriptor{{
		Method: "GET", Host: "a.example:80", Path: "/items/alex%2Fb",
		Headers:    map[string]string{"X-A": "1"},
		Attributes: map[string]string{"user": "alex", "Tenant": ""},
	}, {}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ask (-want +got):\n%s", diff)
	}
}

// in puts a field into a body's only descriptor.
func in(field string) string { return `{"descriptors":[{` + field + `}]}` }

// object writes n pairs.
func object(n int) string {
	pairs := make(map[string]string)
	for i := range n {
		pairs[fmt.Sprintf("a%d", i)] = "x"
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestDecodeAskRefuses(t *testing.T) {
	tests := []struct{ body, want string }{
		{``, `body: the JSON ends too early, at byte 0`},
		{`{"descriptors":[`, `body: the JSON ends too early, at byte 16`},
		{`null`, `body: null; an object is needed`},
		{`[]`, `body: [; an object is needed`},
		{`"x"`, `body: "x"; an object is needed`},
		{"{\"descriptors\":[{\"path\":\"\xff\"}]}", `descriptors[0].path: not valid UTF-8`},
		{`{"descriptors" [{}]}`, `body: not JSON at byte 15`},
		{`{"descriptors":[{}],}`, `body: not JSON at byte 20`},
		{`{"descriptors":[{}]} x`, `body: something follows the JSON object; send one object`},
		{`{"descriptors":[{}]}{}`, `body: something follows the JSON object; send one object`},

		{`{}`, `descriptors: missing; it is needed`},
		{`{"descriptors":[]}`, `descriptors: none; 1 to 100 are needed`},
		{`{"descriptors":null}`, `descriptors: null; an array is needed`},
		{`{"descriptors":{}}`, `descriptors: {; an array is needed`},
		{`{"descriptors":[1]}`, `descriptors[0]: 1; an object is needed`},
		{`{"descriptors":[{}` + strings.Repeat(`,{}`, 100) + `]}`, `descriptors: 101 descriptors; at most 100 are allowed`},
		{`{"descriptors":[{}],"descriptors":[{}]}`, `descriptors: given twice`},
		{`{"descriptors":[{}],"costs":1}`, `costs: unknown field; descriptors, cost and peek are allowed`},
		{`{"Descriptors":[{}]}`, `Descriptors: unknown field; descriptors, cost and peek are allowed`},

		{`{"descriptors":[{}],"cost":0}`, `cost: 0; a whole number from 1 to 999999999999999 is allowed`},
		{`{"descriptors":[{}],"cost":-1}`, `cost: -1; a whole number from 1 to 999999999999999 is allowed`},
		{`{"descriptors":[{}],"cost":1.5}`, `cost: 1.5; a whole number from 1 to 999999999999999 is allowed`},
		{`{"descriptors":[{}],"cost":1000000000000000}`, `cost: 1000000000000000; a whole number from 1 to 999999999999999 is allowed`},
		{`{"descriptors":[{}],"cost":"1"}`, `cost: "1"; a whole number is needed`},
		{`{"descriptors":[{}],"peek":1}`, `peek: 1; true or false is needed`},

		{in(`"paths":"/"`), `descriptors[0].paths: unknown field; method, host, path, headers and attributes are allowed`},
		{in(`"path":7`), `descriptors[0].path: 7; a string is needed`},
		{in(`"path":true`), `descriptors[0].path: true; a string is needed`},
		{in(`"path":"` + strings.Repeat("x", MaxValue+1) + `"`), `descriptors[0].path: 8193 bytes; at most 8192 are allowed`},
		{in(`"attributes":[]`), `descriptors[0].attributes: [; an object is needed`},
		{in(`"attributes":{"user":null}`), `descriptors[0].attributes.user: null; a string is needed`},
		{in(`"attributes":{"user":"a","user":"b"}`), `descriptors[0].attributes.user: given twice`},
		{in(`"attributes":{"user":"` + strings.Repeat("x", MaxValue+1) + `"}`), `descriptors[0].attributes.user: 8193 bytes; at most 8192 are allowed`},
		{in(`"attributes":{"":"a"}`), `descriptors[0].attributes: the name has 0 bytes; 1 to 64 are allowed`},
		{in(`"attributes":{"` + strings.Repeat("x", 65) + `":"a"}`), `descriptors[0].attributes.` + strings.Repeat("x", 64) + `...: the name has 65 bytes; 1 to 64 are allowed`},
		{in(`"attributes":{"path":"/"}`), `descriptors[0].attributes.path: give it beside attributes, not among them`},
		{in(`"attributes":{"api":"/"}`), `descriptors[0].attributes.api: it is made of the path; give that, beside attributes`},
		{in(`"attributes":` + object(65)), `descriptors[0].attributes: 65 attributes; at most 64 are allowed`},
		{in(`"attributes":` + object(10_000)), `descriptors[0].attributes: 10000 attributes; at most 64 are allowed`},
		{in(`"headers":` + object(65)), `descriptors[0].headers: 65 headers; at most 64 are allowed`},
		{in(`"headers":{"x-a":"1","X-A":"2"}`), `descriptors[0].headers.X-A: given twice`},
	}
	a := newTestAPI(t)
	for _, test := range tests {
		_, err := decodeAsk([]byte(test.body))
		if err == nil || err.Error() != test.want {
			t.Errorf("%.80s: error %v; want %s", test.body, err, test.want)
		}
		if w := a.post(t, test.body); w.Code != http.StatusBadRequest || detail(t, w) != test.want {
			t.Errorf("%.80s: answer %d %s", test.body, w.Code, w.Body)
		}
	}
	if _, err := decodeAsk([]byte(in(`"attributes":` + object(64) + `,"headers":` + object(64)))); err != nil {
		t.Errorf("64 attributes and headers: %v", err)
	}
}

// Whatever is understood is what the document says, and means the same when it
// is written by encoding/json.
func FuzzDecodeAsk(f *testing.F) {
	for _, seed := range []string{
		one("alex"), `{"descriptors":[{}],"cost":1,"peek":false}`, in(`"headers":{"a":"b"},"attributes":{"user":"\u00e9"}`),
		in(`"attributes":{"path":"/"}`), `{"descriptors":[{"method":null}]}`, `{"descriptors":[{}],"cost":1e3}`, `{"descriptors":[{},]}`, `{"Descriptors":[]}`,
	} {
		f.Add([]byte(seed))
	}
	misses := newContract(f).Schema(f, "components", "schemas", "Ask")
	f.Fuzz(func(t *testing.T, body []byte) {
		ask, err := decodeAsk(body)
		if err != nil {
			return
		}
		if err := misses(body); err != nil {
			t.Fatalf("%s was understood, and is not what the document says: %v", body, err)
		}
		text, err := json.Marshal(ask)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeAsk(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		third, err := json.Marshal(again)
		if err != nil || string(third) != string(text) {
			t.Fatalf("%s became %s, %v", text, third, err)
		}
	})
}
