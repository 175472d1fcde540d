package rulestest_test

import (
	"io"
	"testing"

	"github.com/stint-dev/stint/rules"
	"github.com/stint-dev/stint/rules/rulestest"
)

// closer makes a Memory say that it is closed.
type closer struct{ *rulestest.Memory }

func (c closer) Close() error {
	c.Fail(rules.ErrSourceClosed)
	return nil
}

func TestMemory(t *testing.T) {
	var last *rulestest.Memory
	reopen := func(testing.TB) (rules.Source, io.Closer) { return last, closer{last} }
	rulestest.Run(t, rulestest.Harness{
		Open: func(t testing.TB) (rules.Source, io.Closer) {
			last = new(rulestest.Memory)
			return reopen(t)
		},
		Reopen: reopen,
	})
}
