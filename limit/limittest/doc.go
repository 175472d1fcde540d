// Package limittest is the definition of what a [limit.Store] must do, and of
// what a decision is at every height above it.
//
// [Run] holds a store against every property of the contract, and against those
// of the optional contracts that it implements: what a store says that it can do
// is put to the test, what it does not say is skipped. A store's own tests call
// it once and need to test nothing of the contracts themselves:
//
//	func TestStore(t *testing.T) {
//		limittest.Run(t, limittest.Harness{Open: open})
//	}
//
// On a real server whose clock runs, a run takes some ten seconds; [Bench]
// measures the same store.
//
// A [Script] is a short text of spends and what becomes of them, at instants
// that it names. [Scripts] are run against the pure algorithms, against every
// store, and against whatever else implements [Subject].
package limittest
