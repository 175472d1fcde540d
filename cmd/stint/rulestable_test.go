package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/store/mysql"
	"github.com/stint-dev/stint/store/postgres"
	"github.com/stint-dev/stint/store/redis"
	"github.com/stint-dev/stint/store/sqlite"
)

// ruleTable is a table of rules in a database of its own.
type ruleTable struct {
	url    string
	server *servertest.Process
	db     *sql.DB           // as people have it
	redis  *servertest.Redis // in place of db
	source rules.Source
}

var ruleTables = []struct {
	name string
	open func(t *testing.T) ruleTable
}{
	{"mysql", func(t *testing.T) ruleTable {
		server := servertest.StartMariaDB(t)
		r := ruleTable{url: server.URL + "stint", server: &server.Process}
		migrated(t, r.url)
		s, err := mysql.Open(t.Context(), r.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		r.source = s.Rules()
		r.db = sqlDB(t, "mysql", "root@tcp("+server.Address+")/stint")
		return r
	}},
	{"postgres", func(t *testing.T) ruleTable {
		server := servertest.StartPostgres(t)
		r := ruleTable{url: server.URL, server: &server.Process}
		migrated(t, r.url)
		s, err := postgres.Open(t.Context(), r.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		r.source = s.Rules()
		r.db = sqlDB(t, "pgx", r.url)
		return r
	}},
}

func migrated(t *testing.T, url string) {
	t.Helper()
	if code, out, errs := stint(t, "migrate", "--store", url); code != exitOK {
		t.Fatalf("migrate: %d %q %q", code, out, errs)
	}
}

func sqlDB(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (r *ruleTable) execute(t *testing.T, text string) {
	t.Helper()
	if _, err := r.db.ExecContext(context.Background(), text); err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
}

// setCalls changes a row by hand.
func (r *ruleTable) setCalls(t *testing.T, id, calls int64) {
	t.Helper()
	if r.redis == nil {
		r.execute(t, fmt.Sprintf("UPDATE stint_rule SET calls = %d WHERE id = %d", calls, id))
		return
	}
	row := strings.TrimSpace(r.redis.Run(t, "HGET", "stint:{rules}", fmt.Sprint(id)))
	row = regexp.MustCompile(`"calls":\d+`).ReplaceAllString(row, fmt.Sprintf(`"calls":%d`, calls))
	r.redis.Run(t, "HSET", "stint:{rules}", fmt.Sprint(id), row)
}

// config takes the rules of the table, and has one of its own.
func (r *ruleTable) config() string {
	return "rules_from: {store: '" + r.url + "', key: path}\n" + `
rules:
  - {name: all, limits: [{quota: 1000000, window: 1h}]}
`
}

// quota returns what a process says of a rule to whoever calls a path: its quota,
// and -1 if it does not hold.
func quota(p *process, path, rule string) (n int64) { return quotaOf(p, "", path, rule) }

// quotaOf is quota for a user.
func quotaOf(p *process, user, path, rule string) (n int64) {
	p.t.Helper()
	r, err := http.NewRequest("GET", p.proxy+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("X-User", user)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	policies := resp.Header.Values("RateLimit-Policy")
	for policy := range strings.SplitSeq(strings.Join(policies, ","), ",") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(policy), `"`+rule+`";q=`); ok {
			fmt.Sscan(rest, &n)
			return n
		}
	}
	return -1
}

// TestRulesTable has three processes follow a table: a hundred changes, by hand and
// by Put in turn, each in force everywhere within a second.
func TestRulesTable(t *testing.T) {
	for _, kind := range append(ruleTables, redisTable) {
		t.Run(kind.name, func(t *testing.T) {
			table := kind.open(t)
			query := rules.Row{Enabled: true, Name: "query", Path: "/entity/#/table/query", Calls: 1000, PeriodMS: 3_600_000}
			if _, err := table.source.Put(t.Context(), query, "ann"); err != nil {
				t.Fatal(err)
			}
			nodes := []*process{serve(t, hello, table.config()), serve(t, hello, table.config()), serve(t, hello, table.config())}
			for i, node := range nodes {
				if q := quota(node, "/Entity//12;x/table/query/", "query"); q != 1000 {
					t.Fatalf("node %d began with a quota of %d, want 1000", i, q)
				}
			}
			var took []time.Duration
			for change := int64(1); change <= 100; change++ {
				want := 1000 + change
				if change%2 == 0 {
					table.setCalls(t, 1, want)
				} else {
					row, err := table.source.Get(t.Context(), 1)
					if err != nil {
						t.Fatal(err)
					}
					row.Calls = want
					if _, err := table.source.Put(t.Context(), row, "ann"); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				for _, node := range nodes {
					for quota(node, "/entity/13/table/query", "query") != want {
						if time.Since(began) > 10*time.Second {
							t.Fatalf("change %d is not in force", change)
						}
						time.Sleep(time.Millisecond)
					}
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			t.Logf("in force on 3 nodes after: median %v, 99th of 100 %v, last %v", took[49], took[98], took[99])
			if took[98] > time.Second {
				t.Errorf("the 99th of 100 changes was in force after %v, want a second at most", took[98])
			}
		})
	}
}

// TestRulesTableReports has rows that are wrong: they are told and left out, and
// the others hold.
func TestRulesTableReports(t *testing.T) {
	for _, kind := range ruleTables {
		t.Run(kind.name, func(t *testing.T) {
			table := kind.open(t)
			for _, values := range []string{
				`(id, name, path, calls, period_ms) VALUES (1, 'good', '/good', 7, 3600000)`,
				`(id, path, calls, period_ms) VALUES (2, '/entity/12', 7, 3600000)`,
				`(id, path, calls, period_ms) VALUES (3, '/x''; DROP TABLE stint_rule; --', 7, 3600000)`,
				`(id, rule) VALUES (4, 'name: all
key: path
limits: [{quota: 1, window: 1m}]')`,
				`(id, rule) VALUES (5, 'name: typo
limits:
  - {quotta: 1, window: 1m}')`,
				`(id, rule) VALUES (6, 'name: unsound
match: {path: "/a/{b"}
limits: [{quota: -1, window: 0s}]')`,
				`(id, path, calls, period_ms) VALUES (7, '/GOOD', 8, 3600000)`,
				`(id, rule) VALUES (8, '{"name": "json", "match": {"path": "/good"}, "limits": [{"quota": 9, "window": "1h"}]}')`,
				`(id, enabled, rule) VALUES (9, FALSE, 'nonsense')`,
				`(id, name, rule) VALUES (10, 'ten', '- name: ten')`,
				`(id, rule) VALUES (11, '` + strings.Repeat("x", 1<<20) + `')`,
			} {
				table.execute(t, "INSERT INTO stint_rule "+values)
			}
			p := serve(t, hello, table.config())
			if a, b := quota(p, "/good", "good"), quota(p, "/good", "json"); a != 7 || b != 9 {
				t.Errorf("the good rows have quotas of %d and %d, want 7 and 9", a, b)
			}
			for _, want := range []string{
				`"msg":"rules table: \"/entity/12\" is the name of no API; paths are brought into one form, with # for ids, before they are matched: write \"/entity/#\"","row":2,"field":"path"`,
				`"row":3,"field":"path"`,
				`"msg":"rules table: \"all\" is already the name of rules[0]","row":4,"field":"name"`,
				`"msg":"rules table: line 3: unknown field (did you mean quota?); allowed here: name, algorithm, quota, window, burst","row":5,"field":"limits[0].quotta"`,
				`"msg":"rules table: \"/a/{b\" has text beside braces in \"{b\"; a segment is either text or one {name}","row":6,"field":"match.path"`,
				`"msg":"rules table: -1 is negative; 0 (admit nothing) or more is allowed","row":6,"field":"limits[0].quota"`,
				`"msg":"rules table: 0s is out of bounds; 1ms to 365d is allowed","row":6,"field":"limits[0].window"`,
				`"msg":"rules table: matches and counts exactly what rule \"good\" does; put its limits into one rule","row":7,"field":""`,
				`"msg":"rules table: the rule holds a list; a mapping is allowed, which begins with name:","row":10,"field":""`,
				`"msg":"rules table: has 1048576 bytes; at most 262144 are allowed, put callers that are alike into a plan","row":11,"field":"rule"`,
			} {
				if !strings.Contains(p.log.String(), want) {
					t.Errorf("the log has no %s", want)
				}
			}
			metrics := p.text(p.api + "/metrics")
			for _, want := range []string{"stint_rules_table_rows 11\n", "stint_rules_table_rows_in_force 2\n", "stint_rules_table_rows_refused 8\n", "stint_rules_table_current 1\n"} {
				if !strings.Contains(metrics, want) {
					t.Errorf("the metrics have no %s", want)
				}
			}
			table.execute(t, "UPDATE stint_rule SET path = '/entity/#' WHERE id = 2")
			within(t, 5*time.Second, "the row that was put right", func() bool { return quota(p, "/entity/5", "rule-2") == 7 })
			p.edit("name: all", "name: every")
			within(t, 5*time.Second, "the row whose name is free now", func() bool { return quota(p, "/x", "all") == 1 })
			if t.Failed() {
				t.Log(shortLog(p.log.String()))
			}
		})
	}
}

func shortLog(text string) string { return text[:min(len(text), 10_000)] }

// text returns what a process answers.
func (p *process) text(url string) string {
	p.t.Helper()
	body, err := io.ReadAll(p.get(url).Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(body)
}

// TestRulesTableAway stops the database: the rules stay, everybody is told, and
// what changed meanwhile is in force afterwards. A process does not start without.
func TestRulesTableAway(t *testing.T) {
	for _, kind := range ruleTables {
		t.Run(kind.name, func(t *testing.T) {
			table := kind.open(t)
			table.execute(t, "INSERT INTO stint_rule (name, path, calls, period_ms) VALUES ('one', '/one', 7, 3600000)")
			p := serve(t, hello, table.config())
			if ready := p.text(p.api + "/readyz"); ready != "ok\n" {
				t.Errorf("/readyz: %q", ready)
			}
			table.server.Pause(t)
			within(t, 20*time.Second, "that the table does not answer", func() bool {
				return strings.HasPrefix(p.text(p.api+"/readyz"), "degraded: the rules table does not answer; the rules that were read last stay in force")
			})
			if code := p.get(p.api + "/readyz").StatusCode; code != http.StatusOK {
				t.Errorf("/readyz: %d, want 200: it decides as ever", code)
			}
			if !strings.Contains(p.text(p.api+"/metrics"), "stint_rules_table_current 0\n") {
				t.Error("the metrics do not tell that the table does not answer")
			}
			if q := quota(p, "/one", "one"); q != 7 {
				t.Errorf("meanwhile the quota is %d, want 7", q)
			}
			p.edit("name: all", "name: every")
			within(t, 5*time.Second, "a change of the file meanwhile", func() bool { return quota(p, "/one", "every") > 0 && quota(p, "/one", "one") == 7 })
			table.server.Resume(t)
			table.execute(t, "UPDATE stint_rule SET calls = 8")
			within(t, 20*time.Second, "the change", func() bool { return quota(p, "/one", "one") == 8 })
			if ready := p.text(p.api + "/readyz"); ready != "ok\n" {
				t.Errorf("/readyz: %q", ready)
			}
			if n := strings.Count(p.log.String(), "the rules table does not answer; the rules that were read last stay in force\",\"error\""); n != 1 {
				t.Errorf("%d log lines tell that the table is away, want 1", n)
			}
			if !strings.Contains(p.log.String(), "the rules table answers again") {
				t.Error("no log line tells that the table answers again")
			}
		})
	}
}

// TestTenThousandRows has as many rules as there may be. Requests go on while one
// of them changes.
func TestTenThousandRows(t *testing.T) {
	table := ruleTables[0].open(t)
	for from := 0; from < 10_000-1; from += 1000 {
		var values []string
		for i := from; i < min(from+1000, 10_000-1); i++ {
			values = append(values, fmt.Sprintf("('r%d', '/api%d/#', 100000, 3600000)", i, i))
		}
		table.execute(t, "INSERT INTO stint_rule (name, path, calls, period_ms) VALUES "+strings.Join(values, ", "))
	}
	p := serve(t, hello, table.config())
	if !strings.Contains(p.text(p.api+"/metrics"), "stint_rules_table_rows_in_force 9999\n") {
		t.Fatal("not all rows are in force")
	}
	ctx, stop := context.WithCancel(t.Context())
	slowest := make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond) // a load, but not all that there can be
			began := time.Now()
			resp, err := http.Get(p.proxy + "/api77/5")
			if err != nil {
				t.Error(err)
				break
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			most = max(most, time.Since(began))
		}
		slowest <- most
	}()
	for change := range int64(5) {
		table.execute(t, fmt.Sprintf("UPDATE stint_rule SET calls = %d WHERE name = 'r9998'", 5+change))
		began := time.Now()
		within(t, time.Minute, "the change", func() bool { return quota(p, "/api9998/5", "r9998") == 5+change })
		t.Logf("change %d of 10,000 rules in force after %v", change, time.Since(began))
	}
	stop()
	t.Logf("the slowest request meanwhile took %v", <-slowest)
	for _, took := range regexp.MustCompile(`rules table in force.*"took":"([^"]*)"`).FindAllStringSubmatch(p.log.String(), -1) {
		t.Log("compiled and swapped in", took[1])
	}
}

var sqlFence = regexp.MustCompile("(?s)```sql\n(.*?)```")

// TestRulesInADatabase runs the SQL of the manual on every database that it speaks
// of, under its configuration.
func TestRulesInADatabase(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules-in-a-database.md")
	if err != nil {
		t.Fatal(err)
	}
	fences := sqlFence.FindAllStringSubmatch(string(text), -1)
	yaml := regexp.MustCompile("(?s)```yaml\nversion: 1\nproxy: [^\n]*\nrules_from: [^\n]*\n(.*?)```").FindStringSubmatch(string(text))
	if len(fences) != 7 || yaml == nil {
		t.Fatalf("%d pieces of SQL, want 7, and a configuration: %v", len(fences), yaml)
	}
	for _, kind := range append(ruleTables, sqliteTable) {
		t.Run(kind.name, func(t *testing.T) {
			table := kind.open(t)
			p := serve(t, hello, "rules_from: {store: '"+table.url+"'}\n"+yaml[1])
			const query = "/repo/v1/entity/syn12/table/query"
			for i, holds := range []func() bool{
				func() bool { return quota(p, query, "rule-1") == 10 },
				func() bool { return quota(p, query, "rule-1") == 20 },
				func() bool { return deleted(p, "/repo/v1/entity/syn12") == http.StatusServiceUnavailable },
				func() bool { return quota(p, query, "rule-1") == -1 },
				func() bool { return quota(p, query, "rule-1") == 20 },
				func() bool {
					return quota(p, "/file/v1/file/7", "uploads") == 30 && quotaOf(p, "ann", "/file/v1/file/7", "uploads") == 300
				},
				func() bool { return quota(p, "/file/v1/file/7", "uploads") == -1 },
			} {
				table.execute(t, fences[i][1])
				within(t, 5*time.Second, "what the manual says of "+fences[i][1], holds)
			}
			if strings.Contains(p.log.String(), "rules table: ") {
				t.Errorf("a row of the manual is wrong: %s", shortLog(p.log.String()))
			}
		})
	}
}

var sqliteTable = struct {
	name string
	open func(t *testing.T) ruleTable
}{"sqlite", func(t *testing.T) ruleTable {
	file := filepath.Join(t.TempDir(), "stint.db")
	s, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return ruleTable{url: "sqlite:" + file, source: s.Rules(), db: sqlDB(t, "sqlite", file)}
}}

var redisTable = struct {
	name string
	open func(t *testing.T) ruleTable
}{"redis", func(t *testing.T) ruleTable {
	server := servertest.StartRedis(t)
	r := ruleTable{url: server.URL, server: &server.Process, redis: server}
	migrated(t, r.url)
	s, err := redis.Open(t.Context(), r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r.source = s.Rules()
	return r
}}

var redisFence = regexp.MustCompile("(?s)```sh\n(redis-cli .*?)```")

// TestRulesInRedis runs the commands of the manual.
func TestRulesInRedis(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules-in-a-database.md")
	if err != nil {
		t.Fatal(err)
	}
	fences := redisFence.FindAllStringSubmatch(string(text), -1)
	yaml := regexp.MustCompile("(?s)```yaml\nversion: 1\nproxy: [^\n]*\nrules_from: [^\n]*\n(.*?)```").FindStringSubmatch(string(text))
	if len(fences) != 6 || yaml == nil {
		t.Fatalf("%d commands, want 6, and a configuration: %v", len(fences), yaml)
	}
	table := redisTable.open(t)
	p := serve(t, hello, "rules_from: {store: '"+table.url+"'}\n"+yaml[1])
	_, port, _ := strings.Cut(table.server.Address, ":")
	const query, file = "/repo/v1/entity/syn12/table/query", "/file/v1/file/7"
	for i, holds := range []func() bool{
		func() bool { return quota(p, query, "rule-1") == 10 },
		func() bool { return quota(p, query, "rule-1") == 20 },
		func() bool { return quota(p, query, "rule-1") == -1 },
		func() bool { return quotaOf(p, "ann", file, "uploads") == 30 },
		func() bool { return quotaOf(p, "ann", file, "uploads") == -1 },
		func() bool { return strings.Contains(p.text(p.api+"/metrics"), "stint_rules_table_rows 1\n") },
	} {
		command := strings.Replace(fences[i][1], "redis-cli", "redis-cli -p "+port, 1)
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		within(t, 5*time.Second, "what the manual says of "+command, holds)
	}
	if strings.Contains(p.log.String(), "rules table: ") {
		t.Errorf("a row of the manual is wrong: %s", shortLog(p.log.String()))
	}
}

// TestRulesInMongoDB does to a collection what the manual does in mongosh.
func TestRulesInMongoDB(t *testing.T) {
	url := servertest.StartMongoDB(t).URL + "/stint"
	migrated(t, url)
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	table := client.Database("stint").Collection("stint_rule")
	p := serve(t, hello, "rules_from: {store: '"+url+"', key: path}\n")
	path := bson.D{{Key: "path", Value: "/x"}}
	set := func(field string, value any) func() error {
		return func() error {
			_, err := table.UpdateOne(t.Context(), path, bson.D{{Key: "$set", Value: bson.D{{Key: field, Value: value}}}})
			return err
		}
	}
	for _, step := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"an insert", func() error {
			_, err := table.InsertOne(t.Context(), append(path, bson.E{Key: "calls", Value: 10}, bson.E{Key: "period_ms", Value: 60_000}))
			return err
		}, 10},
		{"an update", set("calls", 20), 20},
		{"one that switches it off", set("enabled", false), -1},
		{"one that switches it on", set("enabled", true), 20},
		{"a removal", func() error { _, err := table.DeleteOne(t.Context(), path); return err }, -1},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		within(t, 5*time.Second, step.what, func() bool { return quota(p, "/x", "rule-1") == step.want })
	}
}

// deleted returns the answer to a DELETE.
func deleted(p *process, path string) int {
	p.t.Helper()
	r, err := http.NewRequest("DELETE", p.proxy+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
