package servertest

import (
	"net"
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
