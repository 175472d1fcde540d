package config_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/config"
)

// secret is a password that must not be seen anywhere.
const secret = "hunter2"

func TestStores(t *testing.T) {
	t.Setenv("STINT_TEST_STORE", "redis://:"+secret+"@10.0.0.1:6379/0")
	t.Setenv("STINT_TEST_FILE", "sqlite:stint.db")
	for text, want := range map[string]string{
		"memory":                   "memory",
		"sqlite:stint.db":          "sqlite:/etc/stint/stint.db",
		"sqlite:/var/lib/stint.db": "sqlite:/var/lib/stint.db",
		"env:STINT_TEST_STORE":     "redis://:" + secret + "@10.0.0.1:6379/0",
		"env:STINT_TEST_FILE":      "sqlite:/etc/stint/stint.db",
		"postgres://stint:" + secret + "@db.internal:5432/stint?sslmode=require": "",
		"postgresql://db": "",
		"postgres:///stint?host=/var/run/postgresql": "",
		"postgres://a:1,b:2/stint":                   "",
		"mysql://stint@[2001:db8::1]:3306/stint":     "",
		"mariadb://127.0.0.1/stint":                  "",
		"mongodb://u:p%40ss@a:27017,b:27017,c/stint": "",
		"mongodb+srv://cluster0.example.com/stint":   "",
		"redis://localhost":                          "",
		"rediss://cache_1:6380":                      "",
	} {
		if want == "" {
			want = text
		}
		if got, err := config.Store(text, "/etc/stint"); got != want || err != nil {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestStoresThatAreNone(t *testing.T) {
	t.Setenv("STINT_TEST_EMPTY", "")
	t.Setenv("STINT_TEST_LOOP", "env:STINT_TEST_LOOP")
	t.Setenv("STINT_TEST_PASSWORD", secret)
	t.Setenv("STINT_TEST_TYPO", "postgre://stint:"+secret+"@db/stint")
	t.Setenv("STINT_TEST_PORT", "postgres://stint:"+secret+"/x@db/stint")
	const (
		help     = "; memory, sqlite:FILE, env:NAME, or the URL of a postgres, mysql, mariadb, mongodb or redis is allowed"
		postgres = "; write postgres://USER@HOST/DATABASE, and signs within a password as %40 for @"
		redis    = "; write redis://HOST, and signs within a password as %40 for @"
	)
	for text, want := range map[string]string{
		"":                                      `"" is not a store` + help,
		"memroy":                                `"memroy" is not a store (did you mean memory?)` + help,
		"memory:5":                              "memory has nothing behind it; write memory alone",
		"sqlite":                                `"sqlite" names no file; write sqlite:stint.db`,
		"sqlite:":                               `"sqlite:" names no file; write sqlite:stint.db`,
		"env:":                                  `"env:" names no environment variable; write env:STINT_STORE`,
		"mssql://stint:" + secret + "@db/stint": `"mssql" is not a store (did you mean mysql?)` + help,
		"postgre://stint:" + secret + "@db/stint": `"postgre" is not a store (did you mean postgres?)` + help,
		"stint:" + secret + "@tcp(db:3306)/stint": `"stint" is not a store` + help,
		"postgres":                                       "a postgres URL has no // behind its scheme" + postgres,
		"postgres:stint:" + secret + "@db/stint":         "a postgres URL has no // behind its scheme" + postgres,
		"postgres:///stint":                              "a postgres URL has no host" + postgres,
		"postgres://stint:" + secret + "@/stint":         "a postgres URL has no host" + postgres,
		"postgres://stint:" + secret + "@:5432/stint":    "a postgres URL has no host" + postgres,
		"postgres://a,,b/stint":                          "a postgres URL has no host" + postgres,
		"postgres://stint:" + secret + "@db:x/stint":     "a postgres URL has a port that is not 1 to 65535" + postgres,
		"postgres://stint:" + secret + "@db:65536/stint": "a postgres URL has a port that is not 1 to 65535" + postgres,
		"postgres://stint:" + secret + "@db:0/stint":     "a postgres URL has a port that is not 1 to 65535" + postgres,
		"postgres://stint:" + secret + "/x@db/stint":     "a postgres URL has an @ or a # behind its host" + postgres,
		"postgres://stint:" + secret + "?x@db/stint":     "a postgres URL has an @ or a # behind its host" + postgres,
		"postgres://stint:" + secret + "#x@db/stint":     "a postgres URL has an @ or a # behind its host" + postgres,
		"redis://" + secret + " x@h o":                   "a redis URL has a host that is not a name, an address or several with commas between them" + redis,
		"redis://[::1":                                   "a redis URL has a host that is not a name, an address or several with commas between them" + redis,
		"env:STINT_TEST_ABSENT":                          `the environment has no variable "STINT_TEST_ABSENT"; set it to the store`,
		"env:STINT_TEST_EMPTY":                           "the environment variable STINT_TEST_EMPTY does not hold a store" + help,
		"env:STINT_TEST_LOOP":                            "the environment variable STINT_TEST_LOOP does not hold a store" + help,
		"env:STINT_TEST_PASSWORD":                        "the environment variable STINT_TEST_PASSWORD does not hold a store" + help,
		"env:STINT_TEST_TYPO":                            `in the environment variable STINT_TEST_TYPO: "postgre" is not a store (did you mean postgres?)` + help,
		"env:STINT_TEST_PORT":                            "in the environment variable STINT_TEST_PORT: a postgres URL has an @ or a # behind its host" + postgres,
	} {
		got, err := config.Store(text, "")
		if err == nil || err.Error() != want || got != "" {
			t.Errorf("%s is %q\ngot  %v\nwant %s", text, got, err, want)
		}
	}
}

// TestPasswordsAreNotPrinted loads files whose store is wrong in all ways; no
// problem may repeat what could be a password.
func TestPasswordsAreNotPrinted(t *testing.T) {
	t.Setenv("STINT_TEST_PASSWORD", secret)
	for _, store := range []string{
		"postgres://stint:hunter2/x@db/stint", "postgres://stint:hunter2@/stint", "postgres:hunter2@db", "postgre://u:hunter2@db",
		"env:STINT_TEST_PASSWORD", "root:hunter2@tcp(db)/stint",
	} {
		path := write(t, t.TempDir(), "stint.yaml", "version: 1\nstore: '"+store+"'\n")
		c, problems := config.Load(path, nil)
		if c != nil || len(problems) != 1 || problems[0].Path != "store" || problems[0].Line != 2 {
			t.Errorf("%s: %v", store, problems)
		}
		if text := printed(problems); strings.Contains(text, secret) {
			t.Errorf("%s: %s", store, text)
		}
	}
}

func TestStoreFromTheEnvironment(t *testing.T) {
	t.Setenv("STINT_TEST_STORE", "postgres://stint:"+secret+"@db/stint")
	path := write(t, t.TempDir(), "stint.yaml", "version: 1\nstore: env:STINT_TEST_STORE\n")
	c, problems := config.Load(path, nil)
	if c == nil {
		t.Fatal(printed(problems))
	}
	defer c.Close()
	if want := "postgres://stint:" + secret + "@db/stint"; c.File.Store != want {
		t.Errorf("the store is %q, want %q", c.File.Store, want)
	}
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"nothing to hide: me@example.com":                         "",
		"write redis://HOST, and %40 for @":                       "",
		"dial postgres://db:5432/stint":                           "",
		"unexpected argument postgres://u:hunter2@db/stint":       "unexpected argument postgres://u:...@db/stint",
		"redis://:hunter2/x@y@db: refused":                        "redis://:...@db: refused",
		`parse "mysql://u:hunter2 @db": invalid`:                  `parse "mysql://u:...@db": invalid`,
		"postgres://db/stint?password=hunter2&sslmode=require":    "postgres://db/stint?password=...&sslmode=require",
		"postgres://u@db/x?sslpassword=hunter2@ PWD=hunter2\nend": "postgres://u@db/x?sslpassword=... PWD=...\nend",
	} {
		if want == "" {
			want = text
		}
		if got := config.Redact(text); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}
