package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/transport/rest"
)

// chain is a process with the three stages of a throttle: at most 3 requests of a
// caller at once, 600 a minute of all kinds, and what a table says of single APIs.
type chain struct {
	*process
	table ruleTable
	slow  chan struct{} // what a request for /slow waits for
	begun atomic.Int64  // requests for /slow
}

const chainRules = `
paths: {after: v1, ids: [numbers, "syn*"]}
isolation:
  seats: 64
  tenant: user|ip
  status: 429
  guarantee: 0
  plans: {default: {max_seats: 3, queue: 0}}
  routes:
    - {match: {attributes: {user: backup}}, enabled: false}
rules:
  - name: all-calls
    key: user|ip
    limits: [{quota: 600, window: 1m, algorithm: log}]
    overrides:
      - {when: {user: backup}, exempt: true}
`

func startChain(t *testing.T) *chain {
	c := &chain{table: sqliteTable.open(t), slow: make(chan struct{})}
	for _, values := range []string{
		`(rule) VALUES ('{name: get-entity, match: {methods: GET, path: "/entity/#"}, key: user|ip, limits: [{quota: 10, window: 1m, algorithm: log}]}')`,
		`(rule) VALUES ('{name: delete-entity, match: {methods: DELETE, path: "/entity/#"}, key: user|ip, status: 503, limits: [{quota: 5, window: 1m, algorithm: log}]}')`,
		`(name, path, calls, period_ms) VALUES ('bundle', '/entity/#/bundle', 10, 3600000)`,
		`(name, path, calls, period_ms) VALUES ('closed', '/closed', 0, 60000)`,
	} {
		c.table.execute(t, "INSERT INTO stint_rule "+values)
	}
	keys := ""
	for _, user := range []string{"ann", "bob", "joe", "backup"} {
		sum := sha256.Sum256([]byte("key-of-" + user))
		keys += user + " " + hex.EncodeToString(sum[:]) + "\n"
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			c.begun.Add(1)
			<-c.slow
		}
	})
	c.process = serve(t, upstream, "rules_from: {store: '"+c.table.url+"', key: user|ip}\nidentity: {attributes: {user: [{api_key: {keys_file: "+file+"}}]}}\n"+chainRules)
	return c
}

// answer is what came of a request.
type answer struct {
	status int
	retry  int
	detail string
	by     []string
}

func (a answer) String() string { return fmt.Sprintf("%d %v %q", a.status, a.by, a.detail) }

// send sends a request of a user, with headers given as name, value, name, value.
func (c *chain) send(user, method, path string, headers ...string) (a answer) {
	r, err := http.NewRequest(method, c.proxy+path, nil)
	if err != nil {
		c.t.Error(err)
		return a
	}
	if user != "" {
		r.Header.Set("X-API-Key", "key-of-"+user)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Error(err)
		return a
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Error(err)
	}
	var problem struct {
		Detail string
		By     []string `json:"violated-policies"`
	}
	if resp.StatusCode != http.StatusOK {
		if err := json.Unmarshal(body, &problem); err != nil {
			c.t.Errorf("%d %s: %v", resp.StatusCode, body, err)
		}
	}
	a = answer{status: resp.StatusCode, detail: problem.Detail, by: problem.By}
	a.retry, _ = strconv.Atoi(resp.Header.Get("Retry-After"))
	return a
}

// left returns what a policy has left for a user who asks for a path.
func (c *chain) left(user, method, path, policy string) int64 {
	c.t.Helper()
	q := rest.Question{HTTP: method + " " + path + " HTTP/1.1\nHost: x\nX-API-Key: key-of-" + user, Peer: "127.0.0.1"}
	body, err := json.Marshal(q)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.Post(c.api+"/api/v1/explain", "application/json", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var e rest.Explanation
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		c.t.Fatal(err)
	}
	for _, r := range e.Rules {
		for _, p := range r.Policies {
			if p.Policy == policy {
				return p.Remaining
			}
		}
	}
	c.t.Fatalf("%s is not asked for %s %s: %+v", policy, method, path, e)
	return 0
}

func (c *chain) keys() string {
	c.t.Helper()
	return regexp.MustCompile(`(?m)^stint_memory_keys (.*)$`).FindStringSubmatch(c.text(c.api + "/metrics"))[1]
}

// Each stage denies with its own reason and numbers, and a stage that denies has
// nothing spent at another: no seat, no unit.
func TestChain(t *testing.T) {
	c := startChain(t)

	// At once.
	done := make(chan answer, 3)
	for range 3 {
		go func() { done <- c.send("ann", "GET", "/slow") }()
	}
	within(t, 10*time.Second, "three slow requests", func() bool { return c.begun.Load() == 3 })
	for range 5 {
		if a := c.send("ann", "GET", "/v1/entity/syn1"); a.status != 429 || a.by != nil || a.retry < 1 ||
			!strings.HasPrefix(a.detail, "Too many requests of this caller are running and waiting: 3 at once are allowed, and 0 more may wait.") {
			t.Fatalf("the fourth at once: %v", a)
		}
	}
	if a := c.send("bob", "GET", "/v1/entity/syn1"); a.status != 200 {
		t.Errorf("another caller meanwhile: %v", a)
	}
	if all, entity := c.left("ann", "GET", "/v1/entity/1", "all-calls"), c.left("ann", "GET", "/v1/entity/1", "get-entity"); all != 597 || entity != 10 {
		t.Errorf("%d and %d are left, want 597 and 10: who gets no seat spends nothing", all, entity)
	}
	close(c.slow)
	for range 3 {
		if a := <-done; a.status != 200 {
			t.Errorf("a slow request: %v", a)
		}
	}

	// For each API, whatever the id and however it is written; more denials than seats.
	for i := range 10 {
		path := []string{"/v1/entity/syn%d", "/repo/v1/Entity/%d/", "/v1//entity/%d;x=1", "/v1/%%65ntity/SYN%d"}[i%4]
		if a := c.send("ann", "GET", fmt.Sprintf(path, i)); a.status != 200 {
			t.Fatalf("request %d for an entity: %v", i, a)
		}
	}
	for range 5 {
		if a := c.send("ann", "GET", "/v1/entity/77"); a.status != 429 || a.retry < 1 || a.retry > 60 || fmt.Sprint(a.by) != "[get-entity]" ||
			!strings.HasPrefix(a.detail, `Policy "get-entity" allows 10 of /entity/# in 1m, and this request would exceed that.`) {
			t.Fatalf("the eleventh for an entity: %v", a)
		}
	}
	for i := range 5 {
		if a := c.send("ann", "DELETE", "/v1/entity/5"); a.status != 200 {
			t.Fatalf("DELETE %d: %v", i, a)
		}
	}
	if a := c.send("ann", "DELETE", "/v1/entity/5"); a.status != 503 || fmt.Sprint(a.by) != "[delete-entity]" || !strings.Contains(a.detail, "allows 5 of /entity/# in 1m") {
		t.Errorf("the sixth DELETE: %v", a)
	}
	if a := c.send("ann", "GET", "/closed"); a.status != 429 || fmt.Sprint(a.by) != "[closed]" || !strings.Contains(a.detail, "allows 0 of /closed in 1m") {
		t.Errorf("an API of which no call is allowed: %v", a)
	}
	if _, err := c.table.db.Exec("INSERT INTO stint_rule (path, calls, period_ms) VALUES ('/period', 1, 0)"); err == nil {
		t.Error("a period of 0 is not refused")
	}
	if a := c.send("bob", "GET", "/v1/entity/78"); a.status != 200 {
		t.Errorf("another caller of the API: %v", a)
	}
	if all := c.left("ann", "GET", "/", "all-calls"); all != 582 {
		t.Errorf("%d are left of all calls, want 582: 18 were let through, and what an API's limit denies spends nothing", all)
	}

	// Of all kinds.
	for i := range 582 {
		if a := c.send("ann", "GET", "/v1/other"); a.status != 200 {
			t.Fatalf("call %d of all: %v", 18+i, a)
		}
	}
	for range 4 {
		if a := c.send("ann", "GET", "/v1/entity/syn9/bundle"); a.status != 429 || fmt.Sprint(a.by) != "[all-calls]" ||
			!strings.HasPrefix(a.detail, `Policy "all-calls" allows 600 in 1m, and this request would exceed that.`) {
			t.Fatalf("the 601st call: %v", a)
		}
	}
	if n := c.left("ann", "GET", "/v1/entity/9/bundle", "bundle"); n != 10 {
		t.Errorf("%d bundles are left, want 10: what the limit of all calls denies spends nothing", n)
	}
}

// Who is not limited is said by a rule: a service account only where it is exempt, and
// a caller without a name by its address.
func TestChainExemptsNobodyByAccident(t *testing.T) {
	c := startChain(t)
	for i := range 620 {
		if a := c.send("backup", "GET", "/v1/other"); a.status != 200 {
			t.Fatalf("call %d of an exempt account: %v", i, a)
		}
	}
	for _, user := range []string{"backup", ""} {
		for i := range 11 {
			a := c.send(user, "GET", "/v1/entity/1")
			if (a.status == 200) != (i < 10) {
				t.Errorf("%q, call %d of an API with a limit for everybody: %v", user, i, a)
			}
		}
	}
	// A key that nobody has is nobody's: the same address as before, so nothing is left.
	if a := c.send("nobody", "GET", "/v1/entity/1"); a.status != 429 {
		t.Errorf("a made-up key: %v", a)
	}
	if n := c.left("nobody", "GET", "/", "all-calls"); n != 590 {
		t.Errorf("%d are left to the address, want 590", n)
	}
}

// A caller who changes what it can change is the same caller, and takes no more memory.
func TestChainIsNotEvaded(t *testing.T) {
	c := startChain(t)
	c.send("joe", "GET", "/v1/entity/1")
	keys := c.keys()
	began := time.Now()
	var admitted, next atomic.Int64
	admitted.Add(1)
	var callers sync.WaitGroup
	for range 3 { // no more than may run at once
		callers.Go(func() {
			for i := next.Add(1); i <= 10_000; i = next.Add(1) {
				n := strconv.FormatInt(i, 10)
				address := fmt.Sprintf("198.51.%d.%d", i/250, i%250)
				a := c.send("joe", "GET", "/v1/entity/syn"+n, "Cookie", "sessionID="+n, "X-Forwarded-For", address, "Forwarded", "for="+address, "User-Agent", n)
				switch {
				case a.status == 200:
					admitted.Add(1)
				case fmt.Sprint(a.by) != "[get-entity]":
					t.Errorf("request %d: %v", i, a)
					return
				}
			}
		})
	}
	callers.Wait()
	minutes := int64(time.Since(began)/time.Minute) + 1
	if n := admitted.Load(); n < 10 || n > 10*minutes {
		t.Errorf("%d of 10,001 requests in %v were admitted, want 10 a minute", n, time.Since(began))
	}
	if now := c.keys(); now != keys {
		t.Errorf("%s keys are kept, want %s as after the first request", now, keys)
	}
}
