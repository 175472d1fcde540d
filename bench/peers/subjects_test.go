package peers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/servertest"
)

// subject is something that answers a load.
type subject struct {
	name string
	// start starts it, until the test ends, with a quota for an hour and each client.
	start func(t *testing.T, quota int64) running
	// unlimited says that it has no limits.
	unlimited bool
}

// running is a subject that runs.
type running struct {
	address  string
	server   *servertest.Process
	redis    *servertest.Process // where it counts, if that is elsewhere
	upstream *servertest.Process // behind a proxy
}

var (
	floorGRPC = subject{"floor", startFloor("grpc"), true}
	floorHTTP = subject{"floor", startFloor("http"), true}

	rlsSubjects = []subject{
		floorGRPC,
		{"stint", startRLS(false), false},
		{"stint, Redis", startRLS(true), false},
		{"envoy, Redis", startEnvoyRatelimit, false},
	}
	restSubjects  = []subject{floorHTTP, {"stint", startREST, false}}
	proxySubjects = []subject{{"stint", startProxy, false}, {"nginx", startNginx, false}, {"caddy", startCaddy, true}}
)

// free returns an address of loopback that nobody listens on.
func free(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t)) }

func cut(s string) (before, after string, found bool) { return strings.Cut(s, " ") }

// built are the programs that are built here, each once.
var built struct {
	sync.Mutex
	dir   string
	files map[string]string
}

// build returns the path of a Go program, built in the module in dir. A peer that cannot
// be fetched makes the test skip, except with CI=true.
func build(t *testing.T, dir, program string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if file, done := built.files[program]; done {
		return file
	}
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "stint-peers")
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.files = dir, make(map[string]string)
	}
	file := filepath.Join(built.dir, fmt.Sprint(len(built.files)))
	c := exec.CommandContext(t.Context(), "go", "build", "-o", file, program)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		if ours := strings.HasPrefix(program, "."); !ours && os.Getenv("CI") != "true" {
			t.Skipf("%s cannot be had: %v\n%s", program, err, out)
		}
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	built.files[program] = file
	return file
}

// startStint starts stint serve with the one rule that all subjects have. yaml is
// added to its configuration, and mode is the rule's.
func startStint(t *testing.T, mode, match string, quota int64, yaml string) (api string, p *servertest.Process) {
	t.Helper()
	program := build(t, "../..", "./cmd/stint")
	api = free(t)
	file := filepath.Join(t.TempDir(), "stint.yaml")
	text := strings.ReplaceAll(yaml, "API", api) + fmt.Sprintf(`
log: {level: error}
rules:
  - name: clients
    mode: %s
    match: {%s}
    key: client
    limits: [{quota: %d, window: 1h}]
`, mode, match, quota)
	if err := os.WriteFile(file, []byte("version: 1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return api, servertest.StartProgram(t, "stint", api, "http://"+api+"/readyz", func() *exec.Cmd {
		return exec.Command(program, "serve", "--config", file)
	})
}

func startRLS(redis bool) func(t *testing.T, quota int64) running {
	return func(t *testing.T, quota int64) running {
		grpc, mode, store := free(t), "local", ""
		var r running
		if redis {
			server := servertest.StartRedis(t)
			mode, store, r.redis = "exact", "store: "+server.URL+"\n", &server.Process
		}
		_, r.server = startStint(t, mode, "attributes: {domain: bench, descriptor: client}", quota, "listen: {api: API, proxy: off, grpc: "+grpc+"}\n"+store)
		r.address = grpc
		return r
	}
}

func startREST(t *testing.T, quota int64) running {
	api, p := startStint(t, "local", `attributes: {client: "*"}`, quota, "listen: {api: API, proxy: off}\n")
	return running{address: api, server: p}
}

// startEnvoyRatelimit starts the reference implementation as it comes, but for statsd,
// which nobody listens to here.
func startEnvoyRatelimit(t *testing.T, quota int64) running {
	program := build(t, "../ratelimit", "github.com/envoyproxy/ratelimit/src/service_cmd")
	redis := servertest.StartRedis(t)
	root := t.TempDir()
	folder := filepath.Join(root, "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	rule := fmt.Sprintf("domain: bench\ndescriptors:\n  - key: client\n    rate_limit: {unit: hour, requests_per_unit: %d}\n", quota)
	if err := os.WriteFile(filepath.Join(folder, "bench.yaml"), []byte(rule), 0o600); err != nil {
		t.Fatal(err)
	}
	addresses := []string{free(t), free(t), free(t)}
	env := append(os.Environ(), "USE_STATSD=false", "LOG_LEVEL=error", "BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Address,
		"RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false")
	for i, prefix := range []string{"GRPC_", "", "DEBUG_"} {
		host, port, _ := net.SplitHostPort(addresses[i])
		env = append(env, prefix+"HOST="+host, prefix+"PORT="+port)
	}
	p := servertest.StartProgram(t, "envoyproxy/ratelimit", addresses[0], "http://"+addresses[1]+"/healthcheck", func() *exec.Cmd {
		c := exec.Command(program)
		c.Env = env
		return c
	})
	return running{address: addresses[0], server: p, redis: &redis.Process}
}

// startUpstream starts what stands behind the proxies.
func startUpstream(t *testing.T) *servertest.Process {
	address := free(t)
	return servertest.StartNginx(t, address, fmt.Sprintf(`server { listen %s; keepalive_requests 100000000; location / { return 200 "hello\n"; } }`, address))
}

func startProxy(t *testing.T, quota int64) running {
	upstream, address := startUpstream(t), free(t)
	_, p := startStint(t, "local", `headers: {X-Client: "*"}`, quota, fmt.Sprintf(`
listen: {api: API, proxy: %s}
proxy: {upstream: http://%s}
identity: {trusted_proxies: [127.0.0.1], attributes: {client: [{header: {name: X-Client}}]}}
`, address, upstream.Address))
	return running{address: address, server: p, upstream: upstream}
}

// startNginx starts nginx with limit_req, which spreads a quota evenly: a small one has
// no burst here.
func startNginx(t *testing.T, quota int64) running {
	upstream, address := startUpstream(t), free(t)
	rate, burst := fmt.Sprintf("%dr/m", quota), ""
	if quota == plenty {
		rate, burst = "1000000r/s", " burst=100000 nodelay"
	}
	p := servertest.StartNginx(t, address, fmt.Sprintf(`
limit_req_zone $http_x_client zone=clients:32m rate=%s;
limit_req_status 429;
upstream service { server %s; keepalive 64; keepalive_requests 100000000; }
server {
    listen %s;
    keepalive_requests 100000000;
    limit_req zone=clients%s;
    location / { proxy_pass http://service; proxy_http_version 1.1; proxy_set_header Connection ""; }
}
`, rate, upstream.Address, address, burst))
	return running{address: address, server: p, upstream: upstream}
}

// startCaddy starts Caddy as a proxy. It has no limits without a module that is not
// part of it.
func startCaddy(t *testing.T, _ int64) running {
	upstream, address := startUpstream(t), free(t)
	_, port, _ := net.SplitHostPort(address)
	p := servertest.StartCaddy(t, address, fmt.Sprintf("{\n\tadmin off\n\tauto_https off\n}\n:%s {\n\tbind 127.0.0.1\n\treverse_proxy %s\n}\n", port, upstream.Address))
	return running{address: address, server: p, upstream: upstream}
}
