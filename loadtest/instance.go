package loadtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long an instance may take to get ready, or to end.
const patience = 20 * time.Second

// storeVariable is the environment variable by which an instance is told its
// store, so that a password is in no file and no list of processes.
const storeVariable = "STINT_SCENARIO_STORE"

// instance is a process that runs.
type instance struct {
	number  int
	target  string
	metrics string
	command *exec.Cmd
	output  *tail
	ended   chan struct{}
	end     error // why it has ended; valid once ended is closed
}

// start starts instance number of s and waits until it is ready.
func (r *run) start(ctx context.Context, number int) (*instance, error) {
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	values := r.scenario.placeholders("env:"+storeVariable, r.recorder.url, addresses[0], addresses[1], number)
	fill := func(text string) string {
		text, _ = expand(text, values) // Parse has checked it
		return text
	}
	spec := &r.scenario.Instances
	args, err := r.commandLine(number, fill)
	if err != nil {
		return nil, err
	}
	i := &instance{number: number, target: fill(spec.Target), metrics: fill(spec.Metrics), output: new(tail), ended: make(chan struct{})}
	i.command = exec.Command(args[0], args[1:]...)
	i.command.Env = append(os.Environ(), storeVariable+"="+r.options.Store)
	i.command.Stdout, i.command.Stderr = i.output, i.output
	if err := i.command.Start(); err != nil {
		return nil, fmt.Errorf("instance %d: %w", number, err)
	}
	go func() {
		i.end = i.command.Wait()
		close(i.ended)
	}()
	if err := i.await(ctx, fill(spec.Ready)); err != nil {
		i.stop()
		return nil, err
	}
	return i, nil
}

// commandLine returns what runs an instance, after writing its configuration.
func (r *run) commandLine(number int, fill func(string) string) ([]string, error) {
	spec := &r.scenario.Instances
	if spec.Config == "" {
		args := make([]string, len(spec.Command))
		for i, arg := range spec.Command {
			args[i] = fill(arg)
		}
		return args, nil
	}
	file := filepath.Join(r.dir, fmt.Sprintf("instance-%d.yaml", number))
	if err := os.WriteFile(file, []byte(fill(spec.Config)), 0o600); err != nil {
		return nil, err
	}
	return []string{r.options.Binary, "serve", "--config", file}, nil
}

// await waits until url answers 200.
func (i *instance) await(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := answers(ctx, url)
		if err == nil {
			return nil
		}
		select {
		case <-i.ended:
			return fmt.Errorf("instance %d ended before it was ready (%v); its last words:\n%s", i.number, i.end, i.output)
		case <-ctx.Done():
			return fmt.Errorf("instance %d is not ready after %v: %w; its last words:\n%s", i.number, patience, err, i.output)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func answers(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, io.LimitReader(answer.Body, mostAnswer))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", url, answer.StatusCode)
	}
	return nil
}

// hasEnded reports whether the process has ended.
func (i *instance) hasEnded() bool {
	select {
	case <-i.ended:
		return true
	default:
		return false
	}
}

// stop asks the process to end, and ends it if it does not in time.
func (i *instance) stop() {
	if i.hasEnded() {
		return
	}
	i.command.Process.Signal(syscall.SIGTERM) // if it fails the process has ended
	select {
	case <-i.ended:
	case <-time.After(patience):
		i.command.Process.Kill()
		<-i.ended
	}
}

// freeAddresses returns n addresses of loopback that nobody listens on. Their
// ports are below those that the system hands out to clients, so that none of
// these takes one before the instance does.
func freeAddresses(n int) (free []string, err error) {
	const first, last = 20000, 31999
	begin := os.Getpid()*7919 + int(time.Now().UnixNano()/1000)
	for offset := range last - first {
		address := fmt.Sprintf("127.0.0.1:%d", first+(begin+offset)%(last-first))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer l.Close()
		if free = append(free, address); len(free) == n {
			return free, nil
		}
	}
	return nil, fmt.Errorf("no %d ports from %d to %d are free", n, first, last)
}

// tail keeps the end of what a process prints.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 2*tailSize {
		t.text = append(t.text[:0], t.text[len(t.text)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text[max(0, len(t.text)-tailSize):]))
}
