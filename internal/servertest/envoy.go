package servertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// EnvoyVersion is the release of Envoy that tests run, and of the Python package
// that has its binary.
const EnvoyVersion = "1.40.0"

// Envoy starts an Envoy with a configuration that has it listen at address.
func Envoy(t testing.TB, address, configuration string) *Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o644); err != nil {
		t.Fatal(err)
	}
	program := findEnvoy(t)
	p := &Process{
		Name:    "envoy",
		Address: address,
		command: func() *exec.Cmd {
			return grouped(exec.Command(program, "-c", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warn"))
		},
		ready: listens(address),
	}
	p.start(t)
	return p
}

// findEnvoy returns the path of Envoy: in the PATH, or where make servers puts it.
func findEnvoy(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "stint", "envoy-"+EnvoyVersion, "envoy", "_bin", "envoy")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return find(t, "envoy")
}
