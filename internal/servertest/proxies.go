package servertest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TraefikVersion is the one that install.sh gets.
const TraefikVersion = "3.7.15"

// StartNginx starts nginx with what site says in its http section. It has to
// listen on address.
func StartNginx(t testing.TB, address, site string) *Process {
	t.Helper()
	program, dir := find(t, "nginx"), t.TempDir()
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // dir is nobody else's
	}
	file := writeConfig(t, dir, "nginx.conf", fmt.Sprintf(`%s
worker_processes 1;
daemon off;
error_log stderr;
pid %[2]s/pid;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path %[2]s/body; proxy_temp_path %[2]s/proxy; fastcgi_temp_path %[2]s/fastcgi; uwsgi_temp_path %[2]s/uwsgi; scgi_temp_path %[2]s/scgi;
    include %[3]s;
}
`, user, dir, writeConfig(t, dir, "site.conf", site)))
	return startProxy(t, "nginx", address, program, "-e", "stderr", "-p", dir, "-c", file)
}

// StartCaddy starts Caddy by a Caddyfile. It has to listen on address, and
// should have neither HTTPS nor Caddy's administration.
func StartCaddy(t testing.TB, address, caddyfile string) *Process {
	t.Helper()
	program, dir := find(t, "caddy"), t.TempDir()
	t.Setenv("HOME", dir) // Caddy keeps files there
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	return startProxy(t, "caddy", address, program, "run", "--adapter", "caddyfile", "--config", writeConfig(t, dir, "Caddyfile", caddyfile))
}

// StartHAProxy starts HAProxy by a configuration that listens on address.
func StartHAProxy(t testing.TB, address, config string) *Process {
	t.Helper()
	program, dir := find(t, "haproxy"), t.TempDir()
	return startProxy(t, "haproxy", address, program, "-db", "-f", writeConfig(t, dir, "haproxy.cfg", config))
}

// StartTraefik starts Traefik with an entry point web on address and a file of
// routers, middlewares and services.
func StartTraefik(t testing.TB, address, dynamic string) *Process {
	t.Helper()
	program := "traefik"
	if cache, err := os.UserCacheDir(); err == nil {
		if installed := filepath.Join(cache, "stint", "traefik-"+TraefikVersion, "bin", "traefik"); exists(installed) {
			program = installed
		}
	}
	program = find(t, program)
	file := writeConfig(t, t.TempDir(), "dynamic.yaml", dynamic)
	p := newProxy("traefik", address, program, "--entryPoints.web.address="+address, "--providers.file.filename="+file, "--log.level=ERROR",
		"--global.checkNewVersion=false", "--global.sendAnonymousUsage=false")
	// It listens before it has read its file, and answers 404 until then.
	p.ready = func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodOptions, "http://"+address+"/ready", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusServiceUnavailable {
			return fmt.Errorf("answers %s", answer.Status)
		}
		return nil
	}
	p.start(t)
	return p
}

func startProxy(t testing.TB, name, address, program string, args ...string) *Process {
	t.Helper()
	p := newProxy(name, address, program, args...)
	p.start(t)
	return p
}

func newProxy(name, address, program string, args ...string) *Process {
	return &Process{
		Name:    name,
		Address: address,
		command: func() *exec.Cmd { return grouped(exec.Command(program, args...)) },
		ready:   listens(address),
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// writeConfig writes a file in dir and returns its path.
func writeConfig(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
