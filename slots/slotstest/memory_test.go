package slotstest_test

import (
	"testing"

	"github.com/stint-dev/stint/slots"
	"github.com/stint-dev/stint/slots/plan"
	"github.com/stint-dev/stint/slots/slotstest"
)

func TestMemory(t *testing.T) { slotstest.Run(t, new(server).harness()) }

// TestTerse: a ledger may tell of one window at a time.
func TestTerse(t *testing.T) {
	slotstest.Run(t, (&server{fault: func(_ *server, l slots.Ledger) slots.Ledger {
		return wrapped{l, func(t slots.Tx) slots.Tx { return terse{t} }}
	}}).harness())
}

type terse struct{ slots.Tx }

func (t terse) Load(n plan.Need) (plan.Chunk, error) {
	n.Windows = 1
	return t.Tx.Load(n)
}
