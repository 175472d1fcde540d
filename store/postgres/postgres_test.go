package postgres_test

import (
	"testing"

	"github.com/stint-dev/stint/limit/limittest"
	"github.com/stint-dev/stint/rules/rulestest"
	"github.com/stint-dev/stint/slots/slotstest"
)

// TestPostgres is what can share a server, also one that is there already.
func TestPostgres(t *testing.T) {
	server := server(t, "fsync=off") // no test cuts the power
	for _, test := range []struct {
		name string
		run  func(t *testing.T, server string)
	}{
		{"store", func(t *testing.T, server string) { limittest.Run(t, newHarness(t, server).limits()) }},
		{"store on the clock of the server", func(t *testing.T, server string) {
			h := newHarness(t, server)
			h.own = true
			limittest.Run(t, h.limits())
		}},
		{"ledger", func(t *testing.T, server string) { slotstest.Run(t, newHarness(t, server).slots()) }},
		{"ledger on the clock of the server", func(t *testing.T, server string) {
			h := newHarness(t, server)
			h.own = true
			slotstest.Run(t, h.slots())
		}},
		{"rules", func(t *testing.T, server string) {
			h := newHarness(t, server)
			h.own = true
			rulestest.Run(t, h.rules())
		}},
		{"takes", testTakesBulk},
		{"plans", testPlans},
		{"sweep", testSweep},
		{"faults", testFaults},
		{"rows that are gone meanwhile", testGoneMeanwhile},
		{"clock stepped back", testClockSteppedBack},
		{"ledger: schema", testLedgerSchema},
		{"ledger: two versions", testLedgerTwoVersions},
		{"ledger: lock", testLedgerLock},
		{"ledger: ends at once", testLedgerEndsAtOnce},
		{"ledger: trips", testLedgerTrips},
		{"ledger: occupancy", testLedgerOccupancy},
		{"ledger: two nodes", testLedgerTwoNodes},
		{"ledger: rights", testLedgerRights},
		{"ledger: plans", testLedgerPlans},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, server) })
	}
}

func BenchmarkStore(b *testing.B) { limittest.Bench(b, newHarness(b, server(b)).limits()) }

func BenchmarkLedger(b *testing.B) { slotstest.Bench(b, newHarness(b, server(b)).slots()) }
