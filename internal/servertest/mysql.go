package servertest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// MySQLURL is the environment variable that names a server to use in place of
// one that is started: a MySQL or a MariaDB, and a user who may do everything.
const MySQLURL = "STINT_TEST_MYSQL_URL"

// MariaDB is a MariaDB server.
type MariaDB struct {
	Process
	// URL leads to it as root, who has no password. It names no database; there is
	// one called stint.
	URL string
}

// StartMariaDB starts a MariaDB server with an empty data folder. settings are
// added to its command line, such as "--max-connections=20".
func StartMariaDB(t testing.TB, settings ...string) *MariaDB {
	t.Helper()
	install, server := find(t, "mariadb-install-db"), find(t, "mariadbd")
	dir, owner := serverDir(t, "mysql")
	data := filepath.Join(dir, "data")
	must(t, as(owner, exec.Command(install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")))
	must(t, as(owner, exec.Command("mkdir", filepath.Join(data, "stint")))) // a folder is a database
	// A server that starts deletes whatever temporary tables it finds, another's too.
	temporary := filepath.Join(dir, "tmp")
	must(t, as(owner, exec.Command("mkdir", temporary)))
	port := FreePort(t)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	args := append([]string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + temporary, "--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1",
		"--socket=" + filepath.Join(dir, "socket"), "--pid-file=" + filepath.Join(dir, "pid"), "--skip-name-resolve"}, settings...)
	m := &MariaDB{URL: "mysql://root@" + address + "/"}
	m.Process = Process{
		Name:    "mariadb",
		Address: address,
		command: func() *exec.Cmd { return grouped(as(owner, exec.Command(server, args...))) },
		ready:   listens(address),
	}
	m.start(t)
	return m
}
