package main

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDocuments runs every command of the README and of docs/ against the
// quick start and compares what it prints.
//
// Commands stand in fences marked console, behind a "$ ". What follows is what
// they print: a line "..." stands for any lines, and "..." within a line for
// any text. The commands of one document run in order in a folder that holds
// the quick start's stint.yaml, which takes more rules from a table where the page is
// about that, and the scenarios, with the demo service and Stint running as make run starts them, on other ports.
func TestDocuments(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	documents = append(documents, "../../README.md")
	bin := buildAll(t)
	ran := 0
	for _, path := range documents {
		steps := consoleSteps(t, path)
		if len(steps) == 0 {
			continue
		}
		ran += len(steps)
		t.Run(filepath.Base(path), func(t *testing.T) {
			more := ""
			if filepath.Base(path) == "rules-in-a-database.md" {
				more = "rules_from: {store: \"sqlite:rules.db\", key: client|ip}\n"
			}
			env := startQuickstart(t, bin, more)
			for _, s := range steps {
				env.run(t, s)
			}
		})
	}
	if ran < 10 {
		t.Errorf("only %d commands found in the documents", ran)
	}
}

// step is one command and what it prints.
type step struct {
	command string
	want    []string
}

func consoleSteps(t *testing.T, path string) (steps []step) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case isCommand:
			steps = append(steps, step{command: command})
		case len(steps) > 0 && strings.HasSuffix(steps[len(steps)-1].command, `\`) && len(steps[len(steps)-1].want) == 0:
			steps[len(steps)-1].command += "\n" + line
		case len(steps) == 0:
			t.Fatalf("%s: a console fence begins with output: %s", path, line)
		default:
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	return steps
}

// buildAll builds the binaries of the quick start and returns their folder.
func buildAll(t *testing.T) string {
	bin := t.TempDir()
	for name, pkg := range map[string]string{"stint": ".", "demo": "../../examples/quickstart/demo"} {
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, name), pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("go build %s: %v\n%s", pkg, err, out)
		}
	}
	return bin
}

// quickstart is a running quick start.
type quickstart struct {
	dir, bin  string
	addresses *strings.Replacer // of the documents to those it really has
	proxy     string
	api       string
}

// startQuickstart starts it with more in its configuration.
func startQuickstart(t *testing.T, bin, more string) *quickstart {
	q := &quickstart{dir: t.TempDir(), bin: bin}
	demo := freeAddress(t)
	text, err := os.ReadFile("../../examples/quickstart/stint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	yaml := strings.Replace(string(text), "127.0.0.1:9000", demo, 1)
	yaml = strings.Replace(yaml, "version: 1\n", "version: 1\nlisten: {proxy: 127.0.0.1:0, api: 127.0.0.1:0}\nlog: {format: json}\n"+more, 1)
	if err := os.WriteFile(filepath.Join(q.dir, "stint.yaml"), []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(q.dir, "scenarios"), os.DirFS("../../scenarios")); err != nil {
		t.Fatal(err)
	}
	// A terminal does not show curl's progress among its output.
	if err := os.WriteFile(filepath.Join(q.dir, ".curlrc"), []byte("silent\nshow-error\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	q.start(t, "demo", "-listen", demo)
	waitFor(t, demo)
	lines := q.start(t, "stint", "serve", "--config", "stint.yaml")
	listening := regexp.MustCompile(`"transport":"(proxy|api)","address":"([^"]+)"`)
	for q.proxy == "" || q.api == "" {
		select {
		case line := <-lines:
			if m := listening.FindStringSubmatch(line); m != nil && m[1] == "proxy" {
				q.proxy = m[2]
			} else if m != nil {
				q.api = m[2]
			}
		case <-time.After(20 * time.Second):
			t.Fatal("stint did not start")
		}
	}
	q.addresses = strings.NewReplacer("localhost:8000", q.proxy, "localhost:8080", q.api, "localhost:9000", demo, "examples/quickstart/stint.yaml", "stint.yaml")
	return q
}

// start starts a program until the test ends and returns what it logs.
func (q *quickstart) start(t *testing.T, name string, args ...string) <-chan string {
	cmd := exec.CommandContext(t.Context(), filepath.Join(q.bin, name), args...)
	cmd.Dir = q.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			default: // nobody reads them any more
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		<-done
		cmd.Wait()
	})
	return lines
}

func (q *quickstart) run(t *testing.T, s step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", q.addresses.Replace(s.command))
	cmd.Dir = q.dir
	cmd.Env = append(os.Environ(), "PATH="+q.bin+":"+os.Getenv("PATH"), "HOME="+q.dir, "STINT_API=http://"+q.api)
	out, err := cmd.CombinedOutput()
	text := strings.ReplaceAll(string(out), "\r", "")
	if !matchesOutput(text, s.want) {
		t.Errorf("$ %s\n(%v)\nprints:\n%s\nand not:\n%s", s.command, err, text, strings.Join(s.want, "\n"))
	}
}

// matchesOutput reports whether a command's output is what a document shows.
// A document that shows nothing says nothing about it.
func matchesOutput(got string, want []string) bool {
	if len(want) == 0 {
		return true
	}
	var pattern strings.Builder
	for _, line := range want {
		if line == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, part := range strings.Split(line, "...") {
			if i > 0 {
				pattern.WriteString(".*")
			}
			pattern.WriteString(regexp.QuoteMeta(part))
		}
		pattern.WriteString(`\n`)
	}
	return regexp.MustCompile(`^` + pattern.String() + `\n*$`).MatchString(strings.TrimRight(got, "\n") + "\n")
}

func TestMatchesOutput(t *testing.T) {
	for _, tt := range []struct {
		got, want string
		ok        bool
	}{
		{"a\nb\n", "a\nb", true},
		{"a\nb\n", "a", false},
		{"a\nb\nc\n", "a\n...", true},
		{"a\nb\nc\n", "a\n...\nc", true},
		{"took 17 ms\n", "took ... ms", true},
		{"took 17 s\n", "took ... ms", false},
	} {
		if ok := matchesOutput(tt.got, strings.Split(tt.want, "\n")); ok != tt.ok {
			t.Errorf("%q and %q: %v", tt.got, tt.want, ok)
		}
	}
}

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func waitFor(t *testing.T, address string) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return
		}
	}
	t.Fatalf("nobody listens on %s", address)
}
