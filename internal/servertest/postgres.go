package servertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// PostgresURL is the environment variable that names a server to use in place
// of one that is started.
const PostgresURL = "STINT_TEST_POSTGRES_URL"

// Postgres is a PostgreSQL server.
type Postgres struct {
	Process
	// URL leads to its database "postgres", as a superuser.
	URL string

	dir   string
	owner *syscall.Credential
}

// StartPostgres starts a PostgreSQL server with an empty data folder. settings
// are added to its configuration, such as "max_connections=20". It trusts
// everybody but a user called scram, who must give a password.
func StartPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	initdb := find(t, "initdb")
	dir, owner := serverDir(t, "postgres")
	data := filepath.Join(dir, "data")
	must(t, as(owner, exec.Command(initdb, "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")))
	access := filepath.Join(data, "pg_hba.conf")
	rules, err := os.ReadFile(access)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(access, append([]byte("host all scram 127.0.0.1/32 scram-sha-256\n"), rules...), 0o600); err != nil {
		t.Fatal(err)
	}
	return runPostgres(t, dir, owner, settings)
}

// StartPostgresStandby starts a server that follows primary, and takes no writes
// until it is promoted.
func StartPostgresStandby(t testing.TB, primary *Postgres, settings ...string) *Postgres {
	t.Helper()
	backup := find(t, "pg_basebackup")
	dir, owner := serverDir(t, "postgres")
	data := filepath.Join(dir, "data")
	must(t, as(owner, exec.Command(backup, "-d", primary.URL, "-D", data, "-R", "-c", "fast", "-X", "stream", "--no-sync")))
	return runPostgres(t, dir, owner, settings)
}

// Promote makes a standby a primary.
func (p *Postgres) Promote(t testing.TB) {
	t.Helper()
	must(t, as(p.owner, exec.Command(find(t, "pg_ctl"), "promote", "-D", filepath.Join(p.dir, "data"), "-w")))
}

// runPostgres starts a server in dir, with its data in a folder of it.
func runPostgres(t testing.TB, dir string, owner *syscall.Credential, settings []string) *Postgres {
	t.Helper()
	postgres, ready := find(t, "postgres"), find(t, "pg_isready")
	port := FreePort(t)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	args := []string{"-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	p := &Postgres{
		URL:   (&url.URL{Scheme: "postgres", User: url.User("postgres"), Host: address, Path: "/postgres", RawQuery: "sslmode=disable"}).String(),
		dir:   dir,
		owner: owner,
	}
	p.Process = Process{
		Name:    "postgres",
		Address: address,
		end:     syscall.SIGINT,
		command: func() *exec.Cmd { return grouped(as(owner, exec.Command(postgres, args...))) },
		ready: func(ctx context.Context) error {
			return exec.CommandContext(ctx, ready, "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(port)).Run()
		},
	}
	p.start(t)
	return p
}

// serverDir returns a folder that belongs to the user called name if this
// process is root, which some servers refuse to run as. owner is nil otherwise.
func serverDir(t testing.TB, name string) (dir string, owner *syscall.Credential) {
	t.Helper()
	dir, err := os.MkdirTemp("", "stint-"+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if os.Getuid() != 0 {
		return dir, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		missing(t, "user "+name, err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// as makes c run as owner, if there is one.
func as(owner *syscall.Credential, c *exec.Cmd) *exec.Cmd {
	c.Dir = os.TempDir()
	if owner != nil {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	}
	return c
}
