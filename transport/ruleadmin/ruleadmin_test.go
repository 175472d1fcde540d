package ruleadmin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/rules"
)

func TestIfMatch(t *testing.T) {
	row := rules.Row{ID: 7, Revision: 12}
	for _, tt := range []struct {
		header []string
		status int // 0: it holds
	}{
		{nil, 0},
		{[]string{"*"}, 0},
		{[]string{` * `}, 0},
		{[]string{`"7-12"`}, 0},
		{[]string{`"1-1", "7-12"`}, 0},
		{[]string{`"1-1"`, ` "7-12"`}, 0},
		{[]string{`W/"1-1","7-12"`}, 0},
		{[]string{`"7-13"`}, 412},
		{[]string{`"1-712"`}, 412},
		{[]string{`W/"7-12"`}, 412},
		{[]string{``}, 400},
		{[]string{`7-12`}, 400},
		{[]string{`"7-12`}, 400},
		{[]string{`"7-12" "7-12"`}, 400},
		{[]string{`"7-12",`}, 400},
		{[]string{`*, "7-12"`}, 400},
		{[]string{`"7 12"`}, 400},
	} {
		c, err := parseIfMatch(tt.header)
		if err == nil {
			err = c.holds(&row)
		}
		status := 0
		if err != nil {
			status = err.(*Problem).Status
		}
		if status != tt.status {
			t.Errorf("If-Match %q: %d, want %d: %v", tt.header, status, tt.status, err)
		}
		if c.given != (tt.header != nil) && err == nil {
			t.Errorf("If-Match %q is given: %v", tt.header, c.given)
		}
	}
}

func FuzzIfMatch(f *testing.F) {
	for _, seed := range []string{`*`, `"7-12"`, `W/"7-12", "7-12"`, `"`, `,`, `"a",`, `"7-12"x`} {
		f.Add(seed)
	}
	row := rules.Row{ID: 7, Revision: 12}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseIfMatch([]string{text})
		if err != nil {
			if p := err.(*Problem); p.Status != http.StatusBadRequest || len(p.Detail) > 400 {
				t.Errorf("%q: %d %s", text, p.Status, p.Detail)
			}
			return
		}
		holds := c.holds(&row) == nil
		if holds && strings.TrimSpace(text) != "*" && !strings.Contains(text, `"7-12"`) {
			t.Errorf("%q lets a change through to a rule that it does not name", text)
		}
	})
}

// A cursor is what was given out, or an error.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", newCursor("after:", 7), newCursor("before:", 7), "YWZ0ZXI6LTE", "YWZ0ZXI6MDE", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q := values{map[string][]string{"cursor": {text}}}
		if n, err := q.cursor("after:"); err == nil && newCursor("after:", n) != text {
			t.Errorf("%q is taken for %d, whose cursor is %q", text, n, newCursor("after:", n))
		}
	})
}

// Whatever is sent is answered as the document says, and what is accepted comes back
// as it was sent.
func FuzzCreate(f *testing.F) {
	for _, seed := range []string{plainBody, fullBody, "name: x\nlimits: [{quota: 1, window: 1s}]", "path: /x", "{}", "[", "name: \"\\ud800\"", "a: &a [*a]", `{"path":"/x","calls":1,"period":"1ns"}`} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, isJSON bool) {
		a := newTestAPI(t, nil)
		contentType := map[bool]string{true: "application/json", false: "application/yaml"}[isJSON]
		w := a.do(t, "POST", rulesPath, text, "Content-Type", contentType)
		rows, err := a.source.List(t.Context(), 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		if (w.Code == 201) != (len(rows) == 1) || w.Code >= 500 {
			t.Fatalf("%q: %d %s and %d rows", text, w.Code, w.Body, len(rows))
		}
		if w.Code != 201 {
			return
		}
		sent := a.do(t, "GET", rulesPath+"/1", "", "Accept", "application/yaml").Body.String()
		again := a.do(t, "PUT", rulesPath+"/1", sent, "If-Match", w.Header().Get("ETag"), "Content-Type", "application/yaml")
		if again.Code != 200 || again.Header().Get("ETag") != w.Header().Get("ETag") {
			t.Errorf("%q comes back as %q, which is something else: %d %s", text, sent, again.Code, again.Body)
		}
	})
}

// A query describes a request or is refused, whatever is in it.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"", "rule=all", "rule=uploads&path=/file/1", "attribute.user=a&header.x=y", "attribute.=", "a=%zz", "path=%2f&path=/", "attribute.plan=pro", "header.%00=x"} {
		f.Add(seed)
	}
	a := newTestAPI(f, nil)
	f.Fuzz(func(t *testing.T, query string) {
		if strings.ContainsAny(query, " #") || strings.ContainsFunc(query, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
			return // no request has that in its target
		}
		if w := a.do(t, "GET", "/admin/keys?"+query, ""); w.Code >= 500 {
			t.Errorf("%q: %d %s", query, w.Code, w.Body)
		}
	})
}

// Pages are all rules, each once, whatever their size.
func TestPages(t *testing.T) {
	a := newTestAPI(t, nil)
	const n = 23
	for i := range n {
		a.do(t, "POST", rulesPath, fmt.Sprintf(`{"name":"r%d","path":"/r%d","calls":1,"period":"1m"}`, i, i))
	}
	for i := range n / 2 {
		a.do(t, "DELETE", fmt.Sprintf("%s/r%d", rulesPath, 2*i), "", "If-Match", "*")
	}
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, n+1).Draw(rt, "limit")
		var names []string
		for cursor := ""; ; {
			target := fmt.Sprintf("%s?limit=%d", rulesPath, limit)
			if cursor != "" {
				target += "&cursor=" + cursor
			}
			var page Rules
			if err := json.Unmarshal(a.do(t, "GET", target, "").Body.Bytes(), &page); err != nil {
				rt.Fatal(err)
			}
			for _, r := range page.Rules {
				names = append(names, r.Name)
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
			if len(page.Rules) != limit {
				rt.Fatalf("a page of %d with another one behind it, limit %d", len(page.Rules), limit)
			}
		}
		if len(names) != n-n/2 || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
			rt.Fatalf("limit %d: %q", limit, names)
		}
	})
}

// A rule that somebody has broken by SQL is shown with what is wrong, in the way of
// nobody, and can be disabled, replaced and deleted.
func TestBrokenRows(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, row := range []rules.Row{
		{Name: "unreadable", Enabled: true, Rule: "name: unreadable\nlimts: []"},
		{Name: "all", Enabled: true, Path: "/x", Calls: 1, PeriodMS: 1000}, // the file's name
		{Enabled: true, Path: "/X/{y}", Calls: 1, PeriodMS: 1000},
	} {
		if _, err := a.source.Put(t.Context(), row, "sql"); err != nil {
			t.Fatal(err)
		}
	}
	var page Rules
	if err := json.Unmarshal(a.do(t, "GET", rulesPath, "").Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ name, field string }{{"unreadable", "limts"}, {"all", "name"}, {"rule-3", "path"}} {
		r := page.Rules[i]
		if r.Name != want.name || r.State != Refused || len(r.Problems) == 0 || r.Problems[0].Field != want.field {
			t.Errorf("%+v; want %+v", r, want)
		}
	}
	for _, e := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", rulesPath, plainBody, 201},
		{"POST", rulesPath + "/unreadable/disable", "", 200},
		{"PUT", rulesPath + "/unreadable?enabled=true", fullBody, 200},
		{"DELETE", rulesPath + "/all", "", 204},
		{"DELETE", rulesPath + "/rule-3", "", 204},
	} {
		if w := a.do(t, e.method, e.path, e.body, "If-Match", "*"); w.Code != e.status {
			t.Errorf("%s %s: %d %s; want %d", e.method, e.path, w.Code, w.Body, e.status)
		}
	}
}
