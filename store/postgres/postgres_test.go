package postgres_test

import (
	"testing"

	"github.com/stint-dev/stint/limit/limittest"
)

// TestPostgres is what can share a server, also one that is there already.
func TestPostgres(t *testing.T) {
	server := server(t, "fsync=off") // no test cuts the power
	for _, test := range []struct {
		name string
		run  func(t *testing.T, server string)
	}{
		{"store", func(t *testing.T, server string) { limittest.Run(t, newHarness(t, server).harness()) }},
		{"store on the clock of the server", func(t *testing.T, server string) {
			h := newHarness(t, server)
			h.own = true
			limittest.Run(t, h.harness())
		}},
		{"takes", testTakesBulk},
		{"plans", testPlans},
		{"sweep", testSweep},
		{"faults", testFaults},
		{"rows that are gone meanwhile", testGoneMeanwhile},
		{"clock stepped back", testClockSteppedBack},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, server) })
	}
}

func BenchmarkStore(b *testing.B) { limittest.Bench(b, newHarness(b, server(b)).harness()) }
