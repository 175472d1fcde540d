package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/internal/servertest"
)

// example is an example that runs as its run.sh starts it, on other ports.
type example struct {
	quickstart
	apis    []string
	proxies []string
}

// addresses of the examples as their documents have them, by the variable that
// run.sh takes them from.
var exampleAddresses = map[string][][2]string{
	"partner-portal": {
		{"INSTANCE_1", "localhost:9091"}, {"INSTANCE_2", "localhost:9095"},
		{"API_1", "localhost:8091"}, {"API_2", "localhost:8095"},
		{"PORTAL_1", ""}, {"PORTAL_2", ""},
	},
	"oauth": {
		{"INSTANCE_1", "localhost:8001"}, {"INSTANCE_2", "localhost:8002"}, {"INSTANCE_3", "localhost:8003"},
		{"API_1", "localhost:8081"}, {"API_2", "localhost:8082"}, {"API_3", "localhost:8083"},
		{"AUTH", ""},
	},
	"payments": {{"API", "localhost:8080"}},
	"api-throttle": {
		{"INSTANCE_1", "localhost:8001"}, {"INSTANCE_2", "localhost:8002"},
		{"API_1", "localhost:8081"}, {"API_2", "localhost:8082"},
		{"REPOSITORY", ""},
	},
}

// startExample runs a copy of an example on store until the test ends.
func startExample(t *testing.T, bin, name, store string) *example {
	t.Helper()
	e := &example{quickstart: quickstart{dir: filepath.Join(t.TempDir(), name), bin: bin}}
	if err := os.CopyFS(e.dir, os.DirFS(filepath.Join("../../examples", name))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.dir, ".curlrc"), []byte("silent\nshow-error\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("./run.sh")
	cmd.Dir = e.dir
	cmd.Env = append(os.Environ(), "BIN="+bin, "STINT_STORE="+store)
	var replace []string
	for _, a := range exampleAddresses[name] {
		address := freeAddress(t)
		cmd.Env = append(cmd.Env, a[0]+"="+address)
		if a[1] != "" {
			replace = append(replace, a[1], address)
		}
		switch {
		case strings.HasPrefix(a[0], "API"):
			e.apis = append(e.apis, address)
		case strings.HasPrefix(a[0], "INSTANCE"):
			e.proxies = append(e.proxies, address)
		}
	}
	replace = append(replace, "go run ./load", "load -url http://"+e.apis[0])
	e.addresses = strings.NewReplacer(replace...)
	runUntilReady(t, cmd)
	return e
}

// runUntilReady starts cmd and waits until it says that it is ready. It is
// interrupted when the test ends.
func runUntilReady(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		told := false
		for s := bufio.NewScanner(out); s.Scan(); {
			if strings.HasPrefix(s.Text(), "ready:") && !told {
				told = true
				close(ready)
			}
			if !told {
				said.WriteString(s.Text() + "\n")
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT)
		giveUp := time.AfterFunc(30*time.Second, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		cmd.Wait()
		giveUp.Stop()
		in.Close()
		<-ended
	})
	exited := time.AfterFunc(60*time.Second, func() { in.Close() })
	defer exited.Stop()
	select {
	case <-ready:
	case <-ended:
		t.Fatalf("%s is not ready:\n%s", cmd, said.String())
	}
}

// buildExamples builds the binaries of the examples and returns their folder.
func buildExamples(t *testing.T) string {
	bin := buildAll(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "../../examples/partner-portal/portal", "../../examples/payments/load", "../../examples/api-throttle/repository")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return bin
}

// TestExamples runs every command of the examples' READMEs against the example
// as its run.sh starts it, on PostgreSQL.
func TestExamples(t *testing.T) {
	postgres := servertest.StartPostgres(t)
	bin := buildExamples(t)
	for name := range exampleAddresses {
		t.Run(name, func(t *testing.T) {
			if name == "api-throttle" {
				useMariaDB(t)
			}
			runExample(t, bin, name, postgres.URL)
		})
	}
}

// useMariaDB names a server to what reads its address from the environment.
func useMariaDB(t *testing.T) {
	host, port, err := net.SplitHostPort(servertest.StartMariaDB(t).Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MARIADB_HOST", host)
	t.Setenv("MARIADB_PORT", port)
}

// TestPaymentsWithoutSetup runs the example of payments with nothing but its files.
func TestPaymentsWithoutSetup(t *testing.T) {
	runExample(t, buildExamples(t), "payments", "")
}

func runExample(t *testing.T, bin, name, store string) {
	steps := consoleSteps(t, filepath.Join("../../examples", name, "README.md"))
	if len(steps) < 4 {
		t.Fatalf("only %d commands in the README", len(steps))
	}
	e := startExample(t, bin, name, store)
	for _, s := range steps {
		e.run(t, s)
	}
}

// TestComposeFiles checks the form of the examples' compose files, and that
// what they mount is there. There is no Docker here to run them.
func TestComposeFiles(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/compose.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("only %v, %v", files, err)
	}
	for _, name := range files {
		dir := filepath.Dir(name)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Services map[string]struct {
				Image   string
				Build   struct{ Context, Dockerfile, Target string }
				Volumes []string
			}
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for service, s := range file.Services {
			if (s.Image == "") == (s.Build.Context == "") {
				t.Errorf("%s: %s has no image and no build, or both", name, service)
			}
			if s.Build.Context != "" {
				if _, err := os.Stat(filepath.Join(dir, s.Build.Context, s.Build.Dockerfile)); err != nil {
					t.Errorf("%s: %s: %v", name, service, err)
				}
			}
			for _, v := range s.Volumes {
				source, _, _ := strings.Cut(strings.ReplaceAll(v, "${CONFIG:-stint.yaml}", "stint.yaml"), ":")
				if _, err := os.Stat(filepath.Join(dir, source)); err != nil {
					t.Errorf("%s: %s mounts what is not there: %v", name, service, err)
				}
			}
		}
	}
}
