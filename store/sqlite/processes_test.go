package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/store/sqlite"
)

// childFile tells this binary to be a child that spends from the file named,
// and childQuota how much there is to spend.
const (
	childFile  = "STINT_TEST_SQLITE_FILE"
	childQuota = "STINT_TEST_SQLITE_QUOTA"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		if err := spendAll(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func shared(quota int64) *limit.Policy {
	return &limit.Policy{Name: "shared", Quota: quota, Window: 365 * 24 * time.Hour}
}

// spendAll writes one byte for each unit that is admitted, until the first
// denial.
func spendAll(path string) error {
	quota, err := strconv.ParseInt(os.Getenv(childQuota), 10, 64)
	if err != nil {
		return err
	}
	s, err := sqlite.Open(path, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	l := limit.New(s, &limit.Options{Timeout: 30 * time.Second})
	for {
		d, err := l.Take(context.Background(), shared(quota), "alice", 1)
		if err != nil || !d.Allowed {
			return err
		}
		if _, err := os.Stdout.WriteString("."); err != nil {
			return err
		}
	}
}

// child is a process that spends.
type child struct {
	*exec.Cmd
	admitted io.Reader
}

func start(t *testing.T, path string, quota int64) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childFile+"="+path, fmt.Sprintf("%s=%d", childQuota, quota))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{Cmd: cmd, admitted: bufio.NewReader(out)}
}

// count reads how many units were admitted, up to most, until the child ends.
func (c *child) count(t *testing.T, most int64) int64 {
	n, err := io.CopyN(io.Discard, c.admitted, most)
	if err != nil && err != io.EOF {
		t.Error(err)
	}
	return n
}

const everything = 1 << 40

func TestProcessesShareAQuota(t *testing.T) {
	const quota = 600
	path := filepath.Join(t.TempDir(), "stint.db")
	var children [3]*child
	for i := range children {
		children[i] = start(t, path, quota)
	}
	var admitted int64
	for _, c := range children {
		admitted += c.count(t, everything)
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	if admitted != quota {
		t.Errorf("3 processes were admitted %d units together, want exactly %d", admitted, quota)
	}
}

// A process that is killed in the middle of its work takes nothing with it: no
// lock, and nothing that it was told was admitted.
func TestKilledProcess(t *testing.T) {
	const quota = 1000
	path := filepath.Join(t.TempDir(), "stint.db")
	var children [3]*child
	for i := range children {
		children[i] = start(t, path, quota)
	}
	victim := children[0]
	told := victim.count(t, 50)
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	told += victim.count(t, everything)
	if err := victim.Wait(); err == nil {
		t.Error("the victim ended by itself: there was nothing to kill")
	}
	for _, c := range children[1:] {
		told += c.count(t, everything)
		if err := c.Wait(); err != nil {
			t.Errorf("a process that was not killed: %v", err)
		}
	}
	// The victim may have been killed between a commit and its telling.
	if told > quota || told < quota-1 {
		t.Errorf("%d units were told to be admitted, want %d, or one less", told, quota)
	}
	usable(t, path, quota, told)
}

// usable checks that the file opens and counts at least told units.
func usable(t *testing.T, path string, quota, told int64) {
	t.Helper()
	s, err := sqlite.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := limit.New(s, nil)
	d, err := l.Peek(t.Context(), shared(quota), "alice", 0)
	if err != nil {
		t.Fatal(err)
	}
	if used := quota - d.Remaining; used < told {
		t.Errorf("%d units are counted, want at least the %d that were told to be admitted", used, told)
	}
	if d, err := l.Take(t.Context(), shared(quota), "bob", 1); err != nil || !d.Allowed {
		t.Errorf("another key: %+v, %v; want it admitted", d, err)
	}
	if problem := integrity(t, path); problem != "ok" {
		t.Errorf("the file is damaged: %s", problem)
	}
}
