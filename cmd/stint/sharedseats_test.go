package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/servertest"
	"github.com/stint-dev/stint/store/postgres"
)

// gauge is a service that counts what it does at once, and for which node.
type gauge struct {
	hold time.Duration

	mu        sync.Mutex
	now, most int
	of        [2]int // of each node, now
	served    [2]int
}

func (g *gauge) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	node := int(r.URL.Path[1] - '0')
	g.add(node, 1)
	select {
	case <-time.After(g.hold):
	case <-r.Context().Done():
	}
	g.add(node, -1)
}

func (g *gauge) add(node, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.of[node] += n
	g.most = max(g.most, g.now)
	if n < 0 {
		g.served[node]++
	}
}

// during returns the most that was done at once in d, and how often for each node.
func (g *gauge) during(d time.Duration) (most int, served [2]int) {
	g.mu.Lock()
	g.most, g.served = g.now, [2]int{}
	g.mu.Unlock()
	time.Sleep(d)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most, g.served
}

// until waits until node alone does want at once, and returns how long that took.
func (g *gauge) until(t *testing.T, node, want int) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		g.mu.Lock()
		got := g.of[node]
		g.mu.Unlock()
		if got >= want {
			return time.Since(began)
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("node %d has not %d at once", node, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestSharedSeats has two processes share the seats of a tenant on PostgreSQL, and takes
// away first the one and then the other, and then the database.
func TestSharedSeats(t *testing.T) {
	database := servertest.StartPostgres(t, "fsync=off")
	if _, err := postgres.Migrate(t.Context(), database.URL); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "stint")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g := &gauge{hold: 20 * time.Millisecond}
	upstream := httptest.NewServer(g)
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	const cap, leaseTime = 4, 3 * time.Second
	var nodes [2]*servertest.Process
	var proxies [2]string
	var files [2]string
	for n := range nodes {
		api, proxy := freeAddress(t), freeAddress(t)
		files[n] = filepath.Join(dir, fmt.Sprintf("%d.yaml", n))
		yaml := fmt.Sprintf(`version: 1
listen: {api: %s, proxy: %s}
store: env:STINT_TEST_STORE
store_timeout: 500ms
proxy: {upstream: %s}
identity:
  attributes:
    tenant: [{header: {name: X-Tenant, unverified: true}}]
isolation:
  seats: 32
  tenant: tenant
  lease_time: %v
  plans:
    default: {max_seats: %d, shared: true, queue_timeout: 20s}
`, api, proxy, upstream.URL, leaseTime, cap)
		if err := os.WriteFile(files[n], []byte(yaml), 0o644); err != nil {
			t.Fatal(err)
		}
		proxies[n] = "http://" + proxy
		nodes[n] = servertest.StartProgram(t, fmt.Sprint("node ", n), api, "http://"+api+"/healthz", func() *exec.Cmd {
			c := exec.Command(bin, "serve", "--config", files[n])
			c.Env = append(os.Environ(), "STINT_TEST_STORE="+database.URL)
			return c
		})
	}
	change := func(from, to int) {
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(text), fmt.Sprintf("max_seats: %d", from), fmt.Sprintf("max_seats: %d", to), 1)
			if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}

	// Callers of both, always more than there are seats.
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	defer callers.Wait()
	defer stop()
	var refused atomic.Int64
	for k := range 16 {
		callers.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%d", proxies[k%2], k%2), nil)
				r.Header.Set("X-Tenant", "acme")
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					time.Sleep(10 * time.Millisecond) // it is killed
					continue
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					refused.Add(1)
				}
			}
		})
	}
	g.until(t, 0, 1)
	g.until(t, 1, 1)
	check := func(what string, d time.Duration, cap, least int) {
		t.Helper()
		most, served := g.during(d)
		t.Logf("%s: at most %d at once; in %v %d and %d requests", what, most, d, served[0], served[1])
		if most != cap {
			t.Errorf("%s: %d at once, want %d and never more", what, most, cap)
		}
		for n := range served {
			if served[n] < least {
				t.Errorf("%s: node %d did only %d requests in %v", what, n, served[n], d)
			}
		}
	}
	check("two nodes", 3*time.Second, cap, 100)

	nodes[1].Kill(t)
	took := g.until(t, 0, cap)
	t.Logf("after kill -9 of one the other has all %d after %v", cap, took)
	if took > leaseTime+time.Second {
		t.Errorf("after kill -9 the seats were free after %v, want %v and a little", took, leaseTime)
	}
	check("one node", time.Second, cap, 0)
	nodes[1].Restart(t)
	took = g.until(t, 1, 2)
	t.Logf("one that joins has its half after %v", took)
	check("two nodes again", 2*time.Second, cap, 60)

	database.Pause(t)
	check("the database is paused", 3*leaseTime, cap, 300)
	database.Resume(t)
	check("the database is back", 3*time.Second, cap, 100)

	change(4, 2)
	time.Sleep(2 * time.Second)
	check("lowered to 2", 2*time.Second, 2, 30)
	change(2, 6)
	time.Sleep(2 * time.Second)
	check("raised to 6", 2*time.Second, 6, 90)
	if n := refused.Load(); n > 0 {
		t.Errorf("%d requests were refused", n)
	}
}
