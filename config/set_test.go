package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stint-dev/stint/config"
)

func TestSet(t *testing.T) {
	path := write(t, t.TempDir(), "stint.yaml", "version: 1\nlisten: {proxy: 127.0.0.1:8000}\nmemory: {max_keys: 5}\nproxy: &p {upstream: 'http://a'}\n")
	c, problems := config.Load(path, &config.Options{Set: []string{
		"listen.proxy=:8001", "listen.api=off", "proxy.upstream=http://b:9000", "memory.max_keys=1_000", "log={level: debug}", "store=sqlite:/tmp/a=b.db",
	}})
	if c == nil {
		t.Fatal(printed(problems))
	}
	defer c.Close()
	got := []any{c.File.Listen, c.File.Proxy.Upstream, c.File.Memory.MaxKeys, c.File.Log.Level, c.File.Store}
	want := []any{config.Listen{Proxy: ":8001", API: "off", GRPC: "off"}, "http://b:9000", 1000, "debug", "sqlite:/tmp/a=b.db"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSetRefuses(t *testing.T) {
	path := write(t, t.TempDir(), "stint.yaml", "version: 1\nlisten: {proxy: ':80'}\nrules: [{name: a, limits: [{quota: 1, window: 1s}]}]\n")
	for text, want := range map[string]string{
		"listen.proxy":       `:1:1: --set "listen.proxy": write FIELD=VALUE, such as listen.proxy=:8000`,
		"=5":                 `:1:1: --set "=5": write FIELD=VALUE, such as listen.proxy=:8000`,
		"log={":              ":1:1: --set log: what is behind the = is not YAML; quote it",
		"rules.0.name=b":     ":1:1: --set rules.0.name: leads into a list; only fields of mappings can be set",
		"listen.proxy.x=b":   ":1:1: --set listen.proxy.x: leads into text; only fields of mappings can be set",
		"stoer=memory":       ":1:1: stoer: unknown field (did you mean store?); allowed here: version, listen, tls, proxy, store, memory, store_timeout, sync, slots, rules_from, admin, headers, log, telemetry, shutdown_grace, identity, paths, plans, isolation, rules",
		"memory.max_keys=no": `:1:1: memory.max_keys: "no" is not a whole number`,
		"listen.proxy=":      ":2:10: listen.proxy: has no value; give it one or remove it; an empty text is \"\"",
		"listen.proxy=x":     `:2:10: listen.proxy: "x" is not an address; host:port is allowed, such as 127.0.0.1:8080, or off`,
	} {
		c, problems := config.Load(path, &config.Options{Set: []string{text}})
		if c != nil || printed(problems) != path+want+"\n" {
			t.Errorf("%s:\n%s", text, cmp.Diff(path+want+"\n", printed(problems)))
		}
	}
}
