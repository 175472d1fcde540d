package servertest

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestPostgres(t *testing.T) {
	p := StartPostgres(t)
	wire := NewWire(t, p.Address)
	dial := func() error { return listens(wire.Address)(t.Context()) }
	if err := dial(); err != nil {
		t.Fatal(err)
	}
	p.Kill(t)
	if _, err := net.DialTimeout("tcp", p.Address, time.Second); err == nil {
		t.Error("a server that was killed accepts a connection")
	}
	p.Restart(t)
	if err := listens(p.Address)(t.Context()); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestPrometheus(t *testing.T) {
	p := StartPrometheus(t, "self", time.Second)
	if err := p.ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUsage looks at a server that has children.
func TestUsage(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	p := StartNginx(t, address, "server { listen "+address+"; location / { return 200; } }")
	before := p.Usage(t)
	if before.Memory < 1<<20 || before.Memory > 1<<30 {
		t.Errorf("nginx takes %d bytes", before.Memory)
	}
	for deadline := time.Now().Add(patience); p.Usage(t).CPU < before.CPU+2*tick; {
		if time.Now().After(deadline) {
			t.Fatalf("nginx has used %v of the CPU, and %v before it answered", p.Usage(t).CPU, before.CPU)
		}
		answer, err := http.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
}
