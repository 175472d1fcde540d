package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/config"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/transport/ruleadmin"
)

// Tokens of the tests. They are long enough not to be guessed.
const (
	opsToken  = "stint_ops-0123456789012345678901234567890"
	readToken = "stint_dashboard-0123456789012345678901234567"
)

// callersConfig tells users apart.
const callersConfig = "identity: {trusted_proxies: [127.0.0.1], attributes: {user: [{header: {name: X-User}}]}}\n"

// adminConfig lets ops change things and dashboard look.
var adminConfig = fmt.Sprintf("admin: {tokens: [{name: ops, hash: %q, rights: write}, {name: dashboard, hash: %q, rights: read}]}\n"+callersConfig, config.HashToken(opsToken), config.HashToken(readToken))

// asked is an answer of the admin API.
type asked struct {
	status int
	etag   string
	header http.Header
	body   string
}

func (a asked) into(t *testing.T, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// ask asks the admin API of a process as ops. Headers are pairs.
func (p *process) ask(method, path, body string, headers ...string) asked {
	p.t.Helper()
	r, err := http.NewRequest(method, p.api+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+opsToken)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return asked{resp.StatusCode, resp.Header.Get("ETag"), resp.Header, string(text)}
}

// want is ask for an answer with a status.
func (p *process) want(status int, method, path, body string, headers ...string) asked {
	p.t.Helper()
	a := p.ask(method, path, body, headers...)
	if a.status != status {
		p.t.Fatalf("%s %s %.200s: %d %s; want %d", method, path, body, a.status, a.body, status)
	}
	return a
}

// TestRulesByAPI changes rules over the API of one process, and looks at what the
// other one does.
func TestRulesByAPI(t *testing.T) {
	for _, kind := range append(ruleTables, sqliteTable, redisTable) {
		t.Run(kind.name, func(t *testing.T) {
			table := kind.open(t)
			p, q := serve(t, hello, table.config()+adminConfig), serve(t, hello, table.config()+adminConfig)
			soon := func(what string, ok func() bool) {
				t.Helper()
				within(t, time.Second, what, ok)
			}
			made := p.want(201, "POST", "/admin/rules", `{"name":"uploads","match":{"path":"/file/#"},"key":["user"],"limits":[{"quota":30,"window":"1m"}]}`)
			var rule ruleadmin.Rule
			made.into(t, &rule)
			if rule.Name != "uploads" || rule.State != ruleadmin.InForce || rule.ModifiedBy != "ops" || made.header.Get("Location") != fmt.Sprint("/admin/rules/", rule.ID) {
				t.Errorf("made %+v at %s", rule, made.header.Get("Location"))
			}
			soon("a rule that was made", func() bool { return quota(q, "/file/7", "uploads") == 30 })

			// What one process has read, another may have changed.
			first, second := p.want(200, "GET", "/admin/rules/uploads", ""), q.want(200, "GET", fmt.Sprint("/admin/rules/", rule.ID), "")
			if first.etag != second.etag || first.body != second.body {
				t.Errorf("the processes answer %+v and %+v", first, second)
			}
			changed := strings.Replace(`{"name":"uploads","match":{"path":"/file/#"},"key":["user"],"limits":[{"quota":N,"window":"1m"}]}`, "N", "40", 1)
			p.want(200, "PUT", "/admin/rules/uploads", changed, "If-Match", first.etag)
			lost := q.want(412, "PUT", "/admin/rules/uploads", strings.Replace(changed, "40", "50", 1), "If-Match", second.etag)
			if !strings.Contains(lost.body, "somebody has changed it meanwhile") {
				t.Errorf("a lost update: %s", lost.body)
			}
			p.want(428, "PUT", "/admin/rules/uploads", changed)
			soon("a rule that was replaced", func() bool { return quota(q, "/file/7", "uploads") == 40 })

			// Overrides and plans are parts of a rule, with an end if they have one.
			yaml := "# for the backup\nname: uploads\nmatch: {path: /file/#}\nkey: user\nlimits: [{quota: 40, window: 1m}]\noverrides:\n  - {when: {user: backup}, exempt: true, until: 2031-02-01T00:00:00Z}\n"
			now := p.want(200, "PUT", "/admin/rules/uploads", yaml, "If-Match", "*", "Content-Type", "application/yaml")
			if text := q.want(200, "GET", "/admin/rules/uploads", "", "Accept", "application/yaml").body; text != yaml {
				t.Errorf("what was sent comes back as %q", text)
			}
			now.into(t, &rule)
			if !strings.Contains(string(rule.Rule), `"overrides":[{"when":{"user":"backup"},"exempt":true,"until":"2031-02-01T00:00:00Z"}]`) {
				t.Errorf("as JSON it is %s", rule.Rule)
			}
			soon("an override", func() bool {
				return quotaOf(q, "backup", "/file/7", "uploads") == -1 && quotaOf(q, "ann", "/file/7", "uploads") == 40
			})

			p.want(200, "POST", "/admin/rules/uploads/disable", "")
			soon("a rule that is off", func() bool { return quota(q, "/file/7", "uploads") == -1 })
			p.want(200, "POST", "/admin/rules/uploads/enable", "")
			soon("a rule that is on", func() bool { return quota(q, "/file/7", "uploads") == 40 })
			p.want(200, "POST", "/admin/rules/uploads/shadow", "").into(t, &rule)
			if !rule.Shadow || !strings.Contains(q.ask("GET", "/admin/rules/uploads", "", "Accept", "application/yaml").body, "# for the backup") {
				t.Errorf("in shadow: %+v", rule)
			}
			p.want(200, "POST", "/admin/rules/uploads/enforce", "")

			// The plain form, and a change by SQL that is told from one by the API.
			plain := p.want(201, "POST", "/admin/rules", "path: /entity/#\ncalls: 10\nperiod: 1m\n", "Content-Type", "application/yaml")
			soon("a plain rule", func() bool { return quota(q, "/entity/5", "rule-2") == 10 })
			table.setCalls(t, 2, 11)
			q.want(412, "PUT", "/admin/rules/2", `{"path":"/entity/#","calls":12,"period":"1m"}`, "If-Match", plain.etag)
			soon("a change by SQL", func() bool { return quota(p, "/entity/5", "rule-2") == 11 })
			q.want(200, "POST", "/admin/rules/rule-2/shadow", "").into(t, &rule)
			if rule.Plain != nil || !rule.Shadow || rule.Name != "rule-2" {
				t.Errorf("a plain rule in shadow: %+v", rule)
			}

			// History, and back.
			var history ruleadmin.History
			p.want(200, "GET", "/admin/rules/2/history", "").into(t, &history)
			var who []string
			for _, c := range history.Changes {
				who = append(who, c.By)
			}
			if strings.Join(who, ",") != "ops,,ops" || !strings.Contains(history.Changes[1].Text, "calls: 11") {
				t.Errorf("the history: %+v", history)
			}
			etag := p.want(200, "GET", "/admin/rules/2", "").etag
			back := fmt.Sprintf(`{"change":%d}`, history.Changes[2].Change)
			p.want(428, "POST", "/admin/rules/2/rollback", back)
			p.want(200, "POST", "/admin/rules/2/rollback", back, "If-Match", etag)
			soon("the way back", func() bool { return quota(q, "/entity/5", "rule-2") == 10 })
			etag = p.want(200, "GET", "/admin/rules/2", "").etag
			p.want(428, "DELETE", "/admin/rules/2", "")
			p.want(412, "DELETE", "/admin/rules/2", "", "If-Match", now.etag)
			p.want(204, "DELETE", "/admin/rules/2", "", "If-Match", etag)
			soon("a rule that is gone", func() bool { return quota(q, "/entity/5", "rule-2") == -1 })
			p.want(404, "GET", "/admin/rules/2", "")
			p.want(200, "GET", "/admin/rules/2/history?limit=1", "").into(t, &history)
			if c := history.Changes[0]; !c.Deleted || history.NextCursor == "" {
				t.Errorf("the last change: %+v", history)
			}
			p.want(200, "POST", "/admin/rules/2/rollback", fmt.Sprintf(`{"change":%d}`, history.Changes[0].Change))
			soon("a rule that is there again", func() bool { return quota(q, "/entity/5", "rule-2") == 10 })

			for _, want := range []string{
				`"msg":"rule changed","change":"create","who":"ops"`, `"change":"replace","who":"ops"`, `"change":"delete"`, `"change":"rollback"`, `"change":"shadow"`,
			} {
				if !strings.Contains(p.log.String(), want) && !strings.Contains(q.log.String(), want) {
					t.Errorf("the log has no %s", want)
				}
			}
			if strings.Contains(p.log.String(), opsToken) {
				t.Error("the token is in the log")
			}
			if strings.Contains(p.log.String(), "rules table: ") {
				t.Errorf("the API let in a rule that is wrong: %s", shortLog(p.log.String()))
			}
		})
	}
}

// TestRulesByAPIRefused sends what no rule may be. Every answer says what is wrong and
// where, it is in the log, and nothing has changed.
func TestRulesByAPIRefused(t *testing.T) {
	for _, kind := range append(ruleTables, sqliteTable, redisTable) {
		t.Run(kind.name, func(t *testing.T) {
			table := kind.open(t)
			p := serve(t, hello, table.config()+adminConfig)
			one := p.want(201, "POST", "/admin/rules", `{"name":"one","match":{"path":"/one/#"},"key":["user"],"limits":[{"quota":1,"window":"1m"}]}`)
			two := p.want(201, "POST", "/admin/rules", `{"path":"/two","calls":2,"period":"1m"}`)
			p.want(201, "POST", "/admin/rules", `{"name":"three","match":{"path":"/three"},"limits":[{"quota":1,"window":"1m"}],"replaces":["one"]}`)
			rows := func() []rules.Row {
				all, err := table.source.List(t.Context(), 0, 100)
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			version, err := table.source.Version(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before := fmt.Sprint(rows())
			rule := func(fields string) string { return `{"name":"new",` + fields + `}` }
			for _, tt := range []struct {
				what, method, path, body string
				headers                  []string
				status                   int
				want                     string // in the answer
			}{
				{"an unknown path pattern", "POST", "/admin/rules", rule(`"match":{"path":"/a/{x"},"limits":[{"quota":1,"window":"1m"}]`), nil, 422, `"field":"match.path"`},
				{"an unknown plain path", "POST", "/admin/rules", `{"path":"/a/{x}","calls":1,"period":"1m"}`, nil, 422, `"field":"path"`},
				{"max -1", "POST", "/admin/rules", `{"path":"/a","calls":-1,"period":"1m"}`, nil, 422, `"field":"calls"`},
				{"a quota of -1", "POST", "/admin/rules", rule(`"limits":[{"quota":-1,"window":"1m"}]`), nil, 422, `"field":"limits[0].quota"`},
				{"a period of 0", "POST", "/admin/rules", `{"path":"/a","calls":1,"period":"0s"}`, nil, 422, `"field":"period"`},
				{"a window of 0", "POST", "/admin/rules", rule(`"limits":[{"quota":1,"window":"0s"}]`), nil, 422, `"field":"limits[0].window"`},
				{"three mistakes", "POST", "/admin/rules", rule(`"status":418,"key":["a b"],"limits":[{"quota":-1,"window":"0s"}]`), nil, 422, `"field":"status"`},
				{"an unknown field", "POST", "/admin/rules", rule(`"limts":[]`), nil, 422, `did you mean`},
				{"two rules for one plain path", "POST", "/admin/rules", `{"path":"/two","calls":3,"period":"1m"}`, nil, 409, ``},
				{"two rules for one path", "POST", "/admin/rules", rule(`"match":{"path":"/one/#"},"key":["user"],"limits":[{"quota":2,"window":"1m"}]`), nil, 409, `exactly what rule \"one\" does`},
				{"a name that is taken", "POST", "/admin/rules", `{"name":"one","limits":[{"quota":1,"window":"1m"}]}`, nil, 409, `"field":"name"`},
				{"a name of the file", "POST", "/admin/rules", `{"name":"all","limits":[{"quota":1,"window":"1m"}]}`, nil, 409, `"field":"name"`},
				{"a name that another rule needs", "PUT", "/admin/rules/one", `{"name":"uno","match":{"path":"/one/#"},"limits":[{"quota":1,"window":"1m"}]}`, []string{"If-Match", one.etag}, 409, `"rule":"three"`},
				{"a rule that another one replaces is deleted", "DELETE", "/admin/rules/one", "", []string{"If-Match", one.etag}, 409, `"rule":"three"`},
				{"a rule that another one replaces is switched off", "POST", "/admin/rules/one/disable", "", nil, 409, `"rule":"three"`},
				{"a rule of 1 MB", "POST", "/admin/rules", rule(`"limits":[` + strings.Repeat(" ", 1<<20) + `]`), nil, 413, `262144`},
				{"a page token that was made up", "GET", "/admin/rules?cursor=YWZ0ZXI6LTE", "", nil, 400, `is made up`},
				{"a page token of the history", "GET", "/admin/history?cursor=YWZ0ZXI6MQ", "", nil, 400, `is made up`},
				{"too many", "GET", "/admin/rules?limit=1001", "", nil, 400, `1 to 1000`},
				{"a parameter that there is not", "GET", "/admin/rules?limits=1", "", nil, 400, `limits: unknown parameter`},
				{"an If-Match of another rule", "PUT", "/admin/rules/one", rule(`"limits":[{"quota":1,"window":"1m"}]`), []string{"If-Match", two.etag}, 412, `another one`},
				{"an If-Match without quotes", "PUT", "/admin/rules/one", rule(`"limits":[{"quota":1,"window":"1m"}]`), []string{"If-Match", strings.Trim(one.etag, `"`)}, 400, `If-Match`},
				{"a weak If-Match", "DELETE", "/admin/rules/2", "", []string{"If-Match", "W/" + two.etag}, 412, ``},
				{"no If-Match", "DELETE", "/admin/rules/2", "", nil, 428, `If-Match: missing`},
				{"a token with a typo", "DELETE", "/admin/rules/2", "", []string{"If-Match", "*", "Authorization", "Bearer " + strings.Replace(opsToken, "ops", "obs", 1)}, 401, ``},
				{"a token for reading", "DELETE", "/admin/rules/2", "", []string{"If-Match", "*", "Authorization", "Bearer " + readToken}, 403, `for reading`},
				{"SQL in a name", "DELETE", "/admin/rules/one'%20OR%20'1'='1", "", []string{"If-Match", "*"}, 404, ``},
				{"SQL in a path", "POST", "/admin/rules", `{"path":"/a'; DROP TABLE stint_rule; --","calls":1,"period":"1m"}`, nil, 422, `"field":"path"`},
				{"a change of another rule", "POST", "/admin/rules/2/rollback", `{"change":1}`, []string{"If-Match", "*"}, 404, `is no change of rule`},
				{"a change that there is not", "POST", "/admin/rules/2/rollback", `{"change":0}`, []string{"If-Match", "*"}, 400, `change`},
				{"a body where there is none", "POST", "/admin/rules/2/disable", `{}`, nil, 400, `none is allowed`},
				{"another type", "POST", "/admin/rules", `name: x`, []string{"Content-Type", "text/plain"}, 415, `application/yaml`},
				{"YAML that says it is JSON", "POST", "/admin/rules", `name: x`, nil, 400, `not JSON`},
				{"a bomb of aliases", "POST", "/admin/rules", aliasBomb, []string{"Content-Type", "application/yaml"}, 422, ``},
				{"another method", "PATCH", "/admin/rules/2", `{}`, nil, 405, `PATCH`},
				{"a path that there is not", "GET", "/admin/rules/2/hstory", "", nil, 404, `no such path`},
			} {
				a := p.ask(tt.method, tt.path, tt.body, tt.headers...)
				if a.status != tt.status || !strings.Contains(a.body, tt.want) || a.header.Get("Content-Type") != "application/problem+json" {
					t.Errorf("%s: %d %s; want %d and %s", tt.what, a.status, a.body, tt.status, tt.want)
				}
				if tt.what == "three mistakes" {
					var problem struct{ Errors []ruleadmin.FieldError }
					if err := json.Unmarshal([]byte(a.body), &problem); err != nil || len(problem.Errors) < 4 {
						t.Errorf("not all at once: %s", a.body)
					}
				}
			}
			if now, err := table.source.Version(t.Context()); now != version || err != nil || fmt.Sprint(rows()) != before {
				t.Errorf("something has changed: %v, %v", rows(), err)
			}
			for status := range map[int]bool{422: true, 409: true, 413: true, 412: true, 428: true, 401: true} {
				if !strings.Contains(p.log.String(), fmt.Sprintf(`"status":%d`, status)) {
					t.Errorf("no log line tells of a %d", status)
				}
			}
			if bytes.Contains([]byte(p.log.String()), []byte(opsToken[:12])) {
				t.Error("a token is in the log")
			}
			// In an attribute that anything may be, SQL is a text.
			hostile := `x'; DROP TABLE stint_rule; --`
			body, _ := json.Marshal(map[string]any{"name": "hostile", "match": map[string]any{"attributes": map[string]string{"user": hostile}}, "limits": []any{map[string]any{"quota": 1, "window": "1m"}}})
			var made ruleadmin.Rule
			p.want(201, "POST", "/admin/rules", string(body)).into(t, &made)
			if !bytes.Contains(made.Rule, []byte(hostile)) {
				t.Errorf("%s", made.Rule)
			}
		})
	}
}

// aliasBomb is a few lines that stand for billions of values.
var aliasBomb = func() string {
	var b strings.Builder
	b.WriteString("name: x\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i)
	}
	return b.String() + "key: *a12\n"
}()

// TestKeysByAPI looks at what a caller has spent and resets it: also on the other
// process, which has denied the caller from memory.
func TestKeysByAPI(t *testing.T) {
	for _, kind := range append(ruleTables, sqliteTable, redisTable) {
		t.Run(kind.name, func(t *testing.T) {
			table := kind.open(t)
			yaml := "store: '" + table.url + "'\n" + table.config() + adminConfig
			p, q := serve(t, hello, yaml), serve(t, hello, yaml)
			p.want(201, "POST", "/admin/rules", `{"name":"one","match":{"path":"/one/#"},"key":["user"],"limits":[{"quota":2,"window":"1h"}]}`)
			within(t, 5*time.Second, "the rule", func() bool { return quota(p, "/one/1", "one") == 2 && quota(q, "/one/1", "one") == 2 })
			const key = "/admin/keys?rule=one&path=/one/7&attribute.user=ann"
			state := func(p *process) ruleadmin.PolicyState {
				var keys ruleadmin.Keys
				p.want(200, "GET", key, "").into(t, &keys)
				if len(keys.Keys) != 1 || keys.Keys[0].Key != "user=ann" || len(keys.Keys[0].Policies) != 1 {
					t.Fatalf("%+v", keys)
				}
				return keys.Keys[0].Policies[0]
			}
			if s := state(p); s.Remaining != 2 || s.Limit != 2 || s.Mode != "exact" {
				t.Errorf("before: %+v", s)
			}
			spend := func(p *process) bool {
				var answer struct{ Allowed bool }
				p.want(200, "POST", "/api/v1/decisions", `{"descriptors":[{"path":"/one/5","attributes":{"user":"ann"}}]}`)
				a := p.want(200, "POST", "/api/v1/decisions", `{"descriptors":[{"path":"/one/5","attributes":{"user":"ann"}}]}`)
				if err := json.Unmarshal([]byte(a.body), &answer); err != nil {
					t.Fatal(err)
				}
				return answer.Allowed
			}
			if !spend(q) || spend(q) || spend(p) {
				t.Fatal("two may be spent, and no more")
			}
			if s := state(p); s.Remaining != 0 || s.RetryAfterMS == 0 {
				t.Errorf("after two: %+v", s)
			}
			if code := p.ask("DELETE", key, "", "Authorization", "Bearer "+readToken).status; code != 403 {
				t.Errorf("who may only read resets a key: %d", code)
			}
			p.want(200, "DELETE", key, "")
			if s := state(p); s.Remaining != 2 {
				t.Errorf("reset: %+v", s)
			}
			within(t, 2*time.Second, "the other process hears of it", func() bool { return state(q).Remaining == 2 && spend(q) })
			if !strings.Contains(p.log.String(), `"msg":"key reset","who":"ops"`) {
				t.Error("the log does not tell of the reset")
			}
			for path, status := range map[string]int{
				"/admin/keys?rule=none&path=/one/1":                       404,
				"/admin/keys?rule=one&path=/two":                          422,
				"/admin/keys?rule=one&path=/one/1&attribute.path=/x":      400,
				"/admin/keys?rule=one&path=/one/1&attribute.=x":           400,
				"/admin/keys?rule=one&path=/one/1&user=ann":               400,
				"/admin/keys?path=/one/1&path=/one/2":                     400,
				"/admin/keys?attribute.user=" + strings.Repeat("x", 9000): 400,
			} {
				if a := p.ask("GET", path, ""); a.status != status {
					t.Errorf("%.80s: %d %s; want %d", path, a.status, a.body, status)
				}
			}
		})
	}
}
