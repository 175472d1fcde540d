package servertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// RedisURL and RedisClusterURL are the environment variables that name a
// server to use in place of one that is started.
const (
	RedisURL        = "STINT_TEST_REDIS_URL"
	RedisClusterURL = "STINT_TEST_REDIS_CLUSTER_URL"
)

// Redis is a Redis server.
type Redis struct {
	Process
	// URL leads to its database 0, without a password.
	URL string

	cli string
}

// StartRedis starts an empty Redis server that keeps nothing on disk. settings
// are added to its command line, such as "--maxmemory", "2mb".
func StartRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	server, cli := find(t, "redis-server"), find(t, "redis-cli")
	dir, err := os.MkdirTemp("", "stint-redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	address := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	args := append([]string{"--port", port(address), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no"}, settings...)
	r := &Redis{URL: "redis://" + address, cli: cli}
	r.Process = Process{
		Name:    "redis",
		Address: address,
		command: func() *exec.Cmd { return grouped(exec.Command(server, args...)) },
		ready:   listens(address),
	}
	r.start(t)
	return r
}

// Run runs one command on the server and returns the answer.
func (r *Redis) Run(t testing.TB, command ...string) string {
	t.Helper()
	return must(t, exec.CommandContext(t.Context(), r.cli, append([]string{"-p", port(r.Address)}, command...)...))
}

// RedisCluster is a Redis Cluster of three masters with a replica each.
type RedisCluster struct {
	Nodes []*Redis
	// URL names all the nodes.
	URL string
}

// StartRedisCluster starts a cluster. A master that is gone for two seconds is
// replaced by its replica.
func StartRedisCluster(t testing.TB) *RedisCluster {
	t.Helper()
	c := &RedisCluster{URL: "redis://"}
	var addresses []string
	for range 6 {
		node := StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(FreePort(t)), "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0")
		c.Nodes = append(c.Nodes, node)
		addresses = append(addresses, node.Address)
	}
	c.URL += strings.Join(addresses, ",")
	create := append([]string{"--cluster", "create"}, addresses...)
	must(t, exec.CommandContext(t.Context(), c.Nodes[0].cli, append(create, "--cluster-replicas", "1", "--cluster-yes")...))
	c.wait(t, "the cluster is made", serves)
	return c
}

// wait waits until done says of each node that it is.
func (c *RedisCluster) wait(t testing.TB, what string, done func(t testing.TB, node *Redis) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, node := range c.Nodes {
		for node.alive() && !done(t, node) {
			select {
			case <-ctx.Done():
				t.Fatalf("%s: still not, after %v: %s", node.Address, patience, what)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// serves reports whether node knows that all slots are served and, if it is a
// replica, is in step with its master.
func serves(t testing.TB, node *Redis) bool {
	t.Helper()
	role := node.Run(t, "ROLE")
	return strings.Contains(node.Run(t, "CLUSTER", "INFO"), "cluster_state:ok") && (strings.HasPrefix(role, "master") || strings.Contains(role, "connected"))
}

// KillMaster ends one of the masters, as a crash does, and returns it. It first
// waits until all nodes have heard of its replica, or they would not let that
// take over; that takes some seconds after the start.
func (c *RedisCluster) KillMaster(t testing.TB) *Redis {
	t.Helper()
	var master *Redis
	c.wait(t, "it knows of the replicas", func(t testing.TB, node *Redis) bool {
		if strings.HasPrefix(node.Run(t, "ROLE"), "master") {
			master = node
		}
		return strings.Count(node.Run(t, "CLUSTER", "SLOTS"), "127.0.0.1") >= len(c.Nodes)
	})
	master.Kill(t)
	return master
}

func (r *Redis) alive() bool {
	select {
	case <-r.exited:
		return false
	default:
		return true
	}
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
