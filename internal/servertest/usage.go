package servertest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Usage is what a process and its children take of the machine.
type Usage struct {
	// CPU is user and system time since the start, in steps of 10ms.
	CPU time.Duration
	// Memory is the bytes that are resident.
	Memory int64
}

// Usage returns what p and its children take now. It needs Linux and skips the test
// elsewhere.
func (p *Process) Usage(t testing.TB) (u Usage) {
	t.Helper()
	parent := p.running.Process.Pid
	for _, pid := range append(children(parent), parent) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Skip("what a process uses is only known on Linux: ", err)
		}
		// The name, in brackets, may have anything in it.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		u.CPU += time.Duration(number(t, fields[11])+number(t, fields[12])) * tick
		u.Memory += number(t, fields[21]) * int64(os.Getpagesize())
	}
	return u
}

// tick is what Linux counts CPU time in, for programs.
const tick = 10 * time.Millisecond

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
