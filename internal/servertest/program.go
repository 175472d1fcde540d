package servertest

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
)

// StartProgram starts a program that listens on address, and waits until url
// answers 200. command is called for each start of it.
func StartProgram(t testing.TB, name, address, url string, command func() *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Name: name, Address: address, command: func() *exec.Cmd { return grouped(command()) }, ready: func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %d", url, answer.StatusCode)
		}
		return nil
	}}
	p.start(t)
	return p
}

// StartServer starts a program that listens on address, and waits until it does.
func StartServer(t testing.TB, name, address string, command func() *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Name: name, Address: address, command: func() *exec.Cmd { return grouped(command()) }, ready: listens(address)}
	p.start(t)
	return p
}
