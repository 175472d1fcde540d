// Package servertest starts real servers for tests: on ports that are free, in
// folders of their own, stopped when the test ends.
//
// A server that is not installed makes its tests skip, and says how to get it:
//
//	make servers
//
// With CI=true in the environment nothing is skipped: it is a failure.
package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a server may take to start or to stop.
const patience = 60 * time.Second

// missing skips the test, or fails it where nothing may be skipped.
func missing(t testing.TB, what string, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is needed and not there: %v; make servers installs it", what, err)
	}
	t.Skipf("%s is not there: %v; make servers installs it", what, err)
}

// find returns the path of the first of names that is a program: in the PATH,
// or where Debian keeps servers out of it.
func find(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		for _, pattern := range []string{"/usr/sbin/" + name, "/usr/lib/postgresql/*/bin/" + name} {
			if found, _ := filepath.Glob(pattern); len(found) > 0 {
				return found[len(found)-1]
			}
		}
	}
	missing(t, names[0], exec.ErrNotFound)
	return ""
}

// FreePort returns a TCP port of loopback that nobody listens on. It is below
// the range that the system hands out to clients, so that none of them takes
// it before the server does.
func FreePort(t testing.TB) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		ports.next = 20000 + (ports.next-20000+1)%12000
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports.next))
		if err == nil {
			l.Close()
			return ports.next
		}
	}
	t.Fatal("no free port in 20000 to 31999")
	return 0
}

// ports is where the next search begins: test binaries that run side by side
// begin in different places.
var ports = struct {
	sync.Mutex
	next int
}{next: 20000 + os.Getpid()*97%12000}

// Process is a server that runs, or has run.
type Process struct {
	// Name is what failures call it.
	Name string
	// Address is where it listens.
	Address string

	command func() *exec.Cmd
	ready   func(ctx context.Context) error
	end     syscall.Signal
	running *exec.Cmd
	exited  chan struct{}
	output  *lockedBuffer
}

// start starts p and waits until it is ready. The process ends with the test.
func (p *Process) start(t testing.TB) {
	t.Helper()
	p.output = new(lockedBuffer)
	if p.end == 0 {
		p.end = syscall.SIGTERM
	}
	p.Restart(t)
	t.Cleanup(func() { p.stop(t) })
}

// Restart starts a process that has ended, with its data and on its port.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.running = p.command()
	p.running.Stdout, p.running.Stderr = p.output, p.output
	if err := p.running.Start(); err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	p.exited = make(chan struct{})
	go func(c *exec.Cmd, exited chan struct{}) { c.Wait(); close(exited) }(p.running, p.exited)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	for {
		select {
		case <-p.exited:
			t.Fatalf("%s ended while it started:\n%s", p.Name, p.output)
		case <-ctx.Done():
			t.Fatalf("%s is not ready after %v: %v\n%s", p.Name, patience, err, p.output)
		case <-time.After(10 * time.Millisecond):
		}
		if err = p.ready(ctx); err == nil {
			return
		}
	}
}

// Kill ends the process at once, as a crash does. The data stays.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	<-p.exited
}

// Pause stops the process without ending it, as an overload does: connections
// stay open and nothing is answered.
func (p *Process) Pause(t testing.TB) { t.Helper(); p.signal(t, syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Process) Resume(t testing.TB) { t.Helper(); p.signal(t, syscall.SIGCONT) }

// signal goes to the process and its children. Some servers give each of theirs
// a group of its own, so they are looked up.
func (p *Process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	parent := p.running.Process.Pid
	pids := append(children(parent), parent)
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s: %v: %v", p.Name, s, err)
		}
	}
}

// children returns the processes that parent has started, and those that they
// have, as far as the system tells.
func children(parent int) (pids []int) {
	listed, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, file := range listed {
		text, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(append(pids, pid), children(pid)...)
			}
		}
	}
	return pids
}

func (p *Process) stop(t testing.TB) {
	select {
	case <-p.exited:
		return
	default:
	}
	p.signal(t, syscall.SIGCONT)
	if err := p.running.Process.Signal(p.end); err != nil {
		t.Logf("%s: %v", p.Name, err)
	}
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		p.signal(t, syscall.SIGKILL)
		<-p.exited
	}
}

// listens is the simplest way to be ready: address accepts a connection.
func listens(address string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	}
}

// grouped makes c the head of a group of processes, which signals reach together.
func grouped(c *exec.Cmd) *exec.Cmd {
	if c.SysProcAttr == nil {
		c.SysProcAttr = new(syscall.SysProcAttr)
	}
	c.SysProcAttr.Setpgid = true
	return c
}

// must runs c to its end.
func must(t testing.TB, c *exec.Cmd) string {
	t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
	return string(out)
}

// lockedBuffer collects what a server prints, its last 64 KiB.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buf.Len() > 64<<10 {
		b.buf.Reset()
	}
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
