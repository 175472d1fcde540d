package servertest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// MongoDBURL is the environment variable that names a server to use in place
// of one that is started: a MongoDB, whose user may make and drop databases.
const MongoDBURL = "STINT_TEST_MONGODB_URL"

// MongoDB is a server that speaks MongoDB's protocol.
//
// It is no MongoDB but mongo-java-server, which is small and free and keeps its
// data in memory, so they are gone after a Kill. It executes one command after
// another and knows unique keys; it has no users, no replica set, no
// transactions and nobody who removes what a TTL index says has expired.
type MongoDB struct {
	Process
	// URL leads to it. It names no database.
	URL string
}

// mongoDBVersion is mongo-java-server's, as pom.xml says.
const mongoDBVersion = "1.47.0"

//go:embed mongodb/pom.xml mongodb/Server.java
var mongoDBFiles embed.FS

// StartMongoDB starts a server that is empty. With CI=true it gets it first, as
// InstallMongoDB does.
func StartMongoDB(t testing.TB) *MongoDB {
	t.Helper()
	dir, err := mongoDBDir()
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(dir)
	if err != nil && os.Getenv("CI") == "true" {
		err = InstallMongoDB(t.Context())
	}
	if err != nil {
		missing(t, "mongo-java-server", err)
	}
	java, port := find(t, "java"), FreePort(t)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	m := &MongoDB{URL: "mongodb://" + address}
	m.Process = Process{
		Name:    "mongo-java-server",
		Address: address,
		command: func() *exec.Cmd {
			return grouped(exec.Command(java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m",
				"-cp", dir+":"+filepath.Join(dir, "lib", "*"), "Server", strconv.Itoa(port)))
		},
		ready: listens(address),
	}
	m.start(t)
	return m
}

// InstallMongoDB gets what StartMongoDB starts, unless it is there already. It
// needs mvn and javac, and writes below the user's folder for caches only.
func InstallMongoDB(ctx context.Context) error {
	dir, err := mongoDBDir()
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	building, err := os.MkdirTemp(filepath.Dir(dir), "building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(building)
	files, err := fs.Sub(mongoDBFiles, "mongodb")
	if err != nil {
		return err
	}
	if err := os.CopyFS(building, files); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib"},
		{"javac", "-cp", filepath.Join("lib", "*"), "Server.java"},
	} {
		c := exec.CommandContext(ctx, command[0], command[1:]...)
		c.Dir = building
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", command[0], err, out)
		}
	}
	// Somebody else may have been faster, and theirs is as good.
	if err := os.Rename(building, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func mongoDBDir() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "stint", "mongo-java-server-"+mongoDBVersion), err
}
