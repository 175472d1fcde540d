// Package slotstest is the definition of what a [slots.Ledger] must do.
//
// [Run] holds a ledger against every property of the contract. A ledger's own
// tests call it once and need to test nothing of the contract themselves:
//
//	func TestLedger(t *testing.T) {
//		slotstest.Run(t, slotstest.Harness{Open: open})
//	}
//
// [Audit] works out anew what a ledger must hold, from the events that are
// booked, and says what is wrong. It is also for tests that end, pause or crowd a
// ledger in other ways. [Bench] measures a ledger.
//
// [Memory] is a ledger in memory, for tests of whatever books slots.
package slotstest
